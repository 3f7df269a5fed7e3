"""Writes the index of docs/results with the table of claims, and the page of each experiment."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from publication.changed_verdicts import PAGE as CHANGED
from publication.changed_verdicts import (
    Verdicts,
    all_verdicts,
    changes_text,
    settings_text,
    silence_text,
    write_changed_verdicts,
)
from publication.claims_table import ClaimsTable, ListedClaims, claims_table, read_claims, read_measured
from publication.fitted_claims import fitted_text, further_fitted_text
from publication.fitted_limits import fitted_limits_text
from publication.forest_plot import write_forest_plots
from publication.open_claims_page import PAGE as OPEN
from publication.open_claims_page import write_open_claims
from publication.page_tables import refresh_page
from publication.published_findings import PAGE as PUBLISHED
from publication.published_findings import write_published_findings
from publication.scales import ScaledContrast, overall, plain_verdict, scaled_contrasts
from publication.scales_page import CLAIM, SCALES, write_scales
from publication.size_costs import table as size_table
from publication.sizes import contrast_key, experiments_within_others, headlines, results_by_claim
from publication.small_budgets import floors_text
from publication.verdict_order import SILENT
from zoo.errors import not_writable
from zoo.files import write_atomic
from zoo.lab.declarations import PREMISES_LATER, claim_ids, claim_order
from zoo.lab.report.archive.experiment_page import PAGE, experiment_page, other_text, read_table, rule_changes
from zoo.lab.report.archive.noise_floor import NOISE_FILE
from zoo.lab.report.archive.results_index import (
    ArchivedResult,
    effort_lines,
    read_results,
    results_table,
    write_experiment_pages,
)

HEAD = (
    "# Results",
    "",
    "Written by `python -m publication results` from the tables in these folders. Experiment files state the rules;",
    "[comparisons.md](../comparisons.md) explains how they are judged. Each experiment has a page with its curves,",
    "differences, arms and command.",
    "",
)
# The hand-written page whose first paragraph the index shows.
LIMITS = "limits.md"


def build(output: Path, tests: Path | None = None, pages: Sequence[Path] = (), experiments: Path | None = None) -> Path:
    """Writes `output`/README.md about all archived results, and a page into each one's folder.

    Args:
        output: the folder that `archive_results` wrote to. Other Markdown files in it are listed by
            their titles, and their tables and counts are made of data (`page_tables`).
        tests: folder of the tests of exact claims, which are listed too; `test_a4_...` tests the
            claim A4.
        pages: pages elsewhere whose tables and counts are made of data too.
        experiments: folder of the experiment files; a page lists those that could decide a claim.

    Returns:
        The path of the index page.

    Raises:
        ConfigError: there is no such folder, or a file in it cannot be read.
    """
    listed = read_claims(output)
    results = read_results(output, lambda folder, result: _experiment_page(folder, result, listed))
    exact, measured, index = exact_tests(output, tests), read_measured(output), output / PAGE
    scaled = scaled_contrasts(
        [(each.result, each.contrasts, read_table(output / each.name / "runs.csv")) for each in results]
    )
    try:
        write_experiment_pages(results, output)
        limits = next((claim["limits"] for claim in listed.claims if claim["id"] == CLAIM), "")
        if row := write_scales(scaled, output, limits):
            measured[CLAIM] = [*measured.get(CLAIM, ()), row]
        by_claim = results_by_claim(results)
        table = claims_table(listed, by_claim, measured, exact)
        verdicts = all_verdicts(results, output, _of_scales(scaled))
        write_changed_verdicts(verdicts, output)
        write_published_findings(listed, by_claim, measured, output)
        if experiments:
            write_open_claims(experiments, listed, by_claim, [each.result for each in results], output)
        texts = {
            "counts": table.counts,
            "silence": silence_text(table.verdicts, by_claim),
            "changes": changes_text(verdicts),
            "settings": settings_text([each.result for each in results]),
            "floors": floors_text(results, output),
            "sizes": size_table(),
            "fitted limits": fitted_limits_text(by_claim, output),
            "runs": "".join(effort_lines(output / each.name for each in results)),
        }
        fitted = {}
        for page in (*sorted(output.glob("*.md")), *pages):
            if page != index:
                root = Path(os.path.relpath(output, page.parent)).as_posix()
                if root not in fitted:
                    prefix = "" if root == "." else f"{root}/"
                    fitted[root] = {
                        "fitted": fitted_text(listed, by_claim, measured, output, prefix),
                        "further fitted": further_fitted_text(listed, by_claim, prefix),
                    }
                refresh_page(page, texts | fitted[root])
        write_atomic(index, "\n".join(_index_lines(output, results, listed, table, texts, exact)))
    except OSError as error:
        raise not_writable(index, error) from error
    return index


def _of_scales(scaled: Sequence[ScaledContrast]) -> list[Verdicts]:
    """Returns the verdict on the claim about sizes, by plain intervals and now."""
    if not scaled:
        return []
    outcomes = Counter(effect.outcome for contrast in scaled for effect in contrast.effects)
    silent = " and ".join(f"{outcomes[outcome]} {outcome}" for outcome in SILENT if outcomes[outcome])
    counted = f"; of {outcomes.total()} effects at single sizes {silent}" if silent else ""
    why = f"an order is that of the intervals on the experiments' pages, not of plain 95 % ones{counted}"
    return [Verdicts(CLAIM, SCALES, f"{SCALES}/{PAGE}", "several", plain_verdict(scaled), overall(scaled), why)]


def _experiment_page(folder: Path, result: Mapping[str, Any], listed: ListedClaims) -> str:
    judged = claim_ids((result.get("claim") or {}).get("id") or "~")
    claims = [listed.asked_by(claim, folder.name) for claim in listed.claims if claim["id"] in judged]
    published, limits = ([claim[name] for claim in claims if claim[name]] for name in ("published", "limits"))
    return experiment_page(folder, result, published, limits)


def _index_lines(
    output: Path,
    results: Sequence[ArchivedResult],
    listed: ListedClaims,
    table: ClaimsTable,
    texts: Mapping[str, str],
    exact: Mapping[str, list[str]],
) -> list[str]:
    drawn = write_forest_plots(_effects(results), output)
    # Experiments whose claim is not in the list have a table of their own.
    ids = {claim["id"] for claim in listed.claims}
    unlisted = [each for each in headlines(results) if not ids & set(claim_ids(each.claim))]
    changed = f"[Verdicts that changed, and why]({CHANGED})."
    return [
        *HEAD,
        *_stated_before(results, output),
        *_limits(output),
        *([texts["silence"], "", texts["changes"], changed, "", *table.lines] if listed.claims else []),
        *(results_table(unlisted) if unlisted else []),
        *([texts["runs"], ""] if texts["runs"] else []),
        *(line for path in drawn for line in (f"![{path.stem.replace('_', ' ')}, with intervals]({path.name})", "")),
        *_other(output),
        *_exact(exact),
    ]


def _effects(results: Sequence[ArchivedResult]) -> list[tuple[str, Mapping[str, str]]]:
    """Returns (label, row of contrasts.csv) of what is drawn: every experiment at the size of its
    headline, and contrasts that have the same runs and rule once, under the names of all their claims.
    """
    parts, found, places = experiments_within_others(results), [], {}
    for each in headlines(results):
        for row in each.contrasts if each.name not in parts else ():
            claim, key = row.get("claim") or each.claim.strip("~"), contrast_key(each.result, row)
            if key in places:
                claims, name, same = found[places[key]]
                found[places[key]] = ([*claims, claim], name, same)
                continue
            if key:
                places[key] = len(found)
            found.append(([claim], f"{row['contrast']}{other_text(each.result)}", row))
    return [(f"{', '.join(dict.fromkeys(claims))} {name}".strip(), row) for claims, name, row in found]


def _stated_before(results: Sequence[ArchivedResult], output: Path) -> list[str]:
    """Says which experiments had their rules, and what these presuppose, before any run."""

    def links(chosen: Iterable[ArchivedResult]) -> str:
        return ", ".join(f"[{each.name}]({each.name}/{PAGE})" for each in chosen)

    changed = links(each for each in results if rule_changes(each.result))
    later = links(each for each in results if (each.result.get("claim") or {}).get(PREMISES_LATER))
    if (output / SCALES / PAGE).exists():
        changed = ", ".join(filter(None, [changed, f"[sizes]({SCALES}/{PAGE})"]))
    rules = f", except where a rule or an arm was changed: {changed}" if changed else ""
    premises = (
        f" What they presuppose, a floor or a control arm, was declared after the runs of {later}." if later else ""
    )
    seen = " What other runs had shown by then is in the experiment files and in [findings](findings.md)."
    return [f"The rules were stated before the runs that they judge{rules}.{premises}{seen}", ""]


def _limits(output: Path) -> list[str]:
    """Returns what the page about what the results can show says before its first heading."""
    if not (path := output / LIMITS).exists():
        return []
    paragraphs = path.read_text(encoding="utf-8").partition("\n## ")[0].strip().split("\n\n")[1:]
    shown = [paragraph for paragraph in paragraphs if not paragraph.startswith("<!--")]
    return [*(line for paragraph in shown for line in (paragraph, "")), f"[More about this]({LIMITS}).", ""]


def _other(output: Path) -> list[str]:
    """Lists the pages made of several results and those that were written by hand."""
    lines = []
    if (output / NOISE_FILE).exists():
        lines += [f"[The noise floor]({NOISE_FILE}): how small a difference an experiment of each size can find.", ""]
    if (output / SCALES / PAGE).exists():
        lines += [
            f"[Effects at several sizes]({SCALES}/{PAGE}): does an order hold at larger models, and does it shrink?",
            "",
        ]
    if (output / PUBLISHED).exists():
        lines += [
            f"[Published findings]({PUBLISHED}): which of them small models agree with, and what a decision costs.",
            "",
        ]
    if (output / OPEN).exists():
        lines += [f"[Open claims]({OPEN}): what could decide those that are not, and what it costs.", ""]
    hand_written = []
    for path in sorted(output.glob("*.md")):
        if path.name not in (PAGE, NOISE_FILE, CHANGED, PUBLISHED, OPEN) and (
            title := path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()
        ):
            hand_written.append(f"* [{title}]({path.name})")
    return lines + (["Other results, written by hand:", "", *hand_written, ""] if hand_written else [])


def exact_tests(output: Path, tests: Path | None) -> dict[str, list[str]]:
    """Returns links to the tests of exact claims, by the claim's id, in order."""
    found: dict[str, list[str]] = {}
    for path in sorted(tests.glob("test_*.py")) if tests else []:
        for line in path.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"def test_([a-z])(\d+)_(\w+)\(", line):
                link = Path(os.path.relpath(path, output)).as_posix()
                found.setdefault(f"{match[1].upper()}{match[2]}", []).append(f"[{match[3].replace('_', ' ')}]({link})")
    return {claim: found[claim] for claim in sorted(found, key=claim_order)}


def _exact(tests: Mapping[str, list[str]]) -> list[str]:
    """Lists the exact claims with their tests."""
    if not tests:
        return []
    rows = [f"| {claim} | {'; '.join(links)} |" for claim, links in tests.items()]
    text = "Exact claims need no training; they are tests."
    return ["## Exact claims", "", text, "", "| claim | tests |", "| --- | --- |", *rows, ""]
