"""The parser of every command: argparse without abbreviations, errors in one line, and numbers and
paths that are checked where they are read.
"""

import argparse
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from zoo.errors import ConfigError, did_you_mean, shortened, user_path

# Beyond it, counts and positions do not fit an integer of 64 bits.
LARGEST_INTEGER = 10**12
_LONG_WORD = re.compile(r"\S{200,}")


class Parser(argparse.ArgumentParser):
    """A parser whose subcommands follow the same rules, whatever they are made with.

    Flags are written in full. A value "--" is refused, which argparse would drop. `int` and `float`
    read finite numbers, whole ones up to 10^12, and `Path` reads no empty name.
    """

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options | {"allow_abbrev": False})
        for kind, read in ((int, _whole_number), (float, _finite_number), (Path, _path)):
            self.register("type", kind, read)

    def parse_known_args(self, args=None, namespace=None):
        """Parses what it knows; see `argparse`."""
        args = sys.argv[1:] if args is None else list(args)
        for argument in args:
            name, equals, value = argument.partition("=")
            if equals and value == "--" and name.startswith("-"):
                self.error(f"argument {shortened(name)}: -- is not a value")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Raises the error that argparse would print below its usage, with a suggestion of the choice
        that was probably meant.
        """
        if found := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message, re.DOTALL):
            message += did_you_mean(found[1], [option.strip(" '") for option in found[2].split(",")])
        line = _LONG_WORD.sub(lambda word: shortened(word[0]), message)
        raise ConfigError(f"{line}; see {self.prog} --help")

    def _subparsers_of(self) -> list["Parser"]:
        return [
            parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for parser in dict.fromkeys(action.choices.values())
        ]

    def commands(self) -> list["Parser"]:
        """Returns the parsers of its commands that have no subcommands of their own."""
        inner = self._subparsers_of()
        return [command for parser in inner for command in parser.commands()] if inner else [self]

    def options(self) -> list[str]:
        """Returns all its flags, and those of its subcommands."""
        return [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")] + [
            flag for parser in self._subparsers_of() for flag in parser.options()
        ]

    def unknown(self, rest: list[str], command: str) -> ConfigError:
        """Returns the error for arguments that are left over, of which the first is named."""
        hint = did_you_mean(rest[0], self.options())
        return ConfigError(f"unknown argument {shortened(rest[0])}{hint}; see {command} --help")


def _whole_number(text: str) -> int:
    """Reads a whole number whose size is at most `LARGEST_INTEGER`."""
    try:
        value = int(text)
    except ValueError:
        value = None
    if value is None or abs(value) > LARGEST_INTEGER:
        raise argparse.ArgumentTypeError(f"{shortened(repr(text))} is not a whole number of at most 10^12")
    return value


def _finite_number(text: str) -> float:
    """Reads a number that is neither infinite nor NaN."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{shortened(repr(text))} is not a finite number")
    return value


def _path(text: str) -> Path:
    """Reads a path, which has a name: an empty one would be the working directory."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path; the working directory is .")
    # Shells leave the "~" of --workdir=~/runs as it is.
    return user_path(text)


def lengths(text: str) -> list[int]:
    """Reads sequence lengths, "128,256"."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1 or max(found) > LARGEST_INTEGER:
        raise argparse.ArgumentTypeError(f"{shortened(repr(text))} is not a list of lengths, e.g. 128,256")
    return found


def at_least(low: float, kind: type, high: float = LARGEST_INTEGER) -> Callable[[str], float]:
    """Returns a function that reads a number in a range."""

    def read(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"{shortened(repr(text))} is not a number of at least {low}"
                + (f" and at most {high:.0f}" if high < LARGEST_INTEGER else "")
            )
        return value

    return read
