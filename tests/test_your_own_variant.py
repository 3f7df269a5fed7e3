"""The walk-through of docs/your_own_variant.md, command by command, with runs of a few steps."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.plugins.plugin_files import unloading
from tests.test_guide import FEW_STEPS
from zoo.cli.main import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "your_own_variant.md").read_text()
FILES = dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = [line.removeprefix("    zoo ") for line in PAGE.splitlines() if line.startswith("    zoo ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the page's files, and a record of trusted texts of its own."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "configs").symlink_to(ROOT / "configs")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def test_the_page_has_its_files_and_commands():
    assert list(FILES) == ["my_variants.py", "squared.py", "my_power.py", "my_gate.py", "my_schedule.py"]
    assert len(COMMANDS) == 7


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("describe")])
def test_a_variant_is_described(folder, monkeypatch, capsys, command):
    monkeypatch.chdir(folder)
    with unloading():
        assert main(shlex.split(command)) == 0
    out = capsys.readouterr().out
    assert "y = max(0, x W_up)^2 W_down (So et al. 2021, section 4.1)." in out
    assert "It holds the same parameters as the baseline" in out


@pytest.mark.promise
@pytest.mark.timeout(1200)
def test_the_page_does_what_it_says(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for command in COMMANDS:
        words = shlex.split(command)
        few = [flag for step in FEW_STEPS for flag in ("--set", step)] if words[0] == "run" else []
        # Two seeds are enough, and runs of a few steps take most of their time to start.
        fewer = ["2" if before == "--seeds" else word for before, word in zip(["", *words], words, strict=False)]
        with unloading():
            assert main([*fewer, *few]) == 0, command
    out = capsys.readouterr().out
    assert "squaring helps" in out
    for name in ("activations", "squared", "powers", "gate", "schedules"):
        sweep = folder / "runs" / name
        assert (sweep / "report.html").stat().st_size > 1000
        (plugin,) = json.loads((sweep / "experiment.json").read_text())["plugins"]
        stored = plugin.partition(":")[0]
        assert (sweep / "plugins" / stored).read_text() == FILES[stored]
        for run in json.loads((sweep / "experiment.json").read_text())["runs"]:
            assert (sweep / run["folder"] / "plugins" / stored).read_text() == FILES[stored]
            assert json.loads((sweep / run["folder"] / "status.json").read_text())["state"] == "done"
