"""Reads what runs leave behind: JSON files only, never a config file that would be executed."""

import json
import math
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.measures import of_sweep, read_measured
from zoo.lab.metrics import more_is_better, unit
from zoo.lab.results.schema import (
    Arm,
    Contrast,
    as_dict,
    as_text,
    as_words,
    is_inside,
    parse_arms,
    parse_contrast,
    parse_looks,
    recognised,
)
from zoo.lab.statistics.paired import ALPHA
from zoo.lab.statistics.sequential import Design
from zoo.nested import flatten

STATES = ("done", "running", "preempted", "failed", "diverged", "missing")
REQUIRED = {"name": str, "metric": str, "arms": list, "runs": list, "seeds": list, "contrasts": list}


@dataclass(frozen=True)
class Series:
    """One metric of one run over time: arrays of equal length, ordered by step."""

    step: np.ndarray
    tokens: np.ndarray
    seconds: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class Run:
    """One run folder. `rows` are the lines of metrics.jsonl merged by step; null became NaN."""

    folder: Path
    arm: str
    seed: int
    config: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=lambda: {"state": "missing"})
    rows: list[dict[str, float]] = field(default_factory=list)
    unreadable_lines: int = 0

    @property
    def state(self) -> str:
        return self.status["state"]

    @property
    def finished(self) -> bool:
        """True when the run says something final about its arm: it is done, or it diverged."""
        return self.state in ("done", "diverged")

    @property
    def step(self) -> int:
        """Updates applied so far."""
        return run_step(self.status, self.rows)

    @property
    def seconds(self) -> float | None:
        """Training clock at the last line that carries one."""
        return next((row["seconds"] for row in reversed(self.rows) if "seconds" in row), None)

    def series(self, metric: str) -> Series:
        """The steps at which `metric` was written, and its values (NaN: it was not finite)."""
        rows = [row for row in self.rows if metric in row]
        columns = ([row.get(key, math.nan) for row in rows] for key in ("step", "tokens", "seconds", metric))
        return Series(*(np.array(column, dtype=float) for column in columns))

    def final(self, metric: str) -> float | None:
        """Value at the highest step that has `metric`; None if it was never written or the run is
        not done.
        """
        if self.state != "done":
            return None
        return next((row[metric] for row in reversed(self.rows) if metric in row), None)

    def best(self, metric: str) -> float | None:
        """Best finite value over all steps, the lowest of a loss, whatever the state of the run;
        None if there is none.
        """
        values = [row[metric] for row in self.rows if math.isfinite(row.get(metric, math.nan))]
        return (max if more_is_better(metric) else min)(values, default=None)


@dataclass(frozen=True)
class Sweep:
    """All runs of one experiment, or a set of runs picked by hand (then without contrasts).

    `prepared` are those that others start from: no arms, and `Run.arm` is what they are called.
    `command` are the words of the `zoo run` that makes all of it again, none where that is not
    recorded.
    """

    folder: Path
    name: str
    metric: str
    arms: list[Arm]
    runs: list[Run]
    seeds: list[int]
    contrasts: list[Contrast] = field(default_factory=list)
    question: str = ""
    size: str = ""
    claim: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    prepared: list[Run] = field(default_factory=list)
    looks: dict[int, float] = field(default_factory=dict)
    tuning: dict[str, Any] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    measures: list[str] = field(default_factory=list)

    @property
    def alpha(self) -> float:
        """The level of intervals: 0.05, or where seeds are added until it is decided that of this
        look.
        """
        return Design(self.looks).alpha(len(self.seeds)) if self.looks else ALPHA

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)

    def runs_of(self, arm: str) -> list[Run]:
        return [run for run in self.runs if run.arm == arm]

    def run(self, arm: str, seed: int) -> Run | None:
        return next((run for run in self.runs if run.arm == arm and run.seed == seed), None)

    def unit(self, metric: str) -> str:
        """Unit of a metric, with a leading space; the loss of numbers is their squared error, in
        whatever unit they have.
        """
        kinds = {as_dict(run.config.get("objective")).get("kind") for run in self.runs}
        return "" if "regression" in kinds else unit(metric)

    def metrics(self) -> list[str]:
        """Every metric that any run has written, sorted."""
        keys = {key for run in self.runs for row in run.rows for key in row}
        return sorted(keys - {"step", "tokens", "seconds"})


