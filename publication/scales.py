"""Compares the effects of one experiment at several sizes: claim S1.

Archived results belong together if they differ in their size alone: `muon` and `muon-medium`. For
each contrast that they share, the order of its sides at a size is that of the archived interval, which
has the level of its look and the uncertainty of tuning. Sizes at which the contrast is not testable or
not tuned do not count. Paired differences are computed again from runs.csv; seeds at two sizes are
independent of each other, so two effects are compared by Welch's t interval.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import special

from publication.verdict_order import SILENT
from zoo.lab.report.archive.detectable import differences_by_seed
from zoo.lab.sizes import LADDER
from zoo.lab.statistics.paired import ALPHA, PairedDifference, mean_difference

# Three sizes are the fewest of which "at every size" says more than "at both".
LEAST_SIZES = 3
HOLDS, TURNS, OPEN, NO_ORDER, FEW = ("holds", "turns", "undecided", "no order", "too few sizes")
# The order of a contrast with fewer than two sizes that count.
NOT_JUDGED = "not judged"
SHRINKS, GROWS, UNCLEAR = "shrinks", "grows", "unclear"


@dataclass(frozen=True)
class SizedEffect:
    """A contrast at one size.

    Attributes:
        folder: of the archived result.
        size: its name.
        parameters: mean of the two arms.
        tokens: of the training of a run.
        difference: a - b, paired by seed, with a plain 95 % interval.
        low, high: the archived interval of a - b; NaN without one.
        outcome: of the contrast.
    """

    folder: str
    size: str
    parameters: float
    tokens: int
    difference: PairedDifference
    low: float
    high: float
    outcome: str

    @property
    def side(self) -> int:
        """1 or -1 if the archived interval lies on that side of 0, else 0."""
        return (self.low > 0) - (self.high < 0)

    @property
    def plain_side(self) -> int:
        """The same of the plain interval."""
        return (self.difference.low > 0) - (self.difference.high < 0)


@dataclass(frozen=True)
class ScaledContrast:
    """A contrast at several sizes.

    Attributes:
        experiment: name without a size.
        claim: id of the claim that the contrast judges.
        name, a, b: of the contrast, and its arms.
        metric: of a.
        effects: at each size, from the fewest parameters on.
    """

    experiment: str
    claim: str
    name: str
    a: str
    b: str
    metric: str
    effects: tuple[SizedEffect, ...]

    @property
    def order(self) -> str:
        """Whether the order of a and b at the smallest size that has one holds at every larger one.

        It holds if all larger sizes' intervals lie on the same side of 0, and turns if one lies on
        the other. An order that only the largest size has is none to hold.
        """
        sides = [effect.side for effect in self.effects if effect.outcome not in SILENT]
        return order_of(sides) if len(sides) > 1 else NOT_JUDGED

    @property
    def plain_order(self) -> str:
        """The order by plain 95 % intervals at all sizes."""
        return order_of([effect.plain_side for effect in self.effects])

    @property
    def compared(self) -> tuple[SizedEffect, ...]:
        """The effects whose change is told: those that count, or all where fewer than two do."""
        counting = tuple(effect for effect in self.effects if effect.outcome not in SILENT)
        return counting if len(counting) > 1 else self.effects

    @property
    def change(self) -> PairedDifference:
        """Largest minus smallest of the `compared`, in the order's direction. Below 0 it shrinks."""
        effects = self.compared
        sign = next((effect.plain_side for effect in effects if effect.plain_side), 1)
        return effect_change(effects[0].difference, effects[-1].difference, sign)

    @property
    def trend(self) -> str:
        """Whether the interval of `change` lies below 0 ("shrinks"), above ("grows"), or neither."""
        change = self.change
        return SHRINKS if change.high < 0 else GROWS if change.low > 0 else UNCLEAR


def order_of(sides: Sequence[int]) -> str:
    """Returns the order of a contrast from the sides of 0 of its intervals, smallest size first."""
    place = next((place for place, side in enumerate(sides[:-1]) if side), None)
    if place is None:
        return NO_ORDER
    first, larger = sides[place], sides[place + 1 :]
    if -first in larger:
        return TURNS
    if len(sides) < LEAST_SIZES:
        return FEW
    return HOLDS if all(side == first for side in larger) else OPEN


