"""Runs the cells of each notebook in order, in a temporary folder."""

import json
from pathlib import Path

import pytest

from tests.plugins.plugin_files import unloading

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells_of(path, kind):
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


@pytest.mark.promise(reason="notebooks train runs")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": path.stem}
    with unloading():
        for number, source in enumerate(cells_of(path, "code")):
            exec(compile(source, f"{path.name}, cell {number}", "exec"), names)
    assert list((tmp_path / "runs").glob("*/status.json"))


def test_notebooks_have_a_title_and_no_stored_outputs():
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text())["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
        assert cells_of(path, "markdown")[0].startswith("# ")