def run_step(status: dict[str, Any], rows: list[dict[str, float]]) -> int:
    """Updates that a run has applied, by its status or else its last line."""
    step = status.get("step")
    return step if isinstance(step, int) else int(rows[-1]["step"]) if rows else 0


def _with_measured(
    rows: list[dict[str, float]], step: int, measured: dict[str, float | None]
) -> list[dict[str, float]]:
    """The rows, with what was measured of the trained run in that of its last step."""
    values = {metric: math.nan if value is None else float(value) for metric, value in measured.items()}
    last = rows[-1] if rows else {}
    same = last.get("step") == step
    clock = {name: last[name] for name in ("tokens", "seconds") if name in last}
    # Rows are shared by all that have read the file.
    return [*rows[:-1], last | values] if same else [*rows, {"step": float(step)} | clock | values]


def differing(configs: list[dict[str, Any]]) -> list[str]:
    """Dotted keys, the seed aside, whose values are not the same in all configs."""
    flat = [flatten(config) for config in configs]
    keys = sorted({key for config in flat for key in config} - {"seed"})
    # Compared as JSON: 1, 1.0 and True are three different settings although Python calls them
    # equal.
    return [key for key in keys if len({json.dumps(config.get(key), sort_keys=True) for config in flat}) > 1]


def _printable(value: Any) -> Any:
    """Replaces lone surrogates, which JSON allows and no output can hold, in all strings of
    `value`.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list) else value


def _read_object(path: Path, problems: list[str]) -> dict[str, Any]:
    try:
        value = read_json(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path}: not readable as JSON ({str(error).splitlines()[0]})")
        return {}
    if not isinstance(value, dict):
        problems.append(f"{path}: a JSON object is expected, found {type(value).__name__}")
        return {}
    return _printable(value)


def _read_metrics(path: Path) -> tuple[list[dict[str, float]], int]:
    """Rows merged by step (later lines win), and how many whole lines could not be read."""
    try:
        stat = path.stat()
    except OSError:
        return [], 0
    return _metrics_at(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1024)
def _metrics_at(path: Path, changed: int, size: int) -> tuple[list[dict[str, float]], int]:
    # Whoever follows a sweep reads most of its files once.
    del changed, size
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return [], 0
    merged: dict[int, dict[str, float]] = {}
    unreadable = 0
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            step = row["step"]
            if type(step) is not int:
                raise ValueError("step is not an integer")
        except (ValueError, TypeError, KeyError, RecursionError):
            # Only the text after the last newline can be torn by a kill; anything else is damage.
            unreadable += number < len(lines) - 1
            continue
        numbers = merged.setdefault(step, {})
        for key, value in row.items():
            if not key.isprintable():
                continue
            if value is None:
                numbers[key] = math.nan
            elif isinstance(value, int | float) and not isinstance(value, bool):
                # An integer of more than 308 digits is valid JSON.
                numbers[key] = float(value) if abs(value) <= sys.float_info.max else math.nan
    return [merged[step] for step in sorted(merged)], unreadable


def _read_run(folder: Path, problems: list[str]) -> Run:
    status = _read_object(folder / "status.json", problems) or {"state": "missing"}
    if status.get("state") not in STATES:
        found = status.get("state")
        problems.append(f'{folder / "status.json"}: state is "{found}"; expected one of {", ".join(STATES[:-1])}')
    config = _read_object(folder / "config.json", problems)
    meta = _read_object(folder / "meta.json", problems)
    rows, unreadable = _read_metrics(folder / "metrics.jsonl")
    if measured := read_measured(folder, status):
        rows = _with_measured(rows, run_step(status, rows), measured)
    seed = config.get("seed") if type(config.get("seed")) is int else 0
    return Run(folder, "", seed, config, meta, status, rows, unreadable)


def load_run(folder: str | Path) -> Run:
    """Reads one run folder.

    Raises:
        ConfigError: the folder does not exist, is no run folder, or a JSON file in it is damaged.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder")
    if not (folder / "status.json").exists():
        hint = " (this is a sweep: use zoo report)" if (folder / "experiment.json").exists() else ""
        raise ConfigError(f"{folder}: not a run folder, it has no status.json{hint}")
    problems: list[str] = []
    run = _read_run(folder, problems)
    if problems:
        raise ConfigError(problems)
    return run


