"""Arms that are tuned by one metric and judged by another."""

import itertools
import math

from zoo.errors import listed
from zoo.lab.declarations import used_metrics
from zoo.lab.metrics import higher_is_better
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import tuning_entries


def judged_by_another_metric(sweep: SweepResults) -> list[str]:
    """Returns a line for each metric that contrasts judge and that the arms were not tuned by, with
    the share of all pairs of runs that both metrics order alike.

    A search by a loss finds the best value for the loss. Where a loss says little about a score, as
    where few of the predicted tokens are the answers that are counted, the arms of a tuned sweep are
    not at their best scores.
    """
    fields = [entry["field"] for entry in tuning_entries(sweep.tuning) if entry.get("field")]
    if not fields:
        return []
    return [
        f"arms are tuned by {sweep.metric} and judged by {metric}, for which other values of {listed(fields, 3)} may "
        f"be better{_agreement(sweep, metric)}"
        for metric in used_metrics(sweep.metric, sweep.contrasts)
        if metric != sweep.metric
    ]


def _agreement(sweep: SweepResults, metric: str) -> str:
    """Returns how many pairs of runs both metrics order alike, as the end of a sentence."""
    signs = [-1 if higher_is_better(name) else 1 for name in (sweep.metric, metric)]
    scores = []
    for run in sweep.runs:
        found = [run.final(name) for name in (sweep.metric, metric)]
        if all(score is not None and math.isfinite(score) for score in found):
            scores.append([sign * score for sign, score in zip(signs, found, strict=True)])
    orders = [(x - y, v - w) for (x, v), (y, w) in itertools.combinations(scores, 2)]
    ordered = [loss * score > 0 for loss, score in orders if loss and score]
    if not ordered:
        return ""
    return f": both order {sum(ordered)} of {len(ordered)} pairs of runs alike"
