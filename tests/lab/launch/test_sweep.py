"""States of run folders, folders that hold other runs, and the lock."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zoo import config
from zoo.errors import ConfigError, ZooError
from zoo.files import read_json, write_json
from zoo.lab.launch.run_status import read_sweep_status
from zoo.lab.launch.sweep_folder import (
    archive_folder,
    check_sweep_folder,
    find_conflicts,
    read_folder,
    read_planned_state,
    write_status,
)
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.launch.worker import write_config
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan
from zoo.training.runtime.folder_lock import lock_run_folder

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")


@pytest.fixture
def runs(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    return make_plan(fake.experiment()).runs


def write_run(folder, run, **changes):
    (folder / run.folder).mkdir()
    resolved = config.resolve(
        config.override(run.config, {path.replace("__", "."): value for path, value in changes.items()})
    )
    write_json(folder / run.folder / "config.json", config.to_plain(resolved))


@pytest.mark.parametrize(
    ("content", "name", "step", "finished"),
    [
        (None, "new", 0, False),
        ({"state": "done", "step": 40}, "done", 40, True),
        ({"state": "diverged", "step": 7, "reason": "x"}, "diverged", 7, True),
        ({"state": "failed", "step": 7, "reason": "x"}, "failed", 7, False),
        ({"state": "running", "step": 7, "reason": None}, "unfinished", 7, False),
        ({"state": "preempted", "step": 7}, "unfinished", 7, False),
        ({"state": "running", "step": None}, "unfinished", 0, False),
        ([], "new", 0, False),
        ({"step": 3}, "new", 0, False),
    ],
)
def test_states(tmp_path, content, name, step, finished):
    if content is not None:
        write_json(tmp_path / "status.json", content)
    state = read_folder(tmp_path).state
    assert (state.name, state.step, state.finished) == (name, step, finished)


def test_a_damaged_status_is_a_new_run(tmp_path):
    (tmp_path / "status.json").write_text('{"state": "do')
    assert read_folder(tmp_path).state.name == "new"


def test_a_status_written_for_a_run_keeps_its_step(tmp_path):
    write_json(tmp_path / "status.json", {"state": "running", "step": 12, "steps": 40, "reason": None})
    write_status(tmp_path, "failed", 40, "killed")
    assert json.loads((tmp_path / "status.json").read_text()) == {
        "state": "failed",
        "step": 12,
        "steps": 40,
        "reason": "killed",
    }


def test_the_step_of_a_killed_run_is_that_of_its_metrics(tmp_path):
    write_json(tmp_path / "status.json", {"state": "running", "step": 0, "steps": 40, "reason": None})
    (tmp_path / "metrics.jsonl").write_text('{"step": 30}\n{"st')
    assert read_folder(tmp_path).state.step == 30
    write_status(tmp_path, "failed", 40, "killed")
    assert json.loads((tmp_path / "status.json").read_text())["step"] == 30


def test_equal_runs_are_no_conflict(tmp_path, runs):
    for run in runs:
        write_run(tmp_path, run)
    assert find_conflicts(tmp_path, runs) == []


def test_fields_that_cannot_change_results_are_no_conflict(tmp_path, runs):
    write_run(tmp_path, runs[0], training__log_every=1, training__checkpoint_every=3)
    assert find_conflicts(tmp_path, runs) == []


def test_a_field_missing_in_an_older_run_has_its_default(tmp_path, runs):
    write_run(tmp_path, runs[0])
    path = tmp_path / runs[0].folder / "config.json"
    content = json.loads(path.read_text())
    del content["model"]["dropout"]
    write_json(path, content)
    assert find_conflicts(tmp_path, runs) == []


def test_other_runs_are_reported_once_with_what_differs(tmp_path, runs):
    for run in runs[:3]:
        write_run(tmp_path, run, model__dim=128, training__steps=99)
    (line,) = find_conflicts(tmp_path, runs)
    assert line.startswith(f"{runs[0].folder} and 2 more in {tmp_path}: another run: ")
    assert "model.dim=128 there and 256 here" in line
    assert "training.steps=99 there and 40 here" in line


def test_parts_of_a_model_that_only_one_run_has_are_reported(tmp_path, runs):
    write_run(
        tmp_path,
        runs[0],
        model__layers__pattern=("a",),
        model__layers__kinds__a__attention__num_kv_heads=2,
        model__layers__kinds__a__residual=False,
    )
    (line,) = find_conflicts(tmp_path, runs)
    # Derived fields come last.
    assert "model.layers.pattern=('a',) there and () here" in line
    assert line.index("model.layers.kinds.a.residual=False there and unset here") < line.index(
        "kinds.a.attention.num_kv_heads=2 there"
    )


def test_a_run_without_a_readable_config_is_a_conflict(tmp_path, runs):
    (tmp_path / runs[0].folder).mkdir()
    write_status(tmp_path / runs[0].folder, "done", 40, "")
    write_run(tmp_path, runs[1])
    (tmp_path / runs[1].folder / "config.json").write_text("{")
    without, broken = find_conflicts(tmp_path, runs)
    assert "without its config.json" in without
    assert "cannot be read" in broken


def test_an_empty_folder_is_no_conflict(tmp_path, runs):
    (tmp_path / runs[0].folder).mkdir()
    assert find_conflicts(tmp_path, runs) == []


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ({}, None),
        ({".lock": "", "plugins/a.py": "", "slurm/1.sh": "", "tuning/.lock": "", "run.out": ""}, None),
        ({"experiment.json": '{"arms": []}', "thesis.tex": ""}, None),
        ({"experiment.json": '{"ar'}, None),
        ({"experiment.json": '{"flight": 7}'}, "experiment.json"),
        ({"thesis.tex": ""}, "thesis.tex"),
        ({"a": "", "b": "", "c": "", "d": "", ".git/HEAD": ""}, ".git, a, b and 2 more"),
    ],
)
def test_a_folder_with_other_files_is_refused(tmp_path, runs, entries, named):
    for name, text in entries.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / runs[0].folder).mkdir()
    if named is None:
        check_sweep_folder(tmp_path, runs)
        return
    with pytest.raises(ConfigError) as caught:
        check_sweep_folder(tmp_path, runs)
    assert caught.value.problems == [
        f"--output {tmp_path} holds files that are not of a sweep ({named}); name a new or an empty folder"
    ]


def test_archiving_a_folder_takes_the_first_free_number(tmp_path):
    for number in (1, 2):
        (tmp_path / "s").mkdir()
        (tmp_path / "s" / "x").write_text(str(number))
        assert archive_folder(tmp_path / "s") == tmp_path / f"s.{number}"
    assert [(tmp_path / f"s.{number}" / "x").read_text() for number in (1, 2)] == ["1", "2"]


def test_archiving_through_a_link_keeps_the_link(tmp_path):
    """Runs that begin anew are on the disk to which the link points."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "x").write_text("first")
    (tmp_path / "s").symlink_to(tmp_path / "scratch")
    assert archive_folder(tmp_path / "s") == tmp_path / "scratch.1"
    assert (tmp_path / "scratch.1" / "x").read_text() == "first"
    assert (tmp_path / "s").readlink() == tmp_path / "scratch"
    assert list((tmp_path / "s").iterdir()) == []


