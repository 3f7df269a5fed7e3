"""metrics.jsonl, one JSON object per line and the only source of curves; and the training clock."""

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.files import is_step, read_json_lines


def read_lines_with_step(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yields (line, the JSON object in it) for the lines of a file that have a step; others are
    skipped (see `zoo.files.read_json_lines`).
    """
    for line, values in read_json_lines(path):
        if values is not None and is_step(values.get("step")):
            yield line.removesuffix(b"\n"), values


def filter_json_lines(
    path: Path, wanted: Callable[[dict[str, Any]], bool]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rewrites a file of JSON lines, if it exists, with only the wanted lines.

    Returns:
        (the objects that were kept, the objects that were removed).

    Raises:
        ConfigError: it is a folder, a FIFO or a device.
    """
    if not path.exists():
        return [], []
    if not path.is_file():
        raise ConfigError(f"{path} is not a regular file; move it away")
    kept, removed, lines = [], [], []
    for line, values in read_lines_with_step(path):
        if wanted(values):
            kept.append(values)
            lines.append(line)
        else:
            removed.append(values)
    temporary = path.with_suffix(".jsonl.tmp")
    temporary.write_bytes(b"".join(line + b"\n" for line in lines))
    temporary.replace(path)
    return kept, removed


class MetricsFile:
    """Appends lines to `metrics.jsonl`; each is flushed, so a kill tears at most the last line.

    Args:
        path: the file.
        step: updates done before; later lines of an interrupted run and a torn last line are
            removed.
        evaluated: whether the evaluation due at `step` was done before the interruption.

    Attributes:
        kept, removed: the lines that were there and stayed, and those that were removed.
        trackers: receive every line too.
    """

    def __init__(self, path: Path, step: int, evaluated: bool):
        def is_before(values: dict[str, Any]) -> bool:
            return values["step"] < step or (values["step"] == step and (evaluated or "eval/loss" not in values))

        self.kept, self.removed = filter_json_lines(path, is_before)
        self.trackers: list[Any] = []
        self._file = path.open("a", encoding="utf-8")

    def write(self, step: int, tokens: int, seconds: float, values: dict[str, float]) -> None:
        """Writes one line; NaN and infinities become null, and "nonfinite" lists their names."""
        line: dict[str, Any] = {"step": step, "tokens": tokens, "seconds": round(seconds, 4)}
        nonfinite = [name for name, value in values.items() if not math.isfinite(value)]
        line |= {name: None if name in nonfinite else value for name, value in values.items()}
        if nonfinite:
            line["nonfinite"] = nonfinite
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()
        for tracker in self.trackers:
            tracker.write(line)

    def close(self) -> None:
        """Closes the file and the trackers."""
        self._file.close()
        for tracker in self.trackers:
            tracker.close()


class TrainingClock:
    """Wall-clock seconds of training.

    It is paused during evaluation and saving, and continued from the checkpoint when a run resumes.

    The first step of each batch shape is left out in every process, because it compiles.
    """

    def __init__(self, seconds: float = 0.0):
        self._before, self._since = seconds, None

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return self._before + (time.monotonic() - self._since if self._since is not None else 0.0)

    @property
    def running(self) -> bool:
        """Whether the clock is running."""
        return self._since is not None

    def start(self) -> None:
        """Starts or continues counting."""
        if self._since is None:
            self._since = time.monotonic()

    def stop(self) -> None:
        """Pauses; the seconds so far are kept."""
        self._before, self._since = self.seconds, None
