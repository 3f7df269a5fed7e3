"""The folder of a run, read: its checkpoints, records and curves."""

import contextlib
import re
import time
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from zoo import config as configs
from zoo.config import ResolvedConfig
from zoo.errors import ConfigError
from zoo.files import MAX_LINE_BYTES, is_step, number_in, printable, read_json, read_json_lines

STEP_NAME = re.compile(r"0|[1-9][0-9]*", re.ASCII)
FINISHED = ("done", "diverged")
TAIL_BYTES = 16384


@dataclass(frozen=True)
class FolderState:
    """State of the run in a folder.

    Attributes:
        name: "new", "done", "diverged", "failed" or "unfinished".
        step: updates applied.
        reason: why a run failed, diverged or was stopped.
    """

    name: str
    step: int = 0
    reason: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to run. A diverged run is a result, and would diverge again."""
        return self.name in FINISHED


@dataclass(frozen=True)
class Curves:
    """The content of metrics.jsonl.

    Attributes:
        rows: the lines by step, null as NaN; of lines with one step, the later ones win.
        unreadable_lines: number of its lines that are damaged.
        disordered_lines: number of its lines that repeat a step or precede an earlier one.
    """

    rows: list[dict[str, float]] = field(default_factory=list)
    unreadable_lines: int = 0
    disordered_lines: int = 0


@dataclass(frozen=True)
class MetricsTail:
    """The newest values in metrics.jsonl: None if missing, NaN if not finite."""

    step: int = 0
    loss: float | None = None
    tokens_per_second: float | None = None
    metric: float | None = None


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run, as it was when it was read: each file at first use, and only once.

    Who goes on with the run holds the lock of its folder, and makes this value after taking it.

    Attributes:
        path: the folder, which need not exist.
        strict: whether a damaged status.json, meta.json or config.json is refused with a ConfigError.
            Otherwise it reads as {}, and `problems` gets a line about it.
    """

    path: Path
    strict: bool = True
    problems: list[str] = field(default_factory=list, init=False, compare=False)

    @cached_property
    def steps(self) -> list[int]:
        """The steps of the checkpoints, in ascending order."""
        return checkpoint_steps(self.path / "checkpoints")

    @property
    def newest(self) -> int:
        """The step of the newest checkpoint; 0 if there is none."""
        return max(self.steps, default=0)

    @cached_property
    def status(self) -> dict[str, Any]:
        """status.json: how far the run is, and how it ended."""
        return self._record("status.json")

    @cached_property
    def meta(self) -> dict[str, Any]:
        """meta.json: where the run comes from, and what it was trained with."""
        types = {"data": dict, "started_from": dict, "teacher": dict, "device": dict}
        return self._record("meta.json", **types, resumed=list, extensions=list)

    @cached_property
    def config(self) -> dict[str, Any]:
        """config.json as it was written."""
        return self._record("config.json")

    def _record(self, name: str, **expected: type) -> dict[str, Any]:
        path = self.path / name
        return read_record(path, **expected) if self.strict else read_json_object(path, self.problems)

    @cached_property
    def resolved_config(self) -> ResolvedConfig | None:
        """The config that the run was trained with; None if it has no config.json.

        Raises:
            ConfigError: it is damaged, or not a config of this version; whether `strict` or not.
        """
        path = self.path / "config.json"
        return configs.resolve(configs.load(str(path))) if path.exists() else None

    @cached_property
    def curves(self) -> Curves:
        """metrics.jsonl as a whole."""
        path = self.path / "metrics.jsonl"
        try:
            stat = path.stat()
        except OSError:
            return Curves()
        return _read_curves(path, stat.st_mtime_ns, stat.st_size)

    def tail(self, metric: str = "eval/loss") -> MetricsTail:
        """Reads the newest values from the end of metrics.jsonl; ignores a torn line."""
        path = self.path / "metrics.jsonl"
        try:
            size = path.stat().st_size
        except OSError:
            return MetricsTail()
        found: dict[str, float] = {}
        step = 0
        for _, row in read_json_lines(path, max(0, size - TAIL_BYTES)):
            if row is None or not is_step(row.get("step")):
                continue
            step = row["step"]
            for key in ("train/loss", "train/tokens_per_second", metric):
                if key in row and (value := number_in(row[key])) is not None:
                    found[key] = value
        return MetricsTail(step, found.get("train/loss"), found.get("train/tokens_per_second"), found.get(metric))

    @cached_property
    def silent(self) -> float | None:
        """Seconds since the run last wrote a file; None if it never did."""
        times = []
        for name in ("metrics.jsonl", "status.json", "log.txt"):
            with contextlib.suppress(OSError):
                times.append((self.path / name).stat().st_mtime)
        # The clock of another machine may be ahead.
        return max(0.0, time.time() - max(times)) if times else None

    @property
    def final_status(self) -> dict[str, Any] | None:
        """The status of a run that is done, else None."""
        return self.status if self.status.get("state") == "done" and is_step(self.status.get("step")) else None

    @cached_property
    def state(self) -> FolderState:
        """The state of the run; "new" without a status.json."""
        name, step, reason = (self.status.get(key) for key in ("state", "step", "reason"))
        if not isinstance(name, str):
            return FolderState("new")
        step = step if is_step(step) else 0
        if name not in FINISHED:
            # A killed run could not write its last step to status.json, but its metrics have it.
            step = max(step, self.tail().step)
        name = name if name in (*FINISHED, "failed") else "unfinished"
        return FolderState(name, step, reason if isinstance(reason, str) else "")


