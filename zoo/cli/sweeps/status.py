"""`zoo status`: the status of every run of a sweep."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from zoo.terminal import escape_line

DESCRIPTION = """Shows the state of every run of a sweep (waiting, running, preempted, failed, diverged or done), its
step, when it last wrote a file, and why it is not running. Reads the runs' folders, and SLURM's queue if the sweep
was submitted to it."""

EPILOG = """examples:
  zoo status runs/norm_placement
  watch zoo status runs/norm_placement
  zoo status runs/norm_placement --json | jq .counts"""


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
    _print_table(rows)
    print(f"{_line(status.name)}: " + ", ".join(f"{count} {state}" for state, count in status.counts.items()))
    return 0


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Prints rows below a header; what is piped is not fitted to a width."""
    from rich.table import Table
    from rich.text import Text

    from zoo.cli.console import make_console
    from zoo.lab.launch.fitted_table import UNLIMITED, print_fitted

    table, console = Table(box=None, pad_edge=False, header_style="", padding=(0, 2, 0, 0)), make_console(UNLIMITED)
    shown = [column for column in zip(*rows, strict=True) if any(column[1:])]
    for name, *_ in shown:
        table.add_column(name, no_wrap=True)
    for cells in list(zip(*shown, strict=True))[1:]:
        table.add_row(*map(Text, cells))
    print_fitted(console, table, ("job", "last activity", "step", "reason"), cut="reason")


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
