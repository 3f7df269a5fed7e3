"""How the runs of a sweep are launched: one interface, for processes on this machine and for jobs
of SLURM (`zoo.lab.launch.slurm`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from zoo.lab.launch.populations import Together
from zoo.lab.launch.sweep_folder import State, SweepLock
from zoo.lab.planning.arm import PlannedRun


@dataclass(frozen=True)
class Launched:
    """What a launcher did.

    Attributes:
        ends: how runs ended, by folder; empty where they only wait in a queue.
        stopped: a signal asked for the end before all runs had ended.
        queued: numbers of the jobs that were put into a queue for them.
    """

    ends: dict[str, State] = field(default_factory=dict)
    stopped: bool = False
    queued: list[str] = field(default_factory=list)


class Launcher(Protocol):
    """Has runs trained."""

    def launch(self, runs: Sequence[PlannedRun], folder: Path, lock: SweepLock) -> Launched:
        """Launches runs of the sweep in `folder`, which `lock` holds. Those that others need stand
        before these.
        """


class Local:
    """Processes on this machine, `workers` at once; returns when all have ended.

    Args:
        workers: processes at once.
        display: shows how far they are.
        together: puts runs into populations, a process each; None for a process for each run.
    """

    def __init__(self, workers: int, display, together: Together | None = None):
        self._workers, self._display, self._together = workers, display, together

    def launch(self, runs: Sequence[PlannedRun], folder: Path, lock: SweepLock) -> Launched:
        """See `Launcher`."""
        from zoo.lab.launch.process_pool import Pool

        pool = Pool(runs, folder, self._workers, lock, self._display, self._together)
        with self._display:
            ends = pool.run()
        return Launched(ends, pool.stopped)
