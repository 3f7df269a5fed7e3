"""The table of all claims: what each says, and what was found so far.

The claims are listed in claims.csv beside the results: id, statement, source, and a page written by
hand if there is one. A claim without a result, test or page is shown as such.
"""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.lab.formatting import interval, rounded_mean

CLAIMS_FILE = "claims.csv"
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


def claims_lines(
    claims: Sequence[Mapping[str, str]],
    results: Mapping[str, Sequence[tuple[str, Mapping[str, Any], Sequence[Mapping[str, str]]]]],
    tests: Mapping[str, Sequence[str]],
) -> list[str]:
    """Returns the lines of the table in Markdown, after a line that counts the verdicts.

    Args:
        claims: from `read_claims`.
        results: (name of the folder, result.json, rows of contrasts.csv) of each experiment, by the
            claim's id.
        tests: links to the tests of exact claims, by the claim's id.
    """
    rows, verdicts = [], []
    for claim in claims:
        found, exact = results.get(claim["id"], ()), tests.get(claim["id"], ())
        for name, result, contrasts in found:
            seeds = f"{result['size']}, {len(result['seeds'])} seeds"
            rows.append(_row(claim, f"**{result['verdict']}**", _effects(contrasts), seeds, f"[{name}](#{name})"))
        verdicts += [result["verdict"] for _, result, _ in found[:1]]
        if exact:
            rows.append(_row(claim, "**exact**", "", "", f"[{len(exact)} test{'s' * (len(exact) > 1)}](#exact-claims)"))
            verdicts += [] if found else ["exact"]
        elif not found:
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
