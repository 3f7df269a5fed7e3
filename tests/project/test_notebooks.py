"""Runs the cells of each notebook in order, in a temporary folder, and compares what they show with
what is stored.
"""

import re
import sys

import numpy as np
import pytest

from publication import notebooks
from tests.plugins.plugin_files import unloading

NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]\d+)?")
# These train nothing, so their numbers are those of any machine up to rounding.
UNTRAINED = ("positions_and_context",)


def texts(outputs):
    """Returns (kind, text without numbers and layout, numbers) of every form of each output."""
    found = []
    for output in outputs:
        for kind, content in output.get("data", {"stdout": output.get("text")}).items():
            text = "" if kind == "image/png" else "".join(content)
            words = " ".join(NUMBER.sub("#", text).split())
            found.append((f"{output['output_type']} {kind}", words, [float(one) for one in NUMBER.findall(text)]))
    return found


@pytest.mark.promise(reason="notebooks train runs and compile models")
@pytest.mark.parametrize("path", notebooks.paths(), ids=lambda path: path.stem)
def test_notebook_shows_what_is_stored(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = notebooks.code_cells(notebooks.read(path))
    with unloading():
        shown = list(notebooks.run(path))
    for cell, outputs in zip(cells, shown, strict=True):
        found, stored = texts(outputs), texts(cell["outputs"])
        assert [one[0] for one in found] == [one[0] for one in stored]
        if notebooks.VARIES not in cell["metadata"].get("tags", ()):
            assert [one[1] for one in found] == [one[1] for one in stored]
        if path.stem in UNTRAINED:
            for one, other in zip(found, stored, strict=True):
                np.testing.assert_allclose(one[2], other[2], rtol=0.02, atol=2e-3)
    trains = any("zoo.train(" in "".join(cell["source"]) for cell in cells)
    assert trains == any((tmp_path / "runs").glob("*/status.json"))
    assert trains == (path.stem not in UNTRAINED)
    assert any("image/png" in kind for cell in cells for kind, *_ in texts(cell["outputs"]))


def test_outputs_of_a_cell():
    class Table:
        def __repr__(self):
            return "a table"

        def _repr_html_(self):
            return "<div><style>p {}</style><table><tr><td>1</td></tr></table></div>"

    names = {"Table": Table}
    assert notebooks.run_cell("x = 1\nprint(x)\nx + 1", names, 3, "cell 3") == [
        {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
        {"output_type": "execute_result", "execution_count": 3, "metadata": {}, "data": {"text/plain": ["2"]}},
    ]
    assert [notebooks.run_cell(source, names, 4, "cell 4") for source in ("x", "x;", "None", "y = x")][1:] == [
        [],
        [],
        [],
    ]
    (table,) = notebooks.run_cell("Table()", names, 5, "cell 5")
    assert table["data"]["text/plain"] == ["a table"]
    draws = "import matplotlib.pyplot as plt\nplt.figure(figsize=(1, 1)).text(0, 0, x);"
    ((one,), (other,)) = (notebooks.run_cell(draws, names, 6, "cell 6") for _ in range(2))
    assert one["data"]["image/png"] == other["data"]["image/png"]
    assert not sys.modules["matplotlib.pyplot"].get_fignums()
    # A page shows the richest form.
    assert list(notebooks._shown([table])) == [("text/html", "<table><tr><td>1</td></tr></table>")]


def test_pages_of_the_site_show_outputs_and_pictures():
    pages = notebooks.pages()
    page = pages["notebooks/positions_and_context.md"]
    (name,) = re.findall(r"!\[[^]]*\]\((\S+\.png)\)", page)
    assert pages[f"notebooks/{name}"].startswith(b"\x89PNG")
    assert "```text\nnone " in page
    assert '<table border="1" class="dataframe">' in pages["notebooks/first_comparison.md"]
    assert "[A first comparison](first_comparison.md)" in pages["notebooks/index.md"]
