"""Launches the runs of a sweep in local processes; `zoo.lab.launch.slurm` submits them as jobs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zoo.lab.launch.display import PlainDisplay
from zoo.lab.launch.populations import PopulationPolicy
from zoo.lab.launch.process_pool import ProcessPool
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.planning.arm import PlannedRun
from zoo.training.records.run_folder import FolderState


@dataclass(frozen=True)
class LaunchResult:
    """Outcome of a launch.

    Attributes:
        final_states: how runs ended, by folder; empty for runs in a queue.
        stopped: whether a signal ended the launch before all runs had ended.
        job_ids: ids of the jobs that were submitted.
    """

    final_states: dict[str, FolderState] = field(default_factory=dict)
    stopped: bool = False
    job_ids: list[str] = field(default_factory=list)


class LocalLauncher:
    """Trains runs in processes on this machine; returns when all have ended.

    Args:
        workers: processes at once.
        display: shows their progress.
        population: groups runs into populations; None for one process per run.
        gpus: that the processes are spread over (`ProcessPool`).
    """

    def __init__(
        self, workers: int, display: PlainDisplay, population: PopulationPolicy | None = None, gpus: Sequence[str] = ()
    ):
        self._workers, self._display, self._population, self._gpus = workers, display, population, gpus

    def launch(self, runs: Sequence[PlannedRun], folder: Path, lock: SweepLock) -> LaunchResult:
        """Trains runs of a sweep.

        Args:
            runs: prerequisites before the runs that need them.
            folder: folder of the sweep.
            lock: held on that folder; each process inherits it.
        """
        pool = ProcessPool(runs, folder, self._workers, lock, self._display, self._population, self._gpus)
        with self._display:
            final_states = pool.run()
        return LaunchResult(final_states, pool.stopped)
