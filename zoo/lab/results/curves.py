"""The numbers behind the plots: seed bands, losses by length, differences, and line styles."""

import math
import re
from dataclasses import dataclass

import numpy as np

from zoo.lab.declarations import BETWEEN_LEVELS
from zoo.lab.measures import measure_name
from zoo.lab.results.run_records import Series
from zoo.lab.results.schema import Arm, as_dict
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.statistics.paired import Spread, spread

MAXIMUM_POINTS = 600

# Ten hues that remain distinguishable on white (first) and on near-black (second).
COLOURS = ("#2b6cb8", "#d5690a", "#23855a", "#c0364a", "#7852b5", "#0f8a99", "#8a7a12", "#bb4a98", "#7b5d48", "#55606e")
DARK_COLOURS = (
    "#6ea8fe",
    "#ff9f4d",
    "#5fd197",
    "#ff7d8a",
    "#b99af7",
    "#4fd0dd",
    "#d8c94a",
    "#f398d2",
    "#cfa78f",
    "#a9b4c2",
)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True)
class SeedBand:
    """Mean, minimum, maximum and sample standard deviation (NaN for one seed) over the seeds of one
    arm, at the steps that all of them have.
    """

    step: np.ndarray
    tokens: np.ndarray
    seconds: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    sd: np.ndarray
    n: int


@dataclass(frozen=True)
class LossByLength:
    """Final loss by evaluation length.

    Attributes:
        trained: length of the training rows; None if unknown or not the same in all runs.
        values: `values[arm][length]`, None where no run of the arm has a value.
        impossible: (arm, length) pairs that finished runs could not evaluate.
    """

    metric: str
    trained: int | None
    lengths: list[int]
    values: dict[str, dict[int, Spread | None]]
    impossible: set[tuple[str, int]]


def arm_styles(sweep: SweepResults) -> dict[str, tuple[int, int]]:
    """Returns (colour, dash) by arm: the first varying factor sets the colour, others the dash."""
    keys = varying_factors(sweep)
    if not keys:
        return _styles_in_turn(sweep)
    rest = {arm.name: tuple(arm.factors.get(key) for key in keys[1:]) for arm in sweep.arms}
    colours = list(dict.fromkeys(arm.factors.get(keys[0]) for arm in sweep.arms))
    dashes = list(dict.fromkeys(rest.values()))
    found = {
        arm.name: (colours.index(arm.factors.get(keys[0])) % len(COLOURS), dashes.index(rest[arm.name]) % len(DASHES))
        for arm in sweep.arms
    }
    # Two arms of the same style could not be told apart.
    return found if len(set(found.values())) == len(found) else _styles_in_turn(sweep)


def varying_factors(sweep: SweepResults) -> list[str]:
    """Returns the factors in which arms of a sweep differ."""
    keys = dict.fromkeys(key for arm in sweep.arms for key in arm.factors)
    return [key for key in keys if len({arm.factors.get(key) for arm in sweep.arms}) > 1]


# With more factors their values alone are hard to tell apart.
MAX_FACTORS_IN_TITLE = 3


def short_names(sweep: SweepResults) -> tuple[str, list[str]]:
    """Returns the title of a legend and the names of the arms in it.

    `("norm, warm-up", ["pre, 0", "pre, 50"])` says each factor once; arms that are no combinations of
    factors keep their labels, under no title.
    """
    keys = varying_factors(sweep)
    labels = [arm.label for arm in sweep.arms]
    complete = all(
        arm.label == BETWEEN_LEVELS.join(f"{key}={arm.factors.get(key)}" for key in keys) for arm in sweep.arms
    )
    if not complete or not 0 < len(keys) <= MAX_FACTORS_IN_TITLE:
        return "", labels
    return ", ".join(keys), [", ".join(arm.factors[key] for key in keys) for arm in sweep.arms]


