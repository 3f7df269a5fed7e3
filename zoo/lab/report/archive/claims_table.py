"""The table of all claims: what each says, and what was found so far.

The claims are listed in claims.csv beside the results: id, statement, source, a page written by hand
if there is one, what was published about it (`published`), whether that speaks for or against the
statement (`direction`), and the limits of its experiment (`limits`). Claims about time and memory
are measured by benchmarks, which leave a verdict and a page in measured/. A claim without a result,
measurement, test or page is shown as such.
"""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.formatting import interval, rounded_mean
from zoo.lab.results.verdict import overall_verdict

CLAIMS_FILE = "claims.csv"
MEASURED = "measured"
_COLUMNS = {"id", "statement", "source", "page", "published", "direction", "limits"}
# What a verdict says of the published direction, by that direction.
_AGREEMENT = {
    "for": {"supported": "agrees", "not supported": "disagrees"},
    "against": {"supported": "disagrees", "not supported": "agrees"},
    "mixed": {},
    "": {},
}
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
    if unknown := sorted({claim["direction"] for claim in claims} - set(_AGREEMENT)):
        raise ConfigError(f"{path}: direction {', '.join(unknown)} is not for, against, mixed or empty")
    if repeated := [name for name, count in Counter(claim["id"] for claim in claims).items() if count > 1]:
        raise ConfigError(f"{path}: {', '.join(repeated)} is listed more than once")
    return claims


def read_measured(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Returns the records of the measurements in `folder`/measured, by the claim's id.

    A record has the verdict, the effect, the device, a name and the path of its page.

    Raises:
        ConfigError: a record cannot be read.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((folder / MEASURED).glob("*/measured.json")):
        try:
            record = read_json(path)
            row = {name: record[name] for name in ("verdict", "effect", "device")}
            name = path.parent.name
            found.setdefault(record["claim"], []).append(row | {"name": name, "page": f"{MEASURED}/{name}/README.md"})
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{path}: not readable as a measurement ({type(error).__name__}: {error})") from error
    return found


def claims_lines(
    claims: Sequence[Mapping[str, str]],
    results: Mapping[str, Sequence[tuple[str, Mapping[str, Any], Sequence[Mapping[str, str]]]]],
    measured: Mapping[str, Sequence[Mapping[str, Any]]],
    tests: Mapping[str, Sequence[str]],
) -> list[str]:
    """Returns the lines of the table in Markdown, after a line that counts the verdicts.

    Args:
        claims: from `read_claims`.
        results: (name of the folder, result.json, rows of contrasts.csv) of each experiment, by the
            claim's id.
        measured: from `read_measured`, and those derived from several results.
        tests: links to the tests of exact claims, by the claim's id.
    """
    rows, verdicts = [], []
    for claim in claims:
        found, exact = results.get(claim["id"], ()), tests.get(claim["id"], ())
        judged = []
        for name, result, contrasts in found:
            own = contrasts_of_claim(contrasts, claim["id"])
            judged.append(claim_verdict(result, contrasts, claim["id"]))
            seeds = f"{result['size']}, {len(result['seeds'])} seeds"
            rows.append(_row(claim, f"**{judged[-1]}**", _effects(own), seeds, f"[{name}]({name}/README.md)"))
        timed = measured.get(claim["id"], ())
        for record in timed:
            link = f"[{record['name']}]({record['page']})"
            rows.append(_row(claim, f"**{record['verdict']}**", record["effect"], record["device"], link))
        # A claim is counted once: by its experiment, then its measurement, then its test.
        verdicts += [*judged, *(record["verdict"] for record in timed)][:1]
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
        "| | claim | source | verdict | effect | size | published | where |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
    ]


def contrasts_of_claim(contrasts: Sequence[Mapping[str, str]], claim: str) -> list[Mapping[str, str]]:
    """Returns the rows of contrasts.csv that judge a claim; all if an experiment judges only one."""
    return [row for row in contrasts if row.get("claim") in ("", None, claim)]


def claim_verdict(result: Mapping[str, Any], contrasts: Sequence[Mapping[str, str]], claim: str) -> str:
    """Returns the verdict on one of an experiment's claims, from the contrasts of that claim."""
    own = contrasts_of_claim(contrasts, claim)
    if len(own) == len(contrasts):
        return result["verdict"]
    outcomes = {row["outcome"] for row in own}
    return overall_verdict(outcomes) if outcomes else "no claim"


def _order(verdicts: Mapping[str, int]) -> list[str]:
    first = ("supported", "not supported", "undecided", "exact", "on a separate page", _OPEN)
    return [verdict for verdict in first if verdict in verdicts] + sorted(set(verdicts) - set(first))


def _row(claim: Mapping[str, str], verdict: str, effect: str, size: str, where: str) -> str:
    agreement = _AGREEMENT[claim["direction"]].get(verdict.strip("*"))
    published = ": ".join(filter(None, (agreement, claim["published"])))
    cells = (claim["id"], claim["statement"], claim["source"], verdict, effect, size, published, where)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _effects(contrasts: Sequence[Mapping[str, str]]) -> str:
    """Returns the differences of the first contrasts with their intervals."""
    shown = []
    for contrast in contrasts[:_EFFECTS]:
        mean, low, high = (float(contrast[name] or "nan") for name in ("a - b", "low", "high"))
        shown.append(f"{contrast['contrast']}: {rounded_mean(mean, low, high)} ({interval(low, high)})")
    more = len(contrasts) - _EFFECTS
    return "; ".join(shown + ([f"and {more} more"] if more > 0 else []))
