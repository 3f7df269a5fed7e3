"""Pages of the variants: verdicts on their claims, and pictures."""

import json
from pathlib import Path

from publication import variant_pages
from publication.variant_pages import findings
from publication.variant_pictures import PICTURES
from publication.verdicts import judged_by
from zoo.variants import VARIANTS
from zoo.variants.usage import experiments_on

ROOT = Path(__file__).parents[2]
BY_NAME = {variant.name: variant for variant in VARIANTS}


def test_pages_show_the_verdicts_of_their_claims():
    found = findings()
    lines = judged_by(BY_NAME["swiglu"], found), experiments_on(BY_NAME["swiglu"])
    (supported,), (other,) = ([line for line in each if line.startswith("F1")] for each in lines)
    verdict = json.loads((ROOT / "docs/results/feedforward/result.json").read_text())["verdict"]
    assert f"[{verdict} (tiny" in supported
    assert "(../results/feedforward/README.md)" in supported
    assert "experiments/feedforward.py" in other
    assert verdict not in other
    # Claims that are judged by tests or measurements are listed by hand.
    assert any("exact, by a test" in line for line in judged_by(BY_NAME["rope"], found))
    assert any("(measured)" in line for line in judged_by(BY_NAME["window"], found))
    without_verdicts = found._replace(verdicts={})
    assert any("not judged yet" in line for line in judged_by(BY_NAME["window"], without_verdicts))
    assert {claim for variant in VARIANTS for claim in variant.claims} <= set(found.claims)


def test_a_page_links_its_picture_and_its_verdicts():
    page = variant_pages.page(BY_NAME["grouped-query"], findings())
    assert "](pictures/grouped-query.svg)" in page
    assert "](../results/" in page
    assert "](pictures/" not in variant_pages.page(BY_NAME["rmsnorm"], findings())


def test_pictures_are_reproducible():
    chosen = [BY_NAME[name] for name in ("grouped-query", "rmsnorm")]
    drawn = variant_pages.pictures(chosen)
    assert list(drawn) == ["grouped-query.svg"]
    assert drawn == variant_pages.pictures(chosen)
    assert {variant.picture for variant in VARIANTS} - {""} <= set(PICTURES)
