"""Tuning curves that do not describe their runs, or whose best value is the smallest or largest one.

The value that an arm is trained with is the minimum of a parabola, and the interval contains the
error of this minimum if losses follow a parabola. Where the values that were fitted reach a rate at
which training breaks down, they do not: the minimum moves away from the lowest runs, and the arm ends
above its best loss by more than the expected regret. The search leaves such values out where it can
(`zoo.lab.planning.tuning_search`); here are the arms where it could not, or that were tuned without
this rule. Verdicts hardly err more often for it (docs/comparisons.md), but the size of a difference is
off.

A minimum can also lie inside the values while the best mean is that of the smallest or the largest
one: no run then shows that the loss rises again beyond it, which follows from the parabola alone.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from zoo.errors import ConfigError
from zoo.lab.formatting import number
from zoo.lab.metrics import higher_is_better
from zoo.lab.planning.tuning_search import Losses
from zoo.lab.results.schema import as_dict
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import load_tuning_grid, tuning_entries
from zoo.lab.statistics.tuning_curve import MISFIT_LEVEL, TuningCurve, misfit_p, parse_curve

# How the lines about an arm begin.
MISFIT, AT_EDGE = "the curve of", "the best mean of"
# Archived values have six digits.
_SAME_VALUE = 1e-5


def misfits(
    field: str,
    metric: str,
    scores: Mapping[str, Losses],
    curves: Mapping[str, TuningCurve],
    unit: str = "",
    distance_to_one: bool = False,
) -> Iterator[str]:
    """Yields a line for each arm whose curve does not describe its runs, or whose best value is the
    smallest or the largest one.

    Args:
        field: path of the tuned field.
        metric: metric that the values were chosen by.
        scores: {arm: {value: {seed: score}}} of the tuning runs.
        curves: the fitted curve of each arm.
        unit: of the metric, with a space before it.
        distance_to_one: whether the curves are over the logarithm of 1 - value.
    """
    sign = -1 if higher_is_better(metric) else 1
    for arm, curve in curves.items():
        losses = {
            value: {seed: sign * score for seed, score in found.items()}
            for value, found in scores.get(arm, {}).items()
            if any(abs(value - fitted) <= _SAME_VALUE * fitted for fitted in curve.values)
        }
        if curve.problem or len(losses) < len(curve.values):
            continue
        p = misfit_p(losses, distance_to_one)
        means = {value: sum(found.values()) / len(found) for value, found in losses.items()}
        lowest = min(means, key=means.get)
        if not p < MISFIT_LEVEL:
            if edge := {min(means): "smallest", max(means): "largest"}.get(lowest):
                yield (
                    f"{AT_EDGE} {arm or 'the arm'} over {field} is that of {lowest:g}, the {edge} of the values "
                    f"that were fitted; the minimum at {curve.minimum:.3g} follows from the parabola alone"
                )
            continue
        nearest = min(means, key=lambda value: abs(value - curve.minimum))
        behind = ""
        if nearest != lowest:
            behind = f", and runs at {nearest:g} end {number(means[nearest] - means[lowest], 2)}{unit} behind those"
        yield (
            f"{MISFIT} {arm or 'the arm'} over {field} does not describe its runs (F test, p = {p:.1g}): its "
            f"minimum is {curve.minimum:.3g}, the best mean that of {lowest:g}{behind}; the interval assumes a "
            "parabola"
        )


def sweep_misfits(sweep: SweepResults) -> list[str]:
    """Returns these lines for a sweep whose tuning runs are in its folder."""
    lines = []
    for entry in tuning_entries(sweep.tuning):
        try:
            grid = load_tuning_grid(sweep.folder, entry) if entry.get("curves") else None
        except (ConfigError, OSError):
            grid = None
        if grid:
            scores = {arm: {point.value: point.scores for point in points} for arm, points in grid.arms.items()}
            unit = sweep.unit(grid.metric)
            lines += misfits(grid.field, grid.metric, scores, grid.curves, unit, grid.distance_to_one)
    return lines


def record_misfits(result: Mapping[str, Any]) -> list[str]:
    """Returns these lines for an archived sweep, from its result.json."""
    lines = []
    for entry in tuning_entries(as_dict(result.get("tuning"))):
        curves = {arm: curve for arm, found in as_dict(entry.get("curves")).items() if (curve := parse_curve(found))}
        scores = {
            arm: {
                float(value): {int(seed): math.inf if score is None else score for seed, score in by_seed.items()}
                for value, by_seed in values.items()
            }
            for arm, values in as_dict(entry.get("scores")).items()
        }
        metric, unit = result["metric"], result["unit"]
        lines += misfits(entry["field"], metric, scores, curves, unit, bool(entry.get("distance_to_one")))
    return lines
