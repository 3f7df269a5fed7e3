"""`zoo status`: the status of every run of a sweep."""

import argparse
import json
import shutil
import sys
from pathlib import Path

from zoo.terminal import escape_line

DESCRIPTION = """Shows the state of every run of a sweep (waiting, running, preempted, failed, diverged or done), its
step, when it last wrote a file, and why it is not running. Reads the runs' folders, and SLURM's queue if the sweep
was submitted to it."""

EPILOG = """examples:
  zoo status runs/norm_placement
  watch zoo status runs/norm_placement
  zoo status runs/norm_placement --json | jq .counts"""

# Characters of a reason for which another column is left out.
SHORTEST_REASON = 20


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "status",
        help="show the status of every run of a sweep",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder of the sweep, which has an experiment.json")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Prints the table, or JSON."""
    from zoo.lab.launch.run_status import read_sweep_status

    status = read_sweep_status(args.folder)
    if args.json:
        print(json.dumps(status.record(), indent=2))
        return 0
    rows = [("run", "state", "step", "last activity", "job", "reason")]
    rows += [
        (
            _line(run.folder),
            run.state,
            f"{run.step}/{run.steps}" if run.steps else "",
            _ago(run.silent),
            run.job,
            _line(run.reason)[:160],
        )
        for run in status.runs
    ]
    rows, left_out = _fitted(rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None)
    for row in rows:
        print("  ".join(row).rstrip())
    if left_out:
        print(f"not shown at this width: {', '.join(left_out)} (--json has them)")
    print(f"{_line(status.name)}: " + ", ".join(f"{count} {state}" for state, count in status.counts.items()))
    return 0


def _fitted(rows: list[tuple[str, ...]], width: int | None) -> tuple[list[list[str]], list[str]]:
    """Returns padded rows that fit a width, without columns that do not, and the names of these.

    The reason is cut before any column is left out; the run and its state always stay.
    """
    names, widths = rows[0], [max(map(len, column)) for column in zip(*rows, strict=True)]
    kept, left_out = [name for name, *cells in zip(*rows, strict=True) if any(cells)], []
    size = dict(zip(names, widths, strict=True))

    def used(reason: int) -> int:
        """Columns that the table takes with a reason of this length."""
        return sum((min(reason, size[name]) if name == "reason" else size[name]) + 2 for name in kept) - 2

    for name in ("job", "last activity", "step", "reason"):
        if width is not None and name in kept and used(SHORTEST_REASON) > width:
            kept.remove(name)
            left_out.append(name)
    if width is not None and "reason" in kept:
        size["reason"] = min(size["reason"], width - used(0))
    places = [names.index(name) for name in kept]
    return [[row[place][: size[names[place]]].ljust(size[names[place]]) for place in places] for row in rows], left_out


def _ago(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds)} s ago"


def _line(text: str) -> str:
    """Returns the text on one line, escaped here for the widths of columns."""
    return escape_line(" ".join(text.split()))
