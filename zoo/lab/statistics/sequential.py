"""What a number of seeds can show, and how seeds may be added without finding what is not there.

Adding a seed and looking again, until the interval leaves zero out, finds a difference between two
equal arms in 16 % of all cases at up to ten seeds. A design says beforehand at which numbers of
seeds it looks, and spends its alpha over these looks (Lan and DeMets 1983) with a function of the
Pocock type, alpha * ln(1 + (e - 1) t) at the share t of all seeds: with few seeds, the one of
O'Brien and Fleming would spend next to nothing at the first looks.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import optimize, special, stats

from zoo.lab.statistics.paired import ALPHA

POWER = 0.8
# So many series make the spent alpha exact to 0.0004, one standard error.
SERIES = 300_000


@lru_cache
def detectable_effect(n: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest difference between two arms that n paired seeds detect, in standard deviations
    of the paired differences.

    "Detect" is that the t interval at the level `alpha` lies on the right side of 0, in the share
    `power` of all cases; infinite for n < 2.
    """
    if n < 2:
        return math.inf
    critical = -special.stdtrit(n - 1, alpha / 2)

    def missing(effect: float) -> float:
        return power - stats.nct.sf(critical, n - 1, effect * math.sqrt(n))

    high = 1.0
    while missing(high) > 0:
        high *= 2
    return float(optimize.brentq(missing, 0.0, high))


@dataclass(frozen=True)
class SequentialDesign:
    """At which numbers of seeds a sweep is judged, and at what level each time.

    Attributes:
        levels: {number of seeds: two-sided alpha of the intervals at that look}, in ascending
            order; the last is the budget.
    """

    levels: Mapping[int, float]

    @property
    def most(self) -> int:
        """Number of seeds at which it ends, decided or not."""
        return max(self.levels)

    def alpha(self, seeds: int) -> float:
        """The level at so many seeds; at a number at which no look was planned, that of the
        stricter neighbour.
        """
        if seeds in self.levels:
            return self.levels[seeds]
        return min(self.levels.values())

    def next(self, seeds: int) -> int | None:
        """The number of seeds of the next look; None after the last."""
        return min((look for look in self.levels if look > seeds), default=None)


def single_look(seeds: int) -> SequentialDesign:
    """One look, after all seeds."""
    return SequentialDesign({seeds: ALPHA})


@lru_cache
def design_until_decided(first: int, most: int, step: int = 1, alpha: float = ALPHA) -> SequentialDesign:
    """Looks after `first` seeds, then after every `step` more, up to `most`; two equal arms are
    told apart in at most `alpha` of all cases.

    The bounds are found on simulated series of normal differences, always the same ones: at each
    look the share of series that is spent there and was not before lies beyond the bound.

    Raises:
        ValueError: fewer than two seeds to begin with, or a budget below them.
    """
    if not 2 <= first <= most:
        raise ValueError(f"looks need 2 <= first <= most seeds, got {first} and {most}")
    looks = sorted({*range(first, most, step), most})
    draws = np.random.default_rng(0).standard_normal((SERIES, most), dtype=np.float32)
    sums, squares = draws.cumsum(1), (draws**2).cumsum(1)
    alive, spent, levels = np.ones(SERIES, bool), 0.0, {}
    for n in looks:
        mean = sums[:, n - 1] / n
        variance = np.maximum((squares[:, n - 1] - n * mean**2) / (n - 1), 1e-12)
        t = np.abs(mean) / np.sqrt(variance / n)
        until_now = alpha * math.log1p((math.e - 1) * n / most)
        crossing = round((until_now - spent) * SERIES)
        bound = np.sort(t[alive])[-crossing]
        alive &= t < bound
        spent = until_now
        levels[n] = float(2 * special.stdtr(n - 1, -float(bound)))
    return SequentialDesign(levels)
