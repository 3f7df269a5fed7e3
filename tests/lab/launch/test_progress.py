"""The newest metrics at the ends of files, and the remaining time estimated from them, on a fake
clock.
"""

import json
import math
from pathlib import Path

import pytest

from zoo import config
from zoo.lab.launch.progress import RunProgress, SweepProgress
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan
from zoo.training.records.run_folder import MetricsTail, RunFolder

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
STEPS = fake.STEPS


@pytest.fixture
def runs(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    # The second arm costs twice as much per step as the first.
    factors = {"x": {"a": {"model.dim": 32}, "b": {"model.dim": 64}}}
    return make_plan(fake.experiment(factors=factors, contrasts=(), seeds=(0, 1), allow=("parameters", "flops"))).runs


def write_steps(folder, run, *steps, **values):
    (folder / run.folder).mkdir(exist_ok=True)
    with open(folder / run.folder / "metrics.jsonl", "a") as file:
        for step in steps:
            print(json.dumps({"step": step, **values}), file=file)


def test_nothing_written_yet(tmp_path):
    assert RunFolder(tmp_path).tail() == MetricsTail()


def test_newest_values_and_a_torn_line(tmp_path):
    lines = [
        {"step": 10, "train/loss": 3.0, "train/tokens_per_second": 5.0},
        {"step": 20, "train/loss": 2.5},
        {"step": 20, "eval/loss": 2.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"step": 30, "train/lo')
    assert RunFolder(tmp_path).tail() == MetricsTail(20, 2.5, 5.0, 2.0)


def test_a_value_that_is_not_finite(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 3, "train/loss": null, "nonfinite": ["train/loss"]}\n')
    assert math.isnan(RunFolder(tmp_path).tail().loss)


def test_only_the_end_of_a_large_file_is_read(tmp_path):
    lines = [json.dumps({"step": step, "train/loss": step / 10}) for step in range(5000)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert RunFolder(tmp_path).tail() == MetricsTail(4999, 499.9, None, None)


@pytest.mark.parametrize("line", ["[1]", "3", '{"step": "x"}', '{"no": 1}', '{"step": null}', "\x00\x00"])
def test_damaged_lines_are_left_out(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 5, "train/loss": 1.0}}\n{line}\n')
    assert RunFolder(tmp_path).tail().step == 5


def test_phases_of_a_run(tmp_path, runs):
    progress = RunProgress(runs[0], tmp_path / runs[0].folder, "eval/loss", now=0)
    phases = [progress.phase]
    for now, step in ((5, 10), (6, 20), (8, STEPS)):
        write_steps(tmp_path, runs[0], step)
        progress.refresh(now)
        phases.append(progress.phase)
    assert phases == ["starting", "training", "training", "finishing"]


def test_a_resumed_run_is_starting_until_its_first_new_step(tmp_path, runs):
    write_steps(tmp_path, runs[0], 10, 20, 30)
    progress = RunProgress(runs[0], tmp_path / runs[0].folder, "eval/loss", now=0)
    progress.refresh(1)
    assert progress.phase == "starting"
    (tmp_path / runs[0].folder / "metrics.jsonl").unlink()
    write_steps(tmp_path, runs[0], 20)
    progress.refresh(2)
    assert progress.phase == "starting"
    write_steps(tmp_path, runs[0], 25)
    progress.refresh(3)
    assert progress.phase == "training"
    assert progress.first_step == 25


def test_remaining_time_of_a_run_from_its_own_pace(tmp_path, runs):
    progress = RunProgress(runs[0], tmp_path / runs[0].folder, "eval/loss", now=0)
    assert progress.remaining(0, None, 0) is None
    write_steps(tmp_path, runs[0], 10)
    progress.refresh(5)
    write_steps(tmp_path, runs[0], 20)
    progress.refresh(7)
    # Ten steps took two seconds, twenty are left, and one second of them has passed.
    assert progress.remaining(8, None, 0) == pytest.approx(3)


def test_remaining_time_of_a_sweep(tmp_path, runs):
    """Three seconds to start and 0.1 s per step of arm a; arm b takes twice as long per step."""
    sweep = SweepProgress(tmp_path, runs, runs, workers=1, metric="eval/loss")
    assert sweep.remaining(0) is None
    sweep.start(runs[0], 0)
    assert sweep.remaining(1) is None
    write_steps(tmp_path, runs[0], 10)
    sweep.refresh(3)
    write_steps(tmp_path, runs[0], 20)
    sweep.refresh(4)
    # Left: 2 s of this run, one more of arm a (3 + 4 s), two of arm b (3 + 8 s each).
    assert sweep.remaining(4) == pytest.approx(2 + 7 + 11 + 11)


def test_no_time_remains_to_be_told_after_a_stop(tmp_path, runs):
    sweep = SweepProgress(tmp_path, runs, runs[:1], workers=1, metric="eval/loss")
    sweep.start(runs[0], 0)
    write_steps(tmp_path, runs[0], 10)
    sweep.refresh(3)
    write_steps(tmp_path, runs[0], 20)
    sweep.refresh(4)
    assert sweep.remaining(4) == pytest.approx(2)
    sweep.end(runs[0], 5, final=False)
    assert sweep.remaining(5) is None
    # As after a preemption.
    sweep.start(runs[0], 6)
    assert sweep.remaining(6) is not None


def test_remaining_time_with_two_workers(tmp_path, runs):
    sweep = SweepProgress(tmp_path, runs, runs, workers=2, metric="eval/loss")
    for run in runs[:2]:
        sweep.start(run, 0)
        write_steps(tmp_path, run, 10)
    sweep.refresh(3)
    write_steps(tmp_path, runs[0], 20)
    write_steps(tmp_path, runs[1], 15)
    sweep.refresh(4)
    # a has 2 s left and b 5 s; the next a starts after 2 s (ends at 9), the next b after 5 s (ends
    # at 16).
    assert sweep.remaining(4) == pytest.approx(16)


def test_time_after_the_last_step_counts_for_later_runs(tmp_path, runs):
    sweep = SweepProgress(tmp_path, runs, [runs[0], runs[2]], workers=1, metric="eval/loss")
    assert (sweep.ended, sweep.total) == (2, 4)
    sweep.start(runs[0], 0)
    write_steps(tmp_path, runs[0], 20)
    sweep.refresh(2)
    write_steps(tmp_path, runs[0], STEPS)
    sweep.refresh(4)
    sweep.end(runs[0], 10)
    assert sweep.ended == 3
    # 20 steps took 8 s with the last evaluation: the other run of the arm takes 2 + 16 s.
    assert sweep.remaining(10) == pytest.approx(18)


def test_a_run_that_ends_between_two_refreshes(tmp_path, runs):
    sweep = SweepProgress(tmp_path, runs, [runs[0], runs[2]], workers=1, metric="eval/loss")
    sweep.start(runs[0], 0)
    write_steps(tmp_path, runs[0], 10, STEPS)
    sweep.end(runs[0], 6)
    assert sweep.remaining(6) == pytest.approx(6)


def test_a_run_that_fails_at_once_gives_no_estimate(tmp_path, runs):
    sweep = SweepProgress(tmp_path, runs, [runs[0], runs[2]], workers=1, metric="eval/loss")
    sweep.start(runs[0], 0)
    sweep.end(runs[0], 6)
    assert sweep.remaining(6) is None


def test_a_requeued_run_is_pending_again(tmp_path, runs):
    sweep = SweepProgress(tmp_path, runs, runs, workers=1, metric="eval/loss")
    sweep.start(runs[0], 0)
    assert len(sweep.pending) == 3
    sweep.requeue(runs[0])
    assert sweep.pending == runs
    assert sweep.ended == 0
