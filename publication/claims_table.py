"""The table of all claims: what each says, and what was found so far.

The claims are listed in claims.csv beside the results: id, statement, source, a page written by hand
if there is one, what was published about it (`published`), whether that speaks for or against the
statement (`direction`), and the limits of its experiments (`limits`). A further row with the same id
and the name of an experiment or measurement (`experiment`) replaces the last three columns for that
one, because a claim may be asked in several ways. The column `note` is optional and stands beside
the verdict: what the verdict rests on, where its one word would mislead. Claims about time and
memory are measured by benchmarks, which leave a verdict and a page in measured/. A claim without a
result, measurement, test or page is shown as such.
"""

import csv
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from publication.sizes import ClaimResult, counted_results
from publication.verdict_order import DECIDED, deciding_rank, verdict_of_all
from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.formatting import interval, rounded_mean
from zoo.lab.metrics import unit_suffix
from zoo.lab.report.archive.experiment_page import described_size
from zoo.lab.results.corpora import JudgedText, claims_on_texts

CLAIMS_FILE = "claims.csv"
MEASURED = "measured"
_COLUMNS = {"id", "experiment", "statement", "source", "page", "published", "direction", "limits"}
_OF_EXPERIMENT = ("published", "direction", "limits", "note")
# A comparison whose result is known beforehand; it is listed, and not counted among the claims.
CHECK = "check"
# The meaning of a verdict for the published direction, by that direction.
AGREEMENT = {
    "for": {"supported": "agrees", "not supported": "disagrees"},
    "against": {"supported": "disagrees", "not supported": "agrees"},
    "mixed": {},
    CHECK: {},
    "": {},
}
_OPEN = "not judged yet"
# Contrasts of one experiment whose effects fit into a cell.
_EFFECTS = 3


class ListedClaims(NamedTuple):
    """The contents of claims.csv.

    Attributes:
        claims: the rows without an experiment, one for each claim.
        of_experiments: the other rows, by id and experiment.
    """

    claims: list[dict[str, str]]
    of_experiments: dict[tuple[str, str], dict[str, str]]

    def asked_by(self, claim: Mapping[str, str], experiment: str) -> dict[str, str]:
        """Returns a claim with what was published and the limits that apply to an experiment."""
        own = self.of_experiments.get((claim["id"], experiment), claim)
        return {**claim, **{name: own.get(name) or "" for name in _OF_EXPERIMENT}}


def read_claims(folder: Path) -> ListedClaims:
    """Returns the claims listed in `folder`/claims.csv; none without the file.

    Raises:
        ConfigError: the file lacks a column, lists something twice, or a row of an experiment
            belongs to no claim.
    """
    path = folder / CLAIMS_FILE
    if not path.exists():
        return ListedClaims([], {})
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if missing := sorted(_COLUMNS - set(reader.fieldnames or ())):
            raise ConfigError(f"{path}: no column {', '.join(missing)}")
        rows = list(reader)
    if long := [row["id"] for row in rows if None in row]:
        raise ConfigError(f"{path}: {', '.join(long)} has more fields than columns; a text with a comma needs quotes")
    if unknown := sorted({row["direction"] for row in rows} - set(AGREEMENT)):
        raise ConfigError(f"{path}: direction {', '.join(unknown)} is not for, against, mixed, check or empty")
    listed = Counter((row["id"], row["experiment"]) for row in rows)
    if repeated := [" for ".join(filter(None, key)) for key, count in listed.items() if count > 1]:
        raise ConfigError(f"{path}: {', '.join(repeated)} is listed more than once")
    claims = [row for row in rows if not row["experiment"]]
    if alone := sorted({row["id"] for row in rows} - {claim["id"] for claim in claims}):
        raise ConfigError(f"{path}: {', '.join(alone)} has no row without an experiment")
    return ListedClaims(claims, {(row["id"], row["experiment"]): row for row in rows if row["experiment"]})


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
            row |= {name: record[name] for name in ("reason", "verdicts_before") if name in record}
            name = path.parent.name
            found.setdefault(record["claim"], []).append(row | {"name": name, "page": f"{MEASURED}/{name}/README.md"})
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{path}: not readable as a measurement ({type(error).__name__}: {error})") from error
    return found


