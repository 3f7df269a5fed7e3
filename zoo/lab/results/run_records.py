"""The run of a sweep, from its folder. Only JSON files are read; no config file is executed."""

import functools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zoo.config import FIELDS
from zoo.config.fields.renamed import without_unused
from zoo.errors import ConfigError
from zoo.files import is_step, number_in
from zoo.lab.measures import read_measured
from zoo.lab.metrics import higher_is_better
from zoo.lab.results.schema import as_dict, as_list, as_text
from zoo.nested import flatten, unflatten
from zoo.training.records.record_faults import MASKS, config_edit, missing_rows
from zoo.training.records.run_folder import RunFolder

# Of a key that a config does not have.
ABSENT = repr(None)
SCALARS = (str, int, float, bool, type(None))
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
        rows, unreadable_lines, disordered_lines: the content of metrics.jsonl (`Curves`).
        faults: a line for each fault of its records (`zoo.training.records.record_faults`).
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
    faults: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        return self.status["state"]

    @functools.cached_property
    def settings(self) -> dict[str, str]:
        """The config as texts by dotted key, with the defaults of fields that were added since: 1, 1.0
        and True are three settings, although Python calls them equal.
        """
        added = {field.path: field.default for field in FIELDS if field.added}
        return {
            # Of single values the same distinctions as those of JSON, and many times faster.
            key: repr(value) if type(value) in SCALARS else json.dumps(value, sort_keys=True)
            for key, value in (added | flatten(self.config)).items()
        }

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


def data_fingerprints(runs: Iterable[RunRecord]) -> list[str]:
    """Returns the fingerprints of the data that some runs were trained on, in alphabetical order."""
    found = {as_text(as_dict(run.meta.get("data")).get("fingerprint")) for run in runs}
    return sorted(found - {""})


def differing_keys(runs: Iterable[RunRecord]) -> list[str]:
    """Returns the dotted keys, except the seed, whose values are not the same in all configs.

    A field that was added after a config was written has its default there.
    """
    settings = [run.settings for run in runs]
    keys = sorted({key for each in settings for key in each} - {"seed"})
    return [key for key in keys if len({each.get(key, ABSENT) for each in settings}) > 1]


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
    found = RunFolder(folder, strict=False)
    status, config, meta, curves = found.status or {"state": "missing"}, found.config, found.meta, found.curves
    if (state := status.get("state")) not in STATES:
        problems.append(f'{folder / "status.json"}: state is "{state}"; expected one of {", ".join(STATES[:-1])}')
    problems += found.problems
    if (kept := without_unused(flat := flatten(config))) != flat:
        config = unflatten(kept)
    rows = curves.rows
    if measured := read_measured(folder, status):
        rows = _add_measured(rows, run_step(status, rows), measured)
    seed = config.get("seed") if type(config.get("seed")) is int else 0
    lines = curves.unreadable_lines, curves.disordered_lines
    return RunRecord(folder, "", seed, config, meta, status, rows, *lines, faults=_faults(found))


def _faults(folder: RunFolder) -> tuple[str, ...]:
    """Returns the faults of records that reading each file by itself does not show."""
    found = [line] if (line := config_edit(folder)) else []
    if folder.state.name == "done" and not folder.meta:
        found.append("meta.json is gone or empty: data, software and device are not compared")
    if written := folder.meta.get("written_again"):
        found.append(f"meta.json was lost, and written again at step {written}")
    masks = [entry for entry in as_list(folder.meta.get("resumed")) if isinstance(entry, dict) and MASKS in entry]
    if masks and MASKS not in folder.meta:
        found.append(
            f"masks of dropout are drawn by row from step {masks[0].get('step')} on, and before for a micro-batch"
        )
    return (*found, *missing_rows(folder))


def _add_measured(rows: list[dict[str, float]], step: int, measured: dict[str, float | None]) -> list[dict[str, float]]:
    """Returns the rows with the measures of the trained run in the row of its last step."""
    values = {metric: number_in(value) for metric, value in measured.items()}
    last = rows[-1] if rows else {}
    same = last.get("step") == step
    clock = {name: last[name] for name in ("tokens", "seconds") if name in last}
    # The cached rows are shared by all readers of the file, so they are not changed in place.
    return [*rows[:-1], last | values] if same else [*rows, {"step": float(step)} | clock | values]
