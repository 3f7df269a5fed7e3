"""`zoo results`: archives tables and figures of finished sweeps, with an index page."""

import argparse
import sys
from collections import Counter
from pathlib import Path

DESCRIPTION = """Archives the tables (CSV) and figures of finished sweeps, one folder per sweep without its runs, and
writes an index page of everything in the archive. Without a sweep, only the index page is rewritten."""
EPILOG = """examples:
  zoo results runs/norm_placement runs/feedforward
  zoo results"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "results",
        help="archive the results of finished sweeps",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sweeps", metavar="DIR", nargs="*", help="folders of sweeps")
    parser.add_argument(
        "--output",
        metavar="DIR",
        type=Path,
        default=Path("docs/results"),
        help="folder of the archive (default: %(default)s)",
    )
    parser.add_argument(
        "--tests",
        metavar="DIR",
        type=Path,
        default=Path("tests/claims"),
        help="tests of exact claims, listed on the index page (default: %(default)s)",
    )
    parser.add_argument(
        "--noise",
        action="store_true",
        help="also write noise_floor.md: the smallest difference that each archived experiment can find",
    )
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Archives the sweeps and writes the index page; prints the paths."""
    from zoo.errors import ConfigError
    from zoo.lab.measures import compute_missing_measures
    from zoo.lab.report.archive.noise_floor import write_noise_floor
    from zoo.lab.report.archive.results_index import build
    from zoo.lab.report.archive.sweep_tables import archive_results
    from zoo.lab.results.sweep_results import load_sweep

    for folder in args.sweeps:
        compute_missing_measures(Path(folder), lambda line: print(line, file=sys.stderr))
    # All sweeps are read before anything is written.
    sweeps = [load_sweep(folder) for folder in args.sweeps]
    for name, count in Counter(sweep.name for sweep in sweeps).items():
        if count > 1:
            raise ConfigError(
                f"{count} of these sweeps are named {name} and would be archived in the same folder; archive each with "
                "a different --output"
            )
    for sweep in sweeps:
        print(archive_results(sweep, args.output))
    if args.noise:
        print(write_noise_floor(args.output))
    print(build(args.output, args.tests if args.tests.is_dir() else None))
    return 0
