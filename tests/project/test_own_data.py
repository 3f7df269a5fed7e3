"""The page from a text file to a model in use can be copied from top to bottom."""

import re
import shlex
from pathlib import Path

import pytest

from zoo.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "own_data.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(line) for line in re.findall(r"^    zoo (.+)$", PAGE, re.MULTILINE)]
PROGRAMS = re.findall(r"^```python\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)
FEWER = ["training.steps=4", "training.eval_every=0", "schedule.warmup_steps=2"]
# By run, the fields with which the test shortens its training.
SHORTER = {
    "runs/base": [
        *FEWER,
        "training.eval_batches=1",
        "model.dim=16",
        "model.num_layers=1",
        "model.attention.num_heads=2",
    ],
    "runs/topic": [*FEWER, "data.buckets=1"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the page's first program makes."""
    monkeypatch.chdir(tmp_path)
    exec(PROGRAMS[0], {})
    return tmp_path


def run(command, capsys):
    assert main(command) == 0, command
    return capsys.readouterr().out


def test_the_files_are_read_as_the_page_says(folder, capsys):
    texts, labelled = (run(command, capsys) for command in COMMANDS[:2])
    assert re.search(r"source +jsonl:texts.jsonl: \d+ documents", texts)
    assert "labels" in labelled
    assert "asyncio" in labelled
    dry = [command for command in COMMANDS if command[0] == "new" or "--dry-run" in command]
    assert [run(command, capsys) for command in dry][-1].count("runs would be trained") == 2


@pytest.mark.promise(reason="the commands of a page train two runs")
def test_the_whole_page_can_be_copied(folder, capsys):
    for command in COMMANDS:
        made = next((word.partition("=")[2] for word in command if word.startswith("--workdir=")), None)
        printed = run([*command, *(f"--config.{change}" for change in SHORTER.get(made, ()))], capsys)
        if command[0] == "predict":
            assert printed.count("%") == 4
    exec(PROGRAMS[1], {})
    assert "module" not in (answer := capsys.readouterr().out)
    assert "Prediction" in answer
