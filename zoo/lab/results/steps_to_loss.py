"""Number of updates until a run reaches the loss at which another arm ends.

`steps_to/ARM` of a run is the step at which its `eval/loss` first reaches the last `eval/loss` of the
run of ARM with the same seed, interpolated linearly between two evaluations. A run that does not
reach it counts as if its last step did, which is too early: a rule about fewer steps is then harder
to meet for the other side, never easier.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

from zoo.lab.metrics import steps_to_arm
from zoo.lab.results.run_records import RunRecord, Series

LOSS = "eval/loss"


def add_steps_to_loss(runs: list[RunRecord], metrics: Iterable[str]) -> list[RunRecord]:
    """Returns the runs with values added for every metric of the form `steps_to/ARM`.

    A run has no value while it or the run of ARM with its seed is not done.
    """
    for metric in metrics:
        if not (arm := steps_to_arm(metric)):
            continue
        targets = {run.seed: run.final(LOSS) for run in runs if run.arm == arm}
        runs = [_with_steps(run, metric, targets.get(run.seed)) for run in runs]
    return runs


def _with_steps(run: RunRecord, metric: str, target: float | None) -> RunRecord:
    series = run.series(LOSS)
    if run.state != "done" or target is None or not math.isfinite(target) or not len(series.step):
        return run
    return replace(run, rows=[*run.rows[:-1], run.rows[-1] | {metric: steps_to(series, target)}])


def steps_to(series: Series, target: float) -> float:
    """Returns the step at which a series first is at most `target`, or its last step.

    Args:
        series: at least one evaluation, ordered by step; values that are not finite reach nothing.
        target: a loss.
    """
    found = first_step(series, target)
    return float(series.step[-1]) if found is None else found


def first_step(series: Series, target: float) -> float | None:
    """Returns the step at which a series first is at most `target`, interpolated linearly; None if it
    never is.
    """
    reached = [index for index, value in enumerate(series.value) if value <= target]
    if not reached:
        return None
    first = reached[0]
    if first == 0 or not math.isfinite(before := series.value[first - 1]):
        return float(series.step[first])
    share = (before - target) / (before - series.value[first])
    return float(series.step[first - 1] + share * (series.step[first] - series.step[first - 1]))
