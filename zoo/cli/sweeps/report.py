"""`zoo report` and `zoo compare`: one HTML page from the files of runs."""

import argparse
import json
import sys
from pathlib import Path

from zoo.errors import ConfigError

REPORT_EXAMPLE = """examples:
  zoo report runs/norm_placement
  zoo report runs/norm_placement --note "warm-up of 50 is a fifth of the steps"
  zoo report runs/norm_placement --baseline norm=post+warm-up=0
  zoo report runs/norm_placement --json | jq .differences
  zoo report runs                          an index over all sweeps in a folder
  zoo report runs/muon runs/muon-on-news   both, and on which text each claim holds"""
COMPARE_EXAMPLE = """examples:
  zoo compare runs/a runs/b runs/c --output comparison.html
  zoo compare --name mine=runs/a --name theirs=runs/b"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers both subcommands."""
    raw = argparse.RawDescriptionHelpFormatter
    report = subparsers.add_parser(
        "report",
        help="write the report of a sweep",
        epilog=REPORT_EXAMPLE,
        formatter_class=raw,
        description="Judges a sweep, finished or still running, and writes a self-contained HTML page. For a folder "
        "that holds sweeps, it writes the reports that are not up to date, and an index.",
    )
    report.add_argument(
        "folders",
        metavar="DIR",
        nargs="+",
        help="folder of a sweep, which has an experiment.json, or of sweeps; or several sweeps of one experiment on "
        "different texts",
    )
    report.add_argument("--output", metavar="FILE", help="HTML file to write (default: DIR/report.html)")
    report.add_argument(
        "--note", metavar="TEXT", help="add a note, with its date, to notes.md in DIR; reports show all notes"
    )
    report.set_defaults(handler=run_report)
    compare = subparsers.add_parser(
        "compare",
        help="compare any runs on one page",
        epilog=COMPARE_EXAMPLE,
        formatter_class=raw,
        description="Writes an HTML page that compares runs, grouped by the config fields in which they differ. Arms "
        "are called by these fields, or by their folders if there are more than three.",
    )
    compare.add_argument("folders", metavar="RUN", nargs="*", help="run folders")
    compare.add_argument(
        "--name",
        metavar="NAME=RUN",
        action="append",
        default=[],
        help="a run folder and what its arm is called; once for each run",
    )
    compare.add_argument(
        "--output", metavar="FILE", default="comparison.html", help="HTML file to write (default: %(default)s)"
    )
    compare.set_defaults(handler=run_compare)
    for parser in (report, compare):
        parser.add_argument(
            "--baseline",
            metavar="ARM",
            help="arm that the others are compared with (default: the first); the page has a menu",
        )
        parser.add_argument("--json", action="store_true", help="print the tables as one JSON object")


# Imports are inside the functions because they load SciPy and Matplotlib, which --help does not
# need.
def run_report(args: argparse.Namespace) -> int:
    """Writes a sweep's report and prints the differences and the verdict; for several sweeps,
    writes an index.
    """
    from zoo.lab.measures import compute_missing_measures
    from zoo.lab.report.build import build_index, build_report
    from zoo.lab.report.index_page import sweep_folders
    from zoo.lab.results.notes import add_note
    from zoo.lab.results.sweep_results import load_sweep

    folder = Path(args.folders[0])
    if len(args.folders) > 1:
        return _report_on_corpora(args)
    if not (folder / "experiment.json").exists() and sweep_folders(folder):
        for flag in ("output", "note", "baseline", "json"):
            if getattr(args, flag):
                raise ConfigError(f"--{flag} is for a single sweep, and {folder} holds several")
        print("\n".join(map(str, build_index(folder))))
        return 0
    compute_missing_measures(folder, lambda line: print(line, file=sys.stderr))
    sweep = _with_baseline(args, load_sweep(folder))
    if args.note is not None:
        add_note(folder, args.note)
    return _print(args, sweep, build_report(sweep, args.output or folder / "report.html"))


def _report_on_corpora(args: argparse.Namespace) -> int:
    """Writes the reports of one experiment on several texts, and prints where each claim holds."""
    from zoo.lab.measures import compute_missing_measures
    from zoo.lab.report.build import build_report
    from zoo.lab.results.corpora import claims_on_corpora
    from zoo.lab.results.sweep_results import load_sweep

    for flag in ("output", "note", "baseline", "json"):
        if getattr(args, flag):
            raise ConfigError(f"--{flag} is for a single sweep, and {len(args.folders)} are given")
    judged = []
    for folder in map(Path, args.folders):
        compute_missing_measures(folder, lambda line: print(line, file=sys.stderr))
        sweep = load_sweep(folder)
        report = build_report(sweep, folder / "report.html")
        judged.append((sweep, report.verdict))
        print(report.path)
    if not (claims := claims_on_corpora(judged)):
        raise ConfigError(
            f"{', '.join(args.folders)}: no claim is judged on several texts; zoo run FILE --corpus SOURCE runs an "
            "experiment on another text, and its rules have to be those of the first"
        )
    print("\n".join(f"{claim.overall.capitalize()}: {claim.sentence}." for claim in claims))
    return 0


def run_compare(args: argparse.Namespace) -> int:
    """Writes a comparison of runs; prints the differences, what makes them doubtful, and its path."""
    from zoo.lab.report.build import build_report
    from zoo.lab.results.comparison import load_comparison

    named = [text.partition("=") for text in args.name]
    if wrong := [f"--name {name}{equals}: expected NAME=RUN" for name, equals, run in named if not (name and run)]:
        raise ConfigError(wrong)
    sweep = load_comparison([*args.folders, *(run for *_, run in named)], {run: name for name, _, run in named})
    sweep = _with_baseline(args, sweep)
    return _print(args, sweep, build_report(sweep, args.output))


def _with_baseline(args: argparse.Namespace, sweep):
    return sweep.with_baseline(args.baseline) if args.baseline is not None else sweep


def _print(args: argparse.Namespace, sweep, report) -> int:
    from zoo.cli.console import make_console
    from zoo.cli.sweeps.result_summary import print_differences
    from zoo.lab.launch.fitted_table import UNLIMITED
    from zoo.lab.results.caveats import sweep_caveats
    from zoo.lab.results.floor_lines import floors_sentence
    from zoo.lab.results.sweep_record import sweep_record

    if args.json:
        record = {"report": str(report.path), "progress": report.progress, **sweep_record(sweep, report.verdict)}
        print(json.dumps(record, indent=2))
        return 0
    console = make_console(UNLIMITED)
    print_differences(console, sweep)
    print()
    if report.progress:
        print(report.progress)
    print(report.verdict.paragraph)
    if floors := floors_sentence(sweep, sweep.metric):
        print(floors)
    for line in sweep_caveats(sweep):
        print(f"caveat: {line}")
    print(f"report: {report.path}")
    return 0
