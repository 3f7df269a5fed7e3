"""The walk-throughs: their code runs, and prints what they show."""

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[1] / "docs" / "walkthroughs").glob("*.md"))
BLOCKS = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


# Pages that compile a model take seconds.
MARKS = {"verdict": ()}


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=MARKS.get(page.stem, pytest.mark.promise)) for page in PAGES]
)
def test_a_page_shows_what_its_code_prints(page):
    """The Python blocks of a page share their names; a text block is what the one before prints."""
    names, printed = {"__name__": page.stem}, None
    for kind, text in BLOCKS.findall(page.read_text(encoding="utf-8")):
        if kind == "text":
            assert printed == text
            printed = None
            continue
        assert not printed, f"not shown: {printed}"
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(text, str(page), "exec"), names)
        printed = output.getvalue()
    assert not printed, f"not shown: {printed}"
