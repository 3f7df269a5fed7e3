"""Lists of claims with their verdicts in pages written by hand."""

import re
from pathlib import Path

import pytest

from publication.claim_lines import claim_rows, refresh_claims
from zoo.errors import ConfigError

DOCS = Path(__file__).parents[2] / "docs"
LECTURES = sorted((DOCS / "lectures").glob("*.md"))
TABLE = """# Results

| | claim | source | verdict | effect | size | published | where |
| --- | --- | --- | --- | --- | --- | --- | --- |
| N1 | warm-up | us | **not tuned**: two arms, at an edge | 0.1 | tiny |  | [depth](depth/README.md) |
| N1 | warm-up | us | **supported** at quick (tiny: not testable): a note | 0.2 | quick |  | [quick](quick/README.md), [tiny](tiny/README.md) |
| P5 | distance | them | **exact** |  |  |  | [2 tests](#exact-claims) |
| O14 | context | them | see the page |  |  |  | [words](words.md) |

| claim | tests |
| --- | --- |
| P5 | [a test](../tests/test_exact.py) |
"""


@pytest.fixture
def results(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "README.md").write_text(TABLE)
    (tmp_path / "pages").mkdir()
    return tmp_path / "results"


def test_a_list_is_made_of_the_table(results):
    page = results.parent / "pages" / "page.md"
    page.write_text("# A page\n\n<!-- claims: P5, N1,O14 -->\nold\n<!-- end of claims -->\n\nEnd.\n")
    refresh_claims(page, results)
    expected = """# A page

<!-- claims: P5, N1,O14 -->

- [P5](../results/README.md): distance: **exact** ([2 tests](../results/README.md#exact-claims)).
- [N1](../results/README.md): warm-up: **not tuned** ([depth](../results/depth/README.md)); **supported** at quick ([quick](../results/quick/README.md), [tiny](../results/tiny/README.md)).
- [O14](../results/README.md): context: see the page ([words](../results/words.md)).

<!-- end of claims -->

End.
"""
    assert page.read_text() == expected
    refresh_claims(page, results)
    assert page.read_text() == expected


def test_an_unknown_claim_is_refused(results):
    page = results.parent / "pages" / "page.md"
    page.write_text("<!-- claims: N11 -->\n<!-- end of claims -->\n")
    with pytest.raises(ConfigError, match=r"page.md: ../results/README.md has no claim 'N11'.*did you mean"):
        refresh_claims(page, results)


@pytest.mark.parametrize("path", LECTURES, ids=lambda path: path.stem)
def test_pages_have_the_verdicts_of_today(path, tmp_path):
    text = path.read_text(encoding="utf-8")
    (tmp_path / "lectures").mkdir()
    page = tmp_path / "lectures" / path.name
    page.write_text(re.sub(r"(<!-- claims: [^>]+ -->\n).*?(<!-- end of claims -->)", r"\1\2", text, flags=re.DOTALL))
    (tmp_path / "results").symlink_to(DOCS / "results")
    refresh_claims(page, tmp_path / "results")
    assert page.read_text(encoding="utf-8") == text


def test_lectures_name_claims_of_the_table():
    rows = claim_rows(DOCS / "results")
    named = {claim for path in LECTURES for claim in re.findall(r"^- \[([A-Z]+\d+)\]", path.read_text(), re.MULTILINE)}
    # Claims of later papers, which the documents do not make.
    later = {"A12", "A13", "A14", "A15"}
    assert {claim for claim in rows if claim[0] in "NPAFO"} - later == named
