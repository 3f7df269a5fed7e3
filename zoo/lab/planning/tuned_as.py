"""Tuned values from the record of another sweep, so that nothing is tuned again.

An archived result with the same arms at the same values, as where its runs are repeated with a
corrected measure or with further seeds, has the fitted curves of these arms: they are taken over with
the values. From any other sweep of the same experiment, as at another size, the values alone are
taken, and the arms count as not tuned.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.declarations import Tune
from zoo.lab.experiment import Experiment
from zoo.lab.planning.plan import make_plan
from zoo.lab.planning.tuning import arm_names, with_tuned_value
from zoo.lab.planning.tuning_search import rounded_value
from zoo.lab.statistics.tuning_curve import coordinate_of, parse_curve, value_at

# The records of a sweep and of an archived result.
_RECORDS = ("experiment.json", "result.json")


@dataclass(frozen=True)
class _OtherSweep:
    """The record of a tuned sweep or of its archived result.

    Attributes:
        name: of the sweep.
        chosen: {arm: value}.
        values: the bracket.
        record: the whole content of experiment.json or result.json.
    """

    name: str
    chosen: dict[str, float]
    values: list[float]
    record: dict[str, Any]

    @property
    def tuning(self) -> dict[str, Any]:
        return self.record["tuning"]


def with_values_of(experiment: Experiment, folder: Path) -> Experiment:
    """Returns the experiment with the values that another sweep chose; nothing is tuned.

    If `folder` is an archived result with fitted curves of the experiment's metric, and its runs are
    those that the experiment has at these values with the seeds of the result, by their identities,
    then the curves are taken over with the scores that were fitted. The experiment may have other
    seeds, but none that tuned the result. Runs that start from others of the sweep
    (`Experiment.prerequisites`) are never the same: their identities contain the sweep's folder.

    Else a value is mapped by its place in the bracket, on a logarithmic scale (of the distance to 1 if
    that is searched): half way between the second and the third value there becomes half way between
    the second and the third here.

    Args:
        experiment: with one tuned number.
        folder: of a tuned sweep of the same experiment at another size, or an archived result.

    Raises:
        ConfigError: the experiment tunes nothing, or several numbers; the folder has no result of
            tuning, or the two do not have the same arms, field and number of values; a seed tuned
            the result whose curves are taken over.
    """
    other, arms = _other_sweep(experiment, folder), arm_names(experiment)
    if missing := [arm for arm in arms if arm not in other.chosen]:
        raise ConfigError(
            f"{folder} has no tuned value for {', '.join(missing)}; its arms are {', '.join(other.chosen) or 'none'}"
        )
    chosen = {arm: other.chosen[arm] for arm in arms}
    most = 1.0 if experiment.tunings[0].distance_to_one else math.inf
    wrong = [f"{value!r} of {arm}" for arm, value in chosen.items() if not _is_between_0_and(most, value)]
    if wrong := wrong + [f"{value!r} in the bracket" for value in other.values if not _is_between_0_and(most, value)]:
        allowed = "between 0 and 1" if most == 1 else "above 0"
        raise ConfigError(f"{folder} was edited or is damaged: {', '.join(wrong)} is not a number {allowed}")
    found = _with_curves(experiment, other, chosen)
    if isinstance(found, Experiment):
        return found
    tune = experiment.tunings[0]
    own, others = sorted(tune.values), sorted(other.values)
    if len(own) != len(others):
        raise ConfigError(
            f"{folder}: its bracket has {len(others)} values and that of {experiment.name} {len(own)}; values are "
            "matched by their place in the bracket, so both need equally many"
        )
    mapped = {arm: _mapped(tune, value, others, own) for arm, value in chosen.items()}
    if outside := [f"{chosen[arm]!r} of {arm}" for arm, value in mapped.items() if not _is_between_0_and(most, value)]:
        raise ConfigError(
            f"{folder}: {', '.join(outside)} lies so far beyond its bracket that no value of {experiment.name} has the "
            "same place; tune it here"
        )
    return replace(with_tuned_value(experiment, tune, mapped, {}), tuned_at=other.name, curves_not_taken=found)


def _with_curves(experiment: Experiment, other: _OtherSweep, chosen: Mapping[str, float]) -> Experiment | str:
    """Returns the experiment with the fitted curves of an archived result and the bracket and seeds
    that tuned it; or why they are not taken over, which is empty if there are none.

    Raises:
        ConfigError: a seed of the experiment tuned the result.
    """
    record, tuning = other.record, other.tuning
    if "scores" not in tuning or "curves" not in tuning:
        return ""
    if tuning.get("further"):
        return "several numbers were tuned"
    if record.get("metric") != experiment.metric:
        return f"they are of {record.get('metric')}, and the metric is {experiment.metric}"
    if experiment.metric.startswith("measured/"):
        return f"what {experiment.metric} measures may have changed"
    if record.get("uncommitted"):
        return "code with uncommitted changes trained its runs"
    try:
        curves = {arm: curve for arm in chosen if (curve := parse_curve(tuning["curves"].get(arm)))}
        scores = {name: tuning["scores"][name] for name in _names_in_scores(tuning, chosen)}
        if len(curves) < len(chosen) or not all(map(_has_runs, scores.values())):
            return "arms lack a curve or its scores"
        tune = replace(
            experiment.tunings[0],
            values=tuple(other.values),
            seeds=tuple(tuning["seeds"]),
            distance_to_one=bool(tuning.get("distance_to_one")),
        )
        archived = {run for arm in record["arms"] for run in arm["configs"]}
        there = replace(experiment, tune=tune, seeds=tuple(record["seeds"]))
        planned = {run.identity for run in make_plan(with_tuned_value(there, tune, chosen, curves)).runs}
        # A result that has taken them over itself names the commits and the data of the tuning runs.
        of_runs = {name: list(map(str, tuning.get(name) or record.get(name) or ())) for name in ("commits", "data")}
    except (AttributeError, KeyError, TypeError, ValueError, ConfigError):
        return "the record is damaged, or the arms have become invalid"
    if not planned <= archived:
        return "its runs have other configs than these arms at its values"
    return replace(
        with_tuned_value(experiment, tune, chosen, curves),
        tune=tune,
        archived_tuning={"metric": experiment.metric, "scores": scores, **of_runs},
    )


def _names_in_scores(tuning: Mapping[str, Any], chosen: Mapping[str, float]) -> list[str]:
    """Returns the names of the arms among the archived scores; that of a single arm is empty."""
    return [""] if list(tuning["scores"]) == [""] and len(chosen) == 1 else list(chosen)


def _has_runs(scores: Mapping[str, Mapping[str, float | None]]) -> bool:
    """Tells whether there are scores, {value: {seed: score}} with None for a run that diverged.

    Raises:
        AttributeError, TypeError, ValueError: it is something else.
    """
    runs = [(float(value), int(seed), score) for value, by_seed in scores.items() for seed, score in by_seed.items()]
    return bool(runs) and all(score is None or isinstance(score, int | float) for _, _, score in runs)


def _is_between_0_and(most: float, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < most


def _mapped(tune: Tune, value: float, others: list[float], own: list[float]) -> float:
    """Returns the value at the same place in `own` as `value` has in `others`, rounded as in a search
    (`rounded_value`).
    """
    if value in others:
        return own[others.index(value)]
    coordinate = coordinate_of(tune.distance_to_one)
    x, there, here = coordinate(value), list(map(coordinate, others)), list(map(coordinate, own))
    if x < there[0]:
        place = here[0] + x - there[0]
    elif x > there[-1]:
        place = here[-1] + x - there[-1]
    else:
        place = float(np.interp(x, there, here))
    return rounded_value(tune, value_at(place, tune.distance_to_one))


def _other_sweep(experiment: Experiment, folder: Path) -> _OtherSweep:
    """Reads the record in `folder`."""
    if len(experiment.tunings) != 1:
        tuned = "nothing" if not experiment.tunings else f"{len(experiment.tunings)} numbers"
        raise ConfigError(f"--tuned-as {folder}: {experiment.name} tunes {tuned}; it needs one tuned number")
    path = next((folder / name for name in _RECORDS if (folder / name).is_file()), None)
    if path is None:
        raise ConfigError(f"--tuned-as {folder}: neither a sweep nor an archived result")
    try:
        record = read_json(path)
        tuning = record.get("tuning") or {}
        field, chosen = tuning.get("field"), dict(tuning.get("chosen") or {})
        values = [float(value) for value in tuning.get("values") or ()]
        other = _OtherSweep(record["name"], chosen, values, record)
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not readable as a sweep ({type(error).__name__}: {error})") from error
    own = experiment.tunings[0].field
    if field != own or not chosen:
        raise ConfigError(f"{path}: no tuned {own}; it tuned {field or 'nothing'}")
    return other
