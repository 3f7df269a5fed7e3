"""`zoo new experiment|variant NAME`: writes a commented file that works as it is."""

import argparse
import re
from pathlib import Path

from zoo.cli.variant_templates import TEMPLATES, variant_text
from zoo.errors import ConfigError, shown
from zoo.files import write_atomic

EXPERIMENT = '''"""TITLE: what is expected, and where that was published.

    zoo run FILE --dry-run     checks it and shows the arms with their cost
    zoo run FILE               trains them and writes runs/NAME/report.html

Stated beforehand, on `eval/loss` at the last step: RMSNorm and LayerNorm end within 0.02 nats of each other.
"""

from zoo.lab.experiment import Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates


def get_experiment(size: str = "tiny") -> Experiment:
    """The arms are all combinations of the levels of `factors`; `FILE:small` passes size="small"."""
    return Experiment(
        name="NAME",
        question="Does RMSNorm converge like LayerNorm?",
        # What all arms share. decoder(size) is a small GPT; config.load("bert:tiny") is another start, and
        # config.override(base, {"field": value}) changes fields. `zoo config show` lists them.
        base=decoder(size),
        # factor -> levels. A level may also set several fields: {"name": {"field": value, ...}, ...}.
        factors={"norm": levels("model.norm.kind", "layernorm", "rmsnorm")},
        # Every arm is trained once with each seed; 3 detect differences above 3.3 standard deviations.
        seeds=(0, 1, 2),
        # Finds the best learning rate of each arm first, with three other seeds; None trains all arms alike.
        tune=rates(size),
        # The rules that decide: superiority, non_inferiority or equivalence, with a margin in the metric's unit.
        contrasts=(
            Contrast(
                "they end alike",
                a=Side({"norm": "rmsnorm"}),
                b=Side({"norm": "layernorm"}),
                rule="equivalence",
                margin=0.02,
                expected="they end within 0.02 nats of each other",
            ),
        ),
        size=size,
    )
'''

EPILOG = """examples:
  zoo new experiment warmup
  zoo run warmup.py --dry-run
  zoo new variant squared_relu
  zoo new variant decayed --kind attention
  zoo check --plugin decayed.py"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "new",
        help="write a commented experiment or variant file to start from",
        description="Writes NAME.py, a commented file that works as it is, into the current folder.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("experiment", "variant"), help="what the file is")
    parser.add_argument("name", metavar="NAME", help="lower-case letters, digits and _")
    parser.add_argument("--kind", choices=TEMPLATES, help="of a variant: what it is (default: feed-forward)")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Writes the file and says what to do with it."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,49}", args.name):
        raise ConfigError(f"name {shown(args.name)}: use lower-case letters, digits and _, beginning with a letter")
    if args.kind and args.what != "variant":
        raise ConfigError(f"--kind {args.kind} is for zoo new variant")
    path = Path(f"{args.name}.py")
    if path.exists() or path.is_symlink():
        raise ConfigError(f"{path} exists already; nothing was written")
    words = args.name.split("_")
    content = EXPERIMENT if args.what == "experiment" else variant_text(args.kind or "feed-forward")
    for placeholder, text in (
        ("TITLE", " ".join(words).capitalize()),
        ("CLASS", "".join(word.capitalize() for word in words)),
        ("FILE", str(path)),
        ("NAME", args.name),
    ):
        content = content.replace(placeholder, text)
    write_atomic(path, content)
    use = content.split('"""')[1].strip().splitlines()[2:4]
    print("\n".join([f"{path} was written; it works as it is. Next:", *(f"  {line.strip()}" for line in use)]))
    return 0
