"""Tuned values from the record of another sweep, so that nothing is tuned again.

An archived result with the very runs that are planned, as where they are repeated with another
measure, has the fitted curves of these arms: they are taken over with the values. From any other
sweep of the same experiment, as at another size, the values alone are taken, and the arms count as
not tuned.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.experiment import Experiment
from zoo.lab.planning.plan import make_plan
from zoo.lab.planning.tuning import arm_names, with_tuned_value
from zoo.lab.statistics.tuning_curve import TuningCurve, parse_curve

# The records of a sweep and of an archived result.
_RECORDS = ("experiment.json", "result.json")


def with_values_of(experiment: Experiment, folder: Path) -> Experiment:
    """Returns the experiment with the values that another sweep chose; nothing is tuned.

    If `folder` is an archived result with fitted curves, and every run that the experiment would
    have with its values and seeds is one of its runs, by their identities, then the values are those
    of the curves, which are taken over with the scores that were fitted.

    Else a value is mapped by its place in the bracket, on a logarithmic scale: half way between the
    second and the third value there becomes half way between the second and the third here.

    Args:
        experiment: with one tuned number.
        folder: of a tuned sweep of the same experiment at another size, or an archived result.

    Raises:
        ConfigError: the experiment tunes nothing, or several numbers; the folder has no result of
            tuning, or the two do not have the same arms, field and number of values.
    """
    record, chosen, values = _other_tuning(experiment, folder)
    arms = arm_names(experiment)
    if missing := [arm for arm in arms if arm not in chosen]:
        raise ConfigError(
            f"{folder} has no tuned value for {', '.join(missing)}; its arms are {', '.join(chosen) or 'none'}"
        )
    if wrong := [f"{chosen[arm]!r} of {arm}" for arm in arms if not _is_positive(chosen[arm])]:
        raise ConfigError(f"{folder} was edited or is damaged: {', '.join(wrong)} is not a number above 0")
    if same := _with_curves(experiment, record, {arm: chosen[arm] for arm in arms}):
        return same
    tune = experiment.tunings[0]
    own, others = sorted(tune.values), sorted(values)
    if len(own) != len(others):
        raise ConfigError(
            f"{folder}: its bracket has {len(others)} values and that of {experiment.name} {len(own)}; values are "
            "matched by their place in the bracket, so both need equally many"
        )
    found = with_tuned_value(experiment, tune, {arm: _mapped(chosen[arm], others, own) for arm in arms}, {})
    return replace(found, tuned_at=record["name"])


def _with_curves(experiment: Experiment, record: Mapping[str, Any], chosen: Mapping[str, float]) -> Experiment | None:
    """Returns the experiment with the values and curves of an archived result that has its runs; None
    if it lacks one of them, or was judged by another metric.
    """
    tuning, curves = record["tuning"], _curves(record["tuning"], chosen)
    if not curves or tuning.get("further") or record.get("metric") != experiment.metric:
        return None
    tuned = with_tuned_value(experiment, experiment.tunings[0], chosen, curves)
    try:
        archived = {run for arm in record["arms"] for run in arm["configs"]}
        planned = make_plan(replace(tuned, seeds=tuple(record["seeds"])))
    except (KeyError, TypeError, ConfigError):
        return None
    if not {run.identity for run in planned.runs} <= archived:
        return None
    by_arm = {name: {arm: tuning[name][arm] for arm in chosen} for name in ("chosen", "curves", "scores")}
    found = {**tuning, **by_arm, "metric": experiment.metric, "commits": list(record.get("commits") or ())}
    return replace(tuned, archived_tuning=found)


def _curves(tuning: Mapping[str, Any], chosen: Mapping[str, float]) -> dict[str, TuningCurve] | None:
    """Returns the fitted curve of each arm; None if one is missing, or the scores behind it."""
    by_arm = tuning.get("curves")
    if not isinstance(by_arm, dict) or not all(_has_scores(tuning, arm) for arm in chosen):
        return None
    curves = {arm: curve for arm in chosen if (curve := parse_curve(by_arm.get(arm)))}
    return curves if len(curves) == len(chosen) else None


def _has_scores(tuning: Mapping[str, Any], arm: str) -> bool:
    """Tells whether the record has the scores of an arm's tuning runs, {value: {seed: score}}, with
    None for a run that diverged.
    """
    try:
        runs = [
            (float(value), int(seed), score)
            for value, by in tuning["scores"][arm].items()
            for seed, score in by.items()
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return bool(runs) and all(score is None or isinstance(score, int | float) for _, _, score in runs)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _mapped(value: float, others: list[float], own: list[float]) -> float:
    """Returns the value at the same place in `own` as `value` has in `others`, to three digits."""
    if value in others:
        return own[others.index(value)]
    x = math.log(value)
    there, here = np.log(others), np.log(own)
    if value < others[0]:
        return float(f"{math.exp(here[0] + x - there[0]):.3g}")
    if value > others[-1]:
        return float(f"{math.exp(here[-1] + x - there[-1]):.3g}")
    return float(f"{math.exp(np.interp(x, there, here)):.3g}")


def _other_tuning(experiment: Experiment, folder: Path) -> tuple[dict[str, Any], dict[str, float], list[float]]:
    """Returns the record of the sweep in `folder`, the value of each arm, and the bracket."""
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
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not readable as a sweep ({type(error).__name__}: {error})") from error
    own = experiment.tunings[0].field
    if field != own or not chosen:
        raise ConfigError(f"{path}: no tuned {own}; it tuned {field or 'nothing'}")
    return {**record, "name": record["name"], "tuning": tuning}, chosen, values
