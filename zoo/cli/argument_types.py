"""Additions to argparse: types of arguments, and errors in one line."""

import argparse
from collections.abc import Callable
from typing import NoReturn

from zoo.errors import ConfigError


class OneLineParser(argparse.ArgumentParser):
    """Reports bad arguments in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Raises the error that argparse would print below its usage."""
        raise ConfigError(f"{message}; see {self.prog} --help")


def lengths(text: str) -> list[int]:
    """Reads sequence lengths, "128,256"."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of lengths, e.g. 128,256")
    return found


def at_least(low: float, kind: type, high: float = 1e12) -> Callable[[str], float]:
    """Returns a function that reads a number in a range."""

    def read(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number of at least {low}" + (f" and at most {high:.0f}" if high < 1e12 else "")
            )
        return value

    return read
