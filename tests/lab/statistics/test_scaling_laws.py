"""Laws of loss, slopes of effects and times the compute: against curves that are known, and against
other computations of the same numbers.
"""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from zoo.lab.statistics import size_token_law
from zoo.lab.statistics.compute_factor import FROM_LAW, FROM_TWO_SIZES, LOCAL_SLOPE_ERROR, compute_factor
from zoo.lab.statistics.compute_law import fit_compute_law
from zoo.lab.statistics.effect_slope import GROWS, SHRINKS, TURNS, UNCLEAR, effect_slope
from zoo.lab.statistics.power_law import PowerLaw
from zoo.lab.statistics.size_token_law import SizeTokenLosses, fit_size_token_law
from zoo.lab.statistics.sized_losses import SizedLosses

LAW = PowerLaw(0.8, 0.9, 0.15)
# Hoffmann et al. 2022, equation 10, with the rounded exponents of its text.
HOFFMANN = {"E": 1.69, "A": 406.4, "B": 410.7, "alpha": 0.34, "beta": 0.28}
N = np.repeat([1e8, 4e8, 1.6e9], 3)
D = N * np.tile([5, 20, 80], 3)


def sized(compute, table):
    return SizedLosses(np.asarray(compute, float), tuple(dict(enumerate(map(float, row))) for row in table))


def noisy(compute, seeds=5, seed=0, sd=0.02, law=LAW):
    noise = sd * np.random.default_rng(seed).standard_normal((len(compute), seeds))
    return sized(compute, np.array([law.loss(each) for each in compute])[:, None] + noise)


def hoffmann(n, d):
    return HOFFMANN["E"] + HOFFMANN["A"] * n ** -HOFFMANN["alpha"] + HOFFMANN["B"] * d ** -HOFFMANN["beta"]


@pytest.mark.parametrize("law", [LAW, PowerLaw(0.0, 2.0, 0.1), PowerLaw(1.6, 95.18, 0.0941)], ids=str)
def test_a_law_without_noise_is_recovered(law):
    compute = 16.0 ** np.arange(4)
    found = fit_compute_law(sized(compute, [[law.loss(each)] * 2 for each in compute]), 16.0**5)
    assert found.law.loss(1) == pytest.approx(law.loss(16.0**5), abs=1e-4)
    assert found.exponent().value == pytest.approx(law.exponent, rel=1e-3)
    assert found.asymptote().value == pytest.approx(law.asymptote, abs=0.02)
    assert math.isnan(fit_compute_law(noisy(compute[:3]), 1.0).misfit_p())


def test_bounds_are_where_the_profile_of_another_optimiser_reaches_the_threshold():
    compute, target = 16.0 ** np.arange(4), 16.0**4
    losses = noisy(compute)
    found = fit_compute_law(losses, target)
    x, means = np.log(compute / target), losses.means

    def squares(loss, start):
        # (E, a) with A = L(target) - E.
        def residuals(p):
            return p[0] + (loss - p[0]) * np.exp(-p[1] * x) - means

        return 2 * optimize.least_squares(residuals, start, bounds=([0, 0.02], [loss, 3])).cost

    start = [found.law.asymptote, found.law.exponent]
    interval = found.loss()
    lowest = squares(interval.value, start)
    # The influence of each mean by differences of refitted laws.
    step, weights = 1e-3, []
    for place in range(4):
        moved = [
            SizedLosses(
                compute,
                tuple({s: v + sign * step * (k == place) for s, v in f.items()} for k, f in enumerate(losses.losses)),
            )
            for sign in (1, -1)
        ]
        up, down = (fit_compute_law(each, target).law.loss(1) for each in moved)
        weights.append((up - down) / (2 * step))
    assert found.influence(np.array([1.0, 1.0, 0.0])) == pytest.approx(weights, abs=0.05)
    parts = [w**2 * np.var(list(f.values()), ddof=1) / 5 for w, f in zip(weights, losses.losses, strict=True)]
    df = sum(parts) ** 2 / sum(part**2 / 4 for part in parts)
    threshold = stats.t.ppf(0.975, df) ** 2 * sum(parts) / np.square(weights).sum()
    for bound in (interval.low, interval.high):
        assert squares(bound, start) - lowest == pytest.approx(threshold, rel=0.05)


def test_a_law_needs_three_sizes_or_its_asymptote():
    two = noisy([1, 16])
    with pytest.raises(ValueError, match="a law of 3 parameters needs 3 sizes, not 2"):
        fit_compute_law(two, 16)
    assert fit_compute_law(two, 16, asymptote=0.8).exponent().value == pytest.approx(0.15, abs=0.03)
    assert fit_compute_law(sized([1, 4, 16], [[1.0], [1.1], [1.2]]), 16) is None


