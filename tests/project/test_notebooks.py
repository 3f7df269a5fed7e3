"""Runs the cells of each notebook in order, in a temporary folder."""

import json
from pathlib import Path

import pytest

from tests.plugins.plugin_files import unloading

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def code_of(path):
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.promise(reason="notebooks train runs")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": path.stem}
    with unloading():
        for number, source in enumerate(code_of(path)):
            exec(compile(source, f"{path.name}, cell {number}", "exec"), names)
    assert list((tmp_path / "runs").glob("*/status.json"))
