"""Differences paired by seed: Student's t interval, exact for three seeds, and p values."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

ALPHA = 0.05
# With fewer values the percentile bootstrap's interval is too narrow: with three it contains the
# true mean in 75 % of all cases.
BOOTSTRAP_FROM = 10
RESAMPLES = 9999


@dataclass(frozen=True)
class PairedDifference:
    """The difference a - b over the seeds that both sides have.

    All attributes but the mean are NaN with fewer than two pairs, and the mean without any.

    Attributes:
        mean: mean of the differences.
        low, high: bounds of the two-sided t interval of the mean at the level `alpha`.
        n: number of pairs.
        sd: sample standard deviation of the differences.
        p: two-sided p of the paired t test.
        differences: by seed.
        effect: Hedges' g of paired differences, mean / sd with the small-sample correction
            1 - 3 / (4 n - 5) (Hedges 1981).
        alpha: 0.05 for a 95 % interval.
    """

    mean: float
    low: float
    high: float
    n: int
    sd: float
    p: float
    differences: dict[int, float]
    effect: float = math.nan
    alpha: float = ALPHA

    def tail(self, bound: float, above: bool) -> float:
        """Returns the one-sided p for a mean above (or below) `bound`; NaN without an interval.

        It is small if the differences lie on that side.
        """
        if self.n < 2:
            return math.nan
        distance = (self.mean - bound) * (1 if above else -1)
        if self.sd == 0:
            return 0.0 if distance > 0 else 1.0
        return float(special.stdtr(self.n - 1, -distance / (self.sd / math.sqrt(self.n))))

    def bootstrap(self) -> tuple[float, float] | None:
        """Returns the percentile bootstrap interval of the mean, the same on every call.

        None with fewer than ten pairs.
        """
        if self.n < BOOTSTRAP_FROM:
            return None
        found = stats.bootstrap(
            (list(self.differences.values()),),
            np.mean,
            confidence_level=1 - self.alpha,
            method="percentile",
            n_resamples=RESAMPLES,
            rng=np.random.default_rng(0),
        ).confidence_interval
        return float(found.low), float(found.high)


@dataclass(frozen=True)
class Spread:
    """Mean, sample standard deviation (NaN for one value), minimum and maximum over seeds."""

    mean: float
    sd: float
    low: float
    high: float
    n: int


def paired_difference(a: Mapping[int, float], b: Mapping[int, float], alpha: float = ALPHA) -> PairedDifference:
    """Compares two arms given as {seed: value}; seeds that only one of them has are left out.

    All values must be finite. If the differences do not vary at all (bit-equal runs), the interval
    has no width.
    """
    return mean_difference({seed: a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())}, alpha)


def mean_difference(differences: Mapping[int, float], alpha: float = ALPHA) -> PairedDifference:
    """Returns the mean of differences {seed: value}, with its interval at the level `alpha`."""
    differences = dict(differences)
    values = np.array(list(differences.values()), dtype=float)
    n = len(values)
    if n == 0:
        return PairedDifference(math.nan, math.nan, math.nan, 0, math.nan, math.nan, {}, alpha=alpha)
    mean = float(values.mean())
    if n == 1:
        return PairedDifference(mean, math.nan, math.nan, 1, math.nan, math.nan, differences, alpha=alpha)
    sd = float(values.std(ddof=1))
    if sd == 0:
        effect = math.copysign(math.inf, mean) if mean else 0.0
        return PairedDifference(mean, mean, mean, n, 0.0, 1.0 if mean == 0 else 0.0, differences, effect, alpha)
    error = sd / math.sqrt(n)
    half = -float(special.stdtrit(n - 1, alpha / 2)) * error
    p = float(2 * special.stdtr(n - 1, -abs(mean) / error))
    return PairedDifference(
        mean, mean - half, mean + half, n, sd, p, differences, mean / sd * (1 - 3 / (4 * n - 5)), alpha
    )


def spread(values: Iterable[float]) -> Spread | None:
    """Summarises the seeds of one arm; None without values."""
    array = np.array(list(values), dtype=float)
    if not len(array):
        return None
    sd = float(array.std(ddof=1)) if len(array) > 1 else math.nan
    return Spread(float(array.mean()), sd, float(array.min()), float(array.max()), len(array))


def holm(p: Sequence[float]) -> list[float]:
    """Returns p values corrected for multiple tests, in the same order (Holm 1979).

    The probability that any corrected p of a true null hypothesis is below alpha is at most alpha.
    With p_(1) <= ... <= p_(m) the corrected p_(k) is the maximum over j <= k of
    min(1, (m - j + 1) p_(j)). NaN, a test that was not made, does not count and stays NaN.
    """
    made = sorted((value, place) for place, value in enumerate(p) if not math.isnan(value))
    corrected, highest = [math.nan] * len(p), 0.0
    for rank, (value, place) in enumerate(made):
        highest = max(highest, min(1.0, (len(made) - rank) * value))
        corrected[place] = highest
    return corrected


def interaction(cells: Sequence[Sequence[Mapping[int, float]]], alpha: float = ALPHA) -> PairedDifference:
    """Returns the interaction of two factors, (x11 - x01) - (x10 - x00), paired by seed.

    Args:
        cells: `cells[i][j]` is {seed: value} of level i of the first factor and level j of the
            second.
        alpha: level of the interval.
    """
    (x00, x01), (x10, x11) = cells
    seeds = sorted(x00.keys() & x01.keys() & x10.keys() & x11.keys())
    return mean_difference({seed: (x11[seed] - x01[seed]) - (x10[seed] - x00[seed]) for seed in seeds}, alpha)
