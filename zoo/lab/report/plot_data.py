"""The data of the page's charts as plain JSON values.

Names are not escaped here: the scripts treat them as text. Columns that several curves share, such
as the steps of all runs, are stored once.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from zoo.data.pipeline.batch_stages import sum_before
from zoo.lab.formatting import confidence_level, difference_columns
from zoo.lab.metrics import lower_is_better
from zoo.lab.report.alignment import align, with_spaces
from zoo.lab.report.heatmaps import heatmaps, read_spikes
from zoo.lab.report.result_tables import effect_levels
from zoo.lab.results.baseline_differences import baseline_differences
from zoo.lab.results.curves import (
    COLOURS,
    DARK_COLOURS,
    DASHES,
    arm_styles,
    downsample,
    loss_by_length,
    main_metrics,
    seed_band,
    short_names,
)
from zoo.lab.results.differences import baselines
from zoo.lab.results.factor_effects import estimate_effects
from zoo.lab.results.floor_lines import floor_lines, floors_by_length
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm, as_dict
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import load_tuning_grid
from zoo.lab.statistics.paired import PairedDifference

# In all curves of a page; each takes eight bytes.
MAXIMUM_NUMBERS = 350_000
MIN_POINTS, MAX_POINTS = 60, 600


def _numbers(values: np.ndarray) -> list[float | None]:
    # Six digits are more than a plot can show, and halve the size of the file.
    return [_short(value) if math.isfinite(value) else None for value in values]


def _short(value: float) -> float | int:
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


class ColumnStore:
    """Columns of numbers, equal ones stored once."""

    def __init__(self, max_points: int):
        self.max_points, self.kept, self._places = max_points, [], {}

    def add(self, *columns: np.ndarray) -> list[int]:
        """Stores columns and returns their indices."""
        found = []
        for column in columns:
            numbers = _numbers(column)
            key = tuple(numbers)
            if key not in self._places:
                self._places[key] = len(self.kept)
                self.kept.append(numbers)
            found.append(self._places[key])
        return found

    def curve(self, run: RunRecord, metric: str) -> dict[str, Any] | None:
        """Returns {"x": indices of step, tokens, seconds and, if known, FLOPs, "value": numbers} of a
        run.
        """
        series = run.series(metric)
        if not len(series.step):
            return None
        step, tokens, seconds, value = downsample(
            series.step, series.tokens, series.seconds, series.value, max_points=self.max_points
        )
        return {"x": self.add(step, tokens, seconds, *_known_flops([run], step)), "value": _numbers(value)}

    def band(self, sweep: SweepResults, arm: Arm, metric: str) -> dict[str, Any] | None:
        """Returns {"x", "mean", "low", "high", "sd", "n"} of an arm; None for a single run."""
        found = seed_band(sweep, arm, metric)
        if found is None or not len(found.step) or found.n < 2:
            return None
        step, tokens, seconds, mean, low, high, sd = downsample(
            found.step,
            found.tokens,
            found.seconds,
            found.mean,
            found.low,
            found.high,
            found.sd,
            max_points=self.max_points,
        )
        return {
            "x": self.add(step, tokens, seconds, *_known_flops(sweep.runs_of(arm.name), step)),
            "mean": _numbers(mean),
            "low": _numbers(low),
            "high": _numbers(high),
            "sd": _numbers(sd),
            "n": found.n,
        }


def training_flops(run: RunRecord, steps: np.ndarray) -> np.ndarray | None:
    """Returns the training FLOPs up to each step (per token, times the tokens of batches until then,
    padding included); None if unknown.
    """
    per_token = run.meta.get("flops_per_token")
    if not isinstance(per_token, int | float) or not 0 < per_token < math.inf:
        return None
    shape = as_dict(run.config.get("data"))
    batch, length = shape.get("batch_size"), shape.get("sequence_length")
    if isinstance(batch, int) and isinstance(length, int):
        rows = [sum_before(shape.get("batch_stages") or (), int(step), batch) for step in steps]
        return per_token * length * np.array(rows, float)
    last = next((row for row in reversed(run.rows) if row["step"] > 0 and row.get("tokens", 0) > 0), None)
    return per_token * last["tokens"] / last["step"] * steps if last else None


def _known_flops(runs: list[RunRecord], steps: np.ndarray) -> list[np.ndarray]:
    """Returns the FLOPs of the first run of which they are known, if there is one."""
    found = (training_flops(run, steps) for run in runs)
    return [flops for flops in found if flops is not None][:1]


def _max_points(sweep: SweepResults, metrics: list[str]) -> int:
    curves = max(1, (len(sweep.runs) + 4 * len(sweep.arms)) * len(metrics))
    return max(MIN_POINTS, min(MAX_POINTS, MAXIMUM_NUMBERS // curves))


def _arm(
    sweep: SweepResults, arm: Arm, name: str, look: tuple[int, int], metrics: list[str], columns: ColumnStore
) -> dict[str, Any]:
    runs = sweep.runs_of(arm.name)
    words = ("running", "preempted", "diverged", "failed", "missing")
    notes = [f"{n} {word}" for word in words if (n := sum(run.state == word for run in runs))]
    return {
        "label": arm.label,
        "name": name,
        "fields": {key: str(value) for key, value in (arm.overrides | arm.factors).items()},
        "colour": look[0],
        "dash": look[1],
        "note": f"({', '.join(notes)})" if notes else "",
        "bands": [columns.band(sweep, arm, metric) for metric in metrics],
        "runs": [
            {
                "label": f"seed {run.seed}",
                "seed": run.seed,
                "state": run.state,
                "spikes": read_spikes(run.folder),
                "curves": [columns.curve(run, metric) for metric in metrics],
            }
            for run in runs
        ],
    }


def _row(difference: PairedDifference, **what: Any) -> dict[str, Any]:
    known = math.isfinite(difference.low)
    return {
        **what,
        "mean": difference.mean,
        "low": difference.low if known else None,
        "high": difference.high if known else None,
        "points": list(difference.differences.values()),
        "seeds": list(difference.differences),
    }


def _rows(title: str, rows: list[tuple[dict[str, Any], PairedDifference]]) -> dict[str, Any] | None:
    """Returns rows with their numbers as text: the mean and the interval, aligned over all rows."""
    found = [difference for _, difference in rows]
    columns = difference_columns([(one.mean, one.low, one.high) for one in found])
    aligned = [[with_spaces(parts) for parts in align(column)] for column in columns]
    return (
        {
            "title": title,
            "heads": ["mean", f"{confidence_level(found[0].alpha)} interval"],
            "rows": [
                row | {"texts": list(shown), "text": f"{mean} ({between})" if between != "–" else mean}
                for (row, _), shown, mean, between in zip(rows, zip(*aligned, strict=True), *columns, strict=True)
            ],
        }
        if rows
        else None
    )


def _floors(sweep: SweepResults, metric: str) -> list[dict[str, Any]]:
    """Returns {"name", "y", "hardest"} of each floor by a metric; only the hardest stretch an axis."""
    return [{"name": line.name, "y": line.score, "hardest": line.hardest} for line in floor_lines(sweep, metric)]


def _lengths(sweep: SweepResults) -> list[dict[str, Any]]:
    found = loss_by_length(sweep)
    if found is None:
        return []
    lines = []
    for index, arm in enumerate(sweep.arms):
        measured = {length: value for length, value in found.values[arm.name].items() if value is not None}
        lines.append(
            {
                "arm": index,
                "x": list(measured),
                "mean": [value.mean for value in measured.values()],
                "low": [value.low for value in measured.values()],
                "high": [value.high for value in measured.values()],
                "n": min((value.n for value in measured.values()), default=0),
            }
        )
    mark = {"x": found.trained, "text": "trained length"} if found.trained else None
    return [
        {
            "id": "lengths",
            "title": f"final {found.metric} by evaluation length",
            "x": {
                "title": "evaluation length (tokens, log scale)",
                "unit": "tokens",
                "log": True,
                "ticks": found.lengths,
            },
            "y": {"title": f"final {sweep.with_unit(found.metric)}", "log": False},
            "lines": lines,
            "floors": [
                {"name": name, "x": list(scores), "y": list(scores.values()), "hardest": True}
                for name, scores in floors_by_length(sweep, found).items()
            ],
            "mark": mark,
        }
    ]


def _tuning(sweep: SweepResults) -> list[dict[str, Any]]:
    """Returns each arm's curve over the values of the tuning grid."""
    found = load_tuning_grid(sweep.folder, sweep.tuning)
    if found is None:
        return []
    names = [arm.name for arm in sweep.arms]
    lines = []
    for arm, points in found.arms.items():
        kept = [(point, [score for score in point.scores.values() if math.isfinite(score)]) for point in points]
        kept = [(point, scores) for point, scores in kept if len(scores) == len(point.scores)]
        lines.append(
            {
                "arm": names.index(arm) if arm in names else 0,
                "x": [point.value for point, _ in kept],
                "mean": [point.mean for point, _ in kept],
                "low": [min(scores) for _, scores in kept],
                "high": [max(scores) for _, scores in kept],
                "n": min((len(scores) for _, scores in kept), default=0),
            }
        )
    return [
        {
            "id": "tuning",
            "title": f"{found.metric} by {found.field}",
            "x": {"title": found.field, "log": all(x > 0 for line in lines for x in line["x"]), "ticks": found.ticks},
            "y": {"title": sweep.with_unit(found.metric), "log": False},
            "lines": lines,
            "floors": [
                floor | {"x": found.values, "y": [floor["y"]] * len(found.values)}
                for floor in _floors(sweep, found.metric)
            ],
            "mark": None,
        }
    ]


