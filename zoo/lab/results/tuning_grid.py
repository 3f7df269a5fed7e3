"""What a grid of learning rates, or of another number, came to in each arm: read from the sweep in
which it was tried.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.lab.declarations import TUNING_FOLDER
from zoo.lab.metrics import higher_is_better
from zoo.lab.results.sweep_results import SweepResults, load_sweep
from zoo.lab.statistics.paired import PairedDifference, paired_difference


@dataclass(frozen=True)
class GridPoint:
    """One value in one arm: the metric of each seed; a run that diverged is infinitely bad."""

    value: float
    scores: dict[int, float]

    @property
    def mean(self) -> float:
        return sum(self.scores.values()) / len(self.scores)


@dataclass(frozen=True)
class TuningGrid:
    """A grid and what it came to.

    Attributes:
        field: the path of what was tuned.
        metric: by which.
        seeds: those that chose.
        arms: by the arm's name, from the smallest value on.
        chosen: the value that each arm was then trained with.
    """

    field: str
    metric: str
    seeds: list[int]
    arms: dict[str, list[GridPoint]]
    chosen: dict[str, float]

    def at_the_same(self, baseline: str) -> dict[str, dict[float, PairedDifference]]:
        """Of every other arm its difference from the baseline at each value, as if all had been
        trained at that one; paired by seed.
        """
        theirs = {tried.value: tried.scores for tried in self.arms[baseline]}
        return {
            arm: {
                tried.value: paired_difference(_finite(tried.scores), _finite(theirs[tried.value]))
                for tried in tries
                if tried.value in theirs
            }
            for arm, tries in self.arms.items()
            if arm != baseline
        }


def _finite(scores: dict[int, float]) -> dict[int, float]:
    return {seed: score for seed, score in scores.items() if math.isfinite(score)}


def grid_points(sweep: SweepResults, field: str, factor: str) -> dict[str, list[GridPoint]]:
    """What each value came to in each arm, from the smallest value on.

    Args:
        sweep: every arm with every value.
        field: the path of what is tuned.
        factor: what its values are called as a factor.

    Raises:
        ConfigError: runs that have not ended, or have not written the metric.
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
    return {name: sorted(tries, key=lambda one: one.value) for name, tries in found.items()}


def load_tuning_grid(folder: str | Path, tuning: dict[str, Any]) -> TuningGrid | None:
    """The rates of a sweep in `folder` whose experiment.json says `tuning`; None where nothing was
    tuned, or nothing can be read of it.
    """
    field, factor, chosen = tuning.get("field"), tuning.get("factor"), tuning.get("chosen")
    if not isinstance(field, str) or not isinstance(factor, str) or not isinstance(chosen, dict):
        return None
    try:
        sweep = load_sweep(Path(folder) / TUNING_FOLDER)
        arms = grid_points(sweep, field, factor)
        if list(arms) == [""] and len(chosen) == 1:  # The only arm has a name among values alone.
            chosen = {"": next(iter(chosen.values()))}
        return TuningGrid(field, sweep.metric, sweep.seeds, arms, chosen)
    except (ConfigError, KeyError):
        return None
