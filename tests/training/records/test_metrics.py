"""The metrics file after an interruption, and numbers that JSON cannot hold."""

import json

from zoo.training.records.metrics_file import MetricsFile, TrainingClock


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
