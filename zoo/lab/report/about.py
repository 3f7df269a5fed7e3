"""The report as a document: when and on what its runs were trained, and by which code."""

import datetime
from collections.abc import Iterable, Iterator, Mapping

from zoo.lab.formatting import count
from zoo.lab.report.html_tables import Cell, escape, facts_table, table
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import as_dict, starts
from zoo.lab.results.sweep_results import SweepResults
from zoo.terminal import shell_line

# What `git describe --dirty` appends.
DIRTY = "-dirty"
SHORT_COMMIT = 12


def about_line(sweep: SweepResults) -> str:
    """Returns date, training time, machine, zoo's version and the commit in one line; empty before
    any run.
    """
    words = {"date": "{}", "training": "trained for {}", "machine": "{}", "zoo": "zoo {}", "commit": "commit {}"}
    return " · ".join(words[name].format(text) for name, text in about(sweep) if name in words)


def about(sweep: SweepResults) -> Iterator[tuple[str, str]]:
    """Yields (name, text) of what is recorded of the sweep's runs; several values where runs
    differ.
    """
    runs = [run for run in (*sweep.prerequisites, *sweep.runs) if run.meta]
    if not runs:
        return
    if dates := sorted(filter(None, map(_started, runs))):
        yield "date", _period(dates[0], dates[-1])
    seconds = sum(run.seconds or 0.0 for run in runs)
    yield "training", f"{duration(seconds)} in {count(len(runs), 'run')}"
    for name, text in (("machine", _machine), ("zoo", _version), ("commit", commit_text)):
        if found := _distinct(text(start) for run in runs for start in starts(run.meta)):
            yield name, "; ".join(found)
    if sweep.command:
        yield "command", shell_line(sweep.command)


def about_table(sweep: SweepResults) -> str:
    """Returns a table of `about`; empty before any run."""
    rows = [
        [Cell(name), Cell(text, markup=f"<code>{escape(text)}</code>" if name == "command" else None)]
        for name, text in about(sweep)
    ]
    return table("Date, machine and code", ["", "value"], rows) if rows else ""


def conditions_table(sweep: SweepResults) -> str:
    """Returns a table of the device, the versions and the data of the first run; empty before any
    run.
    """
    run = next((run for run in sweep.runs if run.meta), None)
    if run is None:
        return ""
    names = ("device", "processor", "versions", "commit", "data")
    shown = {name: run.meta[name] for name in names if run.meta.get(name) is not None}
    return facts_table(f"Device, versions and data of {run.folder.name}", shown)


def _started(run: RunRecord) -> datetime.datetime | None:
    """Returns when a run was started, in UTC; None if it is not recorded."""
    try:
        found = datetime.datetime.fromisoformat(str(run.meta.get("started")))
    except ValueError:
        return None
    return found.astimezone(datetime.UTC) if found.tzinfo else None


def _period(first: datetime.datetime, last: datetime.datetime) -> str:
    """Returns e.g. `26 November 2026, 11:08 to 11:12 UTC`: the starts of the first and the last
    run.
    """
    day = f"{first.day} {first:%B %Y}, {first:%H:%M}"
    if f"{last:%F %H:%M}" == f"{first:%F %H:%M}":
        return f"{day} UTC"
    until = f"{last:%H:%M}" if last.date() == first.date() else f"{last.day} {last:%B %Y}, {last:%H:%M}"
    return f"{day} to {until} UTC"


def duration(seconds: float) -> str:
    """Returns e.g. `41 s`, `12 min` or `3.4 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _machine(start: Mapping[str, object]) -> str:
    device = as_dict(start.get("device"))
    if "kind" not in device:
        return ""
    processor = start.get("processor")
    shown = f"{device.get('count', 1)} × {device['kind']}"
    return f"{shown} ({processor})" if isinstance(processor, str) and processor else shown


def _version(start: Mapping[str, object]) -> str:
    version = start.get("zoo")
    return version if isinstance(version, str) else ""


def commit_text(meta: Mapping[str, object]) -> str:
    """Returns the commit of a program and whether all of its code is in it; empty if it is not
    recorded.
    """
    commit = meta.get("commit")
    if not isinstance(commit, str) or not commit:
        return ""
    short = commit.removesuffix(DIRTY)[:SHORT_COMMIT]
    return f"{short} {'with uncommitted changes' if commit.endswith(DIRTY) else '(clean)'}"


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))
