"""Steps to the loss at which another arm ends: interpolated, paired by seed, never in favour of a
run that does not reach it.
"""

import dataclasses
import json

import numpy as np
import pytest

from tests.lab.fake_run import cost, experiment
from zoo.errors import ConfigError
from zoo.lab.experiment import Side, arm_name
from zoo.lab.metrics import higher_is_better, is_known_metric, is_per_token, unit_suffix
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan
from zoo.lab.report.archive.sweep_tables import archive_results
from zoo.lab.results.run_records import Series
from zoo.lab.results.steps_to_loss import steps_to
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.verdict import judge

SLOW, FAST = "norm=post,warm-up=0", "norm=pre,warm-up=0"
METRIC = f"steps_to/{SLOW}"


def series(*pairs):
    step, value = np.array(pairs, float).T
    return Series(step, step, step, value)


@pytest.mark.parametrize(
    ("target", "step"),
    [
        (3.0, 20),  # reached exactly
        (3.5, 15),  # half-way between two evaluations
        (2.5, 40),  # the first time, although the loss rises again
        (7.0, 0),  # below the target from the start
        (1.0, 60),  # never
    ],
)
def test_the_step_at_which_a_loss_is_first_reached(target, step):
    assert steps_to(series((0, 6.0), (10, 4.0), (20, 3.0), (40, 2.5), (50, 2.9), (60, 2.4)), target) == step
    assert steps_to(series((0, np.nan), (10, 2.0)), 2.5) == 10


def test_the_metric_is_a_number_of_steps_and_lower_is_better():
    assert is_known_metric(METRIC)
    assert not is_known_metric("steps_to/")
    assert (higher_is_better(METRIC), is_per_token(METRIC), unit_suffix(METRIC)) == (False, True, " steps")


def test_runs_are_judged_and_archived_by_steps_to_loss(writer, tmp_path):
    contrast = {key: {"arm": arm, "metric": METRIC} for key, arm in (("a", FAST), ("b", SLOW))}
    contrast |= {"name": "faster", "rule": "superiority", "margin": 0.0, "expected": ""}
    folder = writer.sweep(name="norms", contrasts=[contrast])
    sweep = load_sweep(folder)
    for run in sweep.runs_of(FAST):
        target = sweep.run(SLOW, run.seed).final("eval/loss")
        losses = run.series("eval/loss")
        assert 0 < run.final(METRIC) < 200
        assert np.interp(run.final(METRIC), losses.step, losses.value) == pytest.approx(target)
    assert [run.final(METRIC) for run in sweep.runs_of(SLOW)] == [200] * 3
    assert judge(sweep).overall == "supported"
    assert "steps lower than" in judge(sweep).paragraph
    saved = archive_results(sweep, tmp_path / "results")
    arms = {arm["name"]: arm["measured"] for arm in json.loads((saved / "result.json").read_text())["arms"]}
    assert arms["norm=post+warm-up=0"][METRIC]["mean"] == 200
    # Without the reference's run of a seed there is nothing to reach.
    status = folder / "post-0-1" / "status.json"
    status.write_text(json.dumps(json.loads(status.read_text()) | {"state": "failed"}))
    assert [run.final(METRIC) is None for run in load_sweep(folder).runs_of(FAST)] == [False, True, False]


def test_losses_at_other_lengths_are_archived(writer, tmp_path):
    saved = archive_results(load_sweep(writer.sweep(name="norms", lengths=True)), tmp_path / "results")
    arms = json.loads((saved / "result.json").read_text())["arms"]
    lengths = [f"eval/loss@{length}" for length in (64, 256, 512, 1024)]
    assert [list(arm["measured"]) for arm in arms] == [lengths[:2], lengths[:2], lengths, lengths]


@pytest.mark.parametrize(
    ("metric", "changes", "problem"),
    [
        ("steps_to/norm=none", {}, "no arm has this name; the arms are norm=pre,warm-up=0"),
        (METRIC, {"training.eval_every": 0}, "without evaluations of eval/loss; set training.eval_every"),
    ],
)
def test_targets_that_cannot_be_reached_are_refused_by_the_plan(monkeypatch, metric, changes, problem):
    monkeypatch.setattr(arm_resolution, "count_cost", cost)
    declared = experiment()
    assert arm_name(declared.contrasts[0].b.arm) == SLOW
    contrast = dataclasses.replace(
        declared.contrasts[0], a=Side(declared.contrasts[0].a.arm, metric), b=Side(declared.contrasts[0].b.arm, metric)
    )
    factors = {
        name: {key: {**level, **changes} for key, level in levels.items()} for name, levels in declared.factors.items()
    }
    if changes:
        factors["warm-up"] = declared.factors["warm-up"]
    with pytest.raises(ConfigError, match=problem):
        make_plan(dataclasses.replace(declared, contrasts=(contrast,), factors=factors))
