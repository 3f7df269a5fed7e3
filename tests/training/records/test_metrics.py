"""The metrics file after an interruption, numbers that JSON cannot hold, and what counts as time of
training.
"""

import json
from types import SimpleNamespace

import pytest

from tests.support.small_runs import lines, small, stop_requested_at
from zoo.errors import Preempted
from zoo.training.records.metrics_file import MetricsFile, TrainingClock
from zoo.training.run_group import RunGroup
from zoo.training.trainer import run


def test_torn_lines_and_lines_after_the_restored_step_are_removed(tmp_path):
    path = tmp_path / "metrics.jsonl"
    kept = ['{"step": 1, "train/loss": 3.0}', '{"step": 2, "train/loss": 2.0}', '{"step": 2, "eval/loss": 2.5}']
    path.write_text("\n".join([*kept, '{"step": 3, "train/loss": 1.0}', '{"step": 4, "tr']))
    MetricsFile(path, 2, evaluated=True).close()
    assert path.read_text().splitlines() == kept
    MetricsFile(path, 2, evaluated=False).close()
    assert path.read_text().splitlines() == kept[:2]


def test_non_finite_numbers_are_written_as_null(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl", 0, False)
    file.write(1, 10, 0.5, {"a": float("nan"), "b": float("inf"), "c": 1.0})
    file.close()
    line = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert line == {"step": 1, "tokens": 10, "seconds": 0.5, "a": None, "b": None, "c": 1.0, "nonfinite": ["a", "b"]}


def test_clock_stops_while_paused(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    clock = TrainingClock(5.0)
    now[0] += 10
    assert clock.seconds == 5.0
    clock.start()
    now[0] += 2
    clock.stop()
    now[0] += 50
    assert clock.seconds == 7.0


def test_time_of_training_excludes_the_first_batch_compilation_and_evaluation(tmp_path, monkeypatch):
    """A second passes in a step, and 1,000 while the first batch of a process is made, in the first
    step with each length of rows, and in an evaluation.
    """
    now, begun, compiled = [0.0], set(), set()
    next_batch, dispatch, evaluate = RunGroup.next_batch, RunGroup.dispatch, RunGroup.evaluate

    def slow_batch(group, step):
        now[0] += 0 if group in begun else 1000
        begun.add(group)
        return next_batch(group, step)

    def slow_dispatch(group, state, batch):
        key = group, batch.shape
        now[0] += 1 if key in compiled else 1000
        compiled.add(key)
        return dispatch(group, state, batch)

    def slow_evaluate(*arguments):
        now[0] += 1000
        return evaluate(*arguments)

    monkeypatch.setattr(RunGroup, "next_batch", slow_batch)
    monkeypatch.setattr(RunGroup, "dispatch", slow_dispatch)
    monkeypatch.setattr(RunGroup, "evaluate", slow_evaluate)
    monkeypatch.setattr("zoo.training.records.metrics_file.time", SimpleNamespace(monotonic=lambda: now[0]))
    config = small(data__length_stages=(8, 4), training__steps=12, training__eval_every=6)
    with stop_requested_at(8, monkeypatch), pytest.raises(Preempted):
        run(config, tmp_path / "run", print)
    run(config, tmp_path / "run", print)
    seconds = {line["step"]: line["seconds"] for line in lines(tmp_path / "run")}
    assert list(seconds) == list(range(13))
    assert len(compiled) == 3
    assert seconds[1] == 0
    assert sorted(seconds.values()) == list(seconds.values())
    # A clock that was stopped starts again when a step has ended, so these count 9 steps at most.
    assert 4 <= seconds[12] <= 9
