"""`python -m publication rejudge`: judges archived sweeps again, by the procedure of today.

The runs stay as they are; what changes is what follows from them: verdict, outcomes and intervals in
result.json, contrasts.csv, differences.csv with its picture, and the pages. The verdict of an earlier
procedure is kept in result.json under `verdicts_before`, with the name of the procedure, so that
judging again gives the same files.
"""

import argparse
import csv
import io
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from publication.archived_floors import with_floors
from publication.archived_sweep import RECORDED, ArchivedSweep, read_archived_sweep
from publication.sizes import claim_verdict
from zoo.errors import ConfigError, did_you_mean, not_writable
from zoo.files import write_atomic, write_json
from zoo.lab.declarations import PREMISES_LATER, claim_ids
from zoo.lab.report.archive.experiment_page import TIMES_THE_TOKENS, read_contrasts, read_table
from zoo.lab.report.archive.result_record import (
    EARLIER_PROCEDURE,
    JUDGED,
    PROCEDURE,
    commits_record,
    finite_numbers,
    floors_of_sweep,
    in_order,
    tuning_method,
    tuning_record,
    verdict_record,
)
from zoo.lab.report.archive.sweep_tables import contrast_rows, csv_text, difference_rows, tables_in
from zoo.lab.report.figures import write_figures
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import judge

# Losses in runs.csv have five decimals, from which an interval of three pairs may be this far off.
_ROUNDING = 4e-5
_BOUNDS = ("low", "high")
DIFFERENCES = "differences.png"
# A worth in tokens has two decimals, which a smaller shift of an interval hardly changes.
_KEPT_BELOW = 0.01
# The interval in a text such as "1.93 (1.58 to 2.51), extrapolated".
_BETWEEN = re.compile(r" \([^()]* to [^()]*\)")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that select what is judged."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="archived experiments (default: all)")
    parser.add_argument(
        "--max-seeds",
        metavar="N",
        type=int,
        help="plan the looks of experiments whose archive does not record them for up to N seeds (default: the "
        "--max-seeds of the archived command, or what the level of the archived intervals says)",
    )


def rejudge(output: Path, experiments: Path, names: Sequence[str] = (), max_seeds: int | None = None) -> list[str]:
    """Judges archived experiments again and writes their files.

    Args:
        output: the folder of the archive.
        experiments: the folder of the experiment files.
        names: of the experiments; all if empty.
        max_seeds: as in `read_archived_sweep`.

    Returns:
        A line for each experiment: its verdict, where its looks are from, and what is not known.

    Raises:
        ConfigError: there is no such experiment, or its files cannot be read or written.
    """
    known = {path.parent.name: path.parent for path in sorted(output.glob("*/result.json"))}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"{output}: there is no result of {unknown[0]}{did_you_mean(unknown[0], known)}")
    # All archives are read before the first is written.
    found = [
        with_floors(read_archived_sweep(known[name], experiments, max_seeds), lambda line: print(line, file=sys.stderr))
        for name in names or known
    ]
    return [_judge_again(each) for each in found]


def _judge_again(archived: ArchivedSweep) -> str:
    """Writes what follows from the runs of one experiment; returns a line about it."""
    sweep, result, folder = archived.sweep, archived.result, archived.sweep.folder
    before = read_contrasts(folder)
    verdict = judge(sweep)
    rows = _merged(before, _as_read(contrast_rows(sweep, verdict)), "contrast", ("a - b", "low", "high"))
    earlier = _earlier_verdicts(result, before, {row["contrast"]: row["outcome"] for row in rows}, verdict.overall)
    record = {
        **{name: value for name, value in result.items() if name not in JUDGED},
        "claim": _claim(result["claim"], sweep.claim),
        **verdict_record(verdict),
        **floors_of_sweep(sweep),
        **({"verdicts_before": earlier} if earlier else {}),
        "looks": {str(seeds): level for seeds, level in sweep.looks.items()},
        **({} if archived.looks == RECORDED else {"looks_from": archived.looks}),
        "tuned": tuning_method(sweep.tuning),
        "tuning": tuning_record(sweep.tuning, archived.grid),
        **commits_record(result.get("commits") or ()),
    }
    try:
        if sweep.contrasts:
            write_atomic(folder / "contrasts.csv", csv_text(rows))
        if len(sweep.arms) > 1:
            _write_differences(sweep)
        drawn = [DIFFERENCES] if (folder / DIFFERENCES).exists() and DIFFERENCES not in record["pictures"] else []
        record |= {"tables": tables_in(folder), "pictures": [*record["pictures"], *drawn]}
        write_json(folder / "result.json", finite_numbers(in_order(record)))
    except OSError as error:
        raise not_writable(folder, error) from error
    change = f", was {result['verdict']}" if result["verdict"] != verdict.overall else ""
    missing = "".join(f"; {line}" for line in archived.missing)
    return f"{sweep.name}: {verdict.overall}{change}; looks: {archived.looks}{missing}"


