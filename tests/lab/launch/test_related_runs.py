"""The runs that arms start from or distil must exist before anything is trained."""

from pathlib import Path

import pytest

START, TEACHER = "training.start_from", "objective.distillation.teacher"


def test_missing_runs_are_refused_before_training(command_line):
    vary = ("--config=base.py", "--vary", f"{START}=gone,missing", "--seeds", "2")
    Path("base.py").write_text(
        "from zoo import config\n\ndef get_config():\n"
        "    return config.override(config.default(), {'data.source': 'text:base.py', 'data.sequence_length': 8})\n"
    )
    for more in ((), ("--dry-run",)):
        code, out, err = command_line("run", *vary, *more)
        assert (code, out) == (2, "")
        assert "arm start_from=gone: training.start_from=gone is not a run: there is no gone/config.json" in err
        assert "arm start_from=missing: training.start_from=missing is not a run" in err
    assert not Path("runs").exists()


def test_only_new_runs_are_checked_for_related_runs(command_line, monkeypatch):
    from zoo.lab.launch import workflow

    checked = []
    monkeypatch.setattr(workflow, "related_run_problems", lambda runs: checked.append(len(runs)) or [])
    assert command_line("run", "norms.py")[0] == 0
    assert command_line("run", "norms.py")[0] == 0
    assert checked == [8, 0]


@pytest.mark.parametrize(("path", "lines"), [(START, 1), (TEACHER, 1)])
def test_a_problem_of_an_arm_is_reported_once_for_all_seeds(path, lines):
    from zoo import config
    from zoo.lab.launch.preparation import related_run_problems

    settings = config.override(config.default(), {path: "/nowhere"})
    run = ("a", settings)
    problems = related_run_problems([run, run])
    assert len(problems) == lines
    assert problems[0].startswith(f"arm a: {path}=/nowhere is not a run")
