"""`zoo completion SHELL`: prints a script with which a shell completes commands, flags and fields."""

import argparse
import importlib

from zoo.arguments import Parser
from zoo.cli import plugin_options
from zoo.config import FIELDS
from zoo.errors import ConfigError

SHELLS = ("bash", "zsh", "tcsh")
EPILOG = """examples:
  zoo completion bash > ~/.local/share/bash-completion/completions/zoo
  zoo completion zsh > ~/.zfunc/_zoo                  (~/.zfunc has to be in fpath)"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script for completion in a shell",
        description="Prints a script with which a shell completes commands, flags, choices, files and the fields of "
        "configs (--config.model.dim=). The extra `completion` has what writes it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(handler=run)


def whole_parser() -> Parser:
    """Returns the parser of all subcommands, with fields as flags where they can be set."""
    from zoo.cli.main import SUBCOMMANDS, WHOLE_COMMANDS

    parser = Parser(prog="zoo")
    subparsers = parser.add_subparsers(dest="command")
    for path in dict.fromkeys(path for name, (path, _) in SUBCOMMANDS.items() if name not in WHOLE_COMMANDS):
        importlib.import_module(path).add_parser(subparsers)
    for command in parser.commands():
        plugin_options.add_options(command)
        if command.get_default("takes_overrides"):
            _add_fields(command)
    for name in WHOLE_COMMANDS:
        path, text = SUBCOMMANDS[name]
        whole = importlib.import_module(path).parser()
        command = subparsers.add_parser(name, parents=[whole], add_help=False, help=text)
        if name == "train":
            _add_fields(command)
    return parser


def _add_fields(command: argparse.ArgumentParser) -> None:
    for field in FIELDS:
        command.add_argument(
            f"--config.{field.path}", choices=field.choices and list(field.choices), help=field.meaning
        )


def run(args: argparse.Namespace) -> int:
    """Prints the script."""
    try:
        import shtab
    except ImportError:
        raise ConfigError(
            "completion scripts are written by the package shtab, which is missing: pip install shtab"
        ) from None

    parser = whole_parser()
    for action in _actions(parser):
        # shtab takes a dict of choices for one of subcommands.
        action.choices = action.choices and list(action.choices)
        if "FILE" in str(action.metavar) or "DIR" in str(action.metavar) or action.metavar in ("CONFIG", "RUN"):
            action.complete = shtab.FILE
    print(shtab.complete(parser, shell=args.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Returns the arguments of a parser and of all its subcommands."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                found += _actions(inner)
        else:
            found.append(action)
    return found