def checkpoint_steps(folder: Path) -> list[int]:
    """Returns the steps of the checkpoints in `folder`, in ascending order; none without a folder.

    Other names, also those that Python regards as digits ("²", "007"), are no checkpoints.
    """
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if STEP_NAME.fullmatch(path.name) and path.is_dir())


def recorded_executor(meta: dict[str, Any], missing: str = "single") -> str:
    """Returns the name of the executor (`zoo.training.executor`) that trained a run.

    Args:
        meta: content of meta.json.
        missing: returned if it names no executor.
    """
    name = str(meta.get("executor", missing))
    # The name of "single" in older records.
    return "single" if name == "alone" else name


def read_record(path: Path, **expected: type) -> dict[str, Any]:
    """Reads a JSON object where damage must not go unnoticed, as of a run that is to be trained; a
    file that is missing, or empty after a crash, reads as {}.

    Args:
        path: the file.
        expected: types of entries that may be missing.

    Raises:
        ConfigError: the file holds something else; in one line, with the way out.
    """
    try:
        if not path.stat().st_size and path.is_file():
            return {}
        content = read_json(path)
        if not isinstance(content, dict):
            raise ValueError(f"a JSON object is expected, found {type(content).__name__}")
        for name, kind in expected.items():
            if content.get(name) is not None and not isinstance(content[name], kind):
                raise ValueError(f'"{name}" is of type {type(content[name]).__name__}, not {kind.__name__}')
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        line = f"{path} is damaged ({_why(error)}); restore it from a copy, or remove it if there is none"
        raise ConfigError(line) from error
    return content


def read_json_object(path: Path, problems: list[str]) -> dict[str, Any]:
    """Reads a JSON object, empty if there is no file; appends damage to `problems`."""
    try:
        value = read_json(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        problems.append(f"{path}: not readable as JSON ({_why(error)})")
        return {}
    if not isinstance(value, dict):
        problems.append(f"{path}: a JSON object is expected, found {type(value).__name__}")
        return {}
    return printable(value)


def _why(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) else str(error).partition("\n")[0]


@lru_cache(maxsize=1024)
def _read_curves(path: Path, changed: int, size: int) -> Curves:
    # While a sweep is followed, most of its files do not change and are read only once.
    del changed, size
    merged: dict[int, dict[str, float]] = {}
    unreadable = disordered = newest = 0
    for line, row in read_json_lines(path):
        numbers = _numbers_in(row)
        if numbers is None:
            # A kill can only tear the text after the last newline; anything else is damage.
            unreadable += line.endswith(b"\n") or len(line) == MAX_LINE_BYTES
            continue
        step = int(numbers["step"])
        there = merged.setdefault(step, {})
        # An evaluation has a line of its own, after that of the training step.
        disordered += step < newest or bool(numbers.keys() & there.keys() - {"step", "tokens", "seconds"})
        newest = max(newest, step)
        there |= numbers
    return Curves([merged[step] for step in sorted(merged)], unreadable, disordered)


def _numbers_in(row: dict[str, Any] | None) -> dict[str, float] | None:
    """Returns the numbers of a line of metrics.jsonl; None if it is damaged."""
    if row is None or not is_step(row.get("step")):
        return None
    numbers = {key: number_in(value) for key, value in row.items() if key.isprintable() and key != "nonfinite"}
    return None if None in numbers.values() else numbers
