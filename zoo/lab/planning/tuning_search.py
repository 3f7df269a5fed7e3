"""The values at which an arm is tried: a coarse bracket, then a fine lattice around the best one.

1. Every value of the bracket is tried with the first tuning seed.
2. Around the best of them, four values a factor of 1.5 apart are tried with every tuning seed:
   v / 1.5, v, 1.5 v and 2.25 v, or v / 2.25, v / 1.5, v and 1.5 v, towards the better neighbour.
3. A curve is fitted (`zoo.lab.statistics.tuning_curve`). If it does not bend, or its minimum lies
   outside the values, the lattice grows by one value on that side, up to ten values in all.
4. If the runs reject the parabola, as where the values reach a rate at which training breaks down, it
   is fitted to as many neighbours, the best value among them, as do not reject it. Without four of
   them the lattice grows by one value on the side away from the largest loss, up to ten in all.

Everything follows from the results so far, so an interrupted search continues, and no run is
trained twice.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from zoo import config
from zoo.lab.declarations import Tune
from zoo.lab.statistics.tuning_curve import (
    BOTH,
    HIGHER,
    LOWER,
    MIN_VALUES,
    MISFIT_LEVEL,
    TuningCurve,
    fit_tuning_curve,
    misfit_p,
)

FACTOR = 1.5
# An arm that has no curve with a minimum after this many values is reported as not tuned.
MOST_VALUES = 10
# Values further from the best one do not enter the fit: a parabola describes the loss near its
# minimum.
FITTED_STEPS = 3

# {value: {seed: loss}}: lower is better; infinite for a run that diverged.
Losses = Mapping[float, Mapping[int, float]]


@dataclass(frozen=True)
class SearchState:
    """The state of the search in one arm.

    Attributes:
        trials: {value: seeds} still to be run; empty when the search has ended.
        curve: the fitted curve; None before the first fit.
    """

    trials: dict[float, tuple[int, ...]]
    curve: TuningCurve | None = None


def search_state(tune: Tune, losses: Losses) -> SearchState:
    """Returns what is to be tried next in an arm, given the losses so far."""
    first = tune.seeds[0]
    bracket = sorted(tune.values)
    if missing := [value for value in bracket if first not in losses.get(value, {})]:
        return SearchState({value: (first,) for value in missing})
    scores = [losses[value][first] for value in bracket]
    centre = bracket[scores.index(min(scores))]
    low, high = _first_steps(scores)
    while True:
        wanted = {lattice_value(tune, centre, step): step for step in range(low, high + 1)}
        trials = {
            value: seeds
            for value in wanted
            if (seeds := tuple(seed for seed in tune.seeds if seed not in losses.get(value, {})))
        }
        if trials:
            return SearchState(trials)
        curve, side = _curve_near_best({value: losses[value] for value in wanted}, tune.distance_to_one)
        if not side or high - low + 1 >= MOST_VALUES:
            return SearchState({}, curve)
        if side in (LOWER, BOTH):
            low -= 1
        if side in (HIGHER, BOTH):
            high += 1


def lattice_value(tune: Tune, centre: float, step: int) -> float:
    """Returns the value `step` steps above `centre`, to three digits; the centre itself is kept.

    With `tune.distance_to_one` it is the distance to 1 that shrinks by the factor.
    """
    if step == 0:
        return centre
    if tune.distance_to_one:
        return rounded_value(tune, 1 - (1 - centre) / FACTOR**step)
    return rounded_value(tune, centre * FACTOR**step)


def rounded_value(tune: Tune, value: float) -> float:
    """Returns a value with three digits (of its distance to 1 if that is searched), or an integer."""
    if tune.distance_to_one:
        return 1 - float(f"{1 - value:.3g}")
    if (found := config.field_at(tune.field)) is not None and found.kind is int:
        return max(1, round(value))
    return float(f"{value:.3g}")


def _first_steps(scores: list[float]) -> tuple[int, int]:
    """Returns the first and the last step of four values around the best of the bracket."""
    best = scores.index(min(scores))
    below = scores[best - 1] if best > 0 else math.inf
    above = scores[best + 1] if best + 1 < len(scores) else math.inf
    # At the upper edge of the bracket the minimum may lie beyond it.
    upward = above < below or (best + 1 == len(scores) and best > 0)
    return (-1, MIN_VALUES - 2) if upward else (2 - MIN_VALUES, 1)


def _curve_near_best(losses: Losses, distance_to_one: bool) -> tuple[TuningCurve, str]:
    """Fits the curve to the values near the best one; where their runs reject it, to other neighbours.

    Returns:
        The curve, and the side on which further values are needed; empty if none are. If no set of
        neighbours has a curve with a minimum that its runs do not reject, the curve of the near values
        is returned.
    """
    values = sorted(losses)
    means = _means(values, losses)
    best = means.index(min(means))
    curve, p = _fit(values[max(0, best - FITTED_STEPS) : best + FITTED_STEPS + 1], losses, distance_to_one)
    if curve.problem or not p < MISFIT_LEVEL:
        return curve, curve.extend
    finite = [value for value in values if all(map(math.isfinite, losses[value].values()))]
    means = _means(finite, losses)
    best, worst = (means.index(extreme(means)) for extreme in (min, max))
    for count in range(min(len(finite), 2 * FITTED_STEPS + 1), MIN_VALUES - 1, -1):
        starts = range(max(0, best - count + 1), min(best, len(finite) - count) + 1)
        parts = [_fit(finite[start : start + count], losses, distance_to_one) for start in starts]
        if described := [(p, part) for part, p in parts if not part.problem and not p < MISFIT_LEVEL]:
            return max(described, key=itemgetter(0))[1], ""
    return curve, LOWER if worst > best else HIGHER


def _fit(values: Sequence[float], losses: Losses, distance_to_one: bool) -> tuple[TuningCurve, float]:
    """Returns the curve of some values and the p value of its F test; NaN without a curve."""
    curve = fit_tuning_curve({value: losses[value] for value in values}, distance_to_one)
    fitted = {value: losses[value] for value in curve.values}
    return curve, math.nan if curve.problem else misfit_p(fitted, distance_to_one)


def _means(values: Sequence[float], losses: Losses) -> list[float]:
    return [sum(losses[value].values()) / len(losses[value]) for value in values]