def test_a_second_lock_names_the_holder(tmp_path):
    lock = SweepLock(tmp_path / "s")
    with pytest.raises(ZooError, match=f"s is in use by process {os.getpid()} on "):
        SweepLock(tmp_path / "s")
    lock.close()
    SweepLock(tmp_path / "s").close()


@pytest.mark.faults
def test_a_lock_is_held_by_runs_that_outlive_their_parent(tmp_path):
    """A parent that is killed leaves a run behind: the folder stays locked, and the message names
    the run.
    """
    program = (
        "import subprocess, sys, time; from pathlib import Path; from zoo.lab.launch.sweep_lock import SweepLock\n"
        f"lock = SweepLock(Path({str(tmp_path)!r}))\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], pass_fds=(lock.descriptor,),"
        " stdout=subprocess.DEVNULL, start_new_session=True)\n"
        "lock.record_children([child.pid]); print(child.pid, flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        try:
            with pytest.raises(ZooError, match=f"started by process {parent.pid}, which has ended, .* kill {child}$"):
                SweepLock(tmp_path)
        finally:
            os.kill(child, 9)
    # The killed run is not a child of this process, so it cannot be waited for.
    for _ in range(1000):
        try:
            SweepLock(tmp_path).close()
            break
        except ZooError:
            time.sleep(0.01)
    else:
        pytest.fail("the lock is still held")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"process": 1}'])
