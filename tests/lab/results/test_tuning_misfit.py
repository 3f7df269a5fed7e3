"""Lines about tuning curves that do not describe their runs."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from zoo.lab.report.archive.experiment_page import experiment_page
from zoo.lab.results.tuning_misfit import misfits, record_misfits
from zoo.lab.statistics.tuning_curve import fit_tuning_curve

RATE = "optimizer.learning_rate"
RATES = (0.007, 0.0105, 0.0158, 0.0236, 0.0354)


@pytest.fixture
def arms():
    """Losses of two arms: one has a parabola, the other breaks down at its largest rate."""
    random = np.random.default_rng(1)

    def losses(cliff):
        return {
            rate: {
                seed: 1.1
                + 0.03 * math.log(rate / 0.016) ** 2
                + 0.01 * (seed - 1000)
                + 0.004 * random.normal()
                + cliff * (rate == RATES[-1])
                for seed in (1000, 1001, 1002)
            }
            for rate in RATES
        }

    return {"rule=even": losses(0.0), "rule=steep": losses(0.15)}


def test_only_the_curve_that_its_runs_contradict_has_a_line(arms):
    curves = {arm: fit_tuning_curve(losses) for arm, losses in arms.items()}
    assert not any(curve.problem for curve in curves.values())
    (line,) = misfits(RATE, "eval/loss", arms, curves, " nats")
    assert line.startswith(f"the curve of rule=steep over {RATE} does not describe its runs (F test, p = ")
    assert f"its minimum is {curves['rule=steep'].minimum:.3g}" in line


def test_a_best_value_at_the_edge_has_a_line():
    random = np.random.default_rng(1)
    losses = {
        rate: {seed: 1 + 0.1 * math.log(rate / 0.0215) ** 2 + 0.001 * random.normal() for seed in (1000, 1001, 1002)}
        for rate in RATES[:4]
    }
    curve = fit_tuning_curve(losses)
    assert not curve.problem
    (line,) = misfits(RATE, "eval/loss", {"even": losses}, {"even": curve})
    assert line == (
        f"the best mean of even over {RATE} is that of 0.0236, the largest of the values that were fitted; the "
        f"minimum at {curve.minimum:.3g} follows from the parabola alone"
    )


def test_scores_are_losses_with_the_other_sign(arms):
    scores = {
        arm: {rate: {seed: 2 - loss for seed, loss in found.items()} for rate, found in losses.items()}
        for arm, losses in arms.items()
    }
    curves = {arm: fit_tuning_curve(losses) for arm, losses in arms.items()}
    (of_losses,) = misfits(RATE, "eval/loss", arms, curves)
    assert list(misfits(RATE, "eval/accuracy", scores, curves)) == [of_losses]


def test_a_curve_that_was_not_fitted_or_lacks_its_runs_has_no_line(arms):
    steep = {"rule=steep": fit_tuning_curve(arms["rule=steep"])}
    fewer = {"rule=steep": {rate: arms["rule=steep"][rate] for rate in RATES[1:]}}
    assert list(misfits(RATE, "eval/loss", fewer, steep)) == []
    assert list(misfits(RATE, "eval/loss", arms, {"rule=steep": fit_tuning_curve({0.1: {0: 1.0}})})) == []


def test_a_page_says_so_once(arms, tmp_path):
    scores = {arm: {f"{rate:g}": found for rate, found in losses.items()} for arm, losses in arms.items()}
    curves = {arm: asdict(fit_tuning_curve(losses)) for arm, losses in arms.items()}
    tuning = {"field": RATE, "values": [0.01], "seeds": [1000, 1001, 1002], "curves": curves, "scores": scores}
    result = {
        "name": "rules",
        "question": "Which?",
        "expected": [],
        "paragraph": "Supported.",
        "metric": "eval/loss",
        "unit": " nats",
        "arms": [],
        "warnings": ["a warning"],
        "pictures": [],
        "tables": [],
        "tuning": tuning,
        "tuned": "fitted",
    }
    result = json.loads(json.dumps(result))
    (line,) = record_misfits(result)
    assert "rule=steep" in line
    for warnings in (["a warning"], ["a warning", line]):
        page = experiment_page(tmp_path, result | {"warnings": warnings})
        assert page.count(f"* {line}\n") == 1
        assert "* a warning\n" in page
