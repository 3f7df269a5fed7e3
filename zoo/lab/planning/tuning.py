"""Tunes one number per arm, usually the learning rate, on a grid that all arms share.

The best learning rate differs between arms, so a comparison at one shared rate depends on that
rate. The values are tried in a sweep of their own, in the subfolder `tuning` of the sweep, with
seeds that the experiment does not use: the best of several runs with one seed is also the luckiest,
and that luck would be credited to the arm.
"""

from collections.abc import Mapping
from dataclasses import replace

from zoo.lab.declarations import TUNING_FOLDER
from zoo.lab.experiment import Experiment


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
