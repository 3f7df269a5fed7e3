"""The code of the walk-through pages runs and prints the output that they show."""

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs" / "walkthroughs").glob("*.md"))
BLOCKS = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


COMPILED = pytest.mark.promise(reason="the page compiles a model")
MARKS = {"verdict": ()}


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.stem, marks=MARKS.get(page.stem, COMPILED)) for page in PAGES]
)
def test_page_shows_the_output_of_its_code(page):
    """The Python blocks of a page share a namespace; a text block shows the output of the block
    before it.
    """
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
