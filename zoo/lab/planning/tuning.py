"""Tunes one number per arm, usually the learning rate, on a grid that all arms share.

The best learning rate differs between arms, so a comparison at one shared rate depends on that
rate. The values are tried in a sweep of their own, in the subfolder `tuning` of the sweep, with
seeds that the experiment does not use: the best of several runs with one seed is also the luckiest,
and that luck would be credited to the arm.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.declarations import TUNING_FOLDER
from zoo.lab.experiment import Experiment, arm_name
from zoo.lab.planning.arm_resolution import arm_overrides

# The records of a sweep and of an archived result.
_RECORDS = ("experiment.json", "result.json")


def tuning_factor(experiment: Experiment) -> str:
    """Returns the name of the grid as a factor: the last part of the field's path, or the whole
    path if a factor already has that name.
    """
    short = experiment.tune.field.rpartition(".")[2]
    return experiment.tune.field if short in experiment.factors else short


def tuning_experiment(experiment: Experiment) -> Experiment:
    """Returns the experiment that runs every arm with every value of the grid."""
    tune = experiment.tune
    grid = {str(value): {tune.field: value} for value in sorted(tune.values)}
    return replace(
        experiment,
        name=TUNING_FOLDER,
        question=f"Which {tune.field} suits each arm of {experiment.name} best?",
        factors={**experiment.factors, tuning_factor(experiment): grid},
        seeds=tune.seeds,
        claim=None,
        contrasts=(),
        looks={},
        tune=None,
        measures=(),
    )


def with_tuned_values(experiment: Experiment, values: Mapping[str, float]) -> Experiment:
    """Returns the experiment with the tuned value of each arm, given by the arm's name."""
    return replace(experiment, tuned_values={arm: {experiment.tune.field: value} for arm, value in values.items()})


def with_values_of(experiment: Experiment, folder: Path) -> Experiment:
    """Returns the experiment with the values that tuning chose at another size.

    Grids are matched by rank: an arm whose best value in the other sweep was the second smallest of
    its grid gets the second smallest of this experiment's grid. Nothing is tuned.

    Args:
        experiment: with `tune`.
        folder: of a tuned sweep of the same experiment at another size, or its archived result.

    Raises:
        ConfigError: the experiment has no grid, the folder has no result of one, or the two do not
            have the same arms, field and number of values.
    """
    name, chosen, values = _other_grid(experiment, folder)
    own, others = sorted(experiment.tune.values), sorted(values)
    if len(own) != len(others):
        raise ConfigError(
            f"{folder}: its grid has {len(others)} values and that of {experiment.name} {len(own)}; values are "
            "matched by their rank in the grid, so both need equally many"
        )
    arms = dict.fromkeys(arm_name(levels) or experiment.name for levels, _ in arm_overrides(experiment))
    if missing := [arm for arm in arms if arm not in chosen]:
        raise ConfigError(
            f"{folder} has no tuned value for {', '.join(missing)}; its arms are {', '.join(chosen) or 'none'}"
        )
    if foreign := [f"{chosen[arm]!r} of {arm}" for arm in arms if chosen[arm] not in others]:
        raise ConfigError(f"{folder} was edited or is damaged: {', '.join(foreign)} is not in its grid {others}")
    found = with_tuned_values(experiment, {arm: own[others.index(chosen[arm])] for arm in arms})
    return replace(found, tuned_at=name)


def _other_grid(experiment: Experiment, folder: Path) -> tuple[str, Mapping[str, float], list[float]]:
    """Returns the name of the sweep in `folder`, what its tuning chose in each arm, and its grid."""
    if not experiment.tune:
        raise ConfigError(f"--tuned-as {folder}: {experiment.name} tunes nothing")
    path = next((folder / name for name in _RECORDS if (folder / name).is_file()), None)
    if path is None:
        raise ConfigError(f"--tuned-as {folder}: neither a sweep nor an archived result")
    try:
        record = read_json(path)
        tuning = record.get("tuning") or {}
        name, field, chosen = record["name"], tuning.get("field"), dict(tuning.get("chosen") or {})
        values = [float(value) for value in tuning.get("values") or ()]
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not readable as a sweep ({type(error).__name__}: {error})") from error
    if field != experiment.tune.field or not chosen:
        raise ConfigError(f"{path}: no tuned {experiment.tune.field}; it tuned {field or 'nothing'}")
    return name, chosen, values


def tuned_elsewhere_warnings(experiment: Experiment) -> list[str]:
    """Returns a warning if the values were chosen at another size."""
    if not experiment.tuned_at:
        return []
    return [
        f"{experiment.tune.field} was not tuned at this size: each arm has the value of the same rank in the grid as "
        f"the best one in {experiment.tuned_at}"
    ]


def grid_edge_warnings(experiment: Experiment) -> list[str]:
    """Returns a warning if a tuned value lies at the edge of the grid."""
    if not experiment.tuned_values:
        return []
    field, grid = experiment.tune.field, sorted(experiment.tune.values)
    values = {arm: changes[field] for arm, changes in experiment.tuned_values.items()}
    edges = [f"{value:g} in {arm}" for arm, value in values.items() if value in (grid[0], grid[-1])]
    if not edges:
        return []
    shown = ", ".join(f"{value:g}" for value in grid)
    return [
        f"the best {field} of the grid ({shown}) is at its edge, and a better one may lie beyond: {'; '.join(edges)}"
    ]
