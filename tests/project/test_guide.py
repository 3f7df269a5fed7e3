"""The walk-through of docs/guide.md, command by command, with runs of a few steps."""

import re
import shlex
from pathlib import Path

import pytest

from zoo.cli.main import main
from zoo.lab.planning import tuning_search

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guide.md").read_text()
COMMANDS = [shlex.split(line.removeprefix("    zoo ")) for line in GUIDE.splitlines() if line.startswith("    zoo ")]
FEW_STEPS = [
    "training.steps=4",
    "training.eval_batches=1",
    "training.eval_every=0",
    "training.checkpoint_every=4",
    "model.num_layers=1",
    "model.dim=16",
    "data.sequence_length=16",
    "data.batch_size=2",
    "schedule.warmup_steps=0",
]


@pytest.mark.promise(reason="the commands of a page train runs")
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("runs_in_this_process", "small_library")
def test_guide_commands_run_and_print_what_the_page_shows(tmp_path, monkeypatch, capsys):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    files = re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", GUIDE, re.DOTALL)
    assert [name for name, _ in files] == ["qk_norm.py"]
    for name, text in files:
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tuning_search, "MOST_VALUES", 3)
    assert len(COMMANDS) >= 6
    for command in COMMANDS:
        few = [flag for step in FEW_STEPS for flag in ("--set", step)] if command[0] == "run" else []
        # Starting three runs of three steps takes longer than training them.
        shorter = [
            {"--seeds": "2", "--max-seeds": "3"}.get(before, word)
            for before, word in zip(["", *command], command, strict=False)
        ]
        # This checkout may have changes that are not committed.
        allowed = ["--allow-dirty"] if command[0] == "results" else []
        # Four steps have no best rate, for which more and more values would be tried.
        allowed += ["--tune-seeds", "1"] if "--tune" in command else []
        assert main([*shorter, *few, *allowed]) == 0, command
        out = capsys.readouterr().out
        if "--dry-run" in command:
            assert "8 of 8 runs would be trained" in out
            assert "2 seeds find a difference of " in out
            assert not (tmp_path / "runs").exists()
    for name in ("qk_norm", "qk_norm_judged", "qk_norm_until", "qk_norm_tuned"):
        assert (tmp_path / "runs" / name / "report.html").stat().st_size > 1000
    assert (tmp_path / "results" / "qk_norm_judged" / "runs.csv").exists()