class ClaimsTable(NamedTuple):
    """The table of all claims.

    Attributes:
        counts: a line that counts the verdicts.
        remarks: sentences about what is listed and not counted, and about how to read the table.
        rows: of the table, in Markdown.
        verdicts: {id: verdict} of the claims that are counted and were judged on trained models or
            measurements.
    """

    counts: str
    remarks: list[str]
    rows: list[str]
    verdicts: dict[str, str]

    @property
    def lines(self) -> list[str]:
        """The counts, the remarks and the table."""
        return [
            self.counts,
            "",
            *(line for remark in self.remarks for line in (remark, "")),
            "| | claim | source | verdict | effect | size | published | where |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *self.rows,
            "",
        ]


_READING = (
    "A claim that is asked in several ways is supported if every row supports it, and not supported if one row\n"
    "does not; else the first of not testable, not tuned and undecided that one of its rows is. A row on another\n"
    "text than the experiment's own does not count. An experiment at several sizes has one row, for the largest\n"
    "size at which it was decided, or else could have been, and names the verdicts of the others. An effect is\n"
    "the difference a − b of a contrast, which the page of the experiment spells out: for a loss, a number below\n"
    "0 says that a is better. Its interval is of 90 % under rules of equivalence and non-inferiority, of 95 %\n"
    "under others, and wider where several looks were planned or no other runs tell the noise."
)


def claims_table(
    listed: ListedClaims,
    results: Mapping[str, Sequence[ClaimResult]],
    measured: Mapping[str, Sequence[Mapping[str, Any]]],
    tests: Mapping[str, Sequence[str]],
) -> ClaimsTable:
    """Returns the table, whose rows are in the order of the list.

    Args:
        listed: from `read_claims`.
        results: the results of each experiment, by the claim's id.
        measured: from `read_measured`, and those derived from several results.
        tests: links to the tests of exact claims, by the claim's id.
    """
    rows, counted, judged, parts = [], [], {}, {}
    for claim in listed.claims:
        found, exact = results.get(claim["id"], ()), tests.get(claim["id"], ())
        own_verdicts = [result.headline.verdict for result in counted_results(found)]
        rows += [_result_row(listed, claim, result) for result in found]
        for record in measured.get(claim["id"], ()):
            own_verdicts.append(record["verdict"])
            link = f"[{record['name']}]({record['page']})"
            shown = listed.asked_by(claim, record["name"])
            rows.append(_row(shown, f"**{record['verdict']}**", record["effect"], record["device"], link))
        if exact:
            # Beside runs or measurements a note is about those.
            shown = claim | ({"note": ""} if own_verdicts or found else {})
            link = f"[{len(exact)} test{'s' * (len(exact) > 1)}](#exact-claims)"
            rows.append(_row(shown, "**exact**", "", "", link))
        elif not own_verdicts and not found:
            page = claim["page"]
            rows.append(_row(claim, "see the page" if page else _OPEN, "", "", f"[{page}]({page})" if page else ""))
        if found and not own_verdicts and not exact:
            parts[claim["id"]] = found[0].part_of
        elif claim["direction"] != CHECK:
            without_data = "exact" if exact else "on a separate page" if claim["page"] else _OPEN
            counted.append(verdict_of_all(own_verdicts) if own_verdicts else without_data)
            judged |= {claim["id"]: counted[-1]} if own_verdicts else {}
    count = Counter(counted)
    shown = ", ".join(f"{count[verdict]} {verdict}" for verdict in _order(count))
    checks = [claim["id"] for claim in listed.claims if claim["direction"] == CHECK]
    remarks = [f"Listed below and not counted, as a check of the method: {', '.join(checks)}."] if checks else []
    if parts:
        same = ", ".join(f"{id} (those of {whole.claim})" for id, whole in parts.items())
        remarks.append(f"Listed below and not counted, because another claim has the same runs and rules: {same}.")
    remarks += [f"On several texts: {'; '.join(texts)}."] if (texts := on_texts(listed, results)) else []
    return ClaimsTable(f"{len(counted)} claims: {shown}.", [*remarks, _READING], rows, judged)


