"""The table of all claims: what each says, and what was found so far.

The claims are listed in claims.csv beside the results: id, statement, source, and a page written by
hand if there is one. Claims about time and memory are measured by benchmarks, which leave a verdict
and a page in measured/. A claim without a result, measurement, test or page is shown as such.
"""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.formatting import interval, rounded_mean

CLAIMS_FILE = "claims.csv"
MEASURED = "measured"
_COLUMNS = {"id", "statement", "source", "page"}
_OPEN = "not judged yet"
# Contrasts of one experiment whose effects fit into a cell.
_EFFECTS = 3


def read_claims(folder: Path) -> list[dict[str, str]]:
    """Returns the claims listed in `folder`/claims.csv; none without the file.

    Raises:
        ConfigError: the file lacks a column, or a claim is listed twice.
    """
    path = folder / CLAIMS_FILE
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if missing := sorted(_COLUMNS - set(reader.fieldnames or ())):
            raise ConfigError(f"{path}: no column {', '.join(missing)}")
        claims = list(reader)
    if repeated := [name for name, count in Counter(claim["id"] for claim in claims).items() if count > 1]:
        raise ConfigError(f"{path}: {', '.join(repeated)} is listed more than once")
    return claims


def read_measured(folder: Path) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Returns (name, record) of the measurements in `folder`/measured, by the claim's id.

    Raises:
        ConfigError: a record cannot be read.
    """
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for path in sorted((folder / MEASURED).glob("*/measured.json")):
        try:
            record = read_json(path)
            {name: record[name] for name in ("verdict", "effect", "device")}
            found.setdefault(record["claim"], []).append((path.parent.name, record))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{path}: not readable as a measurement ({type(error).__name__}: {error})") from error
    return found


def claims_lines(
    claims: Sequence[Mapping[str, str]],
    results: Mapping[str, Sequence[tuple[str, Mapping[str, Any], Sequence[Mapping[str, str]]]]],
    measured: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]],
    tests: Mapping[str, Sequence[str]],
) -> list[str]:
    """Returns the lines of the table in Markdown, after a line that counts the verdicts.

    Args:
        claims: from `read_claims`.
        results: (name of the folder, result.json, rows of contrasts.csv) of each experiment, by the
            claim's id.
        measured: from `read_measured`.
        tests: links to the tests of exact claims, by the claim's id.
    """
    rows, verdicts = [], []
    for claim in claims:
        found, exact = results.get(claim["id"], ()), tests.get(claim["id"], ())
        for name, result, contrasts in found:
            seeds = f"{result['size']}, {len(result['seeds'])} seeds"
            rows.append(_row(claim, f"**{result['verdict']}**", _effects(contrasts), seeds, f"[{name}](#{name})"))
        timed = measured.get(claim["id"], ())
        for name, record in timed:
            link = f"[{name}]({MEASURED}/{name}/README.md)"
            rows.append(_row(claim, f"**{record['verdict']}**", record["effect"], record["device"], link))
        # A claim is counted once: by its experiment, then its measurement, then its test.
        verdicts += [record["verdict"] for record in (*(one[1] for one in found), *(one[1] for one in timed))][:1]
        if exact:
            rows.append(_row(claim, "**exact**", "", "", f"[{len(exact)} test{'s' * (len(exact) > 1)}](#exact-claims)"))
            verdicts += [] if found or timed else ["exact"]
        elif not found and not timed:
            page = claim["page"]
            rows.append(_row(claim, "see the page" if page else _OPEN, "", "", f"[{page}]({page})" if page else ""))
            verdicts.append("on a separate page" if page else _OPEN)
    count = Counter(verdicts)
    shown = ", ".join(f"{count[verdict]} {verdict}" for verdict in _order(count))
    return [
        f"{len(claims)} claims: {shown}.",
        "",
        "| | claim | source | verdict | effect | size | where |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
    ]


def _order(verdicts: Mapping[str, int]) -> list[str]:
    first = ("supported", "not supported", "undecided", "exact", "on a separate page", _OPEN)
    return [verdict for verdict in first if verdict in verdicts] + sorted(set(verdicts) - set(first))


def _row(claim: Mapping[str, str], verdict: str, effect: str, size: str, where: str) -> str:
    cells = (claim["id"], claim["statement"], claim["source"], verdict, effect, size, where)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _effects(contrasts: Sequence[Mapping[str, str]]) -> str:
    """Returns the differences of the first contrasts with their intervals."""
    shown = []
    for contrast in contrasts[:_EFFECTS]:
        mean, low, high = (float(contrast[name] or "nan") for name in ("a - b", "low", "high"))
        shown.append(f"{contrast['contrast']}: {rounded_mean(mean, low, high)} ({interval(low, high)})")
    more = len(contrasts) - _EFFECTS
    return "; ".join(shown + ([f"and {more} more"] if more > 0 else []))
