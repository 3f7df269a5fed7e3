"""The options --plugin and --trust-plugin, which every command has."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from zoo.arguments import Parser
from zoo.config import plugins
from zoo.errors import ConfigError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to a parser."""
    group = parser.add_argument_group("plug-ins")
    group.add_argument(
        "--plugin",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="Python file that adds kinds of norms, attention, optimizers ... (executed; see "
        "docs/your_own_variant.md); repeat for several",
    )
    group.add_argument(
        "--trust-plugin",
        action="store_true",
        help="also execute plug-ins that are stored with runs which somebody else has made",
    )


def load(args: argparse.Namespace) -> None:
    """Loads the plug-ins that the options name.

    Raises:
        ConfigError: with the problems of all of them.
    """
    if args.trust_plugin:
        plugins.trust_stored()
    problems = []
    for path in args.plugin:
        try:
            plugins.load_plugin(path)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)


def load_named(arguments: Sequence[str]) -> None:
    """Loads the plug-ins that a command line names, before its other words can be parsed.

    Raises:
        ConfigError: with the problems of all of them.
    """
    parser = Parser(add_help=False)
    add_options(parser)
    load(parser.parse_known_args(arguments)[0])
