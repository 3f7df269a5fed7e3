"""`zoo average`: averages the parameters of a run's last checkpoints."""

import argparse
import json
from pathlib import Path

DESCRIPTION = """Creates a run whose parameters are the mean of another run's last checkpoints (Vaswani et al. 2017,
section 6.1). That run's training.keep_checkpoints and training.checkpoint_every determine how many checkpoints there
are, and how far apart."""
EXAMPLES = """examples:
  zoo average runs/multi30k --last 10 --out runs/multi30k-averaged
  zoo average runs/gpt2 --ema --out runs/gpt2-averaged
  zoo average runs/gpt2 --tail --out runs/gpt2-averaged
  python eval.py runs/multi30k-averaged --translate"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "average",
        help="average a run's last checkpoints",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    parser.add_argument("--last", type=int, metavar="K", help="number of checkpoints (default: 10)")
    parser.add_argument(
        "--ema",
        action="store_true",
        help="instead of a mean of checkpoints, take the moving average that a run with optimizer.ema_steps keeps",
    )
    parser.add_argument(
        "--tail",
        action="store_true",
        help="take the average of the last updates that a run with optimizer.tail_average keeps",
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder of the new run; new or empty")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Averages the checkpoints and prints their steps."""
    from zoo.errors import ConfigError
    from zoo.interop.averaging import average_run, kept_average_run

    asked = {"ema": args.ema, "tail": args.tail, "last": args.last is not None}
    chosen = [name for name, given in asked.items() if given]
    if len(chosen) > 1:
        flags = " and ".join(f"--{name}" for name in chosen)
        raise ConfigError(f"{flags} are {len(chosen)} averages; give one of them")
    if chosen and chosen != ["last"]:
        (name,) = chosen
        step = kept_average_run(args.run, name, args.out)
        called = {"ema": "moving average", "tail": "average of the last updates"}[name]
        line = f"{args.out}: the {called} of {args.run} at step {step}"
        print(json.dumps({"run": str(args.out), "of": str(args.run), f"{name}_step": step}) if args.json else line)
        return 0
    steps = average_run(args.run, 10 if args.last is None else args.last, args.out)
    line = f"{args.out}: the mean of {args.run} at steps {', '.join(map(str, steps))}"
    print(json.dumps({"run": str(args.out), "of": str(args.run), "steps": list(steps)}) if args.json else line)
    return 0