def results_of_claims(
    listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]]
) -> Iterator[tuple[dict[str, str], Sequence[ClaimResult]]]:
    """Yields the claims, without checks of the method, and the results of their experiments."""
    for claim in listed.claims:
        if claim["direction"] != CHECK:
            yield claim, results.get(claim["id"], ())


def on_texts(listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]]) -> list[str]:
    """Returns what was found about each claim that an experiment judges on several texts, `at tiny V1
    holds on stdlib and news (muon)`.
    """
    judged, sizes = [], {}
    for claim, found in results_of_claims(listed, results):
        for one in (one for each in found if not each.part_of for one in (each.headline, *each.others)):
            corpus = one.result.get("corpus") or {}
            experiment = corpus.get("experiment") or one.name
            rules = tuple((row["contrast"], row["rule"]) for row in one.contrasts)
            source = corpus.get("source") or ", ".join(one.result.get("sources", ()))
            judged.append(JudgedText(experiment, rules, source, {claim["id"]: one.verdict}))
            sizes[experiment] = one.result["size"]
    return [f"at {sizes[one.experiment]} {one.sentence} ({one.experiment})" for one in claims_on_texts(judged)]


def _result_row(listed: ListedClaims, claim: Mapping[str, str], found: ClaimResult) -> str:
    """Returns the row of an experiment: the headline, and the verdicts at other sizes beside it."""
    shown, headline = listed.asked_by(claim, found.name), found.headline
    link = f"[{headline.name}]({headline.name}/README.md)"
    size = described_size(headline.result)
    if whole := found.part_of:
        return _row(
            shown, f"see {whole.claim}: the same runs and rules", "", size, f"[{whole.name}]({whole.name}/README.md)"
        )
    others = "; ".join(f"{other.result['size']}: {other.verdict}" for other in found.others)
    links = ", ".join([link, *(f"[{other.result['size']}]({other.name}/README.md)" for other in found.others)])
    verdict = f"**{headline.verdict}**" + (f" at {headline.result['size']} ({others})" if others else "")
    return _row(shown, verdict, effects(contrasts_of_claim(headline.contrasts, claim["id"])), size, links)


def contrasts_of_claim(contrasts: Sequence[Mapping[str, str]], claim: str) -> list[Mapping[str, str]]:
    """Returns the rows of contrasts.csv that judge a claim; all if an experiment judges only one."""
    return [row for row in contrasts if row.get("claim") in ("", None, claim)]


def _order(verdicts: Mapping[str, int]) -> list[str]:
    first = (*DECIDED, "undecided", "not testable", "not tuned", "exact", "on a separate page", _OPEN)
    return [verdict for verdict in first if verdict in verdicts] + sorted(set(verdicts) - set(first))


def _row(claim: Mapping[str, str], verdict: str, effect: str, size: str, where: str) -> str:
    found = published(claim, verdict.split("**")[1] if "**" in verdict else "")
    verdict = ": ".join(filter(None, (verdict, claim.get("note"))))
    cells = (claim["id"], claim["statement"], claim["source"], verdict, effect, size, found, where)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def published(claim: Mapping[str, str], verdict: str) -> str:
    """Returns what was published about a claim, and whether a verdict agrees."""
    return ": ".join(filter(None, (AGREEMENT[claim["direction"]].get(verdict), claim["published"])))


def effects(contrasts: Sequence[Mapping[str, str]]) -> str:
    """Returns differences with their intervals, beginning with those that decide the verdict; the unit
    is named unless it is nats.
    """
    shown = []
    deciding = sorted(contrasts, key=lambda contrast: deciding_rank(contrast["outcome"]))
    for contrast in deciding[:_EFFECTS]:
        mean, low, high = (float(contrast[name] or "nan") for name in ("a - b", "low", "high"))
        unit = unit_suffix(contrast.get("metric a", ""))
        difference = f"{rounded_mean(mean, low, high)}{'' if unit == ' nats' else unit} ({interval(low, high)})"
        shown.append(f"{contrast['contrast']}: {difference if math.isfinite(mean) else 'no finite pair'}")
    more = len(contrasts) - _EFFECTS
    return "; ".join(shown + ([f"and {more} more"] if more > 0 else []))
