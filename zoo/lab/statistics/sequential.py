"""The smallest difference that a number of seeds detects, and group-sequential designs.

Adding seeds until the interval excludes zero finds a difference between two equal arms in 16 % of
all cases at up to ten seeds. A design fixes in advance the numbers of seeds at which the contrasts
are judged, and spends its alpha over these looks (Lan and DeMets 1983). The spending function is of
the Pocock type, alpha * ln(1 + (e - 1) t) at the share t of all seeds, because with few seeds that
of O'Brien and Fleming would spend almost nothing at the first looks.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import optimize, special, stats

from zoo.lab.statistics.paired import ALPHA

POWER = 0.8
# Simulated series; the standard error of the spent alpha is 0.0004.
SERIES = 300_000


@lru_cache
def detectable_effect(n: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """Returns the smallest difference that n paired seeds detect, in SDs of the paired differences.

    A difference is detected if the t interval at the level `alpha` lies on the right side of 0; it
    is detectable if this happens with probability `power`. Infinite for n < 2.
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
    """The numbers of seeds at which a sweep is judged, and the level of each look.

    Attributes:
        levels: {number of seeds: two-sided alpha of the intervals at that look}, in ascending
            order; the last look is the maximum.
    """

    levels: Mapping[int, float]

    @property
    def max_seeds(self) -> int:
        """Number of seeds at which it ends, decided or not."""
        return max(self.levels)

    def alpha(self, seeds: int) -> float:
        """Returns the level at a number of seeds; the strictest if no look was planned there."""
        if seeds in self.levels:
            return self.levels[seeds]
        return min(self.levels.values())

    def next_look(self, seeds: int) -> int | None:
        """Returns the number of seeds of the next look, or None after the last."""
        return min((look for look in self.levels if look > seeds), default=None)


@lru_cache
def design_until_decided(first: int, max_seeds: int, step: int = 1, alpha: float = ALPHA) -> SequentialDesign:
    """Returns looks after `first` seeds and after every `step` more, up to `max_seeds`.

    Two equal arms are found different in at most `alpha` of all cases. The bounds are found on
    simulated series of normal differences, with fixed random numbers: at each look the share of
    series beyond the bound is the alpha that is spent there.

    Raises:
        ValueError: unless 2 <= first <= max_seeds.
    """
    if not 2 <= first <= max_seeds:
        raise ValueError(f"looks need 2 <= first <= max_seeds, got {first} and {max_seeds}")
    looks = sorted({*range(first, max_seeds, step), max_seeds})
    draws = np.random.default_rng(0).standard_normal((SERIES, max_seeds), dtype=np.float32)
    sums, squares = draws.cumsum(1), (draws**2).cumsum(1)
    alive, spent, levels = np.ones(SERIES, bool), 0.0, {}
    for n in looks:
        mean = sums[:, n - 1] / n
        variance = np.maximum((squares[:, n - 1] - n * mean**2) / (n - 1), 1e-12)
        t = np.abs(mean) / np.sqrt(variance / n)
        until_now = alpha * math.log1p((math.e - 1) * n / max_seeds)
        crossing = round((until_now - spent) * SERIES)
        bound = np.sort(t[alive])[-crossing]
        alive &= t < bound
        spent = until_now
        levels[n] = float(2 * special.stdtr(n - 1, -float(bound)))
    return SequentialDesign(levels)
