"""Runs the cells of each notebook in order, in a temporary folder."""

import json
from pathlib import Path

import pytest

from tests.plugins.plugin_files import unloading

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def code_of(path):
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.promise(reason="notebooks train runs and compile models")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, sources = {"__name__": path.stem}, code_of(path)
    with unloading():
        for number, source in enumerate(sources):
            exec(compile(source, f"{path.name}, cell {number}", "exec"), names)
    trains = any("zoo.train(" in source for source in sources)
    assert trains == any((tmp_path / "runs").glob("*/status.json"))
