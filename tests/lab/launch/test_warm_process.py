"""Processes of the local pool that train one run after another, with real runs."""

import io
import json
import os
import signal
import threading
import time

import pytest
from rich.console import Console

from tests.support.small_runs import curves, small
from zoo.cli import train as command
from zoo.lab.experiment import Experiment, levels
from zoo.lab.launch import process_pool
from zoo.lab.launch.display import PlainDisplay
from zoo.lab.launch.progress import SweepProgress
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.planning.plan import make_plan


@pytest.fixture
def train(monkeypatch, tmp_path):
    """Trains the runs of an experiment with one worker; returns (final states, ids of the processes
    in the order of their start, folder of the sweep).
    """
    started = []

    class Recorded(process_pool.WarmProcess):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            started.append(self.pid)

    monkeypatch.setattr(process_pool, "WarmProcess", Recorded)

    def go(during=None, **changes):
        experiment = Experiment(**{"name": "warm", "question": "?", "base": small(), "seeds": (0, 1)} | changes)
        runs = make_plan(experiment).runs
        display = PlainDisplay(Console(file=io.StringIO()), SweepProgress(tmp_path, runs, runs, 1, "eval/loss"))
        lock = SweepLock(tmp_path)
        thread = threading.Thread(target=during, args=(started,)) if during else None
        if thread:
            thread.start()
        try:
            return process_pool.ProcessPool(runs, tmp_path, 1, lock, display).run(), started, tmp_path
        finally:
            lock.close()
            if thread:
                thread.join()

    return go


def wait_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.promise(reason="other processes train")
def test_runs_of_one_process_equal_runs_of_separate_processes(train, tmp_path):
    """Two arms with different programs and two seeds each, in turn; equality is bit for bit."""
    states, started, folder = train(
        factors={"norm": levels("model.norm.placement", "pre", "post")}, base=small(model__dropout=0.1)
    )
    assert {state.name for state in states.values()} == {"done"}
    assert len(states) == 4
    assert len(started) == 1
    for name in (name for name in states if name.endswith("seed1")):  # Trained by programs of earlier runs.
        alone = tmp_path / "alone" / name
        assert command.main([f"--config={folder / name / 'config.json'}", f"--workdir={alone}"]) == 0
        assert curves(alone) == curves(folder / name)
        one, other = (json.loads((place / "status.json").read_text()) for place in (alone, folder / name))
        assert one["parameters_sha256"] == other["parameters_sha256"]
        # Each run has its complete output in its own folder.
        log = (folder / name / "log.txt").read_text()
        assert log.count("step 1/12") == 1
        assert log.rstrip().splitlines()[-2].startswith("done: 12 steps")
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


@pytest.mark.promise(reason="other processes train")
def test_a_run_that_fails_ends_its_process_and_no_other_run(train):
    states, started, _ = train(
        factors={
            "rate": {
                "good": {},
                "bad": {"optimizer.learning_rate": 1e30, "optimizer.clip_norm": 0.0},
                "other": {"optimizer.learning_rate": 1e-3, "optimizer.clip_norm": 0.0},
            }
        },
        seeds=(0,),
    )
    assert {name: state.name for name, state in states.items()} == {
        "rate=good-seed0": "done",
        "rate=bad-seed0": "diverged",
        "rate=other-seed0": "done",
    }
    # One process until the failure, and one more for the run after it.
    assert len(started) == 2


@pytest.mark.promise(reason="other processes train")
@pytest.mark.faults
def test_a_killed_process_interrupts_one_run_which_is_retried(train, tmp_path):
    def kill(started):
        second = tmp_path / "norm=pre-seed1" / "metrics.jsonl"
        wait_until(lambda: second.exists() and second.read_text().count("\n") > 3)
        os.kill(started[-1], signal.SIGKILL)

    states, started, folder = train(
        kill,
        factors={"norm": levels("model.norm.placement", "pre")},
        seeds=(0, 1, 2),
        base=small(training__steps=60, training__checkpoint_every=20),
    )
    assert {state.name for state in states.values()} == {"done"}
    assert len(started) == 2
    assert (folder / "norm=pre-seed1" / "log.txt").read_text().count("continuing from step") <= 1
    assert (folder / "norm=pre-seed0" / "log.txt").read_text().count("compiling") == 1
