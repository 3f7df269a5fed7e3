"""`zoo average`: averages the parameters of a run's last checkpoints."""

import argparse
from pathlib import Path

DESCRIPTION = """Creates a run whose parameters are the mean of another run's last checkpoints (Vaswani et al. 2017,
section 6.1). That run's training.keep_checkpoints and training.checkpoint_every determine how many checkpoints there
are, and how far apart."""
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
    parser.add_argument(
        "--last", type=int, default=10, metavar="K", help="number of checkpoints (default: %(default)s)"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder of the new run; new or empty")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Averages the checkpoints and prints their steps."""
    from zoo.interop.averaging import average_run

    steps = average_run(args.run, args.last, args.out)
    print(f"{args.out}: the mean of {args.run} at steps {', '.join(map(str, steps))}")
    return 0
