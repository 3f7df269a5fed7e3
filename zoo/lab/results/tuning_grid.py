"""The results of a tuning grid in each arm, read from the tuning sweep, and the best value."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.lab.declarations import TUNING_FOLDER
from zoo.lab.experiment import Experiment
from zoo.lab.metrics import higher_is_better
from zoo.lab.planning.tuning import tuning_factor
from zoo.lab.results.sweep_results import SweepResults, load_sweep
from zoo.lab.statistics.paired import PairedDifference, paired_difference


@dataclass(frozen=True)
class GridPoint:
    """One value of the grid in one arm.

    Attributes:
        value: value of the tuned field.
        scores: {seed: metric}; infinitely bad for a run that diverged.
    """

    value: float
    scores: dict[int, float]

    @property
    def mean(self) -> float:
        return sum(self.scores.values()) / len(self.scores)


@dataclass(frozen=True)
class TuningGrid:
    """A tuning grid and its results.

    Attributes:
        field: path of the tuned field.
        metric: metric that the values were chosen by.
        seeds: seeds of the tuning runs.
        arms: the points of each arm, by its name, in ascending order of the values.
        chosen: the value that each arm was then trained with.
    """

    field: str
    metric: str
    seeds: list[int]
    arms: dict[str, list[GridPoint]]
    chosen: dict[str, float]

    def differences_at_same_value(self, baseline: str) -> dict[str, dict[float, PairedDifference]]:
        """Returns {arm: {value: difference from the baseline}} at equal values, paired by seed."""
        theirs = {point.value: point.scores for point in self.arms[baseline]}
        return {
            arm: {
                point.value: paired_difference(_finite(point.scores), _finite(theirs[point.value]))
                for point in points
                if point.value in theirs
            }
            for arm, points in self.arms.items()
            if arm != baseline
        }


def _finite(scores: dict[int, float]) -> dict[int, float]:
    return {seed: score for seed, score in scores.items() if math.isfinite(score)}


def grid_points(sweep: SweepResults, field: str, factor: str) -> dict[str, list[GridPoint]]:
    """Returns the points of each arm, in ascending order of the values.

    Args:
        sweep: the tuning sweep, with every value in every arm.
        field: path of the tuned field.
        factor: name of the factor of its values.

    Raises:
        ConfigError: runs have not ended, or have not written the metric.
    """
    worst = -math.inf if higher_is_better(sweep.metric) else math.inf
    found: dict[str, list[GridPoint]] = {}
    missing = []
    for arm in sweep.arms:
        name = ",".join(f"{other}={level}" for other, level in arm.factors.items() if other != factor)
        scores = {}
        for run in sweep.runs_of(arm.name):
            value = run.final(sweep.metric)
            if not run.finished or (value is None and run.state != "diverged"):
                missing.append(f"{run.folder}: {run.state}, without {sweep.metric}")
            scores[run.seed] = value if value is not None and math.isfinite(value) else worst
        found.setdefault(name, []).append(GridPoint(arm.overrides[field], scores))
    if missing:
        raise ConfigError(missing)
    return {name: sorted(points, key=lambda point: point.value) for name, points in found.items()}


def load_tuning_grid(folder: str | Path, tuning: dict[str, Any]) -> TuningGrid | None:
    """Returns the tuning grid of a sweep in `folder`, or None if there is none that can be read.

    Args:
        folder: the sweep's folder.
        tuning: the entry of its experiment.json.
    """
    field, factor, chosen = tuning.get("field"), tuning.get("factor"), tuning.get("chosen")
    if not isinstance(field, str) or not isinstance(factor, str) or not isinstance(chosen, dict):
        return None
    try:
        sweep = load_sweep(Path(folder) / TUNING_FOLDER)
        arms = grid_points(sweep, field, factor)
        if list(arms) == [""] and len(chosen) == 1:  # A single arm has no factors and no name.
            chosen = {"": next(iter(chosen.values()))}
        return TuningGrid(field, sweep.metric, sweep.seeds, arms, chosen)
    except (ConfigError, KeyError):
        return None


@dataclass(frozen=True)
class TuningChoice:
    """The result of tuning one arm.

    Attributes:
        value: the best one; the smallest of equally good ones.
        tried: all values in ascending order.
    """

    value: float
    tried: tuple[GridPoint, ...]


def tuning_choices(experiment: Experiment, sweep: SweepResults) -> dict[str, TuningChoice]:
    """Returns the result of tuning by arm.

    Args:
        experiment: whose arms are tuned.
        sweep: its tuning sweep (`zoo.lab.planning.tuning.tuning_experiment`), with all runs ended.

    Raises:
        ConfigError: a run is unfinished or lacks the metric.
    """
    found = grid_points(sweep, experiment.tune.field, tuning_factor(experiment))
    highest = higher_is_better(experiment.metric)
    return {arm or experiment.name: choose_best(tries, highest) for arm, tries in found.items()}


def choose_best(tries: list[GridPoint], highest: bool) -> TuningChoice:
    """Returns the value with the best mean over seeds."""
    best = (max if highest else min)(tries, key=lambda one: one.mean)
    return TuningChoice(best.value, tuple(tries))
