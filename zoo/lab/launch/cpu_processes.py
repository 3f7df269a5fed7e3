"""Processes and threads with which the runs of a sweep are trained on a CPU.

A small model gains little from a second thread: two processes of one thread each train more tokens
a second than one process of two. XLA splits sums over the threads that it has, so that a run's
rounding depends on their number. Small models therefore have one, whatever the number of cores and of
processes, and a sweep that is continued keeps the number that it began with.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from zoo.lab.launch.sweep_folder import read_folder
from zoo.lab.planning.arm import PlannedRun
from zoo.training.records.threads import THREADS, USER_THREADS, available_cores
from zoo.training.runtime.allocator import has_accelerator

SMALL_PARAMETERS = 2_000_000
"""Parameters up to which the models of a sweep are small."""
MEMORY_OF_A_PROCESS = 1 << 30
"""Bytes that are free for each process that starts by default."""


class CpuProcesses(NamedTuple):
    """The processes that train at once.

    Attributes:
        jobs: number of processes.
        threads: XLA's threads in each of them; None for its own default, the number of cores.
    """

    jobs: int = 1
    threads: int | None = None

    def variables(self) -> dict[str, str]:
        """Returns the environment variables that set the number of threads."""
        return {} if self.threads is None else {THREADS: str(self.threads)}

    def describe(self) -> str:
        """Returns a line; empty for a single process, and for XLA's own number of threads."""
        if self.threads is None or self.jobs == 1:
            return ""
        threads = "one thread" if self.threads == 1 else f"{self.threads} threads"
        return f"CPU: {self.jobs} processes at a time, each with {threads}"


def plan_processes(
    folder: Path, runs: Iterable[PlannedRun], pending: int, jobs: int | None, one_by_default: bool = False
) -> CpuProcesses:
    """Returns how the runs of a sweep are trained on this machine, if that is on its CPU.

    Args:
        folder: the sweep's.
        runs: all of its runs.
        pending: programs that are left to train.
        jobs: processes that the user asks for; None for the default.
        one_by_default: the default is one process, whatever the size of the models.
    """
    runs = list(runs)
    if has_accelerator():
        return CpuProcesses(jobs or 1)
    if jobs is None:
        several = _are_small(runs) and not one_by_default
        jobs = max(1, min(available_cores(), pending, _fitting())) if several else 1
    return CpuProcesses(jobs, planned_threads(folder, runs))


def planned_threads(folder: Path, runs: Iterable[PlannedRun]) -> int | None:
    """Returns the threads of XLA in each run of a sweep on a CPU; None for its own default, and where
    the user has set it.
    """
    if any(name in os.environ for name in USER_THREADS):
        return None
    runs = list(runs)
    return _recorded_threads(folder, runs) or (1 if _are_small(runs) else None)


def _are_small(runs: Iterable[PlannedRun]) -> bool:
    return all(run.arm.parameters["total"] <= SMALL_PARAMETERS for run in runs)


def _recorded_threads(folder: Path, runs: Iterable[PlannedRun]) -> int | None:
    """Returns the number of threads of the runs that were trained on a CPU; None without such a run,
    or if they differ.
    """
    found = set()
    for run in runs:
        there = read_folder(folder / run.folder)
        device = there.meta.get("device")
        if isinstance(device, dict) and device.get("platform") == "cpu" and (there.steps or there.state.finished):
            found.add(device.get("cpu_threads"))
    threads = found.pop() if len(found) == 1 else None
    return threads if type(threads) is int and threads > 0 else None


def _fitting() -> int:
    """Returns the number of processes that the free memory has room for."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return available_cores()
    return free * 1024 // MEMORY_OF_A_PROCESS
