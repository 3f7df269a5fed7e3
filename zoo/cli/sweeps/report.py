"""`zoo report` and `zoo compare`: one HTML page from the files of runs."""

import argparse
import sys

REPORT_EXAMPLE = """example:
  zoo report runs/norm_placement
  zoo report runs/norm_placement --output norm.html"""
COMPARE_EXAMPLE = """example:
  zoo compare runs/a runs/b runs/c --output comparison.html"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers both subcommands."""
    raw = argparse.RawDescriptionHelpFormatter
    report = subparsers.add_parser(
        "report",
        help="write the report of a sweep",
        epilog=REPORT_EXAMPLE,
        formatter_class=raw,
        description="Judges a sweep, finished or still running, and writes a self-contained HTML page.",
    )
    report.add_argument("folder", metavar="DIR", help="folder of the sweep, which has an experiment.json")
    report.add_argument("--output", metavar="FILE", help="HTML file to write (default: DIR/report.html)")
    report.set_defaults(handler=run_report)
    compare = subparsers.add_parser(
        "compare",
        help="compare any runs on one page",
        epilog=COMPARE_EXAMPLE,
        formatter_class=raw,
        description="Writes an HTML page that compares runs, grouped by the config fields in which they differ.",
    )
    compare.add_argument("folders", metavar="RUN", nargs="+", help="run folders")
    compare.add_argument(
        "--output", metavar="FILE", default="comparison.html", help="HTML file to write (default: %(default)s)"
    )
    compare.set_defaults(handler=run_compare)


# Imports are inside the functions because they load SciPy and Matplotlib, which --help does not
# need.
def run_report(args: argparse.Namespace) -> int:
    """Writes a sweep's report; prints its path, the verdict and what makes it doubtful."""
    from pathlib import Path

    from zoo.lab.measures import compute_missing_measures
    from zoo.lab.results.sweep_results import load_sweep

    compute_missing_measures(Path(args.folder), lambda line: print(line, file=sys.stderr))
    return _report(load_sweep(args.folder), args.output or Path(args.folder) / "report.html")


def run_compare(args: argparse.Namespace) -> int:
    """Writes a comparison of runs; prints its path, a summary and what makes it doubtful."""
    from zoo.lab.results.comparison import load_comparison

    return _report(load_comparison(args.folders), args.output)


def _report(sweep, output) -> int:
    from zoo.lab.report.build import build_report
    from zoo.lab.results.caveats import sweep_caveats

    report = build_report(sweep, output)
    print(report.path)
    print(report.verdict.paragraph)
    for line in sweep_caveats(sweep):
        print(f"caveat: {line}")
    return 0