def test_losses_off_the_law_are_told_from_noise():
    compute = 16.0 ** np.arange(5)
    assert fit_compute_law(noisy(compute), 1.0).misfit_p() > 0.05
    bent = sized(compute, [[1.6, 1.61], [1.5, 1.51], [1.3, 1.31], [1.2, 1.21], [1.19, 1.2]])
    assert fit_compute_law(bent, 1.0).misfit_p() < 0.01


def test_losses_on_the_law_are_not_told_from_it_more_often_with_unequal_seeds():
    """A mean over ten seeds is known better than one over two, and counts for more."""
    compute, rng = 16.0 ** np.arange(4), np.random.default_rng(0)
    law, seeds, rejected = LAW, (10, 10, 3, 2), 0
    for _ in range(400):
        losses = [law.loss(each) + 0.01 * rng.standard_normal(n) for each, n in zip(compute, seeds, strict=True)]
        rejected += fit_compute_law(sized(compute, losses), 16.0**4).misfit_p() < 0.05
    assert rejected / 400 < 0.075


def test_the_slope_of_two_sizes_is_welchs_interval():
    rng = np.random.default_rng(1)
    small, large = rng.normal(-0.05, 0.02, 5), rng.normal(-0.02, 0.008, 4)
    found = effect_slope(SizedLosses(np.array([1e15, 1e17]), tuple(dict(enumerate(each)) for each in (small, large))))
    expected = stats.ttest_ind(large, small, equal_var=False).confidence_interval(0.95)
    assert (2 * found.slope.low, 2 * found.slope.high) == pytest.approx((expected.low, expected.high))
    assert math.isnan(found.bend_p)


def test_a_line_is_fitted_and_its_bend_is_tested():
    compute, d = np.array([1e14, 1e15, 1e17]), np.array([-0.05, -0.03, -0.035])
    found = effect_slope(sized(compute, [[each - 0.001, each + 0.001] for each in d]))
    assert found.slope.value == pytest.approx(np.polyfit(np.log10(compute), d, 1)[0])
    assert found.bend_p < 0.05
    straight = effect_slope(sized(compute, [[each - 0.001, each + 0.001] for each in (-0.05, -0.04, -0.02)]))
    assert straight.bend_p == pytest.approx(1)
    with pytest.raises(ValueError, match="needs two sizes"):
        effect_slope(sized(compute[:1], [[0.1, 0.2]]))


@pytest.mark.parametrize(
    ("ends", "noise", "trend"),
    [
        ((-0.05, -0.02), 0.001, SHRINKS),
        ((0.05, 0.02), 0.001, SHRINKS),
        ((-0.02, -0.05), 0.001, GROWS),
        ((0.02, 0.05), 0.001, GROWS),
        ((-0.02, 0.03), 0.001, TURNS),
        ((-0.05, -0.02), 0.1, UNCLEAR),
    ],
)
def test_the_trend_is_that_of_the_size_of_the_effect(ends, noise, trend):
    assert effect_slope(sized([1, 10], [[end - noise, end, end + noise] for end in ends])).trend == trend


@pytest.mark.parametrize("difference", [-0.05, 0.0, 0.03])
@pytest.mark.parametrize("target", [256.0, 64.0, 4096.0])
def test_times_the_compute_of_a_known_law(difference, target):
    compute = 16.0 ** np.arange(3)
    table = np.array([[LAW.loss(each)] * 2 for each in compute])
    found = compute_factor(sized(compute, table), sized(compute, table + difference), target, math.inf)
    own = PowerLaw(LAW.asymptote, LAW.loss(target) - LAW.asymptote, LAW.exponent)
    assert found.factor.value == pytest.approx(own.ratio(difference), rel=0.01)
    assert found.basis == FROM_LAW
    # An arm with twice the operations is worth half of it.
    twice = compute_factor(sized(compute, table), sized(2 * compute, table + difference), target, math.inf)
    assert twice.factor.value == pytest.approx(found.factor.value / 2)


@pytest.mark.parametrize("exponent", [0.05, 0.1, 0.15, 0.2])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.7])
def test_two_sizes_understate_by_no_more_than_is_added(exponent, share):
    # The share of the loss at the smaller size that is irreducible.
    law, compute = PowerLaw(share * 2, (1 - share) * 2, exponent), [1.0, 16.0]
    table = np.array([[law.loss(each)] * 2 for each in compute])
    found = compute_factor(sized(compute, table), sized(compute, table - 0.02), 16.0, math.inf)
    own = PowerLaw(law.asymptote, law.loss(16.0) - law.asymptote, exponent)
    ratio = math.log(found.factor.value) / math.log(own.ratio(-0.02))
    assert found.basis == FROM_TWO_SIZES
    assert 1 - LOCAL_SLOPE_ERROR < ratio < 1.01
    assert math.log(found.factor.high / found.factor.value) == pytest.approx(
        LOCAL_SLOPE_ERROR * math.log(found.factor.value)
    )


