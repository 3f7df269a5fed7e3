"""The results of tuning in each arm: the values that were tried, the curves, the values chosen."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.lab.declarations import TUNING_FOLDER, Tune
from zoo.lab.experiment import Experiment
from zoo.lab.formatting import count
from zoo.lab.metrics import higher_is_better
from zoo.lab.planning.tuning import tuning_factor
from zoo.lab.planning.tuning_search import Losses, rounded_value
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import as_dict, as_list, as_text
from zoo.lab.results.sweep_results import SweepResults, load_sweep
from zoo.lab.statistics.paired import PairedDifference, paired_difference
from zoo.lab.statistics.tuning_curve import TuningCurve, parse_curve

# The least distance between labelled values of an axis, as a share of its length.
BETWEEN_TICKS = 0.12


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
    """The values of a field that were tried in each arm, and their results.

    Attributes:
        field: path of the tuned field.
        metric: metric that the values were chosen by.
        seeds: seeds of the tuning runs.
        arms: the points of each arm, by its name, in ascending order of the values.
        chosen: the value that each arm was then trained with.
        curves: the fitted curve of each arm; empty for a grid of which the best value was taken.
        distance_to_one: whether the curves are over the logarithm of 1 - value.
    """

    field: str
    metric: str
    seeds: list[int]
    arms: dict[str, list[GridPoint]]
    chosen: dict[str, float]
    curves: dict[str, TuningCurve] = field(default_factory=dict)
    distance_to_one: bool = False

    @property
    def values(self) -> list[float]:
        """The values that were tried in any arm, in ascending order."""
        return sorted({point.value for points in self.arms.values() for point in points})

    @property
    def ticks(self) -> list[float]:
        """The values that an axis has room to label; it is logarithmic if all are above 0."""
        values = self.values
        places = [math.log(value) for value in values] if values[0] > 0 else values
        shown, last = [], -math.inf
        for value, place in zip(values, places, strict=True):
            if place - last >= BETWEEN_TICKS * (places[-1] - places[0]):
                shown.append(value)
                last = place
        return shown

    def fitted(self, arm: str, value: float) -> float:
        """Returns an arm's curve at a value, for a seed with the mean effect, in the metric's sign."""
        curve = self.curves[arm]
        x, lowest = (math.log(1 - one if self.distance_to_one else one) for one in (value, curve.minimum))
        loss = curve.loss + curve.curvature * (x - lowest) ** 2
        return -loss if higher_is_better(self.metric) else loss

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


def grid_points(sweep: SweepResults, field: str, factor: str, unfinished: bool = False) -> dict[str, list[GridPoint]]:
    """Returns the points of each arm, in ascending order of the values.

    Args:
        sweep: the tuning sweep, with every value in every arm.
        field: path of the tuned field.
        factor: name of the factor of its values.
        unfinished: leave out runs that have not ended, in place of an error.

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
            if unfinished and not run.finished:
                continue
            if not run.finished or (value is None and run.state != "diverged"):
                missing.append(f"{run.folder}: {run.state}, without {sweep.metric}")
            scores[run.seed] = value if value is not None and math.isfinite(value) else worst
        found.setdefault(name, []).append(GridPoint(arm.overrides[field], scores))
    if missing:
        raise ConfigError(missing)
    return {name: sorted(points, key=lambda point: point.value) for name, points in found.items()}


def load_tuning_grid(folder: str | Path, tuning: dict[str, Any]) -> TuningGrid | None:
    """Returns the tuning grid of a sweep in `folder`, of the runs that have ended; None if none can be
    read.

    Args:
        folder: the sweep's folder.
        tuning: the entry of its experiment.json.
    """
    path, factor, chosen = tuning.get("field"), tuning.get("factor"), tuning.get("chosen")
    if not isinstance(path, str) or not isinstance(factor, str) or not isinstance(chosen, dict):
        return None
    curves = {arm: curve for arm, entry in as_dict(tuning.get("curves")).items() if (curve := parse_curve(entry))}
    try:
        if tuning.get("scores"):
            metric, seeds, arms = tuning["metric"], tuning["seeds"], _archived_points(tuning)
        else:
            sweep = load_sweep(Path(folder) / (as_text(tuning.get("folder")) or TUNING_FOLDER))
            # A tuning that was continued with fewer seeds has runs that never end.
            found = grid_points(sweep, path, factor, unfinished=True)
            arms = {arm: [point for point in points if point.scores] for arm, points in found.items()}
            metric, seeds = sweep.metric, sweep.seeds
        if not all(arms.values()):
            return None
        if list(arms) == [""] and len(chosen) == 1:  # A single arm has no factors and no name.
            chosen, curves = {"": next(iter(chosen.values()))}, dict.fromkeys([""], *curves.values()) if curves else {}
        return TuningGrid(path, metric, seeds, arms, chosen, curves, bool(tuning.get("distance_to_one")))
    except (ConfigError, KeyError, AttributeError, TypeError, ValueError):
        return None


def _archived_points(tuning: Mapping[str, Any]) -> dict[str, list[GridPoint]]:
    """Returns the points of tuning runs whose scores an archived result has (`zoo run --tuned-as`)."""
    worst = -math.inf if higher_is_better(tuning["metric"]) else math.inf
    return {
        arm: [
            GridPoint(float(value), {int(seed): worst if score is None else score for seed, score in by_seed.items()})
            for value, by_seed in sorted(by_value.items(), key=lambda item: float(item[0]))
        ]
        for arm, by_value in tuning["scores"].items()
    }


