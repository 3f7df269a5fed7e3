"""`python -m publication results`: the index of docs/results."""

import json
import shutil
from pathlib import Path

import pytest

from publication.__main__ import main
from publication.results_index import build
from tests.support.archives import write_archive

ROOT = Path(__file__).parents[2]


def test_pages_written_by_hand_and_exact_claims_are_listed(tmp_path):
    output, tests = write_archive(tmp_path / "docs" / "results"), tmp_path / "tests"
    (output / "by_hand.md").write_text("# A run of ours\n\nText.\n")
    tests.mkdir()
    (tests / "test_exact.py").write_text(
        "def test_n10_what_a_norm_is_invariant_to(kind):\ndef test_a4_the_field():\ndef test_other():\n"
    )
    page = build(output, tests).read_text()
    assert page == build(output, tests).read_text()
    assert "* [A run of ours](by_hand.md)" in page
    assert page.index("| A4 | [the field](../../tests/test_exact.py) |") < page.index(
        "| N10 | [what a norm is invariant to]("
    )
    assert (output / "../../tests/test_exact.py").exists()


def test_rules_that_were_changed_are_named(tmp_path):
    output = write_archive(tmp_path / "results")
    result = json.loads((output / "one/result.json").read_text()) | {"expected": ["a ends below b"]}
    for warning, changed in (
        ("looks changed after runs had finished: they were not planned before the first", False),
        ('contrast "c" changed after runs had finished; it was not stated before', True),
    ):
        (output / "one/result.json").write_text(json.dumps(result | {"warnings": [warning]}))
        index, page = build(output).read_text(), (output / "one/README.md").read_text()
        assert ("The rules were stated before the runs that they judge. What" in index) is not changed
        assert ("except where a rule or an arm was changed: [one](one/README.md). What" in index) is changed
        assert ("**Rule, stated before these runs:**" in page) is not changed
        assert ("**Rule; it or an arm was changed after runs had finished (see below):**" in page) is changed


def test_the_index_begins_as_the_page_of_limits(tmp_path):
    output = write_archive(tmp_path / "results")
    (output / "limits.md").write_text(
        "# Limits\n\nThese are small\nmodels.\n\n<!-- note -->\n\nAll.\n\n## More\n\nText.\n"
    )
    page = build(output).read_text()
    assert "\n\nThese are small\nmodels.\n\nAll.\n\n[More about this](limits.md).\n\n" in page
    assert "Text." not in page


def test_the_command_archives_writes_the_index_and_refuses_damage_in_one_line(tmp_path, capsys):
    output = write_archive(tmp_path / "docs")
    assert main(["results", "--output", str(output), "--noise"]) == 0
    assert capsys.readouterr().out.split() == [str(output / "noise_floor.md"), str(output / "README.md")]
    page = (output / "README.md").read_text()
    assert "[The noise floor](noise_floor.md)" in page
    assert "## Exact claims" in page
    (output / "one/result.json").write_text("{")
    assert main(["results", "--output", str(output)]) == 2
    assert "one/result.json: not readable as a result" in capsys.readouterr().err
    assert main(["result"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.promise(reason="all archived results are read")
def test_the_pages_of_this_project_are_up_to_date(tmp_path):
    ours = ROOT / "docs" / "results"
    copy = tmp_path / "docs" / "results"
    shutil.copytree(ours, copy)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    readme = shutil.copy(ROOT / "README.md", tmp_path / "README.md")
    build(copy, tmp_path / "tests" / "claims", [readme])
    assert readme.read_bytes() == (ROOT / "README.md").read_bytes()
    texts = [path for path in ours.rglob("*") if path.suffix in (".md", ".csv", ".json")]
    for path in texts:
        assert (copy / path.relative_to(ours)).read_bytes() == path.read_bytes(), path
    pictures = {path.relative_to(copy) for path in copy.glob("*/by_*.png")}
    assert Path("learning_rate_transfer/by_optimizer_learning_rate.png") in pictures
    assert pictures == {path.relative_to(ours) for path in ours.glob("*/by_*.png")}