def load_any(folder: str | Path) -> Sweep:
    """Reads a sweep folder, or a single run's as a sweep of one.

    Raises:
        ConfigError: the folder is neither, or files in it are damaged.
    """
    folder = Path(folder)
    if (folder / "experiment.json").exists() or not (folder / "status.json").exists():
        return load_sweep(folder)
    run = replace(load_run(folder), arm="run")
    name = folder.resolve().name
    metric = "eval/loss" if any("eval/loss" in row for row in run.rows) else "train/loss"
    return Sweep(folder, name, metric, [Arm("run", name, {})], [run], [run.seed])


def load_sweep(folder: str | Path) -> Sweep:
    """Reads a sweep folder: experiment.json and its runs. Runs that have not started have state
    "missing".

    Raises:
        ConfigError: the folder is no sweep, or files in it are damaged; one line per problem.
    """
    folder = Path(folder)
    path = folder / "experiment.json"
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder")
    if not path.exists():
        hint = " (this is a single run: use zoo compare)" if (folder / "status.json").exists() else ""
        raise ConfigError(f"{folder}: not a sweep folder, it has no experiment.json{hint}")
    problems: list[str] = []
    experiment = _read_object(path, problems)
    if not problems:
        problems = [
            f"{path}: {key} is missing or not of the type {kind.__name__}"
            for key, kind in REQUIRED.items()
            if not isinstance(experiment.get(key), kind)
        ]
    if problems:
        raise ConfigError(problems)

    arms = parse_arms(experiment["arms"], str(path), problems)
    if problems:
        raise ConfigError(problems)
    names = [arm.name for arm in arms]
    contrasts = [parse_contrast(entry, str(path), names, problems) for entry in experiment["contrasts"]]
    prepared = _read_prepared(folder, experiment.get("prepared"), problems)
    started = {run.folder.name: run.arm for run in prepared}
    runs = []
    for entry in map(as_dict, experiment["runs"]):
        inside, arm, seed = entry.get("folder"), entry.get("arm"), entry.get("seed")
        if not is_inside(inside) or arm not in names or type(seed) is not int:
            shown = json.dumps(entry)[:120]
            problems.append(f"{path}: run {shown} needs a folder inside the sweep, a known arm and a seed")
        else:
            run = _read_run(folder / inside, problems)
            # Seeds start from other folders, and from the same thing.
            named = recognised(run.config, started) if started else run.config
            runs.append(replace(run, arm=arm, seed=seed, config=named))
    repeated = [pair for pair, count in Counter((run.arm, run.seed) for run in runs).items() if count > 1]
    problems += [f'{path}: arm "{arm}" has more than one run with seed {seed}' for arm, seed in repeated]
    if any(type(seed) is not int for seed in experiment["seeds"]):
        problems.append(f"{path}: seeds need to be integers")
    looks = parse_looks(experiment.get("looks"), str(path), problems)
    if problems:
        raise ConfigError(problems)
    warnings = experiment.get("warnings")
    return Sweep(
        folder,
        experiment["name"],
        experiment["metric"],
        arms,
        runs,
        experiment["seeds"],
        contrasts,
        question=as_text(experiment.get("question")),
        size=as_text(experiment.get("size")),
        claim=as_dict(experiment.get("claim")) or None,
        warnings=[str(warning) for warning in warnings] if isinstance(warnings, list) else [],
        prepared=prepared,
        looks=looks,
        tuning=as_dict(experiment.get("tuning")),
        command=as_words(experiment.get("command")),
        measures=of_sweep(folder)[0],
    )


def _read_prepared(folder: Path, entries: Any, problems: list[str]) -> list[Run]:
    """The runs that others start from; sweeps of before there were any have none."""
    runs = []
    for entry in map(as_dict, entries if isinstance(entries, list) else []):
        inside, name, seed = entry.get("folder"), as_text(entry.get("name")), entry.get("seed")
        if not is_inside(inside) or not name or type(seed) is not int:
            problems.append(
                f"{folder / 'experiment.json'}: prepared run {json.dumps(entry)[:120]} needs a folder inside the sweep, a name "
                "and a seed"
            )
        else:
            runs.append(replace(_read_run(folder / inside, problems), arm=name, seed=seed))
    return runs
