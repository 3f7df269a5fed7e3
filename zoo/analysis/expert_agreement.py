"""Agreement of the routing of two runs that read the same tokens."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool
from scipy.optimize import linear_sum_assignment

SHUFFLES = 20


class Agreement(NamedTuple):
    """Agreement of the experts of a layer in two runs.

    Attributes:
        share: of the assignments of the first run, those that the second run has too.
        by_chance: the same with the tokens of the second run in random order, a mean over shuffles.
        experts: [E], the expert of the second run that stands for each expert of the first.
    """

    share: float
    by_chance: float
    experts: np.ndarray


def agreement(one: Bool[np.ndarray, "N E"], other: Bool[np.ndarray, "N E"]) -> Agreement:
    """Compares the experts that N tokens take in two runs. With the sets A and B of the assignments
    (t, i) of token t to expert i,

        share = max over the permutations p of |{(t, i) in A: (t, p(i)) in B}| / |A|

    because experts of different seeds have no common order. The best permutation is found by the
    Hungarian algorithm (Kuhn 1955). As it is the best one, the share of unrelated runs is above k / E;
    `by_chance` tells by how much, from tokens that are shuffled by a generator of seed 0.
    """
    share, experts = _best(one, other)
    generator = np.random.default_rng(0)
    shuffled = [_best(one, generator.permutation(other))[0] for _ in range(SHUFFLES)]
    return Agreement(share, float(np.mean(shuffled)), experts)


def _best(one: np.ndarray, other: np.ndarray) -> tuple[float, np.ndarray]:
    common = one.astype(np.int64).T @ other.astype(np.int64)
    rows, experts = linear_sum_assignment(common, maximize=True)
    return float(common[rows, experts].sum() / max(one.sum(), 1)), experts
