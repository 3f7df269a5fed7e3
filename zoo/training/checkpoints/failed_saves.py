"""Cleaning up after failed saves: uncommitted folders and logged tracebacks."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoo.files import remove_tree


class _WithoutTracebacks(logging.Filter):
    """Drops what Orbax and its event loops log, with tracebacks, of errors that it also raises."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and record.exc_info[1])


# One object: a logger keeps each filter once.
_WITHOUT_TRACEBACKS = _WithoutTracebacks()


def drop_logged_errors() -> None:
    """Keeps errors that Orbax also raises out of the log and off the terminal."""
    # The others tell of writes that end when a failed save has closed its event loop.
    for logger in ("absl", "asyncio", "concurrent.futures"):
        logging.getLogger(logger).addFilter(_WITHOUT_TRACEBACKS)
    if not isinstance(sys.unraisablehook, _WithoutClosedLoops):
        sys.unraisablehook = _WithoutClosedLoops(sys.unraisablehook)


class _WithoutClosedLoops:
    """Reports exceptions of callbacks, except those of writes whose event loop is closed."""

    def __init__(self, report: Callable[[Any], object]):
        self._report = report

    def __call__(self, unraisable: Any) -> None:
        error = unraisable.exc_value
        if not (isinstance(error, RuntimeError) and str(error) == "Event loop is closed"):
            self._report(unraisable)


def remove_unfinished(folder: Path) -> None:
    """Removes the folders of saves that were not committed.

    Args:
        folder: the checkpoints of a run.
    """
    for path in list(folder.glob("*.orbax-checkpoint-tmp")):
        remove_tree(path)
