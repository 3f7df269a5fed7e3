"""Token factors and shares of a gap: the true value of curves that are known, and its coverage."""

import math

import numpy as np
import pytest

from zoo.lab.results import effect_units
from zoo.lab.results.effect_units import (
    BUDGETS,
    DECAYING,
    EXTRAPOLATED,
    HORIZON_FREE,
    NOT_REACHED,
    ON_CURVE,
    LearningCurve,
    PowerLaw,
    fit_power_law,
    gap_share,
    token_factor,
)
from zoo.lab.statistics.paired import paired_difference

SHARES = np.linspace(0.1, 1, 10)
NONE = math.nan
TRUE = PowerLaw(1.2, 0.6, 0.4)


def curve(law, shares=SHARES, seeds=1, basis=HORIZON_FREE, budget=1000.0):
    losses = np.array([law.loss(share) for share in shares])
    return LearningCurve(np.asarray(shares) * budget, np.tile(losses, (seeds, 1)), budget, basis)


@pytest.mark.parametrize("law", [PowerLaw(1.2, 0.6, 0.4), PowerLaw(0.0, 2.0, 0.12), PowerLaw(1.7, 0.1, 1.5)], ids=str)
@pytest.mark.parametrize("times", [0.3, 0.8, 1.0, 1.25, 2.0, 3.5])
def test_the_factor_of_a_power_law_is_recovered(law, times):
    found = token_factor(curve(law), (law.loss(times) - law.loss(1), NONE, NONE))
    assert found.value == pytest.approx(times, rel=0.01)
    assert found.reached == (EXTRAPOLATED if times > 1 else ON_CURVE)
    assert math.isnan(found.low)
    fitted = fit_power_law(SHARES, [law.loss(share) for share in SHARES])
    assert (fitted.asymptote, fitted.reducible) == pytest.approx((law.asymptote, law.reducible), abs=0.02)


def test_both_bounds_are_transformed_and_change_places():
    law = TRUE
    found = token_factor(curve(law), (-0.05, -0.08, -0.02))
    assert [found.low, found.value, found.high] == pytest.approx(
        [law.ratio(d) for d in (-0.02, -0.05, -0.08)], rel=0.01
    )
    assert found.text == f"{law.ratio(-0.05):.2f} ({law.ratio(-0.02):.2f} to {law.ratio(-0.08):.2f}), extrapolated"


def test_an_arm_with_other_tokens_is_compared_with_its_own():
    law = TRUE
    longer = (law.loss(2) - law.loss(1), NONE, NONE)
    assert token_factor(curve(law), longer, arm_tokens=2000).value == pytest.approx(1, rel=0.01)
    assert token_factor(curve(law), longer, arm_tokens=500).value == pytest.approx(4, rel=0.02)


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        ((-0.7, -0.8, -0.6), "> 4, not reached on this curve"),
        ((-0.3, -0.7, -0.02), "> 4 (1.09 to > 4), not reached on this curve"),
        ((-0.05, -0.7, 0.2), "1.24 (0.49 to > 4), extrapolated"),
        ((1.5, 1.4, 1.6), "< 0.1"),
    ],
)
def test_losses_beyond_the_curve_get_a_bound_and_no_number(difference, text):
    assert token_factor(curve(TRUE), difference).text == text
    assert (token_factor(curve(TRUE), (-0.7, -0.8, -0.6)).reached) == NOT_REACHED


@pytest.mark.parametrize("losses", [[2.0, 2.1, 2.2, 2.3], [2.0, math.nan, 1.9, 1.8], [2.0]])
def test_a_curve_that_does_not_fall_has_no_factor(losses):
    shares = np.linspace(0.25, 1, len(losses))
    found = LearningCurve(shares * 10, np.array([losses]), 10, DECAYING)
    assert token_factor(found, (-0.05, NONE, NONE)) is None


def test_final_losses_at_two_budgets_are_enough():
    law = PowerLaw(0.0, 2.0, 0.3)
    found = token_factor(curve(law, shares=(1, 2), basis=BUDGETS), (law.loss(1.5) - law.loss(1), NONE, NONE))
    assert found.value == pytest.approx(1.5, rel=1e-3)
    assert (found.reached, found.most) == (ON_CURVE, 8)


def test_a_decaying_rate_widens_the_interval_and_moves_no_value():
    law, difference = PowerLaw(0.0, 1.9, 0.2), (-0.05, -0.05, -0.05)
    free, decaying = (token_factor(curve(law, basis=basis), difference) for basis in (HORIZON_FREE, DECAYING))
    assert free.value == pytest.approx(decaying.value, rel=1e-3)
    assert free.low == free.value == pytest.approx(free.high)
    error, value = effect_units.SCHEDULE_ERROR, decaying.value
    assert (decaying.low, decaying.high) == pytest.approx((value ** (1 - error), value ** (1 + error)))


