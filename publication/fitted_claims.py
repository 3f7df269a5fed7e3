"""The table of the claims that were judged with settings fitted in each arm."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from publication.changed_verdicts import wrapped
from publication.claims_table import CHECK, ListedClaims, contrasts_of_claim, effects, published
from publication.sizes import ClaimResult, SizedResult
from publication.verdict_order import DECIDED
from zoo.lab.formatting import count
from zoo.lab.report.archive.experiment_page import as_cell, described_size, tuned_by
from zoo.lab.report.archive.result_record import FITTED
from zoo.lab.sizes import RUNGS

_JUDGED = (*DECIDED, "undecided")


def fitted_text(listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]], root: str) -> str:
    """Returns a table of the claims whose arms each had a fitted setting, at a size with enough tokens
    (`zoo.lab.sizes.RUNGS`), and that could be tested, with the differences that such experiments tell
    apart and the numbers of parameters.

    Args:
        listed: from `publication.claims_table.read_claims`.
        results: the results of each experiment, by the claim's id.
        root: path of the folder of the results from the page, with a slash if it is not empty.
    """
    rows, verdicts, widths, parameters = [], Counter[str](), defaultdict(list), []
    for claim in listed.claims:
        fitted = [each for found in results.get(claim["id"], ()) for each in fitted_results(found)]
        for name, one in fitted if claim["direction"] != CHECK else ():
            contrasts = contrasts_of_claim(one.contrasts, claim["id"])
            for row in contrasts:
                widths[size_and_seeds(one.result)].append((float(row["high"]) - float(row["low"])) / 2)
            cells = (
                f"{claim['id']} {claim['statement']}",
                f"**{one.verdict}**",
                effects(contrasts),
                f"[{described_size(one.result)}]({root}{one.name}/README.md)",
                published(listed.asked_by(claim, name), one.verdict),
            )
            rows.append(f"| {' | '.join(map(as_cell, cells))} |")
            verdicts[one.verdict] += 1
            parameters += [arm["parameters"] for arm in one.result["arms"]]
    if not rows:
        return "No claim has been judged with settings fitted in each arm."
    told_apart = " and ".join(f"{statistics.median(found):.3f} (at {size})" for size, found in sorted(widths.items()))
    counts = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in _JUDGED if verdicts[verdict])
    return "\n".join(
        [
            wrapped(
                f"**{count(len(rows), 'claim')} could be judged with settings fitted in each arm**: {counts}. Their "
                "intervals have the uncertainty of the fit; half of one, which is what such an experiment tells apart, "
                f"is in the median {told_apart} nats."
            ),
            "",
            "| claim | verdict | a − b | size | published |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            wrapped(
                f"These models have {_millions(min(parameters))} to {_millions(max(parameters))} million parameters. "
                "Their sizes are those at which a plain decoder reads 20 bytes or more of one text for each parameter. "
                "What holds for them may not hold for larger models."
            ),
        ]
    )


def size_and_seeds(result: Mapping[str, Any]) -> str:
    """Returns the size and the seeds of a result in words, `rung1 with 5 seeds`."""
    return f"{result['size']} with {count(len(result['seeds']), 'seed')}"


def _millions(parameters: int) -> str:
    return f"{parameters / 1e6:.1f}"


def fitted_results(found: ClaimResult) -> Iterator[tuple[str, SizedResult]]:
    """Yields the name of the experiment and the largest of its results that had fitted settings and
    enough tokens, and could be tested.
    """
    at_sizes = sorted([found.headline, *found.others], key=lambda one: -one.parameters)
    judged = [one for one in at_sizes if one.result["size"] in RUNGS and one.verdict in _JUDGED]
    yield from [(found.name, one) for one in judged if tuned_by(one.result) == FITTED][:1]