def _styles_in_turn(sweep: SweepResults) -> dict[str, tuple[int, int]]:
    """Assigns styles without regard to factors: all colours with the first dash, then the next."""
    return {
        arm.name: (index % len(COLOURS), index // len(COLOURS) % len(DASHES)) for index, arm in enumerate(sweep.arms)
    }


def main_metrics(sweep: SweepResults) -> list[str]:
    """Returns the metrics that get a curve: the sweep's own, then losses, then the rest.

    Metrics at other lengths have a plot of their own, and measures a table.
    """
    metrics = [metric for metric in sweep.metrics() if "@" not in metric and not measure_name(metric)]
    order = [sweep.metric, "eval/loss", "train/loss"]

    def rank(metric: str) -> tuple[bool, int]:
        # Metrics with a single point come last.
        has_curve = any(len(run.series(metric).step) > 1 for run in sweep.runs)
        return not has_curve, order.index(metric) if metric in order else len(order)

    return sorted(metrics, key=rank)


def downsample(*columns: np.ndarray, max_points: int = MAXIMUM_POINTS) -> tuple[np.ndarray, ...]:
    """Averages neighbouring points until at most `max_points` remain."""
    size = math.ceil(len(columns[0]) / max_points)
    if size <= 1:
        return columns
    starts = np.arange(0, len(columns[0]), size)
    lengths = np.diff(np.append(starts, len(columns[0])))
    return tuple(np.add.reduceat(column, starts) / lengths for column in columns)


def seed_band(sweep: SweepResults, arm: Arm, metric: str) -> SeedBand | None:
    """Returns the mean and range over an arm's finished runs, or over all runs if none finished.

    The band ends where the first of its runs ends, because a mean jumps when a run drops out.
    Failed runs are left out.
    """
    runs = [run for run in sweep.runs_of(arm.name) if run.state != "failed"]
    runs = [run for run in runs if run.finished] or runs
    found = [series for run in runs if len((series := run.series(metric)).step)]
    if not found:
        return None
    common = found[0].step
    for series in found[1:]:
        common = np.intersect1d(common, series.step)
    rows: list[Series] = []
    for series in found:
        keep = np.isin(series.step, common)
        rows.append(Series(series.step[keep], series.tokens[keep], series.seconds[keep], series.value[keep]))
    values = np.stack([row.value for row in rows])
    return SeedBand(
        common,
        rows[0].tokens,
        np.mean([row.seconds for row in rows], axis=0),
        values.mean(axis=0),
        values.min(axis=0),
        values.max(axis=0),
        values.std(axis=0, ddof=1) if len(rows) > 1 else np.full(len(common), math.nan),
        len(rows),
    )


def final_values(sweep: SweepResults, arm: str, metric: str) -> dict[int, float]:
    """Returns the finite final values of an arm's finished runs, by seed."""
    finals = {run.seed: run.final(metric) for run in sweep.runs_of(arm)}
    return {seed: value for seed, value in finals.items() if value is not None and math.isfinite(value)}


def loss_by_length(sweep: SweepResults) -> LossByLength | None:
    """Collects `metric@length`; None if there are no other lengths.

    The metric without a length is the value at the length of the training rows.
    """
    base = sweep.metric.split("@")[0]
    pattern = re.compile(re.escape(base) + r"@([1-9]\d{0,8})")
    metrics = {int(match[1]): match[0] for name in sweep.metrics() if (match := pattern.fullmatch(name))}
    if not metrics:
        return None
    trained = [as_dict(run.config.get("data")).get("sequence_length") for run in sweep.runs]
    trained = {length if type(length) is int and length > 0 else 0 for length in trained if length is not None}
    length = trained.pop() if len(trained) == 1 else 0
    if length and length not in metrics:
        metrics[length] = base
    values, impossible = {}, set()
    for arm in sweep.arms:
        values[arm.name] = {
            key: spread(final_values(sweep, arm.name, metrics[key]).values()) for key in sorted(metrics)
        }
        done = [run for run in sweep.runs_of(arm.name) if run.state == "done"]
        # A value that was evaluated and is not finite is NaN, not None.
        impossible |= {
            (arm.name, key) for key in metrics if done and all(run.final(metrics[key]) is None for run in done)
        }
    return LossByLength(base, length or None, sorted(metrics), values, impossible)