def effect_change(small: PairedDifference, large: PairedDifference, sign: int) -> PairedDifference:
    """Returns sign * (large - small) with Welch's 95 % interval (Welch 1947).

    `sign` is 1 or -1. The bounds are NaN if either has fewer than two pairs.
    """
    mean = sign * (large.mean - small.mean)
    if small.n < 2 or large.n < 2:
        return PairedDifference(mean, math.nan, math.nan, min(small.n, large.n), math.nan, math.nan, {})
    squares = [one.sd**2 / one.n for one in (small, large)]
    error = math.sqrt(sum(squares))
    if error == 0:
        return PairedDifference(mean, mean, mean, min(small.n, large.n), 0.0, 1.0 if mean == 0 else 0.0, {})
    parts = sum(square**2 / (one.n - 1) for square, one in zip(squares, (small, large), strict=True))
    freedom = error**4 / parts
    half = -float(special.stdtrit(freedom, ALPHA / 2)) * error
    p = float(2 * special.stdtr(freedom, -abs(mean) / error))
    return PairedDifference(mean, mean - half, mean + half, min(small.n, large.n), error, p, {})


def base_names(results: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Returns {name: name without its size} of the results that exist at another size too.

    The result without a size in its name has to be among them.
    """
    sizes = {result["name"]: result["size"] for result in results}
    found = {}
    for name, size in sizes.items():
        base = name.removesuffix(f"-{size}")
        if base != name and base in sizes:
            found |= {name: base, base: base}
    return found


def scaled_contrasts(
    results: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, str]], Sequence[Mapping[str, str]]]],
) -> list[ScaledContrast]:
    """Returns the contrasts that exist at two sizes or more.

    Args:
        results: (result.json, rows of contrasts.csv, rows of runs.csv) of each archived experiment.
    """
    bases = base_names(result for result, _, _ in results)
    effects: dict[tuple[str, str], list[SizedEffect]] = {}
    described: dict[tuple[str, str], tuple[str, Mapping[str, str]]] = {}
    for result, contrasts, runs in results:
        # Off the ladder, other things change with the size: tokens for each parameter, or the arms.
        if result["name"] not in bases or result["size"] not in LADDER:
            continue
        parameters = {arm["name"]: arm["parameters"] or 0 for arm in result["arms"]}
        for row in contrasts:
            differences = differences_by_seed(row, runs)
            key = (bases[result["name"]], row["contrast"])
            if not differences:
                continue
            described.setdefault(key, (row.get("claim") or (result.get("claim") or {}).get("id") or "", row))
            effects.setdefault(key, []).append(
                SizedEffect(
                    result["name"],
                    result["size"],
                    (parameters.get(row["a"], 0) + parameters.get(row["b"], 0)) / 2,
                    max((int(run["tokens"] or 0) for run in runs), default=0),
                    mean_difference(differences),
                    *(float(row[name] or "nan") for name in ("low", "high")),
                    row["outcome"],
                )
            )
    return [
        ScaledContrast(
            key[0],
            described[key][0],
            key[1],
            described[key][1]["a"],
            described[key][1]["b"],
            described[key][1]["metric a"],
            tuple(sorted(of_sizes, key=lambda effect: (effect.parameters, effect.tokens))),
        )
        for key, of_sizes in effects.items()
        if len(of_sizes) > 1
    ]


def overall(contrasts: Sequence[ScaledContrast]) -> str:
    """Returns the verdict on S1's first half, over the contrasts with an order.

    Not supported if any turns; supported if all hold. Where no order can be judged, because the
    contrasts are not testable or not tuned at their sizes, it is that; else undecided, also without
    a contrast that has three sizes.
    """
    orders = [contrast.order for contrast in contrasts]
    outcomes = {effect.outcome for contrast in contrasts for effect in contrast.effects}
    if not judged_orders(orders) and NOT_JUDGED in orders:
        return next(outcome for outcome in SILENT if outcome in outcomes)
    return _verdict(orders)


def plain_verdict(contrasts: Sequence[ScaledContrast]) -> str:
    """Returns the verdict by plain 95 % intervals at all sizes."""
    return _verdict([contrast.plain_order for contrast in contrasts])


def judged_orders(orders: Iterable[str]) -> list[str]:
    """Returns the orders that hold, turn or are undecided."""
    return [order for order in orders if order in (HOLDS, TURNS, OPEN)]


def _verdict(orders: Sequence[str]) -> str:
    judged = judged_orders(orders)
    if TURNS in judged:
        return "not supported"
    return "supported" if judged and set(judged) == {HOLDS} else "undecided"
