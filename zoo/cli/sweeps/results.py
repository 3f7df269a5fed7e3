"""`zoo results`: archives tables and figures of finished sweeps, with an index page."""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

DESCRIPTION = """Archives the tables (CSV) and figures of finished sweeps, one folder per sweep without its runs, and
writes an index page of everything in the archive. Without a sweep, only the index page is rewritten."""
ARCHIVE, TESTS = Path("docs/results"), Path("tests/claims")
EPILOG = """examples:
  zoo results runs/norm_placement runs/feedforward
  zoo results runs/norm_placement --output results
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
    parser.add_argument("--output", metavar="DIR", type=Path, help=f"folder of the archive (default: {ARCHIVE})")
    parser.add_argument(
        "--tests",
        metavar="DIR",
        type=Path,
        help=f"tests of exact claims, listed on the index page (default: {TESTS} with {ARCHIVE}, else none)",
    )
    parser.add_argument(
        "--noise",
        action="store_true",
        help="also write noise_floor.md: the smallest difference that each archived experiment can find",
    )
    parser.add_argument("--json", action="store_true", help="print the archived results as one JSON object")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Archives the sweeps and writes the index page; prints the paths."""
    from zoo.errors import ConfigError
    from zoo.files import read_json
    from zoo.lab.measures import compute_missing_measures
    from zoo.lab.report.archive.noise_floor import write_noise_floor
    from zoo.lab.report.archive.results_index import build
    from zoo.lab.report.archive.sweep_tables import archive_results
    from zoo.lab.results.sweep_results import load_sweep

    places = Counter(Path(folder).resolve() for folder in args.sweeps)
    if twice := [f"{folder} is given twice" for folder, times in places.items() if times > 1]:
        raise ConfigError(twice)
    output, tests = args.output or ARCHIVE, args.tests or (TESTS if args.output is None else None)
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
    written = []
    for sweep in sweeps:
        written.append(archive_results(sweep, output))
    if args.noise:
        written.append(write_noise_floor(output))
    written.append(build(output, tests if tests and tests.is_dir() else None))
    if args.json:
        found = [read_json(path) for path in sorted(output.glob("*/result.json"))]
        print(json.dumps({"written": [str(path) for path in written], "results": found}, indent=2))
    else:
        print("\n".join(map(str, written)))
    return 0
