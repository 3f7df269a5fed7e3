"""Writes the pages about all archived results: an index with the table of claims, and a page for each
experiment. They are made of the files that `zoo.lab.report.archive.sweep_tables` writes.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.errors import ConfigError, not_writable
from zoo.files import read_json, write_atomic
from zoo.lab.declarations import claim_ids, claim_order
from zoo.lab.report.archive.claims_table import ListedClaims, claims_lines, read_claims, read_measured
from zoo.lab.report.archive.experiment_page import PAGE, as_cell, experiment_page, read_contrasts, read_table
from zoo.lab.report.archive.forest_plot import write_forest_plots
from zoo.lab.report.archive.level_plot import write_level_plots
from zoo.lab.report.archive.noise_floor import NOISE_FILE
from zoo.lab.report.archive.page_tables import refresh_tables
from zoo.lab.report.archive.scales import base_names, scaled_contrasts
from zoo.lab.report.archive.scales_page import CLAIM, SCALES, write_scales

HEAD = [
    "# Results",
    "",
    "Written by `zoo results` from the tables in these folders. Each experiment has a page with its curves,",
    "differences, arms and command.",
    "",
]
# Beside the archive in the project itself.
RULES_PAGE = "../comparisons.md"
HEAD_WITH_RULES = [
    "# Results",
    "",
    "Written by `zoo results` from the tables in these folders. The experiment files state the rules before any run;",
    f"[comparisons.md]({RULES_PAGE}) explains how they are judged. Each experiment has a page with its curves,",
    "differences, arms and command.",
    "",
]
# A run that diverged has trained too.
FINISHED = ("done", "diverged")
TABLE = ["| claim | verdict | result | size |", "| --- | --- | --- | --- |"]


def build(output: Path, tests: Path | None = None) -> Path:
    """Writes `output`/README.md about all archived results, and a page into each one's folder.

    Args:
        output: the folder that `archive_results` wrote to. Other Markdown files in it are listed by
            their titles, and their tables are made of data files (`page_tables`).
        tests: folder of the tests of exact claims, which are listed too; `test_a4_...` tests the
            claim A4.

    Returns:
        The path of the index page.

    Raises:
        ConfigError: there is no such folder, or a result in it cannot be read.
    """
    if not output.is_dir():
        raise ConfigError(f"{output}: there is no such folder")
    listed = read_claims(output)
    pages, problems = [], []
    for path in sorted(output.glob("*/result.json")):
        try:
            pages.append(_read_result(path, listed))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problems.append(
                f"{path}: not readable as a result ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
            )
    if problems:
        raise ConfigError(problems)
    pages.sort(key=lambda page: claim_order(page.claim))
    exact, measured, index = exact_tests(output, tests), read_measured(output), output / PAGE
    try:
        for written in sorted(output.glob("*.md")):
            refresh_tables(written)
        for page in pages:
            write_atomic(output / page.name / PAGE, page.text)
            write_level_plots(page.result, read_table(output / page.name / "runs.csv"), output / page.name)
        scaled = scaled_contrasts(
            [(page.result, page.contrasts, read_table(output / page.name / "runs.csv")) for page in pages]
        )
        if row := write_scales(scaled, output):
            measured[CLAIM] = [*measured.get(CLAIM, ()), row]
        write_atomic(index, "\n".join(_index_lines(output, pages, listed, exact, measured)))
    except OSError as error:
        raise not_writable(index, error) from error
    return index


class _ResultPage(NamedTuple):
    """An archived experiment.

    Attributes:
        name: of its folder.
        claim: id of its claim, "~" without one.
        result: its result.json.
        contrasts: the rows of its contrasts.csv.
        row: its row in the index without a list of claims.
        text: its page.
    """

    name: str
    claim: str
    result: dict[str, Any]
    contrasts: list[dict[str, str]]
    row: str
    text: str


def _read_result(path: Path, listed: ListedClaims) -> _ResultPage:
    result, contrasts = read_json(path), read_contrasts(path.parent)
    claim = (result.get("claim") or {}).get("id") or "~"
    name = path.parent.name
    claims = [listed.asked_by(one, name) for one in listed.claims if one["id"] in claim_ids(claim)]
    text = experiment_page(path.parent, result, claims)
    return _ResultPage(name, claim, result, contrasts, _row(name, result), text)


def _index_lines(
    output: Path,
    pages: Sequence[_ResultPage],
    listed: ListedClaims,
    exact: Mapping[str, list[str]],
    measured: Mapping[str, list[dict[str, Any]]],
) -> list[str]:
    # An experiment's other sizes are compared on their own page.
    bases = base_names(page.result for page in pages)
    every, pages = pages, [page for page in pages if bases.get(page.name, page.name) == page.name]
    effects = [
        (f"{row.get('claim') or page.claim.strip('~')} {row['contrast']}".strip(), row)
        for page in pages
        for row in page.contrasts
    ]
    drawn = write_forest_plots(effects, output)
    by_claim: dict[str, list[tuple[str, dict[str, Any], list[dict[str, str]]]]] = {}
    for page in pages:
        for claim in claim_ids(page.claim):
            by_claim.setdefault(claim, []).append((page.name, page.result, page.contrasts))
    # Experiments whose claim is not in the list have a table of their own.
    ids = {claim["id"] for claim in listed.claims}
    unlisted = [page.row for page in pages if not ids & set(claim_ids(page.claim))]
    return [
        *(HEAD_WITH_RULES if (output / RULES_PAGE).exists() else HEAD),
        *(claims_lines(listed, by_claim, measured, exact) if listed.claims else []),
        *([*TABLE, *unlisted, ""] if unlisted else []),
        *_effort_lines([output / page.name for page in every]),
        *(line for path in drawn for line in (f"![{path.stem.replace('_', ' ')}, with intervals]({path.name})", "")),
        *_other(output),
        *_exact(exact),
    ]


def _effort_lines(folders: Sequence[Path]) -> list[str]:
    """Says how many runs the archived experiments took, and the tokens and hours of the final ones."""
    runs = [(folder, row) for folder in folders for row in read_table(folder / "runs.csv")]
    finals = [row for _, row in runs if row.get("state") in FINISHED]
    seeds = {(folder, row["seed"]) for folder, row in runs if row.get("state") in FINISHED}
    tried = sum(len(read_table(folder / "tuning.csv")) for folder in folders)
    if not finals:
        return []
    hours = sum(float(row.get("seconds") or 0) for row in finals) / 3600
    tokens = sum(float(row.get("tokens") or 0) for row in finals) / 1e6
    return [
        f"Experiments: {len(folders):,}. Final runs: {len(finals):,}, with {len(seeds) / len(folders):.1f} seeds per "
        f"experiment on average, {tokens:,.0f} million tokens and {hours:,.1f} hours. "
        f"Runs that tuned a setting: {tried:,}.",
        "",
    ]


def _row(name: str, result: dict[str, Any]) -> str:
    claim = result.get("claim") or {}
    text = f"{claim.get('id', '')} {claim.get('statement') or result['question']}".strip()
    found = result["paragraph"].split(": ", 1)[-1]
    return (
        f"| [{as_cell(text)}]({name}/{PAGE}) | **{result['verdict']}** | {as_cell(found)} | {result['size']}, "
        f"{len(result['seeds'])} seeds |"
    )


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
    hand_written = []
    for path in sorted(output.glob("*.md")):
        if path.name not in (PAGE, NOISE_FILE) and (
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
