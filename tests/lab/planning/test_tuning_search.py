"""The values that tuning tries: a bracket, four values around its best one, and more where needed."""

import math

import numpy as np
import pytest

from zoo.lab.experiment import Tune
from zoo.lab.planning.tuning_search import MOST_VALUES, lattice_value, search_state

RATE = "optimizer.learning_rate"
TUNE = Tune(RATE, (0.01, 0.001, 0.003))


def search(tune, loss):
    """Follows the search to its end; returns (its state, [{value: seeds} of each round])."""
    losses, rounds = {}, []
    while trials := (state := search_state(tune, losses)).trials:
        rounds.append(trials)
        for value, seeds in trials.items():
            for seed in seeds:
                assert seed not in losses.setdefault(value, {}), "a run is planned twice"
                losses[value][seed] = loss(value, seed)
    return state, rounds


def parabola(best, curvature=0.2):
    return lambda value, seed: 2 + curvature * math.log(value / best) ** 2 + seed / 1e4 + 1e-3 * math.sin(1e4 * value)


def test_a_bracket_with_one_seed_comes_before_four_values_with_all():
    state, rounds = search(TUNE, parabola(0.004))
    assert rounds[0] == {0.001: (1000,), 0.003: (1000,), 0.01: (1000,)}
    # 0.01 is better than 0.001, so the four values lean upwards; 0.003 with seed 1000 is known.
    assert rounds[1] == {
        0.002: (1000, 1001, 1002),
        0.003: (1001, 1002),
        0.0045: (1000, 1001, 1002),
        0.00675: (1000, 1001, 1002),
    }
    assert len(rounds) == 2
    assert state.curve.minimum == pytest.approx(0.004, rel=0.1)


@pytest.mark.parametrize(("best", "side"), [(0.0004, min), (0.06, max)])
def test_a_minimum_outside_the_bracket_is_followed(best, side):
    state, rounds = search(TUNE, parabola(best))
    tried = {value for trials in rounds for value in trials}
    assert state.curve.problem == ""
    assert state.curve.minimum == pytest.approx(best, rel=0.15)
    assert (side(tried) < best) == (side is min)


def test_an_arm_without_a_minimum_is_not_tuned():
    state, rounds = search(TUNE, parabola(0.004, curvature=-0.2))
    assert state.curve.problem
    assert len({value for trials in rounds[1:] for value in trials}) >= MOST_VALUES


def test_rates_at_which_runs_diverge_are_left_out():
    state, _ = search(TUNE, lambda value, seed: math.inf if value > 0.005 else parabola(0.003)(value, seed))
    assert state.curve.problem == ""
    assert max(state.curve.values) <= 0.005
    assert state.curve.minimum == pytest.approx(0.003, rel=0.1)


def test_values_have_three_digits_and_integers_stay_integers():
    assert [lattice_value(TUNE, 0.005, step) for step in (-2, -1, 0, 1, 2)] == [0.00222, 0.00333, 0.005, 0.0075, 0.0112]
    beta = Tune("optimizer.beta2", (0.9, 0.98), distance_to_one=True)
    assert [lattice_value(beta, 0.98, step) for step in (-1, 0, 1)] == [0.97, 0.98, pytest.approx(0.9867)]
    assert lattice_value(Tune("schedule.warmup_steps", (10, 100)), 10, 1) == 15


def breaking_down(edge):
    """A flat parabola with its minimum at 0.02, from which 0.1 is lost above `edge`."""
    random = np.random.default_rng(5)
    return lambda value, seed: (
        1 + 0.012 * math.log(value / 0.02) ** 2 + 0.1 * (value > edge) + 0.01 * (seed - 1000) + 0.005 * random.normal()
    )


def test_a_rate_at_which_training_breaks_down_does_not_move_the_minimum():
    tune = Tune(RATE, (0.0025, 0.00625, 0.015625, 0.0390625))
    state, rounds = search(tune, breaking_down(0.045))
    tried = sorted({value for trials in rounds[1:] for value in trials})
    assert tried[-1] > 0.045, "the search did not reach the rate"
    assert max(state.curve.values) < 0.045
    assert state.curve.minimum == pytest.approx(0.02, rel=0.2)


def test_the_search_leaves_a_rate_at_which_training_breaks_down():
    # The four values around 0.003 reach beyond it, and three do not suffice for a curve.
    tune, of_four = Tune(RATE, (0.001, 0.003, 0.01)), (0.00133, 0.002, 0.003, 0.0045)
    random = np.random.default_rng(0)
    state, rounds = search(
        tune, lambda value, seed: 2 + 0.2 * math.log(value / 0.0025) ** 2 + (value > 0.004) + 0.01 * random.normal()
    )
    assert tuple(sorted(rounds[1])) == of_four
    assert sorted({value for trials in rounds[2:] for value in trials}) == [0.000889]
    assert max(state.curve.values) < 0.004
    assert state.curve.minimum == pytest.approx(0.0025, rel=0.1)


def test_an_arm_whose_runs_always_reject_the_curve_keeps_that_of_the_near_values():
    def loss(value, seed):
        step = round(math.log(value / 0.003) / math.log(1.5))
        return parabola(0.004, 1.0)(value, seed) + 0.1 * (step % 2) + 1e-3 * math.sin(step * seed)

    state, rounds = search(TUNE, loss)
    assert state.curve.problem == ""
    assert len({value for trials in rounds[1:] for value in trials}) == MOST_VALUES
