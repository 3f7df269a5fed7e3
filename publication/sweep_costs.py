"""The cost of planned sweeps, in runs and FLOPs, and the throughput of a GPU in archived ones."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from zoo.config import resolve
from zoo.lab.experiment import Experiment
from zoo.lab.launch.progress import training_flops
from zoo.lab.planning.arm_resolution import count_cost
from zoo.lab.planning.plan import make_plan
from zoo.lab.planning.tuning import fewest_tuning_runs
from zoo.lab.report.archive.experiment_page import read_table
from zoo.lab.sizes import RUNGS, decoder


class SweepCost(NamedTuple):
    """The cost of a sweep.

    Attributes:
        runs: the fewest: those that others start from, those of tuning, and the seeds of each arm.
        flops: FLOPs of their training; a run of tuning costs as much as an arm on average.
    """

    runs: int
    flops: float


def sweep_cost(experiment: Experiment, seeds: int) -> SweepCost:
    """Returns the cost of an experiment with a number of seeds."""
    plan = make_plan(replace(experiment, tune=None, seeds=(0,)))
    # A run that others start from is trained for each seed, unless it is the same for all.
    before = [
        (1 if prerequisite.once else seeds, training_flops(run, run.arm.steps))
        for prerequisite, run in zip(experiment.prerequisites.values(), plan.prerequisites, strict=True)
    ]
    arms = [training_flops(run, run.arm.steps) for run in plan.runs]
    tuning = fewest_tuning_runs(experiment)
    return SweepCost(
        sum(number for number, _ in before) + tuning + seeds * len(arms),
        sum(number * flops for number, flops in before) + tuning * statistics.mean(arms) + seeds * sum(arms),
    )


class GpuThroughput(NamedTuple):
    """The speed at which a device trained the archived populations at the rungs.

    Attributes:
        device: its number and kind; empty if the archive has none.
        tokens: {rung: tokens per second of each arm, all its seeds together}.
        flops: {rung: FLOPs per second of the shared decoder at their median}.
    """

    device: str
    tokens: Mapping[str, Sequence[float]]
    flops: Mapping[str, float]

    def minutes(self, cost: SweepCost, size: str) -> float:
        """Returns the minutes of a sweep at a size; where the archive has no run of it, at the rate of
        the largest rung.
        """
        return cost.flops / self.flops.get(size, self.flops[self.largest]) / 60

    @property
    def largest(self) -> str:
        """The largest rung that the archive has from there."""
        return max(self.flops, key=RUNGS.index)


def gpu_throughput(archived: Sequence[Mapping[str, Any]], output: Path) -> GpuThroughput:
    """Returns the throughput on the device with the most arms.

    Args:
        archived: the result.json of all archived experiments.
        output: the folder of the archive.
    """
    speeds: dict[str, dict[str, list[float]]] = {}
    for result in archived:
        if result["size"] in RUNGS and "--population" in result.get("command", ()):
            arms: dict[str, list[tuple[float, float]]] = {}
            for row in read_table(output / result["name"] / "runs.csv"):
                arms.setdefault(row["arm"], []).append((float(row["tokens"]), float(row["seconds"])))
            device = f"{result['device']['count']} x {result['device']['kind']}"
            speeds.setdefault(device, {}).setdefault(result["size"], []).extend(
                sum(tokens for tokens, _ in rows) / max(seconds for _, seconds in rows) for rows in arms.values()
            )
    device = max(speeds, key=lambda name: sum(map(len, speeds[name].values())), default="")
    tokens = dict(sorted(speeds.get(device, {}).items()))
    return GpuThroughput(
        device,
        tokens,
        {
            rung: statistics.median(found) * count_cost(resolve(decoder(rung))).flops_per_token
            for rung, found in tokens.items()
        },
    )
