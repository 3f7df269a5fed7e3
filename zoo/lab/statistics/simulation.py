"""The decision about one contrast on many simulated sweeps at once, and the power of a plan.

`outcomes` is the rule of `zoo.lab.results.contrast_verdict` for arrays; a test compares both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from zoo.lab.statistics.paired import ALPHA, UNKNOWN_NOISE
from zoo.lab.statistics.sequential import POWER

HOLDS, REFUTED, UNDECIDED = 1, -1, 0
SWEEPS = 20_000
# More seeds than this are not suggested.
MOST_SEEDS = 100
# Degrees of freedom of a standard deviation that is known.
MANY = 10**9


@dataclass(frozen=True)
class SimulatedNoise:
    """The noise as other runs tell it, one value for each simulated sweep.

    Attributes:
        sd: standard deviation of a paired difference [sweeps].
        df: its degrees of freedom.
    """

    sd: np.ndarray
    df: float


def outcomes(
    differences: np.ndarray,
    rule: str,
    margin: float,
    alpha: float = ALPHA,
    noise: SimulatedNoise | None = None,
    regret: np.ndarray | float = 0.0,
    regret_df: float = MANY,
) -> np.ndarray:
    """Returns `HOLDS`, `REFUTED` or `UNDECIDED` for each sweep.

    Args:
        differences: [sweeps, seeds], of a loss.
        rule, margin: of the contrast.
        alpha: two-sided level of the look.
        noise: as other runs tell it; without it, decisions need a level `UNKNOWN_NOISE` times smaller.
        regret: mean square regret of tuning, both arms together [sweeps].
        regret_df: degrees of freedom of its estimate.
    """
    n = differences.shape[1]
    mean, variance = differences.mean(1), differences.var(1, ddof=1) / n
    of_means = [(variance, n - 1), *([(noise.sd**2 / n, noise.df)] if noise is not None else [])]
    parts = (regret, 0.0) if np.any(regret) else (0.0,)
    errors = [_with_regret(*each, of_tuning, regret_df) for each in of_means for of_tuning in parts]
    if noise is None:
        alpha /= UNKNOWN_NOISE

    def tail(bound: float, above: bool) -> np.ndarray:
        distance = (mean - bound) * (1 if above else -1)
        return np.maximum.reduce([special.stdtr(df, -distance / error) for error, df in errors])

    one_sided = alpha if rule in ("non_inferiority", "equivalence") else alpha / 2
    bound = -margin if rule == "superiority" else margin
    holds, refuted = tail(bound, above=False) < one_sided, tail(bound, above=True) < alpha / 2
    if rule == "equivalence":
        holds &= tail(-margin, above=True) < one_sided
        refuted |= tail(-margin, above=False) < alpha / 2
    return np.where(holds, HOLDS, np.where(refuted, REFUTED, UNDECIDED))


def _with_regret(
    variance: np.ndarray, df: float, regret: np.ndarray | float, regret_df: float
) -> tuple[np.ndarray, np.ndarray]:
    total = variance + regret
    return np.sqrt(total), total**2 / (variance**2 / df + np.square(regret) / regret_df)


def sequential_outcomes(
    differences: np.ndarray, rule: str, margin: float, levels: Mapping[int, float], **known
) -> np.ndarray:
    """Returns the outcome at the first look that decides, else `UNDECIDED`.

    Args:
        differences: [sweeps, seeds].
        rule, margin: of the contrast.
        levels: {number of seeds: two-sided alpha}, e.g. {6: 0.05} for a single analysis.
        known: further arguments of `outcomes`.
    """
    found = np.full(len(differences), UNDECIDED)
    for seeds, alpha in sorted(levels.items()):
        now = outcomes(differences[:, :seeds], rule, margin, alpha, **known)
        found = np.where(found == UNDECIDED, now, found)
    return found


@lru_cache(maxsize=256)
def _draws(seeds: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((SWEEPS, seeds))


def share_that_holds(
    rule: str, margin: float, levels: Mapping[int, float], sd: float, truth: float = 0.0, df: float = MANY
) -> float:
    """Returns the share of sweeps in which a rule holds, under normal noise.

    Args:
        rule, margin: of the contrast.
        levels: {number of seeds: two-sided alpha}.
        sd: of a paired difference.
        truth: true difference a - b of the losses.
        df: degrees of freedom of `sd`, which other runs tell; 0 if none do.
    """
    noise = SimulatedNoise(np.array(sd), df) if df else None
    draws = truth + sd * _draws(max(levels))
    return float((sequential_outcomes(draws, rule, margin, levels, noise=noise) == HOLDS).mean())


def found_difference(levels: Mapping[int, float], sd: float, df: float = MANY, power: float = POWER) -> float:
    """Returns the smallest difference that a superiority over 0 finds with the given power.

    Args:
        levels, sd, df: as in `share_that_holds`.
        power: share of sweeps that find it.
    """
    low, high = 0.0, sd
    while share_that_holds("superiority", 0.0, levels, sd, -high, df) < power:
        low, high = high, 2 * high
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        if share_that_holds("superiority", 0.0, levels, sd, -middle, df) < power:
            low = middle
        else:
            high = middle
    return high


def seeds_that_suffice(
    rule: str, margin: float, sd: float, truth: float = 0.0, df: float = MANY, power: float = POWER
) -> int | None:
    """Returns the number of seeds of a single analysis at which a rule holds with the given power.

    None if it is more than `MOST_SEEDS`.
    """
    low, high = 1, MOST_SEEDS
    if share_that_holds(rule, margin, {high: ALPHA}, sd, truth, df) < power:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if middle > 1 and share_that_holds(rule, margin, {middle: ALPHA}, sd, truth, df) >= power:
            high = middle
        else:
            low = middle
    return high
