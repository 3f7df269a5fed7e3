"""The process pool with a stand-in for training: every outcome of a run, and signals to stop."""

import errno
import io
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from zoo import config
from zoo.lab.launch import process_pool
from zoo.lab.launch.display import PlainDisplay
from zoo.lab.launch.progress import SweepProgress
from zoo.lab.launch.sweep_folder import read_folder
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
A, B, C = "x=a-seed0", "x=b-seed0", "x=c-seed0"


@pytest.fixture
def runs(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    factors = {"x": {"a": {"model.dim": 64}, "b": {"model.dim": 32}, "c": {"model.dim": 16}}}
    return make_plan(fake.experiment(factors=factors, contrasts=(), seeds=(0,), allow=("parameters", "flops"))).runs


@pytest.fixture
def run_all(monkeypatch, tmp_path, runs):
    """Runs the three runs with the given behaviours; returns (ends, output, pool)."""
    monkeypatch.setattr(process_pool, "train_command", fake.command)
    monkeypatch.setattr(process_pool, "REUSE_PROCESSES", False)
    monkeypatch.setattr(process_pool, "POLL_SECONDS", 0.01)

    def go(behaviours, workers=1, wanted=None, during=None):
        monkeypatch.setenv("FAKE_RUNS", json.dumps(behaviours))
        wanted = runs if wanted is None else wanted
        console = Console(file=io.StringIO(), width=200)
        display = PlainDisplay(console, SweepProgress(tmp_path, runs, wanted, workers, "eval/loss"))
        lock = SweepLock(tmp_path)
        pool = process_pool.ProcessPool(wanted, tmp_path, workers, lock, display)
        thread = threading.Thread(target=during) if during else None
        if thread:
            thread.start()
        try:
            return pool.run(), console.file.getvalue(), pool
        finally:
            lock.close()
            if thread:
                thread.join()

    return go


def attempts(tmp_path, folder):
    return len((tmp_path / folder / "attempts").read_text())


def status(tmp_path, folder):
    return json.loads((tmp_path / folder / "status.json").read_text())


def read_process(tmp_path):
    """Returns the process id of the active run, once the lock file contains it."""
    wait_until(lambda: json.loads((tmp_path / ".lock").read_text() or '{"runs": []}')["runs"])
    return json.loads((tmp_path / ".lock").read_text())["runs"][0]


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_command_is_the_training_module():
    assert process_pool.train_command(Path("runs/x/y")) == [
        sys.executable,
        "-m",
        "zoo.cli.train",
        "--config=runs/x/y/config.json",
        "--workdir=runs/x/y",
    ]


def test_all_runs_are_trained(run_all, tmp_path, runs):
    ends, output, _ = run_all({})
    assert [ends[folder].name for folder in (A, B, C)] == ["done"] * 3
    for run in runs:
        found = config.resolve(config.load(str(tmp_path / run.folder / "config.json")))
        assert config.identity(found) == run.identity
    assert (
        output.index("start    x=a")
        < output.index("done     x=a seed 0: eval/loss 2.0000")
        < output.index("start    x=b")
    )
    assert "runs 3/3" in output


def test_no_more_runs_than_workers_are_active(run_all, tmp_path):
    third_started = []

    def during():
        wait_until(lambda: all((tmp_path / folder / "status.json").exists() for folder in (A, B)))
        third_started.append((tmp_path / C).exists())
        os.kill(os.getpid(), signal.SIGINT)

    ends, _, _ = run_all({A: ["wait"], B: ["wait"], C: ["wait"]}, workers=2, during=during)
    assert third_started == [False]
    assert set(ends) == {A, B}


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("fail", "the disk is full"),
        ("fail_without_status", "ValueError: boom"),
        ("fail_without_output", "ended with exit code 9 and no message"),
        ("succeed_without_status", "ended with exit code 0 and no message"),
    ],
)
def test_a_run_that_fails_does_not_stop_the_others(run_all, tmp_path, behaviour, reason):
    ends, output, _ = run_all({A: [behaviour]})
    assert ends[A].name == "failed"
    assert ends[A].reason == reason
    assert status(tmp_path, A)["state"] == "failed"
    assert status(tmp_path, A)["reason"] == reason
    assert attempts(tmp_path, A) == 1
    assert [ends[folder].name for folder in (B, C)] == ["done", "done"]
    assert f"failed   x=a seed 0: step 0, {reason}" in output


def test_the_reason_is_that_of_the_last_attempt(run_all, tmp_path):
    assert run_all({A: ["fail"]})[0][A].reason == "the disk is full"
    assert run_all({A: ["fail", "fail_without_status"]})[0][A].reason == "ValueError: boom"
    assert run_all({A: ["fail", "fail_without_status", "fail_without_output"]})[0][A].reason.startswith(
        "ended with exit code 9"
    )
    assert run_all({A: ["fail"]})[0][A].reason == "the disk is full"


def test_divergence_is_a_result(run_all, tmp_path):
    ends, output, _ = run_all({B: ["diverge"]})
    assert ends[B].name == "diverged"
    assert ends[B].finished
    assert attempts(tmp_path, B) == 1
    assert "diverged x=b seed 0: step 20, loss is not finite at step 20" in output