# Final losses of runs of 125 to 1,000 steps, and the losses within the runs: the decoder of size
# tiny at the rate 0.005, cosine after 50 steps, seed 0, 25 batches of evaluation.
FINAL = {125: 2.4513, 250: 2.152, 500: 1.8713, 1000: 1.6425}
WITHIN = {
    250: {25: 3.2448, 50: 2.7954, 100: 2.4526, 125: 2.3577, 150: 2.2813, 200: 2.1789, 225: 2.158, 250: 2.152},
    500: {50: 2.7954, 125: 2.3575, 200: 2.17, 250: 2.0706, 300: 2.0042, 375: 1.9235, 450: 1.8775, 500: 1.8713},
    1000: {125: 2.3577, 250: 2.0762, 375: 1.9379, 500: 1.829, 625: 1.7407, 750: 1.6883, 875: 1.6489, 1000: 1.6425},
}


@pytest.mark.parametrize("steps", WITHIN)
def test_a_run_with_a_decaying_rate_tells_the_losses_of_other_budgets(steps):
    at, losses = np.array(list(WITHIN[steps].items())).T
    baseline = LearningCurve(at, losses[None], steps, DECAYING)
    for other in FINAL.keys() - {steps}:
        times, difference = other / steps, FINAL[other] - FINAL[steps]
        found = token_factor(baseline, (difference, difference, difference))
        assert found.low <= times <= found.high or times > found.most
        assert math.log(found.value) / math.log(times) == pytest.approx(1, abs=0.15)


def simulate(rng, seeds, times, law=TRUE, sd=0.015):
    """One sweep whose arm is worth `times` the tokens; the curves of the seeds have other slopes."""
    slopes = law.reducible * (1 + 0.1 * rng.normal(size=(seeds, 1)))
    losses = law.asymptote + slopes * SHARES**-law.exponent + 0.003 * rng.normal(size=(seeds, len(SHARES)))
    losses += sd * rng.normal(size=(seeds, 1))
    arm = losses[:, -1] + law.loss(times) - law.loss(1) + sd * rng.normal(size=seeds)
    difference = paired_difference(dict(enumerate(arm)), dict(enumerate(losses[:, -1])))
    return LearningCurve(SHARES * 1000, losses, 1000.0, HORIZON_FREE), difference


@pytest.mark.parametrize(("seeds", "times"), [(3, 1.0), (4, 1.4), (8, 0.7)])
def test_the_interval_contains_the_true_factor(seeds, times):
    rng, sweeps, inside = np.random.default_rng(0), 200, 0
    for _ in range(sweeps):
        baseline, found = simulate(rng, seeds, times)
        factor = token_factor(baseline, (found.mean, found.low, found.high))
        inside += factor.low <= times <= factor.high
    # Of 200 sweeps 95 % are expected, with a standard error of 1.5 %.
    assert inside / sweeps >= 0.92


def test_the_error_of_the_curve_is_part_of_the_interval():
    """Without it the factor of a difference that is known exactly would be missed in most sweeps."""
    rng, sweeps, inside, plain = np.random.default_rng(1), 150, 0, 0
    law = TRUE
    exact = law.loss(2.5) - law.loss(1)
    for _ in range(sweeps):
        baseline, _ = simulate(rng, 6, 2.5)
        factor = token_factor(baseline, (exact, exact, exact))
        inside += factor.low <= 2.5 <= factor.high
        plain += factor.value == pytest.approx(2.5, rel=0.001)
    assert inside / sweeps >= 0.9 > plain / sweeps


def test_the_gap_to_a_floor():
    above = gap_share((-0.06, -0.10, -0.02), [1.88, 1.88], 1.632)
    assert (above.value, above.low, above.high) == pytest.approx((24.19, 8.06, 40.32), abs=0.01)
    assert above.above_floor
    # Below the floor the same gain is a share of the lead.
    below = gap_share((-0.06, -0.10, -0.02), [1.38, 1.38], 1.632)
    assert (below.value, below.above_floor) == (pytest.approx(23.81, abs=0.01), False)
    score = gap_share((0.05, 0.01, 0.09), [0.6, 0.6], 0.5, higher_is_better=True)
    assert (score.value, score.low, score.high) == pytest.approx((50, 10, 90))
    assert not score.above_floor
    assert gap_share((-0.06, NONE, NONE), [1.88], 1.632).value == pytest.approx(24.19, abs=0.01)


def test_the_error_of_the_gap_widens_its_share_and_a_gap_of_nothing_has_none():
    exact, noisy = ([1.88] * 4, [1.86, 1.88, 1.88, 1.90])
    wide, narrow = (gap_share((-0.06, -0.10, -0.02), baseline, 1.632) for baseline in (noisy, exact))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert gap_share((-0.06, -0.10, -0.02), noisy, 1.87) is None
    assert gap_share((-0.06, -0.10, -0.02), [], 1.87) is None
