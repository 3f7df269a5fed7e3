"""The page of published findings: which ones the experiments agree with, and what decisions cost."""

import csv
from types import MappingProxyType

import pytest

from publication.claims_table import read_claims
from publication.fitted_claims import largest_fitted
from publication.published_findings import write_published_findings
from publication.sizes import results_by_claim
from tests.support.archives import CLAIM_COLUMNS, archived

FIELDS = {
    "A1": ("model.norm.kind", "for", "supported"),
    "A2": ("model.norm.scale", "for", "not supported"),
    "A3": ("model.ffn.kind", "against", "not supported"),
    "A4": ("optimizer.kind", "for", "undecided"),
    "A5": ("model.ffn.bias", "mixed", "supported"),
}


def written(folder, results, measured=MappingProxyType({})):
    found = write_published_findings(read_claims(folder), results_by_claim(results), measured, folder)
    return found and found.read_text()


@pytest.fixture
def page(tmp_path):
    results = [archived(tmp_path, claim, field, verdict) for claim, (field, _, verdict) in FIELDS.items()]
    results.append(archived(tmp_path, "A6", "model.dim", "supported", size="tiny", tuned="grid"))
    results.append(archived(tmp_path, "A8", "model.dim", "not supported", size="tiny"))
    # A1 on a second text is shown, and not counted again.
    first = results[0]
    corpus = {"experiment": first.name, "source": "text:news.txt"}
    there = {"name": f"{first.name}-on-news", "corpus": corpus, "claims": {"A1": "not supported"}}
    results.append(first._replace(name=there["name"], result=first.result | there))
    with open(tmp_path / "claims.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(CLAIM_COLUMNS.split(","))
        directions = {claim: direction for claim, (_, direction, _) in FIELDS.items()} | dict.fromkeys(
            ("A6", "A7", "A8"), "for"
        )
        writer.writerows((claim, "", "s", "t", "", "p", way, "") for claim, way in directions.items())
    # The time that A1 claims was measured, and is open; A7 was measured alone.
    time = {"name": "timed", "page": "measured/timed/README.md", "verdict": "undecided"}
    return written(tmp_path, results, {"A1": [time], "A7": [time]})


def test_verdicts_are_held_against_the_direction_of_their_source(page):
    lines = [line for line in page.splitlines() if line.startswith("| A") and "on-news" not in line]
    shown = {line.split(" ")[1]: line.split(" | ")[2] for line in lines}
    assert shown == {
        "A1": "**agrees** in this part; [timed](measured/timed/README.md): undecided",
        "A2": "**disagrees**",
        "A3": "**agrees**",
        "A4": "**undecided**",
        "A5": "**supported**",
        "A6": "**agrees**",
        "A8": "**disagrees**",
    }
    fitted, others = page.split("## The others")
    assert "| A6" in others
    assert "| A6" not in fitted
    assert "on-news" not in fitted
    second = (
        "| A1 s | p | **disagrees** | lower: −0.030 (−0.050 to −0.010) | [rung1, 5 seeds, tuned by a fit, on news]("
    )
    assert second in others


def test_the_share_counts_decisions_with_fitted_settings_alone(page):
    assert "5 experiments with settings fitted in each arm ask for a result" in page
    # Clopper-Pearson: 2 of 4 is 7 % to 93 %, 2 of 3 is 9 % to 99 %.
    assert "4 were decided, and 2 of them agree with the source (7 % to 93 %" in " ".join(page.split())
    assert "| `tiny` | 1 | 0 | 1 | 0 | 0 of 1 (0 % to 98 %) |" in page
    # The claim whose sources contradict each other.
    assert "do not test the claim itself: A5 (supported)." in " ".join(page.split())
    # 4 experiments of 16 runs of 1,000 tokens each, for 3 decisions.
    assert "| `rung1` | 4 | 2 | 1 | 1 | 2 of 3 (9 % to 99 %) | 21 | 0 million |" in page
    assert "| `model.norm` | 2 | 1 | 1 | 0 | 1 of 2 (1 % to 99 %) | 16 | 0 million |" in page
    assert "| `optimizer` | 1 | 0 | 0 | 1 |  |  |  |" in page


def test_claims_that_were_measured_alone_are_named(page):
    assert "Measurements of time and memory (A7) are in the [table of claims](README.md) only." in page


def test_without_published_results_there_is_no_page(tmp_path):
    result = archived(tmp_path, "A1", "model.norm.kind", "supported")
    (tmp_path / "claims.csv").write_text(f"{CLAIM_COLUMNS}\nA1,,s,t,,,,\n")
    assert written(tmp_path, [result]) is None
    assert not list(tmp_path.glob("*.md"))


def test_of_sizes_with_as_many_parameters_the_one_that_reads_more_counts(tmp_path):
    small, rung = (archived(tmp_path, "A1", "model.norm.kind", "undecided", size=size) for size in ("tiny", "rung1"))
    small = small._replace(name="a1", result=small.result | {"name": "a1"})
    for order in ([small, rung], [rung, small]):
        (found,) = results_by_claim(order)["A1"]
        assert (found.headline.name, [one.name for one in found.others]) == ("a1-rung1", ["a1"])
        assert largest_fitted(found).name == "a1-rung1"
