import math

import numpy as np
import pytest
from scipy import stats

from zoo.lab.statistics.sequential import SequentialDesign, design_until_decided, detectable_effect


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_detectable_effects_are_detected_with_80_percent_power(n):
    values = np.random.default_rng(n).normal(detectable_effect(n), 1, (20_000, n))
    t = values.mean(1) / values.std(1, ddof=1) * math.sqrt(n)
    assert np.mean(t > stats.t.ppf(0.975, n - 1)) == pytest.approx(0.8, abs=0.012)


def test_one_seed_detects_nothing():
    assert detectable_effect(1) == math.inf


def test_more_seeds_detect_smaller_differences():
    found = [detectable_effect(n) for n in range(2, 12)]
    assert found == sorted(found, reverse=True)


def error_rate(design: SequentialDesign, series: np.ndarray) -> float:
    """Returns the share of the series whose t interval excludes 0 at any look."""
    crossed = np.zeros(len(series), bool)
    for n, level in design.levels.items():
        part = series[:, :n]
        t = np.abs(part.mean(1)) / part.std(1, ddof=1) * math.sqrt(n)
        crossed |= 2 * stats.t.sf(t, n - 1) < level
    return crossed.mean()


@pytest.mark.parametrize(("first", "max_seeds", "step"), [(3, 10, 1), (2, 20, 1), (3, 12, 3), (5, 5, 1)])
def test_all_looks_together_have_an_error_rate_of_5_percent(first, max_seeds, step):
    series = np.random.default_rng(first + max_seeds).standard_normal((40_000, max_seeds))
    design = design_until_decided(first, max_seeds, step)
    assert error_rate(design, series) == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / len(series)))
    naive = SequentialDesign(dict.fromkeys(design.levels, 0.05))
    assert first == max_seeds or error_rate(naive, series) > 0.08


def test_the_last_look_is_at_max_seeds():
    design = design_until_decided(3, 10, 4)
    assert list(design.levels) == [3, 7, 10]
    assert (design.max_seeds, design.next_look(3), design.next_look(4), design.next_look(10)) == (10, 7, 7, None)
    assert all(0 < level < 0.05 for level in design.levels.values())
    assert design.alpha(7) == design.levels[7]
    # Stopping between looks must not be an advantage.
    assert design.alpha(8) == min(design.levels.values())


def test_a_single_look_has_the_usual_level():
    assert design_until_decided(4, 4).levels[4] == pytest.approx(0.05, abs=1e-3)


@pytest.mark.parametrize(("first", "max_seeds"), [(1, 5), (4, 3)])
def test_impossible_looks_are_refused(first, max_seeds):
    with pytest.raises(ValueError, match="2 <= first <= max_seeds"):
        design_until_decided(first, max_seeds)
