"""Each arm's own value of one number, its learning rate as a rule: the best of a grid that is the
same for all arms.

What suits one arm may hurt another, so that at one rate for all the answer depends on the rate. The
values are tried in a sweep of their own, in the folder `tuning` of the sweep's, with seeds that are
never among those that decide: the best of several values of one seed is also the luckiest, and the
luck would be counted as the arm's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zoo import config
from zoo.errors import did_you_mean
from zoo.lab.metrics import more_is_better
from zoo.lab.results.schema import TUNING

if TYPE_CHECKING:
    from zoo.lab.experiment import Experiment
    from zoo.lab.results.sweep_results import SweepResults
    from zoo.lab.results.tuning_grid import GridPoint

FIRST_SEED = 1000


@dataclass(frozen=True)
class Tune:
    """What each arm gets a value of its own of.

    Attributes:
        field: a number that no factor sets.
        values: the grid, the same for every arm.
        seeds: of the runs that choose; none of those that decide.
    """

    field: str
    values: tuple[float, ...]
    seeds: tuple[int, ...] = (FIRST_SEED,)


@dataclass(frozen=True)
class Choice:
    """What the grid came to in one arm.

    Attributes:
        value: the best one; of equally good ones the smallest.
        tried: all of them, from the smallest on.
    """

    value: float
    tried: tuple[GridPoint, ...]


def problems(tune: Tune, factors: Mapping[str, Mapping[str, Mapping[str, Any]]], seeds: Sequence[int]) -> Iterator[str]:
    """One line for everything that is wrong with a grid, beside these factors and the seeds that
    decide.
    """
    found = config.field_at(tune.field)
    if found is None:
        yield f"tune: unknown field {tune.field}{did_you_mean(tune.field, config.known_paths(tune.field))}"
    elif found.kind not in (int, float) or tune.field == "seed":
        yield f"tune: {tune.field} is not a number that could be tuned; take optimizer.learning_rate"
    for factor, its_levels in factors.items():
        if any(tune.field in changes for changes in its_levels.values()):
            yield f'tune: {tune.field} is varied by the factor "{factor}" and cannot be tuned too'
    numbers = [value for value in tune.values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < len(tune.values):
        yield f"tune: the values of {tune.field} are not all numbers: {', '.join(map(str, tune.values))}"
    elif len(set(numbers)) < 2 or len(set(numbers)) < len(numbers):
        yield f"tune: {tune.field} needs two values or more, each once, got {', '.join(map(str, tune.values)) or 'none'}"
    if not tune.seeds:
        yield "tune: at least one seed is needed"
    yield from (
        f"tune: seed {seed!r} is not a whole number from 0 on"
        for seed in tune.seeds
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0
    )
    if both := [seed for seed in tune.seeds if seed in seeds]:
        yield f"tune: seed {', '.join(map(str, both))} would choose and decide; give seeds of their own (from {FIRST_SEED} on by default)"


def factor_name(experiment: Experiment) -> str:
    """What the grid is called among the factors: the last part of the field's path, or all of it
    where a factor has that name.
    """
    short = experiment.tune.field.rpartition(".")[2]
    return experiment.tune.field if short in experiment.factors else short


def search(experiment: Experiment) -> Experiment:
    """The sweep in which the values are tried: every arm with each of them."""
    tune = experiment.tune
    grid = {str(value): {tune.field: value} for value in sorted(tune.values)}
    return replace(
        experiment,
        name=TUNING,
        question=f"Which {tune.field} suits each arm of {experiment.name} best?",
        factors={**experiment.factors, factor_name(experiment): grid},
        seeds=tune.seeds,
        claim=None,
        contrasts=(),
        looks={},
        tune=None,
        measures=(),
    )


def choices(experiment: Experiment, sweep: SweepResults) -> dict[str, Choice]:
    """What the grid came to in each arm, by the arm's name.

    Args:
        experiment: that of the arms.
        sweep: that of `search`, its runs done.

    Raises:
        ConfigError: runs that have not ended, or that have not written the metric.
    """
    # Imported late: it brings what reads runs, which a plan does not need.
    from zoo.lab.results.tuning_grid import grid_points

    found = grid_points(sweep, experiment.tune.field, factor_name(experiment))
    return {arm or experiment.name: _best(tries, more_is_better(experiment.metric)) for arm, tries in found.items()}


def _best(tries: list[GridPoint], highest: bool) -> Choice:
    return Choice((max if highest else min)(tries, key=lambda one: one.mean).value, tuple(tries))


def tuned(experiment: Experiment, found: Mapping[str, Choice]) -> Experiment:
    """The experiment in which each arm has its own value."""
    return replace(experiment, chosen={arm: {experiment.tune.field: choice.value} for arm, choice in found.items()})


def doubts(experiment: Experiment) -> list[str]:
    """What has to be said of values that lie at the edge of the grid."""
    if not experiment.chosen:
        return []
    what, grid = experiment.tune.field, sorted(experiment.tune.values)
    values = {arm: changes[what] for arm, changes in experiment.chosen.items()}
    edges = [f"{value:g} in {arm}" for arm, value in values.items() if value in (grid[0], grid[-1])]
    return (
        [
            f"the best {what} of the grid ({', '.join(f'{value:g}' for value in grid)}) is at its edge, and a better one may lie beyond: "
            f"{'; '.join(edges)}"
        ]
        if edges
        else []
    )
