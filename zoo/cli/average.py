"""`zoo average`: a run whose parameters are the mean of another's last checkpoints."""

import argparse
from pathlib import Path

DESCRIPTION = """Makes the folder of a run whose parameters are the mean of those of the last checkpoints of another (Vaswani et al. 2017,
section 6.1). How many there are is that run's training.keep_checkpoints, how far apart its training.checkpoint_every."""
EXAMPLES = """examples:
  zoo average runs/multi30k --last 10 --out runs/multi30k-averaged
  python eval.py runs/multi30k-averaged --translate"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "average",
        help="average a run's last checkpoints",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    parser.add_argument("--last", type=int, default=10, metavar="K", help="how many checkpoints (default: %(default)s)")
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="folder of the new run; not there yet, or empty"
    )
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Averages, and says what."""
    from zoo.interop.averaging import average_run

    steps = average_run(args.run, args.last, args.out)
    print(f"{args.out}: the mean of {args.run} at the steps {', '.join(map(str, steps))}")
    return 0