def test_a_lock_with_unreadable_content(tmp_path, content):
    lock = SweepLock(tmp_path)
    (tmp_path / ".lock").write_text(content)
    with pytest.raises(ZooError, match="is in use by another process"):
        SweepLock(tmp_path)
    lock.close()


def finished(folder, run, steps, **changes):
    write_run(folder, run, training__steps=steps, **changes)
    (folder / run.folder / "checkpoints" / str(steps)).mkdir(parents=True)
    write_status(folder / run.folder, "done", steps, None)


def test_runs_of_fewer_steps_are_trained_longer(runs, tmp_path):
    finished(tmp_path, runs[0], 30)
    finished(tmp_path, runs[1], 40)
    assert not find_conflicts(tmp_path, runs)
    assert read_planned_state(tmp_path, runs[0]).name == "unfinished"
    assert "from 30 to 40 at step 30" in read_planned_state(tmp_path, runs[0]).reason
    assert read_planned_state(tmp_path, runs[1]).finished
    for run in runs[:2]:
        write_config(tmp_path, run)
    assert read_folder(tmp_path / runs[0].folder).state.name == "unfinished"
    meta = read_json(tmp_path / runs[0].folder / "meta.json")
    assert meta == {"identity": runs[0].identity, "extensions": [{"from": 30, "to": 40, "step": 30}]}
    assert read_json(tmp_path / runs[0].folder / "config.json")["training"]["steps"] == 40
    assert read_folder(tmp_path / runs[1].folder).state.finished
    assert not (tmp_path / runs[1].folder / "meta.json").exists()
    write_status(tmp_path / runs[0].folder, "done", 40, None)
    write_json(tmp_path / "experiment.json", {"name": "x", "runs": [{"folder": run.folder} for run in runs[:2]]})
    reasons = [run.reason for run in read_sweep_status(tmp_path).runs]
    assert reasons == ["training.steps grew from 30 to 40 at step 30", ""]


def test_runs_that_cannot_be_trained_longer_are_conflicts_with_the_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    cosine = config.override(fake.experiment().base, {"schedule.kind": "cosine"})
    run = make_plan(fake.experiment(base=cosine)).runs[0]
    finished(tmp_path, run, 30)
    (line,) = find_conflicts(tmp_path, [run])
    assert "the run cannot be trained longer: training.steps=30 cannot grow to 40" in line
    assert "schedule.kind=cosine" in line


def test_a_run_of_fewer_steps_that_differs_in_more_is_another_run(runs, tmp_path):
    finished(tmp_path, runs[0], 30, model__dropout=0.3)
    (line,) = find_conflicts(tmp_path, runs)
    assert "another run: " in line
    assert "model.dropout=0.3 there and 0.0 here" in line
    assert "training.steps=30 there and 40 here" in line


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def without(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", without)
    with pytest.raises(ConfigError, match=r"--output .*/s cannot be locked \(No locks available\); name a folder"):
        SweepLock(tmp_path / "s")
    with pytest.raises(ConfigError, match=r"--workdir .*/r cannot be locked \(No locks available\); name a folder"):
        lock_run_folder(tmp_path / "r")
