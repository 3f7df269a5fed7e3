"""One page over the sweeps of a folder: what each asks, how far it is, and what it found."""

import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from zoo.errors import ConfigError
from zoo.lab.report.html_tables import Cell, escape, state_cell, table, unbroken
from zoo.lab.report.progress_line import progress_line
from zoo.lab.report.run_tables import summary
from zoo.lab.results.corpora import claims_on_corpora
from zoo.lab.results.sweep_results import SweepResults, load_sweep
from zoo.lab.results.verdict import Verdict, judge

INDEX_FILE = "index.html"
# The title of an index begins with it.
TITLE = "Sweeps in"
# Seconds after which a browser that follows the sweeps loads the page again.
RELOAD_SECONDS = 15


@dataclass(frozen=True)
class IndexEntry:
    """A sweep of the index, or what is wrong with its folder.

    Attributes:
        name: of the folder.
        link: relative address of its report; empty without one.
    """

    name: str
    sweep: SweepResults | None
    problem: str = ""
    link: str = ""


def sweep_folders(folder: Path) -> list[Path]:
    """Returns the sweeps right inside a folder, by name."""
    if not folder.is_dir():
        return []
    return sorted(Path(entry.path) for entry in os.scandir(folder) if (Path(entry.path) / "experiment.json").is_file())


def read_entry(folder: Path, link: str = "") -> IndexEntry:
    """Reads a sweep for the index; a damaged one is shown with what is wrong."""
    try:
        return IndexEntry(folder.name, load_sweep(folder), link=link)
    except ConfigError as error:
        return IndexEntry(folder.name, None, error.problems[0])


def report_link(folder: Path) -> str:
    """Returns the address of a sweep's report from its parent folder; empty if it has none."""
    return f"./{quote(folder.name, errors='replace')}/report.html" if (folder / "report.html").is_file() else ""


def is_other_page(path: Path) -> bool:
    """Returns whether a file is there that is not an index of sweeps."""
    try:
        return path.exists() and f"<title>{TITLE} ".encode() not in path.read_bytes()
    except OSError:
        return True


def render_index(folder: Path, entries: list[IndexEntry], followed: bool = False) -> str:
    """Returns the page.

    Args:
        folder: whose sweeps these are.
        entries: from `read_entry`.
        followed: the page is served while runs continue, and loads itself again.
    """
    style = (files("zoo.lab.report") / "web" / "report.css").read_text(encoding="utf-8")
    verdicts = [entry.sweep and judge(entry.sweep) for entry in entries]
    title = f"{TITLE} {folder.resolve().name or folder}"
    again = f'<meta http-equiv="refresh" content="{RELOAD_SECONDS}">\n' if followed else ""
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n{again}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head><body>"
        f'<header><div class="head"><h1>{escape(title)}</h1></div></header><main>'
        + table("Sweeps", ["sweep", "question", "state", "found", "runs"], map(_row, entries, verdicts))
        + _on_corpora([(entry.sweep, verdict) for entry, verdict in zip(entries, verdicts, strict=True) if verdict])
        + "</main></body></html>\n"
    )
    return page.encode("utf-8", "replace").decode("utf-8")


def _on_corpora(judged: list[tuple[SweepResults, Verdict]]) -> str:
    """Returns a table of the claims that were judged on several texts, or nothing."""
    rows = [
        [Cell(claim.experiment), state_cell(claim.overall), Cell("", "wide", unbroken(claim.sentence))]
        for claim in claims_on_corpora(judged)
    ]
    return table("Claims on several texts", ["experiment", "state", "found"], rows) if rows else ""


def _row(entry: IndexEntry, verdict: Verdict | None) -> list[Cell]:
    name = escape(entry.name)
    linked = Cell(entry.name, markup=f'<a href="{escape(entry.link)}">{name}</a>' if entry.link else name)
    if entry.sweep is None or verdict is None:
        return [linked, Cell(), state_cell("failed"), Cell(entry.problem), Cell()]
    progress = progress_line(entry.sweep)
    state = state_cell("running") if progress else state_cell(verdict.overall)
    found = progress or verdict.paragraph.removeprefix(verdict.overall.capitalize() + ": ")
    return [
        linked,
        Cell(markup=unbroken(entry.sweep.question)),
        state,
        Cell("", "wide", unbroken(found)),
        Cell(summary(entry.sweep)),
    ]
