"""The tables of the grid that each arm's value was chosen from."""

import math

from zoo.lab.formatting import confidence_level, interval, number, plus_minus, rounded_mean
from zoo.lab.report.html_tables import arm_cell, numeric, table
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import TuningGrid
from zoo.lab.statistics.paired import ALPHA, spread


def label_of(sweep: SweepResults, arm: str) -> str:
    """The label of an arm that rates name, which in a sweep without factors is the sweep itself."""
    return next((found.label for found in sweep.arms if found.name == arm), arm or sweep.arms[0].label)


def grid_table(sweep: SweepResults, rates: TuningGrid) -> str:
    """What each value came to in each arm, and which one was taken."""
    values = sorted({one.value for tries in rates.arms.values() for one in tries})
    rows = []
    for arm, tries in rates.arms.items():
        cells = [arm_cell(label_of(sweep, arm))]
        by_value = {one.value: one for one in tries}
        for value in values:
            one = by_value.get(value)
            found = spread(score for score in one.scores.values() if math.isfinite(score)) if one else None
            lost = sum(not math.isfinite(score) for score in one.scores.values()) if one else 0
            text = (plus_minus(found.mean, found.sd) if found else "") + (f" ({lost} diverged)" if lost else "")
            cells.append(numeric(text.strip() or "–"))
        cells.append(numeric(f"{rates.chosen[arm]:g}" if arm in rates.chosen else "–"))
        rows.append(cells)
    header = ["arm", *(f"{value:g}" for value in values), "chosen"]
    seeds = ", ".join(map(str, rates.seeds))
    return table(
        f"{rates.metric} by {rates.field}, over the seeds that choose ({seeds})", header, rows, range(1, len(header))
    )


def same_value_table(sweep: SweepResults, rates: TuningGrid) -> str:
    """Every arm against the first one at each value, as if all had been trained at that one; empty
    for a single arm.
    """
    first = next(iter(rates.arms))
    rows = []
    for arm, by_value in rates.at_the_same(first).items():
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
    header = ["arm", rates.field, "difference", f"{confidence_level(ALPHA)} interval", "pairs"]
    caption = f"{rates.metric} at the same {rates.field}, minus that of {label_of(sweep, first)}"
    return table(caption, header, rows, range(1, 5))