def trained_runs(sweep: SweepResults) -> list[RunRecord]:
    """Returns all runs that a sweep rests on: those of its arms, those that these start from, and
    those of tuning that can be read.
    """
    found = [*sweep.prerequisites, *sweep.runs]
    for entry in tuning_entries(sweep.tuning):
        with suppress(ConfigError):
            found += load_sweep(sweep.folder / (as_text(entry.get("folder")) or TUNING_FOLDER)).runs
    return found


def why_other_tuning(experiment: Experiment, tune: Tune, sweep: SweepResults) -> str:
    """Returns why a tuning sweep does not tune a number for an experiment; empty if it does."""
    if strange := [arm for arm in sweep.arms if tune.field not in arm.overrides]:
        return f"it has values of {list(strange[0].factors)[-1]}, and not of {tune.field}"
    if sweep.metric != experiment.metric:
        return f"its values were chosen by {sweep.metric}, and not by {experiment.metric}"
    return ""


def tuning_losses(
    experiment: Experiment, tune: Tune, sweep: SweepResults, unfinished: bool = False
) -> dict[str, Losses]:
    """Returns {arm: {value: {seed: loss}}} of a tuning sweep; of scores, their negative.

    Args:
        experiment: whose arms are tuned.
        tune: what is tuned.
        sweep: the tuning sweep so far (`zoo.lab.planning.tuning.tuning_experiment`).
        unfinished: leave out runs that have not ended, in place of an error.

    Raises:
        ConfigError: a run is unfinished or lacks the metric.
    """
    found = grid_points(sweep, tune.field, tuning_factor(experiment, tune), unfinished)
    sign = -1 if higher_is_better(experiment.metric) else 1
    return {
        arm or experiment.name: {
            point.value: {seed: sign * score for seed, score in point.scores.items()}
            for point in points
            if point.scores
        }
        for arm, points in found.items()
    }


def tuned_value(tune: Tune, losses: Losses, curve: TuningCurve) -> float:
    """Returns the value that an arm is trained with: the minimum of its curve.

    Without a minimum it is the best of the values that were tried with every tuning seed.
    """
    if not curve.problem:
        return rounded_value(tune, curve.minimum)
    complete = {value: by_seed for value, by_seed in losses.items() if len(by_seed) == len(tune.seeds)}
    return min(sorted(complete), key=lambda value: sum(complete[value].values()) / len(complete[value]))


def tuned_text(tune: Tune, value: float, curve: TuningCurve) -> str:
    """Returns a line about the result of tuning in one arm."""
    short = tune.field.rpartition(".")[2]
    if curve.problem:
        return f"{short} {value:g} is the best of {len(curve.values)} values, but it is not tuned: {curve.problem}"
    return (
        f"{short} {value:g}, the minimum of a curve through {len(curve.values)} values (expected regret "
        f"{curve.mean_regret:.2g}, noise of a run {curve.sd:.2g})"
    )


def tuning_entries(tuning: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the records of all tuned numbers of an experiment.json's entry `tuning`."""
    return [dict(tuning), *filter(None, map(as_dict, as_list(tuning.get("further"))))] if tuning.get("field") else []


def tuning_curves(tuning: Mapping[str, Any], arm: str) -> list[TuningCurve]:
    """Returns the fitted curves of an arm, one for each tuned number that has one."""
    curves = [as_dict(entry.get("curves")) for entry in tuning_entries(tuning)]
    return [curve for by_arm in curves if (curve := parse_curve(by_arm.get(arm)))]


def why_not_tuned(tuning: Mapping[str, Any], arm: str) -> str:
    """Returns why an arm that was to be tuned is not; empty if it is, or if nothing was tuned."""
    for entry in tuning_entries(tuning):
        field, chosen = entry["field"], as_dict(entry.get("chosen"))
        if entry.get("tuned_at"):
            return f"{field} was tuned in another sweep ({entry['tuned_at']})"
        curve = parse_curve(as_dict(entry.get("curves")).get(arm))
        if arm in chosen and curve is None:
            seeds = count(len(as_list(entry.get("seeds"))), "seed")
            return f"{field} is the best of {len(as_list(entry.get('values')))} values with {seeds}, without a curve"
        # An arm that diverges at every value has no better one.
        if curve is not None and curve.problem and curve.values:
            return f"{field}: {curve.problem}"
    return ""


def tuning_scope(tuning: Mapping[str, Any]) -> str:
    """Returns in a few words at which values of hyperparameters the arms of a sweep are compared."""
    entries = tuning_entries(tuning)
    if not entries:
        return "arms not tuned"
    names = " and ".join(entry["field"].rpartition(".")[2] for entry in entries)
    if any(entry.get("tuned_at") for entry in entries):
        return f"{names} from another sweep"
    if not all(entry.get("curves") for entry in entries):
        return f"{names} from a grid"
    arms = dict.fromkeys(arm for entry in entries for arm in as_dict(entry["curves"]))
    untuned = any(why_not_tuned(tuning, arm) for arm in arms)
    return f"{names} {'not fitted in every arm' if untuned else 'fitted in each arm'}"