def _against(sweep: SweepResults) -> dict[str, Any] | None:
    """Returns the rows of the differences from the baseline; None without a pair."""
    names = [arm.name for arm in sweep.arms]
    found = [
        (_row(difference, arm=names.index(name)), difference)
        for name, difference in baseline_differences(sweep).items()
        if difference.n
    ]
    title = f"difference in final {sweep.with_unit(sweep.metric)}, from {sweep.baseline_arm.label}"
    return _rows(title, found)


def plot_data(sweep: SweepResults) -> dict[str, Any]:
    """Returns the data of all charts.

    `plots` holds charts with a description of their own: {"id" (drawn into #ID-plot), "title", "x"
    and "y": {"title", "log", "ticks"}, "lines": [{"arm": index, or "label", "x", "mean", and "low",
    "high" and "n" or none of them}], "floors": [{"name", "x", "y", "hardest"}], "mark": {"x",
    "text"} or None}. `differences` has the rows of each baseline, by its index. `floors` has those
    of each metric, with one "y". `quantiles` are Student's, by number of seeds: times the standard
    error they are half an interval.
    """
    metrics = main_metrics(sweep)
    look = arm_styles(sweep)
    columns = ColumnStore(_max_points(sweep, metrics))
    legend, names = short_names(sweep)
    arms = [
        _arm(sweep, arm, name, look[arm.name], metrics, columns) for arm, name in zip(sweep.arms, names, strict=True)
    ]
    compared = [_against(replace(sweep, baseline=arm.name)) if arm in baselines(sweep) else None for arm in sweep.arms]
    factors = [
        (_row(effect.difference, label=f"{' × '.join(effect.what)}: {effect_levels(effect)}"), effect.difference)
        for effect in estimate_effects(sweep)
        if effect.difference.n
    ]
    return {
        "palette": {"light": COLOURS, "dark": DARK_COLOURS},
        "dashes": DASHES,
        "metrics": metrics,
        "falling": [lower_is_better(metric) for metric in metrics],
        "floors": [_floors(sweep, metric) for metric in metrics],
        "units": [sweep.with_unit(metric).removeprefix(metric) for metric in metrics],
        "columns": columns.kept,
        "legend": legend,
        "arms": arms,
        "quantiles": {n: -float(special.stdtrit(n - 1, sweep.alpha / 2)) for n in range(2, len(sweep.seeds) + 1)},
        "baseline": sweep.arms.index(sweep.baseline_arm),
        "differences": compared,
        "effects": _rows(f"effect on final {sweep.with_unit(sweep.metric)}", factors),
        "plots": [*_lengths(sweep), *_tuning(sweep)],
        "dynamics": heatmaps(sweep),
    }
