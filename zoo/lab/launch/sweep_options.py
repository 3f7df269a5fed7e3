"""The options with which a sweep is run."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from zoo.lab.launch.populations import PopulationPolicy
from zoo.lab.launch.run_task import TaskOptions
from zoo.lab.launch.slurm import SlurmOptions


@dataclasses.dataclass(frozen=True)
class SweepOptions:
    """Options of running a sweep; the experiment is separate.

    Attributes:
        folder: the sweep's folder.
        command: the words of a `zoo run` that reproduces the results.
        jobs: processes at once (None: `plan_processes` on a CPU, 1 elsewhere), or with `slurm` tasks
            of an array at once.
        fresh: archive an earlier sweep in the folder.
        dry_run: check and show everything, write nothing.
        max_seeds: add seeds until the contrasts are decided, up to this number; None for the
            experiment's seeds.
        population: groups runs into populations; None for one process per run.
        slurm: submits runs as jobs; None for another launcher.
        tasks: hands runs to Ray, or writes them for another scheduler; None for processes on this
            machine, or jobs of SLURM.
        runs_from: other sweeps, whose finished runs are taken where they are equal to planned ones.
        baseline: name of the arm that reports compare the others with; None for the first.
        words: words after `zoo` of the command that goes on after jobs of SLURM.
    """

    folder: Path
    command: list[str]
    jobs: int | None = None
    fresh: bool = False
    dry_run: bool = False
    max_seeds: int | None = None
    population: PopulationPolicy | None = None
    slurm: SlurmOptions | None = None
    tasks: TaskOptions | None = None
    runs_from: Sequence[Path] = ()
    baseline: str | None = None
    words: Sequence[str] = ()
