"""The pages of docs/results are those that its data make."""

import shutil
from pathlib import Path

import pytest

from publication.results_index import build

ROOT = Path(__file__).parents[2]
RESULTS = "docs/results"


@pytest.mark.promise(reason="writes all pages of the archive again")
def test_pages_are_made_of_the_archived_data(tmp_path):
    shutil.copytree(ROOT / RESULTS, tmp_path / RESULTS)
    # Links to the tests of exact claims are relative.
    claims = shutil.copytree(ROOT / "tests/claims", tmp_path / "tests/claims")
    readme = Path(shutil.copy(ROOT / "README.md", tmp_path))
    build(tmp_path / RESULTS, claims, [readme], ROOT / "experiments")
    made = [path.relative_to(tmp_path) for path in tmp_path.rglob("*.md")]
    assert len(made) > 100
    stale = [str(path) for path in made if (tmp_path / path).read_text() != (ROOT / path).read_text()]
    assert not stale, f"run `python -m publication results`: {', '.join(stale)}"
