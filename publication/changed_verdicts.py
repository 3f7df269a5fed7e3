"""changed_verdicts.md and .csv: verdicts that a later procedure of judging has changed, and why."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from publication.claims_table import contrasts_of_claim, read_measured
from publication.sizes import ClaimResult, claim_verdict, counted_results
from publication.verdict_order import SILENT, VERDICT_OF, deciding_rank
from zoo.files import write_atomic
from zoo.lab.declarations import claim_ids, claim_order
from zoo.lab.formatting import interval, rounded_mean
from zoo.lab.report.archive.experiment_page import as_cell, tuned_by
from zoo.lab.report.archive.result_record import EARLIER_PROCEDURE, ELSEWHERE, FITTED, GRID, NONE, PROCEDURE
from zoo.lab.report.archive.results_index import ArchivedResult
from zoo.lab.report.archive.sweep_tables import csv_text

PAGE, TABLE = "changed_verdicts.md", "changed_verdicts.csv"
_WIDTH = 140
_COLUMNS = ("claim", "experiment", "size", "before", "now", "why")
_HEAD = (
    "# Verdicts that a later procedure has changed",
    "",
    "Written by `python -m publication results`. `python -m publication rejudge` applies today's procedure to the",
    "archived runs; it trains nothing. A row is the verdict of one experiment on one claim. The reason is that of the",
    "first contrast that decides; the page of the experiment has all of them.",
    "",
)


class Verdicts(NamedTuple):
    """The verdict of an experiment on a claim, by an earlier procedure and now.

    Attributes:
        page: path of the experiment's page.
        before: the earliest that is known; the same as `now` if it was judged once.
        why: the reason for `now`.
    """

    claim: str
    experiment: str
    page: str
    size: str
    before: str
    now: str
    why: str


def all_verdicts(results: Sequence[ArchivedResult], output: Path, derived: Sequence[Verdicts] = ()) -> list[Verdicts]:
    """Returns the verdicts of all archived experiments and measurements, in the order of their claims.

    Args:
        results: the archived experiments.
        output: the folder of the archive, with the measurements.
        derived: verdicts that follow from several experiments.
    """
    found = [*(one for each in results for one in _of_experiment(each)), *derived]
    for claim, records in read_measured(output).items():
        found += [
            Verdicts(claim, record["name"], record["page"], record["device"], *_of_measurement(record))
            for record in records
        ]
    return sorted(found, key=lambda one: (*claim_order(one.claim), one.experiment))


def _of_experiment(each: ArchivedResult) -> Iterator[Verdicts]:
    earlier = each.result.get("verdicts_before", ())
    for claim in claim_ids(each.claim) if each.claim != "~" else ():
        now = claim_verdict(each.result, each.contrasts, claim)
        before = earlier[0]["claims"].get(claim, now) if earlier else now
        why = _reason(contrasts_of_claim(each.contrasts, claim))
        yield Verdicts(claim, each.name, f"{each.name}/README.md", each.result["size"], before, now, why)


def _of_measurement(record: Mapping[str, Any]) -> tuple[str, str, str]:
    earlier = record.get("verdicts_before", ())
    before = earlier[0]["verdict"] if earlier else record["verdict"]
    return before, record["verdict"], record.get("reason", record["effect"])


def _reason(contrasts: Sequence[Mapping[str, str]]) -> str:
    """Returns why the contrast that decides has its outcome: a reason, or the interval."""
    if not contrasts:
        return ""
    row = min(contrasts, key=lambda row: deciding_rank(row["outcome"]))
    if reason := row.get("reason"):
        return f"{row['contrast']}: {reason}"
    mean, low, high = (float(row[name] or "nan") for name in ("a - b", "low", "high"))
    return f"{row['contrast']}: a − b is {rounded_mean(mean, low, high)} ({interval(low, high)}); {row['rule']}"


def write_changed_verdicts(verdicts: Sequence[Verdicts], output: Path) -> Path:
    """Writes the page and the table; returns the path of the page."""
    changed = [one for one in verdicts if one.before != one.now]
    rows = [{name: getattr(one, name) for name in _COLUMNS} for one in changed]
    write_atomic(output / TABLE, csv_text(rows) if rows else ",".join(_COLUMNS) + "\n")
    lines = [f"| {' | '.join(_COLUMNS)} |", f"|{' --- |' * len(_COLUMNS)}"]
    for one in changed:
        cells = [one.claim, f"[{one.experiment}]({one.page})", one.size, one.before, f"**{one.now}**", one.why]
        lines.append(f"| {' | '.join(map(as_cell, cells))} |")
    page = output / PAGE
    text = [*_HEAD, changes_text(verdicts), "", *(lines if changed else []), "", f"Table: [{TABLE}]({TABLE}).", ""]
    write_atomic(page, "\n".join(text))
    return page


def changes_text(verdicts: Sequence[Verdicts]) -> str:
    """Returns sentences that count the verdicts that changed, before and now."""
    changed = Counter((one.before, one.now) for one in verdicts if one.before != one.now)
    if not changed:
        return wrapped(
            f"Judged by the procedure of today ({PROCEDURE}), some of them on new runs, none of the {len(verdicts)} "
            f"verdicts of single experiments differs from the first one ({EARLIER_PROCEDURE})."
        )
    order = list(VERDICT_OF.values())
    moves = [
        f"{n} from {before} to {now}"
        for (before, now), n in sorted(changed.items(), key=lambda item: (-item[1], *map(order.index, item[0])))
    ]
    return wrapped(
        f"Judged by the procedure of today ({PROCEDURE}), some of them on new runs, "
        f"{sum(changed.values())} of the {len(verdicts)} verdicts of single experiments differ from the first one "
        f"(mostly {EARLIER_PROCEDURE}): {', '.join(moves)}."
    )


def silence_text(verdicts: Mapping[str, str], results: Mapping[str, Sequence[ClaimResult]]) -> str:
    """Returns sentences that say about how many claims the experiments say nothing, and on what
    settings the others are supported.

    Args:
        verdicts: {id: verdict} of the claims that were judged on trained models or measurements.
        results: the results of each experiment, by the claim's id.
    """
    found, total = Counter(verdicts.values()), len(verdicts)
    silent = sum(found[verdict] for verdict in SILENT)
    share = "most" if 2 * silent > total else "many" if 4 * silent > total else "some"
    parts = " and ".join(f"{found[verdict]} {_are(found[verdict])} {verdict}" for verdict in SILENT if found[verdict])
    head = f"**About {share} of the claims the experiments say nothing**: of " if silent else "Of "
    return wrapped(
        f"{head}{total} that were judged on trained models or measurements, {parts or 'all could be judged'}. "
        f"{found['supported']} {_are(found['supported'])} supported{_supported_on(verdicts, results)}, "
        f"{found['not supported']} not, and "
        f"{found['undecided']} {_are(found['undecided'])} undecided. *Not testable*: no arm beats what counts of words "
        "or n-grams reach, or nothing is left to gain, or a control beats every arm, or the claim is about other "
        "hardware. *Not tuned*: the rate of an arm was to be tuned, and is not the minimum of a curve fitted at this "
        "size."
    )


def _supported_on(verdicts: Mapping[str, str], results: Mapping[str, Sequence[ClaimResult]]) -> str:
    """Counts in parentheses the supported claims by how the arms of their experiments were tuned."""
    kinds = fitted, others, measured = (
        "with settings fitted in each arm",
        "without fitted settings",
        "by measurements of time or memory",
    )
    found = Counter[str]()
    for claim in (claim for claim, verdict in verdicts.items() if verdict == "supported"):
        tuned = {tuned_by(each.headline.result) for each in counted_results(results.get(claim, ()))}
        found[measured if not tuned else others if tuned - {FITTED} else fitted] += 1
    parts = ", ".join(f"{found[kind]} {kind}" for kind in kinds if found[kind])
    return f" ({parts})" if parts else ""


def settings_text(results: Sequence[Mapping[str, Any]]) -> str:
    """Returns a sentence that counts how the arms of the archived experiments were tuned.

    Args:
        results: the result.json of each.
    """
    found = Counter(map(tuned_by, results))
    return wrapped(
        f"Of {len(results)} archived experiments, {found[FITTED]} fitted the rates of their arms, {found[GRID]} took "
        f"the best ones of a grid, {found[ELSEWHERE]} took those of another size, and {found[NONE]} tuned nothing."
    )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def wrapped(text: str) -> str:
    """Returns a paragraph of Markdown in lines."""
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
