"""Floors in the folder of a sweep: what is kept of them, and how they are read back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.files import read_json
from zoo.lab.metrics import base_name

FLOORS_FILE = "floors.json"
UNIGRAM, BIGRAM, TARGET, ANSWER = "unigram", "bigram", "most frequent target", "constant answer"
CONTEXT_ONLY = "context-only answer"
MAJORITY_CLASS, MAJORITY_TAG, MEAN = "majority class", "majority tag", "mean of the labels"
BAG_OF_WORDS, TAG_BY_WORD = "bag of words", "tag by word"
# Answers that are the same for all inputs.
CONSTANT = (UNIGRAM, MAJORITY_CLASS, MAJORITY_TAG, MEAN, TARGET, ANSWER)
# In the note of a run that reads more tokens than were counted.
PART = "the first of its training"
# The note of a run whose tokenizer is that of a prerequisite run, before that is trained.
WAITING = "the run whose tokenizer it reads is not trained yet"


@dataclass(frozen=True)
class RunFloors:
    """The floors of the runs of an arm.

    Attributes:
        scores: {floor: {metric: score}}, such as {"unigram": {"eval/loss": 3.27}}. An n-gram of 4
            tokens of context is called "5-gram".
        best: {metric: the best score that any model can reach}, where it is known and not 0 or 1.
        note: what was counted, or why there are no floors.
    """

    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    best: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def waits(self) -> bool:
        """Whether there will be floors when the prerequisite runs are trained."""
        return self.note == WAITING

    def of(self, metric: str) -> dict[str, float]:
        """Returns {floor: score} of a metric, of the floors that have it.

        An average of the weights ("eval/ema/loss") is scored on the same rows as the weights.
        """
        name = plain_metric(metric)
        return {floor: scores[name] for floor, scores in self.scores.items() if name in scores}


def plain_metric(metric: str) -> str:
    """Returns the metric that floors have: "eval/loss@256" for "eval/ema/loss@256"."""
    name, at, length = metric.partition("@")
    return f"eval/{base_name(name)}{at}{length}" if metric.startswith("eval/") else metric


def floors_record(floors: RunFloors) -> dict[str, Any]:
    """Returns floors as plain JSON."""
    return {
        "scores": {name: dict(scores) for name, scores in floors.scores.items()},
        "best": dict(floors.best),
        "note": floors.note,
    }


def parse_floors(record: Any) -> RunFloors | None:
    """Returns the floors in a record of `floors_record`; None for anything else."""
    if not isinstance(record, dict) or not isinstance(record.get("note"), str):
        return None
    scores, best = record.get("scores"), record.get("best")
    if not isinstance(scores, dict) or not all(_are_numbers(each) for each in (best, *scores.values())):
        return None
    return RunFloors(scores, best, record["note"])


def _are_numbers(values: Any) -> bool:
    return isinstance(values, dict) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values.values()
    )


def read_floors(folder: Path, problems: list[str]) -> dict[str, RunFloors] | None:
    """Returns the floors of each arm from a sweep's folder; None if they were not computed.

    Appends what is wrong with the file to `problems`.
    """
    path = folder / FLOORS_FILE
    try:
        record = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        problems.append(f"{path}: {error}; remove it, and zoo run writes it again")
        return None
    arms = record.get("arms") if isinstance(record, dict) else None
    found = {name: parse_floors(each) for name, each in arms.items()} if isinstance(arms, dict) else {"": None}
    if None in found.values():
        problems.append(f"{path}: not the floors of arms; remove it, and zoo run writes it again")
        return None
    return found
