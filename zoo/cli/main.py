"""The `zoo` command: one subcommand per module."""

import argparse
import importlib
import re
import sys
from collections.abc import Sequence

from zoo.errors import ConfigError, did_you_mean, reported

# Subcommand -> the module that adds it; a module is imported only when its subcommand is asked for,
# so that `--help` is quick.
SUBCOMMANDS = {
    "run": ("zoo.cli.sweeps.run", "run an experiment: every arm, every seed, then the report"),
    "status": ("zoo.cli.sweeps.status", "where every run of a sweep stands"),
    "report": ("zoo.cli.sweeps.report", "write the report of a sweep"),
    "results": ("zoo.cli.sweeps.results", "keep what sweeps came to, and write a page over it"),
    "compare": ("zoo.cli.sweeps.report", "compare any runs on one page"),
    "watch": ("zoo.cli.sweeps.watch", "follow runs that go on, in a browser or in the terminal"),
    "draw": ("zoo.cli.draw", "draw what a model is and does: attention, positions, sizes, two architectures"),
    "config": ("zoo.cli.config", "show, compare or validate configs"),
    "data": ("zoo.cli.data", "look at the rows that a model reads"),
    "describe": ("zoo.cli.describe", "list the variants there are"),
    "average": ("zoo.cli.average", "average a run's last checkpoints"),
    "import": ("zoo.cli.interchange", "make a run out of a checkpoint of another library"),
    "export": ("zoo.cli.interchange", "write a run as a checkpoint of another library"),
    "train": ("zoo.cli.train", "train one config (the same as train.py)"),
    "eval": ("zoo.cli.evaluate", "evaluate a run and sample text (the same as eval.py)"),
    "generate": ("zoo.cli.generate", "make texts with a run: sampling or beam search"),
}
# These read their own flags, because dotted config overrides are no argparse options.
WHOLE_COMMANDS = ("train", "eval")


def usage() -> str:
    """The help of `zoo` itself."""
    lines = [f"  {name:10s} {text}" for name, (_, text) in SUBCOMMANDS.items()]
    return "\n".join(
        [
            "usage: zoo COMMAND ...",
            "",
            "A laboratory for ablations of transformers.",
            "",
            *lines,
            "",
            "zoo COMMAND --help tells more; python train.py and python eval.py are the single-run commands.",
        ]
    )


class Parser(argparse.ArgumentParser):
    """Says in one line what it does not understand; so do the parsers of its subcommands."""

    def error(self, message: str) -> None:
        """Raises what argparse would print below its usage."""
        if found := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            message += did_you_mean(found[1], [option.strip(" '") for option in found[2].split(",")])
        raise ConfigError(f"{message}; see {self.prog} --help")

    def options(self) -> list[str]:
        """All its flags, and those of its subcommands."""
        inner = [
            parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for parser in action.choices.values()
        ]
        return [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")] + [
            flag for parser in inner for flag in parser.options()
        ]


@reported
def main(arguments: Sequence[str] | None = None) -> int:
    """Finds the subcommand, runs it, returns the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0 if arguments else 2
    name = arguments[0]
    if name not in SUBCOMMANDS:
        raise ConfigError(f"unknown command {name!r}{did_you_mean(name, SUBCOMMANDS)}; zoo --help lists them")
    module = importlib.import_module(SUBCOMMANDS[name][0])
    if name in WHOLE_COMMANDS:
        return module.main(arguments[1:])
    parser = Parser(prog="zoo", allow_abbrev=False)
    module.add_parser(parser.add_subparsers(dest="command"))
    known, rest = parser.parse_known_args(arguments)
    if rest and not getattr(known, "takes_overrides", False):
        raise ConfigError(f"unknown argument {rest[0]}{did_you_mean(rest[0], parser.options())}; see zoo {name} --help")
    known.overrides = rest
    return known.handler(known)


if __name__ == "__main__":
    sys.exit(main())
