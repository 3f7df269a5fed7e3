"""`zoo results`: tables and pictures of finished sweeps, and the page over all of them."""

import argparse
import sys
from collections import Counter
from pathlib import Path

DESCRIPTION = """Writes the tables (CSV) and pictures of finished sweeps into a folder for each, without their run folders, and a page over
everything that is there. Without a sweep the page alone is written again."""
EPILOG = """examples:
  zoo results runs/norm_placement runs/feedforward
  zoo results"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "results",
        help="keep what sweeps came to, and write a page over it",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sweeps", metavar="DIR", nargs="*", help="folders of sweeps")
    parser.add_argument(
        "--output", metavar="DIR", type=Path, default=Path("docs/results"), help="where they go (default: %(default)s)"
    )
    parser.add_argument(
        "--tests",
        metavar="DIR",
        type=Path,
        default=Path("tests/claims"),
        help="tests of exact claims, which the page lists (default: %(default)s)",
    )
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Writes them; prints what was written."""
    from zoo.errors import ConfigError
    from zoo.lab.measures import compute_missing_measures
    from zoo.lab.report.archive import publish
    from zoo.lab.report.results_page import build
    from zoo.lab.results.sweep_results import load_sweep

    for folder in args.sweeps:
        compute_missing_measures(Path(folder), lambda line: print(line, file=sys.stderr))
    # All are read before anything is written.
    sweeps = [load_sweep(folder) for folder in args.sweeps]
    for name, count in Counter(sweep.name for sweep in sweeps).items():
        if count > 1:
            raise ConfigError(
                f"{count} of these sweeps are called {name}, which names the folder of their results; keep them with one "
                "--output each"
            )
    for sweep in sweeps:
        print(publish(sweep, args.output))
    print(build(args.output, args.tests if args.tests.is_dir() else None))
    return 0