@pytest.mark.parametrize("behaviour", ["kill", "preempt"])
def test_an_interrupted_run_is_continued_once(run_all, tmp_path, behaviour):
    ends, output, _ = run_all({A: [behaviour, "finish"]})
    assert ends[A].name == "done"
    assert attempts(tmp_path, A) == 2
    steps = [json.loads(line)["step"] for line in (tmp_path / A / "metrics.jsonl").read_text().splitlines()]
    assert steps == [10, 20, 30, 40, 40]
    assert "retry    x=a seed 0" in output
    assert "runs 3/3" in output


@pytest.mark.faults
def test_a_run_that_is_killed_twice_has_failed(run_all, tmp_path):
    ends, _, _ = run_all({A: ["kill"]})
    assert ends[A].name == "failed"
    assert "killed by SIGKILL" in ends[A].reason
    assert status(tmp_path, A)["state"] == "failed"
    assert attempts(tmp_path, A) == 2
    assert ends[B].name == "done"


def test_a_run_that_is_preempted_twice_is_left_unfinished(run_all, tmp_path):
    ends, _, _ = run_all({A: ["preempt"]})
    assert ends[A].name == "unfinished"
    assert attempts(tmp_path, A) == 2


def test_a_killed_run_is_never_left_as_running(run_all, tmp_path):
    run_all({A: ["kill", "fail_without_output"]})
    assert status(tmp_path, A)["state"] == "failed"
    assert status(tmp_path, A)["reason"] == "ended with exit code 9 and no message"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.faults
def test_a_signal_lets_runs_save_and_starts_no_others(run_all, tmp_path, number, request):
    # Under nohup the tests themselves would ignore SIGHUP.
    previous = signal.signal(number, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(number, previous))
    before = signal.getsignal(number)

    def during():
        wait_until(lambda: (tmp_path / A / "status.json").exists())
        os.kill(os.getpid(), number)

    ends, output, pool = run_all({A: ["wait"]}, during=during)
    assert pool.stopped
    assert {folder: state.name for folder, state in ends.items()} == {A: "unfinished"}
    assert status(tmp_path, A)["state"] == "preempted"
    assert (tmp_path / A / "checkpoint").read_text() == "20"
    assert not (tmp_path / A / "interrupted").exists()
    assert not (tmp_path / B).exists()
    assert "stopping: 1 active run will save first" in output
    assert signal.getsignal(number) is before
    # A second call continues the unfinished run.
    ends, output, _ = run_all({})
    assert [state.name for state in ends.values()] == ["done"] * 3
    assert "start    x=a seed 0, continues from about step 20" in output


@pytest.mark.faults
def test_sighup_is_ignored_under_nohup(run_all, tmp_path):
    def during():
        wait_until(lambda: (tmp_path / A / "status.json").exists())
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(read_process(tmp_path), signal.SIGTERM)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ends, _, pool = run_all({A: ["wait", "finish"]}, during=during)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not pool.stopped
    assert [state.name for state in ends.values()] == ["done"] * 3


def test_a_full_disk_stops_no_other_run(run_all, tmp_path, monkeypatch):
    def full(*what):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(process_pool, "write_status", full)
    ends, _, _ = run_all({A: ["fail_without_output"]})
    assert [state.name for state in ends.values()] == ["failed", "done", "done"]
    assert "status.json: No space left on device" in ends[A].reason


@pytest.mark.faults
def test_signals_in_quick_succession_count_as_one(run_all, tmp_path):
    def during():
        wait_until(lambda: (tmp_path / A / "status.json").exists())
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    run_all({A: ["wait"]}, during=during)
    assert status(tmp_path, A)["state"] == "preempted"
    assert "killed" not in str(status(tmp_path, A).get("reason"))
    assert (tmp_path / A / "checkpoint").read_text() == "20"


@pytest.mark.faults
def test_a_second_signal_kills(run_all, tmp_path):
    def during():
        wait_until(lambda: (tmp_path / A / "status.json").exists())
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1.1)
        os.kill(os.getpid(), signal.SIGINT)

    ends, _, _ = run_all({A: ["ignore"]}, during=during)
    assert ends[A].name == "unfinished"
    assert status(tmp_path, A)["state"] == "preempted"
    assert status(tmp_path, A)["reason"] == "killed by SIGKILL"
    assert attempts(tmp_path, A) == 1


def test_an_error_of_the_display_leaves_no_run_behind(run_all, tmp_path, monkeypatch):
    def broken(self):
        if (tmp_path / A / "status.json").exists():
            raise RuntimeError("no terminal")

    monkeypatch.setattr(PlainDisplay, "refresh", broken)
    with pytest.raises(RuntimeError, match="no terminal"):
        run_all({A: ["wait"]})
    assert read_folder(tmp_path / A).state.name == "unfinished"
    assert status(tmp_path, A)["state"] == "preempted"


def test_a_run_whose_command_cannot_be_started_fails(run_all, tmp_path, monkeypatch):
    monkeypatch.setattr(
        process_pool,
        "train_command",
        lambda folder: ["/nonexistent/python"] if folder.name == A else fake.command(folder),
    )
    ends, _, _ = run_all({})
    assert ends[A].name == "failed"
    assert "could not be started" in ends[A].reason
    assert ends[C].name == "done"


def test_a_run_whose_folder_cannot_be_created_fails(run_all, tmp_path):
    (tmp_path / A).write_text("a file is in the way")
    ends, _, _ = run_all({})
    assert ends[A].name == "failed"
    assert ends[B].name == "done"
