"""Tables of the values that were tried in each arm, and of the curves through their results."""

import math

from zoo.lab.formatting import confidence_level, interval, number, plus_minus, rounded_mean
from zoo.lab.report.html_tables import Cell, arm_cell, numeric, table
from zoo.lab.results.floor_lines import floor_lines
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import TuningGrid
from zoo.lab.statistics.paired import ALPHA, spread


def label_of(sweep: SweepResults, arm: str) -> str:
    """Returns the label of an arm of a tuning grid, whose name is empty without factors."""
    return next((found.label for found in sweep.arms if found.name == arm), arm or sweep.arms[0].label)


def grid_table(sweep: SweepResults, grid: TuningGrid) -> str:
    """Returns a table of the result of each value in each arm, and the chosen one."""
    values = sorted({point.value for points in grid.arms.values() for point in points})
    rows = []
    for arm, points in grid.arms.items():
        cells = [arm_cell(label_of(sweep, arm))]
        by_value = {point.value: point for point in points}
        for value in values:
            point = by_value.get(value)
            found = spread(score for score in point.scores.values() if math.isfinite(score)) if point else None
            lost = sum(not math.isfinite(score) for score in point.scores.values()) if point else 0
            text = (plus_minus(found.mean, found.sd) if found else "") + (f" ({lost} diverged)" if lost else "")
            cells.append(numeric(text.strip() or "–"))
        cells.append(numeric(f"{grid.chosen[arm]:g}" if arm in grid.chosen else "–"))
        rows.append(cells)
    for line in floor_lines(sweep, grid.metric):
        rows.append([Cell(f"floor: {line.name}"), *[numeric(number(line.score))] * len(values), numeric("–")])
    header = ["arm", *(f"{value:g}" for value in values), "chosen"]
    seeds = ", ".join(map(str, grid.seeds))
    return table(f"{grid.metric} by {grid.field}, over the tuning seeds ({seeds})", header, rows, range(1, len(header)))


def curve_table(sweep: SweepResults, grid: TuningGrid) -> str:
    """Returns a table of the fitted curve of each arm; empty without curves."""
    if not grid.curves:
        return ""
    rows = []
    for arm, curve in grid.curves.items():
        tried = len(grid.arms.get(arm, ())), sum(len(point.scores) for point in grid.arms.get(arm, ()))
        cells = [arm_cell(label_of(sweep, arm)), numeric(f"{tried[0]} ({tried[1]})"), numeric(f"{grid.chosen[arm]:g}")]
        if curve.problem:
            cells += [numeric("–")] * 3 + [Cell(f"not tuned: {curve.problem}")]
        else:
            cells += [*map(numeric, map(number, (curve.curvature, curve.mean_regret, curve.sd))), Cell("")]
        rows.append(cells)
    header = ["arm", "values (runs)", f"{grid.field}", "curvature", "expected regret", "SD of a run", ""]
    caption = f"Curves of {grid.metric} over ln {'(1 - value)' if grid.distance_to_one else 'value'}: y = c x² + ..."
    return table(caption, header, rows, range(1, 6))


def same_value_table(sweep: SweepResults, grid: TuningGrid) -> str:
    """Returns a table of every arm against the first one at each value; empty for a single arm."""
    first = next(iter(grid.arms))
    rows = []
    for arm, by_value in grid.differences_at_same_value(first).items():
        for value, difference in by_value.items():
            if difference.n:
                rows.append(
                    [
                        arm_cell(label_of(sweep, arm)),
                        numeric(f"{value:g}"),
                        numeric(
                            rounded_mean(difference.mean, difference.low, difference.high)
                            if difference.n > 1
                            else number(difference.mean)
                        ),
                        numeric(interval(difference.low, difference.high)),
                        numeric(str(difference.n)),
                    ]
                )
    if not rows:
        return ""
    header = ["arm", grid.field, "difference", f"{confidence_level(ALPHA)} interval", "pairs"]
    caption = f"{grid.metric} at the same {grid.field}, minus that of {label_of(sweep, first)}"
    return table(caption, header, rows, range(1, 5))
