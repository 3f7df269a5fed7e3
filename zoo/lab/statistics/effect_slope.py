"""The change of an effect with compute: a line through paired differences.

With d_k the mean of the differences arm minus baseline, paired by seed, at size k, and
x_k = log10 C_k,

    d_k = a + b x_k

by least squares over sizes. b is the change of the difference for ten times the compute; where the arm
is better, d < 0 and b > 0 means that its gain shrinks. Slope and values of the line are weighted sums
of the d_k, so their intervals are those of Student's t with the error and the degrees of freedom of
Welch (`zoo.lab.statistics.sized_losses`). Two sizes suffice. That the differences lie on a line is
assumed: with two sizes nothing tells; from three on `bend` does, the weighted sum that is 0 on lines
and 1 on (x - mean)^2, whose p value is that of its t.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from zoo.lab.statistics.paired import ALPHA
from zoo.lab.statistics.sized_losses import Estimate, SizedLosses, quantile, weighted, welch

SHRINKS, GROWS, UNCLEAR = "shrinks", "grows", "unclear"
TURNS = "changes sides"


@dataclass(frozen=True)
class EffectSlope:
    """A line through paired differences.

    Attributes:
        slope: b, nats for ten times the compute.
        bend_p: two-sided p for differences that lie on a line; NaN with two sizes or without
            intervals.
        first, last: the difference at the smallest and at the largest size.
    """

    slope: Estimate
    bend_p: float
    first: Estimate
    last: Estimate

    @property
    def trend(self) -> str:
        """The change of the size of the effect, as the interval of the slope tells it.

        `SHRINKS` or `GROWS` where it excludes 0 and the differences at both ends lie on one side;
        `TURNS` where it excludes 0 and they do not; else `UNCLEAR`.
        """
        low, high = self.slope.low, self.slope.high
        if not low > 0 and not high < 0:
            return UNCLEAR
        if self.first.value * self.last.value <= 0:
            return TURNS
        return GROWS if (low > 0) == (self.last.value > 0) else SHRINKS


def weighted_sum(losses: SizedLosses, weights: np.ndarray, alpha: float = ALPHA) -> Estimate:
    """Returns sum_k weights_k mean_k with its interval."""
    value = float(weights @ losses.means)
    variance, df = welch(weighted(losses, weights))
    if math.isnan(variance):
        return Estimate(value)
    half = quantile(df, alpha) * math.sqrt(variance)
    return Estimate(value, value - half, value + half)


def line_weights(compute: np.ndarray, target: float) -> np.ndarray:
    """Returns the weights of the sizes' means in the value of the line at a compute, [K]."""
    x = np.log10(compute)
    return 1 / len(x) + (math.log10(target) - x.mean()) * _slope_weights(x)


def difference_weights(differences: SizedLosses, target: float) -> np.ndarray:
    """Returns the weights in the difference at a compute: that of its size, or else of the line."""
    place = differences.place(target)
    if place is None:
        return line_weights(differences.compute, target)
    return np.eye(len(differences.compute))[place]


def effect_slope(differences: SizedLosses, alpha: float = ALPHA) -> EffectSlope:
    """Fits the line.

    Args:
        differences: arm minus baseline, paired by seed.
        alpha: level of the intervals.

    Raises:
        ValueError: fewer than two sizes.
    """
    x = np.log10(differences.compute)
    if len(x) < 2:
        raise ValueError("an effect against size needs two sizes")
    ends = np.eye(len(x))[[0, -1]]
    return EffectSlope(
        weighted_sum(differences, _slope_weights(x), alpha),
        _bend_p(differences, x),
        *(weighted_sum(differences, end, alpha) for end in ends),
    )


def _slope_weights(x: np.ndarray) -> np.ndarray:
    centred = x - x.mean()
    return centred / (centred @ centred)


def _bend_p(differences: SizedLosses, x: np.ndarray) -> float:
    if len(x) < 3:
        return math.nan
    centred = x - x.mean()
    line = np.column_stack([np.ones_like(x), centred])
    square = centred**2
    rest = square - line @ np.linalg.lstsq(line, square, rcond=None)[0]
    weights = rest / (rest @ square)
    variance, df = welch(weighted(differences, weights))
    if not variance > 0:
        return math.nan
    return float(2 * special.stdtr(df, -abs(weights @ differences.means) / math.sqrt(variance)))
