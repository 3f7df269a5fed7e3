"""A sentence about experiments at `tiny`: which of them have arms that end below counts of n-grams."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from publication.changed_verdicts import wrapped
from zoo.errors import listed
from zoo.lab.formatting import count, number
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
    found = [arm for each in results for arm in _lowest(each, output)]
    if not found:
        return ""
    below = sorted((one for one in found if one.loss < one.floor), key=lambda one: one.loss)
    shown = [f"{one.experiment} ({one.arm}: {number(one.loss)} against {number(one.floor)})" for one in below]
    above = min((one for one in found if one.loss >= one.floor), key=lambda one: one.loss, default=None)
    which = f"the others are {listed(shown, len(shown))}" if below else ""
    closest = f"the lowest of them ends at {number(above.loss)} nats ({above.experiment}, {above.arm})" if above else ""
    details = "; ".join(filter(None, (closest, which)))
    return wrapped(
        f"Of the {count(len(found), 'archived experiment')} at `{SIZE}` that judge the loss of decoders after "
        f"{TOKENS:,} tokens, {len(found) - len(below)} have no arm whose mean loss is below that of its 5-gram model"
        f"{f': {details}' if details else ''}."
    )


def _lowest(each: ArchivedResult, output: Path) -> Iterator[LowestArm]:
    """Yields the lowest arm of an experiment of this size and budget that has such counts."""
    result = each.result
    if result["metric"] != METRIC or result["size"] != SIZE:
        return
    tokens = {float(row["tokens"]) for row in read_table(output / each.name / "runs.csv") if row.get("tokens")}
    if max(tokens, default=0) != TOKENS:
        return
    arms = []
    for arm in result["arms"]:
        floor = ((arm.get("floors") or {}).get("scores") or {}).get(COUNTS, {}).get(METRIC, math.nan)
        if arm["mean"] is not None and math.isfinite(floor):
            arms.append(LowestArm(each.name, arm["name"], arm["mean"], floor))
    yield from sorted(arms, key=lambda arm: arm.loss)[:1]
