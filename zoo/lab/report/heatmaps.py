"""Layer statistics of runs, packed for the page's heat maps: parts of the model by update."""

import base64
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from zoo.files import is_step, number_in, read_json_lines
from zoo.lab.results.sweep_results import SweepResults

FILE = "dynamics.jsonl"
# In all heat maps of a page; each takes 2.7 bytes.
MAXIMUM_CELLS = 600_000
MIN_COLUMNS, MAX_COLUMNS = 12, 100
NO_VALUE, MAX_CODE = 65535, 65534


def _rows(folder: Path) -> list[dict[str, Any]]:
    """Returns the lines of a run's file by step; unreadable lines are skipped.

    Of several lines for a step the later values win.
    """
    found = {}
    for _, row in read_json_lines(folder / FILE):
        if row is not None and is_step(row.get("step")):
            found[row["step"]] = {**found.get(row["step"], {}), **row}
    return [found[step] for step in sorted(found)]


def _number(value: Any) -> float:
    found = number_in(value)
    return math.nan if found is None else found


def read_spikes(folder: Path) -> list[list[float | None]]:
    """Returns [step, standard deviations] of each loss spike that a run recorded."""
    return _recorded(folder)[1]


def read_statistics(folder: Path) -> dict[str, tuple[list[str], list[int], np.ndarray]]:
    """Returns {statistic: (row names, steps, values [row, step])}; missing values are NaN."""
    return _recorded(folder)[0]


def _recorded(folder: Path):
    try:
        stat = (folder / FILE).stat()
    except OSError:
        return {}, []
    return _recorded_at(folder, stat.st_mtime_ns, stat.st_size)


# While a sweep is followed, most of its files do not change and are read only once.
@lru_cache(maxsize=1024)
def _recorded_at(folder: Path, changed: int, size: int):
    del changed, size
    rows = _rows(folder)
    found = {}
    for name in dict.fromkeys(
        key for row in rows for key, value in row.items() if isinstance(value, dict) and key != "spikes"
    ):
        there = [row for row in rows if isinstance(row.get(name), dict)]
        labels = [
            label for label in dict.fromkeys(label for row in there for label in row[name]) if label.isprintable()
        ]
        values = np.array([[_number(row[name].get(label)) for row in there] for label in labels]).reshape(
            len(labels), len(there)
        )
        if np.isfinite(values).any():
            found[name] = (labels, [row["step"] for row in there], values)
    marked = []
    for row in rows:
        if isinstance(row.get("spikes"), dict) and "loss" in row["spikes"]:
            score = _number(row["spikes"]["loss"])
            marked.append([row["step"], round(score, 2) if math.isfinite(score) else None])
    return found, marked


def pack_heatmap(labels: list[str], steps: list[int], values: np.ndarray, columns: int) -> dict[str, Any]:
    """Packs values as 16-bit codes, little endian, in base64.

    The codes 0 to 65534 go from `low` to `high`, linearly or in log10 if the values span more than
    a factor of 50; 65535 is a missing value. If there are more than `columns` steps, every second,
    third, ... step is kept, and the last one.
    """
    every = math.ceil(len(steps) / columns)
    chosen = sorted({*range(0, len(steps), every), len(steps) - 1})
    values = values[:, chosen]
    there = np.isfinite(values)
    seen = values[there] if there.any() else np.zeros(1)
    log = bool(seen.min() > 0 and seen.max() > 50 * seen.min())
    scaled = np.log10(np.where(there, values, 1.0)) if log else np.where(there, values, 0.0)
    low, high = (
        (float(f"{value:.6g}") for value in (scaled[there].min(), scaled[there].max())) if there.any() else (0.0, 0.0)
    )
    share = np.clip((scaled - low) / (high - low), 0, 1) if high > low else np.zeros_like(scaled)
    codes = np.where(there, np.round(share * MAX_CODE), NO_VALUE).astype("<u2")
    return {
        "rows": labels,
        "steps": [steps[place] for place in chosen],
        "low": low,
        "high": high,
        "log": log,
        "codes": base64.b64encode(codes.tobytes()).decode(),
    }


def heatmaps(sweep: SweepResults) -> dict[str, Any] | None:
    """Returns the heat maps of all runs, or None if no run recorded statistics.

    The form is {"statistics": names, "runs": [{"arm", "label", "statistics": {name: packed}}]}.
    """
    found = [
        (run, statistics) for run in (*sweep.runs, *sweep.prerequisites) if (statistics := read_statistics(run.folder))
    ]
    if not found:
        return None
    rows = sum(len(labels) for _, statistics in found for labels, _, _ in statistics.values())
    columns = max(MIN_COLUMNS, min(MAX_COLUMNS, MAXIMUM_CELLS // rows))
    labels = {arm.name: arm.label for arm in sweep.arms}
    return {
        "statistics": list(dict.fromkeys(name for _, statistics in found for name in statistics)),
        "runs": [
            {
                "arm": run.arm,
                "label": f"{labels.get(run.arm, run.arm)}, seed {run.seed}",
                "statistics": {name: pack_heatmap(*entry, columns) for name, entry in statistics.items()},
            }
            for run, statistics in found
        ],
    }
