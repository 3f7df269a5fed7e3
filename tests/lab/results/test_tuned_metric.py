"""Arms that are tuned by a loss and judged by a score."""

import math
from pathlib import Path

from zoo.lab.declarations import Contrast, Side
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuned_metric import judged_by_another_metric

LOSS, SCORE = "eval/loss", "measured/probe_copy"
TUNING = {"field": "optimizer.learning_rate", "further": [{"field": "optimizer.weight_decay"}]}


def sweep(losses, scores, metric=SCORE, tuning=TUNING):
    """Two arms, whose runs have these losses and scores in turns."""
    runs = [
        RunRecord(
            Path(f"{index}"),
            "AB"[index % 2],
            index // 2,
            status={"state": "done"},
            rows=[{"step": 1.0, LOSS: loss, **({} if score is None else {SCORE: score})}],
        )
        for index, (loss, score) in enumerate(zip(losses, scores, strict=True))
    ]
    contrast = Contrast("c", Side("A", metric), Side("B", metric), "superiority", 0.0, "")
    arms = [Arm(name, name, {"start": name}) for name in "AB"]
    return SweepResults(Path("."), "s", LOSS, arms, runs, [0, 1], [contrast], tuning=tuning)


def test_the_share_of_pairs_in_one_order_is_counted():
    # The last run has the lowest loss with the third, and a worse score than the second.
    found = sweep([2.0, 1.8, 1.6, 1.6], [0.1, 0.3, 0.8, 0.2])
    (line,) = judged_by_another_metric(found)
    assert line == (
        f"arms are tuned by {LOSS} and judged by {SCORE}, for which other values of optimizer.learning_rate, "
        "optimizer.weight_decay may be better: both order 4 of 5 pairs of runs alike"
    )
    assert line in sweep_caveats(found)


def test_runs_without_a_score_are_left_out():
    (line,) = judged_by_another_metric(sweep([2.0, 1.8, 1.6, math.nan], [0.1, 0.3, None, 0.2]))
    assert line.endswith("both order 1 of 1 pairs of runs alike")
    (line,) = judged_by_another_metric(sweep([2.0, 1.8], [0.1, None]))
    assert line.endswith("may be better")


def test_what_is_not_tuned_or_judged_by_the_same_metric_has_no_line():
    assert not judged_by_another_metric(sweep([2.0, 1.8], [0.1, 0.3], metric=LOSS))
    assert not judged_by_another_metric(sweep([2.0, 1.8], [0.1, 0.3], tuning={}))