def _claim(archived: Mapping[str, Any] | None, judged: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns the archived claim with the premises by which it was judged, and the names of those that
    the experiment file has declared since.
    """
    if not archived or not judged:
        return archived and dict(archived)
    later = sorted({*(archived.get(PREMISES_LATER) or ()), *(judged.keys() - archived.keys())})
    return {**judged, **({PREMISES_LATER: later} if later else {})}


def _earlier_verdicts(
    result: Mapping[str, Any], contrasts: Sequence[Mapping[str, str]], outcomes: Mapping[str, str], verdict: str
) -> list[dict[str, Any]]:
    """Returns the verdicts of other procedures, with that of the archive if it is by another one and
    differs from those of today.

    Args:
        result: result.json of the archive.
        contrasts: contrasts.csv of the archive.
        outcomes, verdict: those of today.
    """
    kept = list(result.get("verdicts_before", ()))
    procedure = result.get("procedure", EARLIER_PROCEDURE)
    earlier = {row["contrast"]: row["outcome"] for row in contrasts}
    if procedure == PROCEDURE or (earlier, result["verdict"]) == (dict(outcomes), verdict):
        return kept
    ids = claim_ids(claim["id"]) if (claim := result["claim"]) else []
    return [
        *(one for one in kept if one["procedure"] != procedure),
        {
            "procedure": procedure,
            "verdict": result["verdict"],
            "claims": {name: claim_verdict(result, contrasts, name) for name in ids},
            "paragraph": result["paragraph"],
            "outcomes": earlier,
        },
    ]


def _write_differences(sweep: SweepResults) -> None:
    """Writes differences.csv, and draws it again if it is no longer what it was.

    What a difference is worth in tokens needs learning curves, which the archive does not have: the
    archived text is kept, without its interval where that of the difference has clearly changed.
    """
    path = sweep.folder / "differences.csv"
    before = {row["arm"]: row for row in read_table(path)}
    rows = _merged(before.values(), _as_read(difference_rows(sweep)), "arm", ("difference", "low", "high"))
    same = {row["arm"] for row in rows if all(row[name] == before.get(row["arm"], {}).get(name) for name in _BOUNDS)}
    for row in rows:
        old = before.get(row["arm"], {})
        # The p of a small difference is more sensitive to the digits of the runs than its interval is,
        # and Holm's correction is of the p of all arms.
        if row["arm"] in same:
            row["p"] = old["p"]
        if len(same) == len(rows):
            row["p (Holm)"] = old["p (Holm)"]
        if worth := old.get(TIMES_THE_TOKENS):
            row[TIMES_THE_TOKENS] = worth if _relative_shift(row, old) < _KEPT_BELOW else _BETWEEN.sub("", worth)
    if not path.exists() or path.read_text() != csv_text(rows):
        write_atomic(path, csv_text(rows))
        write_figures(sweep, sweep.folder, [Path(DIFFERENCES).stem], ["png"])


def _relative_shift(row: Mapping[str, str], old: Mapping[str, str]) -> float:
    """Returns how far the bounds of an interval have moved, in widths of the old one; infinite if that
    had none.
    """
    (low, high), (old_low, old_high) = ([float(one[name]) for name in _BOUNDS] for one in (row, old))
    moved = max(abs(low - old_low), abs(high - old_high))
    if not moved:
        return 0.0
    return moved / (old_high - old_low) if old_high > old_low else math.inf


def _as_read(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Returns the rows of a table as they are read from its file."""
    return list(csv.DictReader(io.StringIO(csv_text(map(dict, rows)))))


def _merged(
    before: Iterable[Mapping[str, str]], rows: list[dict[str, str]], key: str, names: Sequence[str]
) -> list[dict[str, str]]:
    """Returns the rows of a table with the archived numbers where the new ones differ by rounding
    alone: the archived ones were computed from all digits of the runs.
    """
    old = {row[key]: row for row in before}
    for row in rows:
        archived = old.get(row[key], {})
        row |= {name: archived[name] for name in names if name in archived and _close(row[name], archived[name])}
    return rows


def _close(found: str, archived: str) -> bool:
    return math.isclose(float(found or "nan"), float(archived or "nan"), rel_tol=_ROUNDING, abs_tol=_ROUNDING)
