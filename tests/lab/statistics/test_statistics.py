import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from zoo.lab.statistics.paired import holm, interaction, mean_difference, paired_difference, spread


@pytest.mark.parametrize("n", [2, 3, 7])
def test_agrees_with_scipy(n):
    rng = np.random.default_rng(n)
    a, b = rng.normal(3, 1, n), rng.normal(2.5, 1, n)
    found = paired_difference(dict(enumerate(a)), dict(enumerate(b)))
    test = stats.ttest_rel(a, b)
    bounds = test.confidence_interval(0.95)
    expected = (a.mean() - b.mean(), bounds.low, bounds.high, test.pvalue, (a - b).std(ddof=1))
    np.testing.assert_allclose((found.mean, found.low, found.high, found.p, found.sd), expected, rtol=1e-9)
    assert found.n == n


def test_pairs_by_seed_not_by_position():
    found = paired_difference({2: 5.0, 0: 1.0, 9: 100.0}, {0: 0.5, 2: 4.0, 7: -100.0})
    assert found.differences == {0: 0.5, 2: 1.0}


def test_too_few_pairs_have_no_interval():
    none, one = paired_difference({0: 1.0}, {1: 1.0}), paired_difference({0: 1.0}, {0: 3.0})
    assert (none.n, one.n, one.mean) == (0, 1, -2.0)
    assert all(math.isnan(value) for value in (none.mean, none.low, one.low, one.high, one.sd, one.p))


def test_equal_differences_have_an_interval_of_zero_width():
    same = paired_difference({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0})
    apart = paired_difference({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5})
    assert (same.low, same.high, same.p) == (0.0, 0.0, 1.0)
    # Nothing tells how much the others vary.
    assert (apart.mean, apart.errors) == (0.5, ())
    assert all(map(math.isnan, (apart.low, apart.high, apart.p)))


def test_interval_has_nominal_coverage():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        seeds = rng.normal(0, 5, 3)
        a = seeds + rng.normal(0.3, 1, 3)
        b = seeds + rng.normal(0, 1, 3)
        found = paired_difference(dict(enumerate(a)), dict(enumerate(b)))
        hits += found.low <= 0.3 <= found.high
    # Four standard errors of a proportion around 0.95; a normal interval would cover 0.81 at three
    # seeds.
    assert abs(hits / 2000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=2, max_size=8))
def test_swapping_the_sides_mirrors_the_interval(pairs):
    a, b = (dict(enumerate(side)) for side in zip(*pairs))
    forward, backward = paired_difference(a, b), paired_difference(b, a)
    if math.isnan(forward.low):  # All pairs differ by the same.
        assert all(map(math.isnan, (forward.high, backward.low, backward.high)))
        return
    assert forward.low == -backward.high
    assert forward.high == -backward.low
    assert forward.low <= forward.mean <= forward.high


def test_spread():
    found = spread([1.0, 2.0, 6.0])
    assert (found.mean, found.low, found.high, found.n) == (3.0, 1.0, 6.0, 3)
    assert found.sd == pytest.approx(np.std([1, 2, 6], ddof=1))
    assert math.isnan(spread([1.0]).sd)
    assert spread([]) is None


def test_interval_at_another_level():
    a, b = {0: 1.0, 1: 2.5, 2: 4.0}, {0: 0.0, 1: 1.0, 2: 2.0}
    found = paired_difference(a, b, 0.01)
    bounds = stats.ttest_rel(list(a.values()), list(b.values())).confidence_interval(0.99)
    np.testing.assert_allclose((found.low, found.high), (bounds.low, bounds.high), rtol=1e-9)


def test_one_sided_p_agrees_with_scipy():
    values = [0.3, -0.1, 0.7, 0.2]
    found = mean_difference(dict(enumerate(values)))
    for bound, above, side in ((0.1, True, "greater"), (0.5, False, "less")):
        assert found.tail(bound, above) == pytest.approx(stats.ttest_1samp(values, bound, alternative=side).pvalue)
    equal = mean_difference({0: 0.0, 1: 0.0})
    assert (equal.tail(-0.5, True), equal.tail(0.5, True), equal.tail(0.5, False)) == (0.0, 1.0, 0.0)
    assert math.isnan(mean_difference({0: 1.0, 1: 1.0}).tail(0.5, True))
    assert math.isnan(mean_difference({0: 1.0}).tail(0, True))


def test_effect_is_hedges_g_of_the_differences():
    # d = 2 / 1, corrected by 1 - 3 / (4 * 2 - 1).
    assert mean_difference({0: 1.0, 1: 2.0, 2: 3.0}).effect == pytest.approx(2 * (1 - 3 / 7))


def test_bootstrap_needs_ten_seeds_and_is_deterministic():
    values = dict(enumerate(np.random.default_rng(1).normal(1, 1, 10)))
    assert mean_difference({seed: values[seed] for seed in range(9)}).bootstrap() is None
    found = mean_difference(values)
    low, high = found.bootstrap()
    assert (low, high) == mean_difference(values).bootstrap()
    # The percentile interval has no factor of t, and it divides by n where sd divides by n - 1.
    width = (found.high - found.low) * 1.96 / stats.t.ppf(0.975, 9) * math.sqrt(0.9)
    assert high - low == pytest.approx(width, rel=0.1)


def test_holm_by_hand():
    # Sorted: 0.01 * 4, 0.015 * 3, 0.02 * 2 below the one before it, 0.5 * 1.
    assert holm([0.02, 0.01, 0.5, 0.015]) == pytest.approx([0.045, 0.04, 0.5, 0.045])
    assert holm([0.6, math.nan, 0.7]) == pytest.approx([1.0, math.nan, 1.0], nan_ok=True)
    assert holm([]) == []


def test_interaction_is_the_difference_of_differences():
    cells = [[{0: 1.0, 1: 2.0}, {0: 2.0, 1: 2.5, 7: 0.0}], [{0: 3.0, 1: 1.0}, {0: 7.0, 1: 9.0}]]
    found = interaction(cells)
    assert found.differences == {0: (7 - 2) - (3 - 1), 1: (9 - 2.5) - (1 - 2)}
    swapped = interaction([list(row) for row in zip(*cells)])
    assert swapped.differences == found.differences
