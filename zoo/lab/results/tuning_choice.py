"""The best value of a tuning grid in each arm."""

from dataclasses import dataclass

from zoo.lab.experiment import Experiment
from zoo.lab.metrics import higher_is_better
from zoo.lab.planning.tuning import tuning_factor
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import GridPoint, grid_points


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
        ConfigError: a run has not ended or has not written the metric.
    """
    found = grid_points(sweep, experiment.tune.field, tuning_factor(experiment))
    highest = higher_is_better(experiment.metric)
    return {arm or experiment.name: choose_best(tries, highest) for arm, tries in found.items()}


def choose_best(tries: list[GridPoint], highest: bool) -> TuningChoice:
    """Returns the value with the best mean over seeds."""
    best = (max if highest else min)(tries, key=lambda one: one.mean)
    return TuningChoice(best.value, tuple(tries))