def test_factors_beyond_what_the_law_may_be_read_are_bounds():
    compute = 16.0 ** np.arange(3)
    baseline = noisy(compute, sd=0.005)
    arm = SizedLosses(compute, tuple({s: v - 0.5 for s, v in found.items()} for found in baseline.losses))
    assert compute_factor(baseline, arm, 256.0, 16.0).text == "> 16"
    assert compute_factor(baseline, arm, 256.0 * 16, 16.0).text == "> 4"
    assert compute_factor(arm, baseline, 256.0, 0.1).text == "< 0.039"
    rising = sized(compute, [[1.0], [1.1], [1.2]])
    assert compute_factor(rising, rising, 256.0, 16.0) is None


def test_the_law_of_parameters_and_tokens_is_recovered():
    found = fit_size_token_law(SizeTokenLosses(N, D, tuple({0: float(each)} for each in hoffmann(N, D))))
    assert found.values == pytest.approx(HOFFMANN, rel=1e-6)
    assert found.delta == 1e-3
    # Chinchilla itself, far beyond these sizes.
    assert found.loss(70e9, 1.4e12).value == pytest.approx(hoffmann(70e9, 1.4e12), rel=1e-6)


@pytest.mark.parametrize("delta", [1e-3, 0.01])
def test_the_huber_loss_is_at_its_minimum(delta):
    rng = np.random.default_rng(0)
    losses = hoffmann(N, D)[:, None] * np.exp(0.01 * rng.standard_normal((9, 3)))
    found = fit_size_token_law(SizeTokenLosses(N, D, tuple(dict(enumerate(map(float, row))) for row in losses)), delta)

    def objective(p):
        e, a, b, alpha, beta = p
        fitted = np.exp(e) + np.exp(a - alpha * np.log(N / 4e8)) + np.exp(b - beta * np.log(D / 8e9))
        r = np.abs(np.log(losses) - np.log(fitted)[:, None]) / delta
        return np.where(r <= 1, r**2 / 2, r - 0.5).sum()

    v = found.values
    here = np.array(
        [
            math.log(v["E"]),
            math.log(v["A"]) - v["alpha"] * math.log(4e8),
            math.log(v["B"]) - v["beta"] * math.log(8e9),
            v["alpha"],
            v["beta"],
        ]
    )
    again = optimize.minimize(objective, here, method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-7})
    assert objective(here) <= again.fun * (1 + 1e-4)


def test_the_derivatives_are_those_of_differences():
    theta, x, y = np.array([0.4, -0.7, -0.2, 0.34, 0.28]), np.linspace(-1, 2, 4), np.linspace(2, -3, 4)
    _, gradient = size_token_law._log_loss(theta, x, y)
    for place in range(5):
        step = 1e-6 * np.eye(5)[place]
        up, down = (size_token_law._log_loss(theta + sign * step, x, y)[0] for sign in (1, -1))
        assert gradient[:, place] == pytest.approx((up - down) / 2e-6, abs=1e-8)


def test_delta_follows_the_noise_of_seeds():
    rng = np.random.default_rng(0)
    losses = hoffmann(N, D)[:, None] * np.exp(0.01 * rng.standard_normal((9, 5)))
    found = fit_size_token_law(SizeTokenLosses(N, D, tuple(dict(enumerate(map(float, row))) for row in losses)))
    assert found.delta == pytest.approx(1.345 * 0.01, rel=0.25)
    loss, (of_n, of_d) = found.loss(6.4e9, 1.28e11), found.exponents()
    assert loss.low < hoffmann(6.4e9, 1.28e11) < loss.high
    assert of_n.low < 0.34 < of_n.high
    assert of_d.low < 0.28 < of_d.high


@pytest.mark.parametrize(
    ("n", "d", "words"),
    [
        (N[:5], D[:5], "needs 6 pairs of parameters and tokens, not 5"),
        (N[:6], D[:6], "needs 3 numbers of parameters"),
        (N, np.repeat([1e9, 1e10], [4, 5]), "needs 3 numbers of tokens"),
        (np.geomspace(1e6, 1e9, 6), 20 * np.geomspace(1e6, 1e9, 6), "vary by less than a factor of 2"),
    ],
)
def test_sizes_that_do_not_tell_the_terms_apart_are_refused(n, d, words):
    with pytest.raises(ValueError, match=words):
        fit_size_token_law(SizeTokenLosses(n, d, tuple({0: 2.0} for _ in n)))
