"""The floors of a sweep as rows of tables and lines of charts."""

from collections.abc import Mapping
from typing import NamedTuple

from zoo.errors import listed
from zoo.lab.formatting import number
from zoo.lab.metrics import higher_is_better
from zoo.lab.results.curves import LossByLength
from zoo.lab.results.sweep_results import SweepResults


class FloorLine(NamedTuple):
    """A floor by one metric.

    Attributes:
        name: such as "5-gram"; with the arms that have it where another arm's is different.
        score: by the metric.
        hardest: whether no other floor has a better score.
    """

    name: str
    score: float
    hardest: bool


def floor_lines(sweep: SweepResults, metric: str) -> list[FloorLine]:
    """Returns the different floors of a sweep's arms by a metric, in the order of their names."""
    arms: dict[tuple[str, float], list[str]] = {}
    for arm in sweep.arms:
        for name, score in sweep.floor_scores(arm.name, metric).items():
            arms.setdefault((name, score), []).append(arm.label)
    names = [name for name, _ in arms]
    ordered = sorted(arms.items(), key=lambda item: names.index(item[0][0]))
    return as_lines(
        {
            name if names.count(name) == 1 else f"{name} ({listed(labels, 2)})": score
            for (name, score), labels in ordered
        },
        metric,
    )


def as_lines(scores: Mapping[str, float], metric: str) -> list[FloorLine]:
    """Returns the lines of {floor: score}."""
    best = (max if higher_is_better(metric) else min)(scores.values(), default=None)
    return [FloorLine(name, score, score == best) for name, score in scores.items()]


def floors_by_length(sweep: SweepResults, found: LossByLength) -> dict[str, dict[int, float]]:
    """Returns {floor: {evaluation length: score}} of what `loss_by_length` returns."""
    by_name: dict[str, dict[int, float]] = {}
    for length in found.lengths:
        metric = found.metric if length == found.trained else f"{found.metric}@{length}"
        for line in floor_lines(sweep, metric):
            by_name.setdefault(line.name, {})[length] = line.score
    return by_name


def floors_sentence(sweep: SweepResults, metric: str) -> str:
    """Returns the floors by a metric as a line, or why there are none; empty for older sweeps."""
    found = ", ".join(f"{line.name} {number(line.score)}" for line in floor_lines(sweep, metric))
    notes = floors_note(sweep)
    return f"floors of {sweep.with_unit(metric)}: {found} ({notes})" if found else notes and f"floors: {notes}"


def floors_note(sweep: SweepResults) -> str:
    """Returns what the floors of all arms were counted on, or why there are none."""
    notes = [floors.note for floors in (sweep.floors or {}).values() if floors.note]
    return "; ".join(dict.fromkeys(notes))
