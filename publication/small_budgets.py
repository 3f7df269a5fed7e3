"""A sentence about experiments at `tiny`: which of them have arms that end below counts of n-grams."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from publication.changed_verdicts import wrapped
from zoo.errors import listed
from zoo.lab.formatting import number
from zoo.lab.report.archive.experiment_page import read_table
from zoo.lab.report.archive.results_index import ArchivedResult

SIZE, TOKENS, METRIC, COUNTS = "tiny", 512_000, "eval/loss", "5-gram"


class LowestArm(NamedTuple):
    """The arm of an experiment with the lowest mean loss.

    Attributes:
        experiment, arm: their names.
        loss: its mean over seeds.
        floor: of the n-grams counted on the data that it was trained on.
    """

    experiment: str
    arm: str
    loss: float
    floor: float


def floors_text(results: Sequence[ArchivedResult], output: Path) -> str:
    """Returns how many experiments at `tiny`, with its usual budget, have an arm whose mean loss is
    below that of the 5-gram model of its data, and which; empty without such experiments.

    Args:
        results: the archived experiments.
        output: their folder.
    """
    found = sorted(filter(None, (_lowest(each, output) for each in results)), key=lambda one: one.loss)
    if not found:
        return ""
    below = [one for one in found if one.loss < one.floor]
    above = [one for one in found if one.loss >= one.floor]
    sentences = [
        f"Experiments at `{SIZE}` that score decoders by their loss after {TOKENS:,} tokens: {len(found)}. Those with "
        f"an arm whose mean loss is below that of its {COUNTS} model: {len(below)}"
    ]
    if below:
        arms = [f"{one.experiment} ({one.arm}: {number(one.loss)} against {number(one.floor)} nats)" for one in below]
        sentences[0] += f", {listed(arms, len(arms))}"
    if above:
        lowest = above[0]
        sentences.append(
            f"The lowest arm of the others ends at {number(lowest.loss)} nats ({lowest.experiment}, {lowest.arm})"
        )
    return wrapped(f"{'. '.join(sentences)}.")


def _lowest(each: ArchivedResult, output: Path) -> LowestArm | None:
    """Returns the lowest arm of an experiment; None at another size or budget, on a second text, or
    without counts.
    """
    result = each.result
    if result["metric"] != METRIC or result["size"] != SIZE or result.get("corpus"):
        return None
    tokens = (float(row["tokens"]) for row in read_table(output / each.name / "runs.csv") if row.get("tokens"))
    if max(tokens, default=0) != TOKENS:
        return None
    arms = []
    for arm in result["arms"]:
        floor = ((arm.get("floors") or {}).get("scores") or {}).get(COUNTS, {}).get(METRIC, math.nan)
        if arm["mean"] is not None and math.isfinite(floor):
            arms.append(LowestArm(each.name, arm["name"], arm["mean"], floor))
    return min(arms, key=lambda arm: arm.loss, default=None)
