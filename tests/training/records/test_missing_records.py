"""Run folders with missing records: one clear line, and no other record is lost or falsified."""

import contextlib
import shutil

import pytest

from tests.support.small_runs import curves, lines, small, stop_requested_at
from zoo import config as configs
from zoo.errors import ConfigError, Preempted
from zoo.files import read_json, write_json
from zoo.training.startup import RunRequest, check
from zoo.training.trainer import run


def quiet(line):
    del line


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run of 12 steps, stopped after step 4."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch, stop_requested_at(4, patch), pytest.raises(Preempted):
        run(small(), folder, quiet)
    return folder


@pytest.fixture
def folder(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "run")


def refused(folder, **changes):
    """Returns the single problem of resuming in a folder, and asserts that nothing in the folder
    changes.
    """
    before = {path: path.read_bytes() for path in folder.rglob("*.json*") if path.is_file()}
    with pytest.raises(ConfigError) as caught:
        run(small(**changes), folder, quiet)
    assert before == {path: path.read_bytes() for path in folder.rglob("*.json*") if path.is_file()}
    (problem,) = caught.value.problems
    return problem


def test_lost_config_is_restored_if_the_identity_is_known(folder, stopped):
    (folder / "config.json").unlink()
    assert "by its meta.json it is another run" in refused(folder, model__dropout=0.5)
    printed = []
    assert run(small(), folder, printed.append)["state"] == "done"
    assert any("config.json was gone; by the identity in meta.json this is the same run" in line for line in printed)
    assert read_json(folder / "config.json") == read_json(stopped / "config.json")


def test_run_without_config_and_identity_is_not_resumed(folder):
    (folder / "config.json").unlink()
    (folder / "meta.json").unlink()
    assert "nothing else tells whether this is the same run; restore config.json" in refused(folder)


def test_lost_metrics_are_refused_until_the_user_agrees(folder):
    (folder / "metrics.jsonl").unlink()
    problem = refused(folder)
    assert "has a checkpoint of step 4, but its metrics.jsonl is gone; restore it" in problem
    assert f"create an empty {folder / 'metrics.jsonl'}" in problem
    (folder / "metrics.jsonl").touch()
    run(small(), folder, quiet)
    assert lines(folder)[0]["step"] == 4


def killed(folder, step):
    """Turns the folder into that of a run killed at a step, with metrics up to it."""
    write_json(folder / "status.json", {"state": "running", "step": 0, "steps": 12, "reason": None})
    text = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    more = [f'{{"step": {number}, "train/loss": 1.0}}\n' for number in range(5, step + 1)]
    (folder / "metrics.jsonl").write_text("".join([*text, *more]))


@pytest.mark.parametrize("how", ["stopped", "resumed", "killed after the second save"])
def test_run_with_lost_checkpoints_is_not_restarted(how, folder):
    shutil.rmtree(folder / "checkpoints")
    if how == "resumed":
        write_json(folder / "status.json", {"state": "running", "step": 3, "steps": 12, "reason": None})
    elif how == "killed after the second save":
        killed(folder, 7)
    problem = refused(folder)
    assert f"was trained to step {7 if 'second' in how else 4}, but its checkpoints are gone; restore" in problem
    assert f"remove or rename {folder} to start again from step 0" in problem


def test_run_killed_before_its_first_checkpoint_restarts(folder, tmp_path):
    """Until the second checkpoint is due, the first one may be unfinished."""
    shutil.rmtree(folder / "checkpoints")
    killed(folder, 6)
    run(small(), folder, quiet)
    run(small(), tmp_path / "straight", quiet)
    assert curves(folder) == curves(tmp_path / "straight")


def test_finished_run_reports_missing_records(tmp_path):

    resolved = configs.resolve(small())
    write_json(tmp_path / "config.json", configs.to_plain(resolved))
    write_json(tmp_path / "status.json", {"state": "done", "step": 12, "steps": 12, "reason": None})
    printed = []
    with contextlib.ExitStack() as stack:
        check(RunRequest(small(), tmp_path, printed.append), "single", stack)
    assert [line.split(" is done")[1] for line in printed] == [
        ", but its metrics.jsonl is gone",
        ", but its checkpoints are gone",
        " already: 12 steps",
    ]
