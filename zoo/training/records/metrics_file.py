"""metrics.jsonl: one JSON object per line, the only source of curves; and the clock that it is
stamped with.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def read_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """(line, what it holds) for every line of a file, if there is one, that is a JSON object with a
    step; a torn line is none.
    """
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict) and isinstance(values.get("step"), int):
            yield line, values


def keep_lines(
    path: Path, wanted: Callable[[dict[str, Any]], bool]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Leaves in a file of JSON lines, if there is one, those of `read_lines` that are wanted.

    Returns:
        (the objects that are left, those that were cut off).
    """
    if not path.exists():
        return [], []
    kept, dropped, lines = [], [], []
    for line, values in read_lines(path):
        if wanted(values):
            kept.append(values)
            lines.append(line)
        else:
            dropped.append(values)
    temporary = path.with_suffix(".jsonl.tmp")
    temporary.write_bytes(b"".join(line + b"\n" for line in lines))
    temporary.replace(path)
    return kept, dropped


class MetricsFile:
    """Appends lines to `metrics.jsonl`, each flushed, so that a kill loses nothing but a torn last
    line.

    Args:
        path: the file.
        step: updates that the run continues from; later lines of an interrupted run and a torn tail
            are cut off.
        evaluated: whether the evaluation due at `step` was done before the interruption.

    Attributes:
        kept, dropped: the lines that were there, and those that were cut off.
        trackers: what else is given every line.
    """

    def __init__(self, path: Path, step: int, evaluated: bool):
        def before(values: dict[str, Any]) -> bool:
            return values["step"] < step or (values["step"] == step and (evaluated or "eval/loss" not in values))

        self.kept, self.dropped = keep_lines(path, before)
        self.trackers: list[Any] = []
        self._file = path.open("a", encoding="utf-8")

    def write(self, step: int, tokens: int, seconds: float, values: dict[str, float]) -> None:
        """Writes one line; numbers that JSON cannot hold become null and are listed under
        "nonfinite".
        """
        line: dict[str, Any] = {"step": step, "tokens": tokens, "seconds": round(seconds, 4)}
        bad = [name for name, value in values.items() if not math.isfinite(value)]
        line |= {name: None if name in bad else value for name, value in values.items()}
        if bad:
            line["nonfinite"] = bad
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()
        for tracker in self.trackers:
            tracker.write(line)

    def close(self) -> None:
        """Closes the file, and ends the trackers."""
        self._file.close()
        for tracker in self.trackers:
            tracker.close()


class Clock:
    """Seconds of training: monotonic, stopped while compiling, evaluating and saving, and carried
    over by checkpoints.

    The first step of each shape of batches is left out in every process, because it compiles.
    """

    def __init__(self, seconds: float = 0.0):
        self._before, self._since = seconds, None

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return self._before + (time.monotonic() - self._since if self._since is not None else 0.0)

    @property
    def running(self) -> bool:
        """Whether it is counting."""
        return self._since is not None

    def start(self) -> None:
        """Starts or continues."""
        if self._since is None:
            self._since = time.monotonic()

    def stop(self) -> None:
        """Stops, keeping what was counted."""
        self._before, self._since = self.seconds, None
