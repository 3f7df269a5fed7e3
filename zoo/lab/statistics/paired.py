"""Differences paired by seed: Student's t interval, exact for three seeds, and p values.

Three things make the interval of a decision wider than that of the pairs alone, m -+ t s / sqrt(n).

**Tuning.** Arms that were trained at an estimated optimum have regrets (`tuning_curve`), whose mean
squares add to the squared standard error of the mean; the degrees of freedom follow Welch and
Satterthwaite (Satterthwaite 1946):

    se^2 = s^2 / n + q_a + q_b,    df = se^4 / ((s^2 / n)^2 / (n - 1) + q_a^2 / f_a + q_b^2 / f_b)

with the degrees of freedom f of each mean square (`tuning_curve.total_regret`).

With few pairs and small regrets these degrees of freedom grow by more than the error does. What
tuning does not settle cannot make a difference more certain, so the interval without regrets counts
where it is the wider one.

**Noise of other runs.** A few pairs whose noise is skewed look alike until a seed ends far off, and
their own s is then too small. Where other runs tell the standard deviation s_0 of such differences,
with f_0 degrees of freedom, a second interval m -+ t(f_0) s_0 / sqrt(n) is computed, and the wider of
the two counts. Its p value is the larger of both.

**Neither.** `UNKNOWN_NOISE` divides the level of a decision about which no other runs tell anything.

Differences that are the same in every seed have s = 0. Losses whose differences are 0 are those of
equal runs, and the interval has no width. Counts and shares agree by chance too: with them, and with
other differences, the interval follows from the other runs and from tuning alone. If these tell
nothing either, there is none.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special, stats

from zoo.lab.statistics.noise import Noise, Regret

ALPHA = 0.05
# With fewer values the percentile bootstrap's interval is too narrow: with three it contains the
# true mean in 75 % of all cases.
BOOTSTRAP_FROM = 10
# Differences are the same if they vary by no more than this share of them.
_EQUAL = 1e-9
RESAMPLES = 9999
# Found by simulation: with it, two arms whose noise is skewed in opposite ways are told apart in at
# most 8 % of sweeps from six seeds on (docs/comparisons.md).
UNKNOWN_NOISE = 25


@dataclass(frozen=True)
class PairedDifference:
    """The difference a - b over the seeds that both sides have.

    All attributes but the mean are NaN with fewer than two pairs, and the mean without any. Without an
    interval, bounds and p are NaN.

    Attributes:
        mean: mean of the differences.
        low, high: bounds of the two-sided interval of the mean at the level `alpha`.
        n: number of pairs.
        sd: sample standard deviation of the differences.
        p: two-sided p for a mean of 0.
        differences: by seed.
        effect: Hedges' g of paired differences, mean / sd with the small-sample correction
            1 - 3 / (4 n - 5) (Hedges 1981).
        alpha: 0.05 for a 95 % interval.
        errors: standard errors of the mean above 0 with their degrees of freedom, that of the pairs
            first; the interval is the widest that follows from any of them. Empty if it has no width.
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
    errors: tuple[tuple[float, float], ...] = ()

    def tail(self, bound: float, above: bool) -> float:
        """Returns the one-sided p for a mean above (or below) `bound`; NaN without an interval.

        It is small if the differences lie on that side.
        """
        if self.n < 2:
            return math.nan
        distance = (self.mean - bound) * (1 if above else -1)
        if not self.errors:
            return math.nan if math.isnan(self.low) else 0.0 if distance > 0 else 1.0
        return max(float(special.stdtr(df, -distance / error)) for error, df in self.errors)

    def reversed(self) -> "PairedDifference":
        """Returns b - a."""
        return replace(
            self,
            mean=-self.mean,
            low=-self.high,
            high=-self.low,
            effect=-self.effect,
            differences={seed: -value for seed, value in self.differences.items()},
        )

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


def paired_difference(
    a: Mapping[int, float],
    b: Mapping[int, float],
    alpha: float = ALPHA,
    noise: Noise | None = None,
    regrets: Sequence[Regret] = (),
    by_chance: bool = False,
) -> PairedDifference:
    """Compares two arms given as {seed: value}; seeds that only one of them has are left out.

    All values must be finite. If all differences are 0, the interval has no width, but for values that
    are equal by chance. If all are the same, and neither noise nor regrets are known, there is none.

    Args:
        a, b: the arms.
        alpha: level of the interval.
        noise: of such differences, as other runs tell it.
        regrets: of tuned arms.
        by_chance: whether values of different runs may be equal, as counts and shares are.
    """
    differences = {seed: a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())}
    return mean_difference(differences, alpha, noise, regrets, by_chance)


def mean_difference(
    differences: Mapping[int, float],
    alpha: float = ALPHA,
    noise: Noise | None = None,
    regrets: Sequence[Regret] = (),
    by_chance: bool = False,
) -> PairedDifference:
    """Returns the mean of differences {seed: value}, with its interval at the level `alpha`."""
    differences = dict(differences)
    values = np.array(list(differences.values()), dtype=float)
    n = len(values)
    if n == 0:
        return PairedDifference(math.nan, math.nan, math.nan, 0, math.nan, math.nan, {}, alpha=alpha)
    mean = float(values.mean())
    if n == 1:
        return PairedDifference(mean, math.nan, math.nan, 1, math.nan, math.nan, differences, alpha=alpha)
    # Equal differences have a standard deviation of rounding errors otherwise.
    equal = np.ptp(values) <= _EQUAL * np.abs(values).max()
    sd = 0.0 if equal else float(values.std(ddof=1))
    of_means = [(sd**2 / n, n - 1), *([(noise.sd**2 / n, noise.df)] if noise is not None else [])]
    errors = [_standard_error(*each, parts) for parts in ([regrets, ()] if regrets else [()]) for each in of_means]
    errors = [(error, df) for error, df in errors if error > 0]
    without_width = PairedDifference(mean, math.nan, math.nan, n, sd, math.nan, differences, alpha=alpha)
    if not values.any() and not by_chance:
        return replace(without_width, low=mean, high=mean, p=1.0, effect=0.0)
    if not errors:
        return without_width
    p = max(float(2 * special.stdtr(df, -abs(mean) / error)) for error, df in errors)
    effect = mean / sd * (1 - 3 / (4 * n - 5)) if sd else math.nan
    found = PairedDifference(mean, math.nan, math.nan, n, sd, p, differences, effect, alpha, tuple(errors))
    return _with_interval(found, alpha)


def _standard_error(variance: float, df: float, regrets: Sequence[Regret]) -> tuple[float, float]:
    """Returns the standard error of a mean and its degrees of freedom, with the regrets of tuning."""
    parts = [(variance, df), *((regret.mean_square, regret.df) for regret in regrets if regret.mean_square > 0)]
    total = sum(part for part, _ in parts)
    if total == 0:
        return 0.0, df
    return math.sqrt(total), total**2 / sum(part**2 / freedom for part, freedom in parts)


def _with_interval(found: PairedDifference, alpha: float) -> PairedDifference:
    half = max(-float(special.stdtrit(df, alpha / 2)) * error for error, df in found.errors)
    return replace(found, low=found.mean - half, high=found.mean + half, alpha=alpha)


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
