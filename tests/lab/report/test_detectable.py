"""The smallest difference that an archived contrast could have found."""

import math

import numpy as np
import pytest
from scipy import stats

from zoo.lab.report.archive.detectable import detectable_difference
from zoo.lab.statistics.sequential import detectable_effect

A, B = (1.31, 1.28, 1.33, 1.30, 1.29), (1.30, 1.29, 1.30, 1.31, 1.27)
SD = np.std(np.subtract(A, B), ddof=1)
RUNS = [
    {"arm": arm, "seed": str(seed), "eval/loss": f"{loss}"}
    for arm, losses in (("a", A), ("b", B))
    for seed, loss in enumerate(losses)
]


def found(half, rule="superiority: a below b", looks=None):
    row = {"a": "a", "b": "b", "metric a": "eval/loss", "metric b": "eval/loss", "rule": rule}
    low, high = ("", "") if half is None else (str(-half), str(half))
    return detectable_difference(row | {"low": low, "high": high}, RUNS, {"seeds": [*range(5)], "looks": looks or {}})


def half_of_pairs(level):
    return stats.t.ppf(1 - level / 2, 4) * SD / math.sqrt(5)


def test_with_the_interval_of_the_pairs_it_is_what_their_deviation_detects():
    smallest = detectable_effect(5) * SD
    assert found(half_of_pairs(0.05)) == pytest.approx(smallest)
    assert found(half_of_pairs(0.1), "equivalence: a within 0.02 nats of b") == pytest.approx(smallest)
    assert found(half_of_pairs(0.02), "non_inferiority: a above b", {"3": 0.02, "5": 0.01}) == pytest.approx(smallest)
    assert found(None) == pytest.approx(smallest)


@pytest.mark.parametrize("factor", [1.5, 4.0])
def test_a_wider_interval_detects_as_much_less(factor):
    """A t test whose standard error is larger by the factor finds it in 80 % of cases."""
    smallest = found(factor * half_of_pairs(0.05))
    assert smallest == pytest.approx(factor * detectable_effect(5) * SD)
    draws = np.random.default_rng(0).normal(smallest, factor * SD, (40_000, 5))
    assert np.mean(stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05) == pytest.approx(0.8, abs=0.01)


def test_it_is_none_for_pairs_that_do_not_vary():
    same = [row | {"eval/loss": "1.0"} for row in RUNS]
    row = {"a": "a", "b": "b", "metric a": "eval/loss", "metric b": "eval/loss", "rule": "", "low": "0", "high": "0"}
    assert detectable_difference(row, same, {"seeds": [*range(5)]}) is None
