"""The `zoo` command: one subcommand per module."""

import importlib
import sys
from collections.abc import Sequence

import zoo
from zoo.arguments import Parser
from zoo.cli import plugin_options
from zoo.errors import ConfigError, did_you_mean, reported, shown
from zoo.files import keep_matplotlib_quiet

# Group -> subcommand -> (module, help). Modules are imported only when they are used, so that
# `--help` is fast.
GROUPS = {
    "experiments": {
        "run": ("zoo.cli.sweeps.run", "run an experiment: train every arm with every seed, then write the report"),
        "status": ("zoo.cli.sweeps.status", "show the status of every run of a sweep"),
        "watch": ("zoo.cli.sweeps.watch", "follow active runs in a browser or in the terminal"),
        "report": ("zoo.cli.sweeps.report", "write the report of a sweep"),
        "compare": ("zoo.cli.sweeps.report", "compare any runs on one page"),
        "law": ("zoo.cli.sweeps.law", "fit laws of loss against compute to sweeps at several sizes"),
        "new": ("zoo.cli.new_file", "write a commented experiment or variant file to start from"),
        "check": ("zoo.cli.check", "check a variant of your own as the built-in ones are checked"),
        "experiments": ("zoo.cli.describe", "list the experiments that come with zoo"),
        "results": ("zoo.cli.sweeps.results", "archive the results of finished sweeps"),
    },
    "single runs": {
        "train": ("zoo.cli.train", "train one config (same as train.py)"),
        "eval": ("zoo.cli.evaluate", "evaluate a run and sample text (same as eval.py)"),
        "generate": ("zoo.cli.generate", "generate text with a run: sampling or beam search"),
        "probe": ("zoo.cli.evaluation.probe", "ask a run for the answers of synthetic tasks: recall, copying ..."),
        "harness": ("zoo.cli.evaluation.harness", "score a run on tasks of lm-evaluation-harness"),
        "predict": ("zoo.cli.predict", "apply a run to texts: labels, tags, answers, hidden or next tokens"),
        "average": ("zoo.cli.checkpoints.average", "average a run's last checkpoints"),
        "import": ("zoo.cli.checkpoints.interchange", "convert a checkpoint of another library into a run"),
        "export": ("zoo.cli.checkpoints.interchange", "convert a run into a checkpoint of another library"),
    },
    "models and data": {
        "describe": ("zoo.cli.describe", "list and explain variants, config fields and words"),
        "configs": ("zoo.cli.describe", "list the configs that come with zoo"),
        "config": ("zoo.cli.config", "show, compare or validate configs; tables of sizes"),
        "plan": ("zoo.cli.plan_resources", "plan a run on many devices: memory, communication, time"),
        "data": ("zoo.cli.data", "show the data that a model reads"),
        "doctor": ("zoo.cli.doctor", "show what this machine offers, and how fast it is"),
        "completion": ("zoo.cli.completion", "print a script for completion in a shell"),
        "draw": ("zoo.cli.draw", "draw architectures, attention, masks, positions, sizes"),
    },
}
SUBCOMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}
# These parse their own arguments: their config overrides are not options of argparse.
WHOLE_COMMANDS = ("train", "eval")

EXAMPLES = """examples:
  zoo run experiments/norm_placement.py:quick --dry-run     show the arms of an experiment and their cost
  zoo run experiments/norm_placement.py:quick               train them and write the report
  zoo train --config=configs/llama.py:tiny --workdir=runs/first
  zoo generate runs/first --prompt "def "
  zoo describe rope

zoo COMMAND --help shows the options of a command. Every command takes --plugin FILE, a file of your own with
variants (docs/your_own_variant.md)."""


def usage() -> str:
    """Returns the help of `zoo`."""
    lines = [
        "usage: zoo COMMAND [options]",
        "",
        "Runs ablations of transformers, and trains and inspects single models.",
        "",
    ]
    for title, commands in GROUPS.items():
        lines += [f"{title}:", *(f"  {name:11s} {text}" for name, (_, text) in commands.items()), ""]
    return "\n".join([*lines, EXAMPLES])


@reported
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the subcommand and returns its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    keep_matplotlib_quiet()
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0 if arguments else 2
    name = arguments[0]
    if name == "--version":
        print(f"zoo {zoo.__version__}")
        return 0
    if name not in SUBCOMMANDS:
        raise ConfigError(f"unknown command {shown(name)}{did_you_mean(name, SUBCOMMANDS)}; zoo --help lists them")
    module = importlib.import_module(SUBCOMMANDS[name][0])
    if name in WHOLE_COMMANDS:
        return module.main(arguments[1:])
    if hasattr(module, "prepare"):
        module.prepare(arguments[1:])
    parser = Parser(prog="zoo")
    module.add_parser(parser.add_subparsers(dest="command"))
    for command in parser.commands():
        plugin_options.add_options(command)
    known, rest = parser.parse_known_args(arguments)
    if rest and not getattr(known, "takes_overrides", False):
        raise parser.unknown(rest, f"zoo {name}")
    known.overrides, known.words = rest, arguments
    plugin_options.load(known)
    return known.handler(known)


if __name__ == "__main__":
    sys.exit(main())
