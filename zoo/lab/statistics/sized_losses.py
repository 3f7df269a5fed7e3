"""The losses of one arm at several sizes, and the error of a weighted sum of their means.

The runs of two sizes are independent of each other, also where they share a seed. So for weights c_k
and the losses y_ks of seeds s at size k,

    V = sum_k var_s(c_k y_ks) / n_k,    df = V^2 / sum_k (var_s(c_k y_ks) / n_k)^2 / (n_k - 1)

is the squared standard error of sum_k c_k mean_s y_ks (Welch 1947; Satterthwaite 1946). The noise may
have another standard deviation at each size.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from zoo.lab.statistics.paired import ALPHA

# The same size: its compute is within 1 %.
SAME_SIZE = 0.01


@dataclass(frozen=True)
class SizedLosses:
    """Losses at several sizes, of one arm or paired differences of two.

    Attributes:
        compute: [K], training operations of a run, ascending.
        losses: {seed: loss} at each size.
    """

    compute: np.ndarray
    losses: tuple[Mapping[int, float], ...]

    @property
    def means(self) -> np.ndarray:
        """The mean over seeds at each size, [K]."""
        return np.array([np.mean(list(found.values())) for found in self.losses])

    def minus(self, other: "SizedLosses") -> "SizedLosses":
        """Returns the differences from another arm at the same sizes, paired by seed."""
        pairs = zip(self.losses, other.losses, strict=True)
        return SizedLosses(
            other.compute, tuple({seed: a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())} for a, b in pairs)
        )

    def place(self, compute: float) -> int | None:
        """Returns the place of the size with this compute; None if there is none."""
        distances = np.abs(np.log(self.compute / compute))
        return int(np.argmin(distances)) if distances.min() <= SAME_SIZE else None


@dataclass(frozen=True)
class Estimate:
    """A value and its two-sided 95 % interval, whose bounds are NaN where seeds do not tell them."""

    value: float
    low: float = math.nan
    high: float = math.nan

    @property
    def known(self) -> bool:
        """Whether it has an interval."""
        return not math.isnan(self.low)


def welch(combinations: Sequence[np.ndarray]) -> tuple[float, float]:
    """Returns V and df of a sum of means, one for each size.

    Args:
        combinations: of each size, the weighted values of its seeds.

    Returns:
        V is NaN if a size has a single seed, and df is infinite if V is 0.
    """
    if any(len(values) < 2 for values in combinations):
        return math.nan, math.nan
    parts = [float(np.var(values, ddof=1)) / len(values) for values in combinations]
    total = sum(parts)
    if total == 0:
        return 0.0, math.inf
    return total, total**2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, combinations, strict=True))


def weighted(losses: SizedLosses, weights: np.ndarray) -> list[np.ndarray]:
    """Returns the values of each size's seeds times the weight of the size."""
    return [weight * np.array(list(found.values())) for weight, found in zip(weights, losses.losses, strict=True)]


def quantile(df: float, alpha: float = ALPHA) -> float:
    """Returns the two-sided quantile of Student's t at a level, the normal one for infinite df."""
    return -float(special.stdtrit(df, alpha / 2)) if math.isfinite(df) else -float(special.ndtri(alpha / 2))
