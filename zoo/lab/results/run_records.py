"""Reads the folder of one run. Only JSON files are read; no config file is executed."""

import json
import math
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from zoo.config import FIELDS
from zoo.config.fields.renamed import without_unused
from zoo.errors import ConfigError
from zoo.files import MAX_LINE_BYTES, is_step, number_in, printable, read_json, read_json_lines
from zoo.lab.measures import read_measured
from zoo.lab.metrics import higher_is_better
from zoo.nested import flatten, unflatten

STATES = ("done", "running", "preempted", "failed", "diverged", "missing")


@dataclass(frozen=True)
class Series:
    """One metric of one run over time: arrays of equal length, ordered by step."""

    step: np.ndarray
    tokens: np.ndarray
    seconds: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class RunRecord:
    """The contents of a run folder.

    Attributes:
        rows: the lines of metrics.jsonl by step, null as NaN.
        unreadable_lines: number of its lines that are damaged.
        disordered_lines: number of its lines that repeat a step or precede an earlier one.
    """

    folder: Path
    arm: str
    seed: int
    config: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=lambda: {"state": "missing"})
    rows: list[dict[str, float]] = field(default_factory=list)
    unreadable_lines: int = 0
    disordered_lines: int = 0

    @property
    def state(self) -> str:
        return self.status["state"]

    @property
    def finished(self) -> bool:
        """Whether the run says something final about its arm: it is done, or it diverged."""
        return self.state in ("done", "diverged")

    @property
    def step(self) -> int:
        """Number of updates applied so far."""
        return run_step(self.status, self.rows)

    @property
    def seconds(self) -> float | None:
        """Training time in seconds at the last line that records it."""
        return next((row["seconds"] for row in reversed(self.rows) if "seconds" in row), None)

    def series(self, metric: str) -> Series:
        """Returns the steps at which `metric` was written, and its values (NaN: not finite)."""
        rows = [row for row in self.rows if metric in row]
        columns = ([row.get(key, math.nan) for row in rows] for key in ("step", "tokens", "seconds", metric))
        return Series(*(np.array(column, dtype=float) for column in columns))

    def final(self, metric: str) -> float | None:
        """Returns the value of `metric` at the highest step that has one.

        None if the metric was never written or the run is not done.
        """
        if self.state != "done":
            return None
        return next((row[metric] for row in reversed(self.rows) if metric in row), None)

    def best(self, metric: str) -> float | None:
        """Returns the best finite value of `metric` over all steps, or None if there is none.

        The best loss is the lowest, the best score the highest. The state of the run is ignored.
        """
        values = [row[metric] for row in self.rows if math.isfinite(row.get(metric, math.nan))]
        return (max if higher_is_better(metric) else min)(values, default=None)


def run_step(status: dict[str, Any], rows: list[dict[str, float]]) -> int:
    """Returns the number of updates applied, from the status or else the last row."""
    step = status.get("step")
    return step if is_step(step) else int(rows[-1]["step"]) if rows else 0


def differing_keys(configs: list[dict[str, Any]]) -> list[str]:
    """Returns the dotted keys, except the seed, whose values are not the same in all configs.

    A field that was added after a config was written has its default there.
    """
    added = {field.path: field.default for field in FIELDS if field.added}
    flat = [added | flatten(config) for config in configs]
    keys = sorted({key for config in flat for key in config} - {"seed"})
    # Compared as JSON: 1, 1.0 and True are three settings, although Python calls them equal.
    return [key for key in keys if len({json.dumps(config.get(key), sort_keys=True) for config in flat}) > 1]


def load_run(folder: str | Path) -> RunRecord:
    """Reads one run folder.

    Raises:
        ConfigError: the folder does not exist or is not a run folder, or a JSON file in it is
            damaged.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder")
    if not (folder / "status.json").exists():
        hint = " (this is a sweep: use zoo report)" if (folder / "experiment.json").exists() else ""
        raise ConfigError(f"{folder}: not a run folder, it has no status.json{hint}")
    problems: list[str] = []
    run = read_run(folder, problems)
    if problems:
        raise ConfigError(problems)
    return run


def read_run(folder: Path, problems: list[str]) -> RunRecord:
    """Reads one run folder, with state "missing" if it is empty; appends damage to `problems`."""
    status = read_json_object(folder / "status.json", problems) or {"state": "missing"}
    if status.get("state") not in STATES:
        found = status.get("state")
        problems.append(f'{folder / "status.json"}: state is "{found}"; expected one of {", ".join(STATES[:-1])}')
    config = read_json_object(folder / "config.json", problems)
    if (kept := without_unused(flat := flatten(config))) != flat:
        config = unflatten(kept)
    meta = read_json_object(folder / "meta.json", problems)
    rows, *damaged = _read_metrics(folder / "metrics.jsonl")
    if measured := read_measured(folder, status):
        rows = _add_measured(rows, run_step(status, rows), measured)
    seed = config.get("seed") if type(config.get("seed")) is int else 0
    return RunRecord(folder, "", seed, config, meta, status, rows, *damaged)


def read_json_object(path: Path, problems: list[str]) -> dict[str, Any]:
    """Reads a JSON object, empty if there is no file; appends damage to `problems`."""
    try:
        value = read_json(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).partition("\n")[0]
        problems.append(f"{path}: not readable as JSON ({why})")
        return {}
    if not isinstance(value, dict):
        problems.append(f"{path}: a JSON object is expected, found {type(value).__name__}")
        return {}
    return printable(value)


def _read_metrics(path: Path) -> tuple[list[dict[str, float]], int, int]:
    """Returns rows merged by step (later lines win), and the numbers of unreadable and of
    disordered lines.
    """
    try:
        stat = path.stat()
    except OSError:
        return [], 0, 0
    return _metrics_at(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1024)
def _metrics_at(path: Path, changed: int, size: int) -> tuple[list[dict[str, float]], int, int]:
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
    return [merged[step] for step in sorted(merged)], unreadable, disordered


def _numbers_in(row: dict[str, Any] | None) -> dict[str, float] | None:
    """Returns the numbers of a line of metrics.jsonl; None if it is damaged."""
    if row is None or not is_step(row.get("step")):
        return None
    numbers = {key: number_in(value) for key, value in row.items() if key.isprintable() and key != "nonfinite"}
    return None if None in numbers.values() else numbers


def _add_measured(rows: list[dict[str, float]], step: int, measured: dict[str, float | None]) -> list[dict[str, float]]:
    """Returns the rows with the measures of the trained run in the row of its last step."""
    values = {metric: number_in(value) for metric, value in measured.items()}
    last = rows[-1] if rows else {}
    same = last.get("step") == step
    clock = {name: last[name] for name in ("tokens", "seconds") if name in last}
    # The cached rows are shared by all readers of the file, so they are not changed in place.
    return [*rows[:-1], last | values] if same else [*rows, {"step": float(step)} | clock | values]
