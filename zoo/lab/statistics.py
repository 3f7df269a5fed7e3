"""Differences paired by seed, with Student's t interval: the one that is right at three seeds."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class PairedDifference:
    """Difference a - b over the seeds that both have.

    `low` and `high` bound the two-sided 95 % t interval of the mean; `sd` is the sample standard deviation of
    the differences and `p` the two-sided p of the paired t test. All four are NaN with fewer than two pairs.
    """

    mean: float
    low: float
    high: float
    n: int
    sd: float
    p: float
    differences: dict[int, float]


@dataclass(frozen=True)
class Spread:
    """Mean, sample standard deviation (NaN for one value), minimum and maximum over seeds."""

    mean: float
    sd: float
    low: float
    high: float
    n: int


def paired_difference(a: Mapping[int, float], b: Mapping[int, float]) -> PairedDifference:
    """Compares two arms given as {seed: value}; seeds that only one of them has are left out.

    All values must be finite. Differences that do not vary at all (bit-equal runs) give an interval of no width.
    """
    differences = {seed: a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())}
    values = np.array(list(differences.values()), dtype=float)
    n = len(values)
    if n == 0:
        return PairedDifference(math.nan, math.nan, math.nan, 0, math.nan, math.nan, {})
    mean = float(values.mean())
    if n == 1:
        return PairedDifference(mean, math.nan, math.nan, 1, math.nan, math.nan, differences)
    sd = float(values.std(ddof=1))
    if sd == 0:
        return PairedDifference(mean, mean, mean, n, 0.0, 1.0 if mean == 0 else 0.0, differences)
    error = sd / math.sqrt(n)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, n - 1))
    return PairedDifference(mean, mean - half, mean + half, n, sd, p, differences)


def spread(values: Iterable[float]) -> Spread | None:
    """Summarises the seeds of one arm; None without values."""
    array = np.array(list(values), dtype=float)
    if not len(array):
        return None
    sd = float(array.std(ddof=1)) if len(array) > 1 else math.nan
    return Spread(float(array.mean()), sd, float(array.min()), float(array.max()), len(array))
