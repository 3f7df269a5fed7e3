"""`zoo results`: archives tables and figures of finished sweeps, with pages about them.

It needs the sweeps alone. Pages that also need a list of claims, what papers report about them, tests
or several sizes of an experiment are made by other programs from the same files.
"""

import argparse
import json
import sys
from pathlib import Path

DESCRIPTION = """Archives finished sweeps, one folder per sweep without its runs: tables (CSV), figures, the verdict
(result.json) and a page. An index page lists everything in the archive. Without a sweep, only the pages are
rewritten."""
ARCHIVE = Path("results")
EPILOG = """examples:
  zoo results runs/norm_placement runs/feedforward
  zoo results runs/norm_placement --output results/norms
  zoo results --noise"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "results",
        help="archive the results of finished sweeps",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)
    parser.add_argument(
        "--output", metavar="DIR", type=Path, default=ARCHIVE, help="folder of the archive (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the archived results as one JSON object")
    parser.set_defaults(handler=run)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that select the sweeps to archive."""
    parser.add_argument("sweeps", metavar="DIR", type=Path, nargs="*", help="folders of sweeps")
    parser.add_argument(
        "--noise",
        action="store_true",
        help="also write noise_floor.md: the smallest difference that each archived experiment can find",
    )
    parser.add_argument(
        "--allow-dirty",
        action="store_true",
        help="archive also what uncommitted code has trained; the result and its page say so",
    )


def archive(args: argparse.Namespace) -> list[Path]:
    """Archives the sweeps in `args.output` and returns what was written, before any index page."""
    from zoo.lab.report.archive.noise_floor import write_noise_floor
    from zoo.lab.report.archive.sweep_tables import archive_sweeps

    written = archive_sweeps(args.sweeps, args.output, lambda line: print(line, file=sys.stderr), args.allow_dirty)
    return [*written, write_noise_floor(args.output)] if args.noise else written


def run(args: argparse.Namespace) -> int:
    """Archives the sweeps and writes the index page; prints the paths."""
    from zoo.files import read_json
    from zoo.lab.report.archive.results_index import check_index, write_index

    check_index(args.output)
    written = [*archive(args), write_index(args.output)]
    if args.json:
        found = [read_json(path) for path in sorted(args.output.glob("*/result.json"))]
        print(json.dumps({"written": [str(path) for path in written], "results": found}, indent=2))
    else:
        print("\n".join(map(str, written)))
    return 0
