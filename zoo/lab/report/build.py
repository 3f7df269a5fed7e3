"""Writes a report: one self-contained HTML page, and its main plots as PNG and SVG files."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from zoo.errors import ConfigError, not_writable
from zoo.files import write_atomic
from zoo.lab.report.figures import write_figures
from zoo.lab.report.html_page import render
from zoo.lab.report.index_page import INDEX_FILE, is_other_page, read_entry, render_index, report_link, sweep_folders
from zoo.lab.report.progress_line import progress_line
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import Verdict, judge

REPORT_FILE = "report.html"


@dataclass(frozen=True)
class BuiltReport:
    """The path of the page, the verdict it shows, and how far the sweep is (empty if it has ended)."""

    path: Path
    verdict: Verdict
    progress: str = ""


def build_report(sweep: SweepResults, output: str | Path) -> BuiltReport:
    """Judges a sweep, and writes its page and a folder of the same name with the figures.

    Args:
        sweep: from `zoo.lab.results`.
        output: an .html file.

    Raises:
        ConfigError: `output` is not an HTML file or cannot be written.
    """
    output = Path(output)
    if output.suffix.lower() not in (".html", ".htm"):
        named = output.with_name(f"{output.name}.html") if output.name else output / "report.html"
        raise ConfigError(f'output: "{output}" is not an HTML file; name it {named}')
    if output.is_dir():
        raise ConfigError(f'output: "{output}" is a folder; name a file in it')
    verdict = judge(sweep)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_figures(sweep, output.with_suffix(""))
        write_atomic(output, render(sweep, verdict, output.parent))
    except OSError as error:
        raise not_writable(output, error, "output:") from error
    return BuiltReport(output, verdict, progress_line(sweep))


def build_index(folder: Path) -> list[Path]:
    """Writes an index over the sweeps in a folder, with the reports that are missing or older than
    their runs; returns the paths of what was written, the index last.

    Raises:
        ConfigError: the folder holds no sweep, its index.html is another page, or a file cannot be
            written.
    """
    index = folder / INDEX_FILE
    if is_other_page(index):
        raise ConfigError(f"{index} is not an index of sweeps, and would be lost; rename it")
    written, entries = [], []
    for sweep in sweep_folders(folder):
        entry = read_entry(sweep)
        if entry.sweep is not None and _is_old(sweep):
            written.append(build_report(entry.sweep, sweep / REPORT_FILE).path)
        entries.append(replace(entry, link=report_link(sweep)))
    if not entries:
        raise ConfigError(f"{folder}: no sweep is in this folder: none of its folders has an experiment.json")
    try:
        write_atomic(index, render_index(folder, entries))
    except OSError as error:
        raise not_writable(index, error) from error
    return [*written, index]


def _is_old(sweep: Path) -> bool:
    """Whether a sweep has no report, or a file of its runs is newer than it."""
    try:
        made = (sweep / REPORT_FILE).stat().st_mtime
    except OSError:
        return True
    places = [sweep, *(Path(entry.path) for entry in os.scandir(sweep) if entry.is_dir())]
    times = [
        path.stat().st_mtime
        for place in places
        for name in ("experiment.json", "notes.md", "status.json", "metrics.jsonl")
        if (path := place / name).is_file()
    ]
    return max(times, default=0.0) > made
