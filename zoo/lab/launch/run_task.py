"""A run as a task for a scheduler: its command, folder, resources and prerequisites.

Ray (`zoo.lab.launch.ray_pool`) and any other scheduler (`zoo run --emit`) start the same tasks. Jobs
of SLURM and processes of this machine wait for the same prerequisites.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from zoo.errors import not_writable, shown
from zoo.files import write_atomic
from zoo.lab.launch.cpu_processes import MEMORY_OF_A_PROCESS
from zoo.lab.launch.worker import write_config
from zoo.lab.planning.arm import PlannedArm, PlannedRun
from zoo.lab.planning.gpu_assignment import mesh_size
from zoo.training.records.threads import compute_threads

BYTES_PER_PARAMETER = 16
"""Memory of the host for a parameter, its gradient and two moments, in float32."""
_SIZES = {"": 1 << 20, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Resources(NamedTuple):
    """Resources that a run asks a scheduler for.

    Attributes:
        gpus, cpus: number of devices and of cores, of one machine.
        memory: of the host, in bytes.
    """

    gpus: int
    cpus: int
    memory: int


@dataclass(frozen=True)
class TaskOptions:
    """Resources of every run; None for the default (`resources_of`).

    Attributes:
        gpus: number of GPUs, as text.
        cpus: number of cores.
        memory: size with the unit K, M, G or T, as text; MiB without one, as SLURM reads it.
        ray: address of a Ray cluster that starts the runs; "local" for one on this machine, None for
            another scheduler.
        emit: file that the tasks are written to; None for Ray.
    """

    gpus: str | None = None
    cpus: int | None = None
    memory: str | None = None
    ray: str | None = None
    emit: Path | None = None

    def problems(self) -> Iterator[str]:
        """Yields a line for every option that is malformed."""
        if self.gpus is not None and not re.fullmatch("[0-9]{1,5}", self.gpus):
            yield f"--gpus-per-node {self.gpus!r}: with --ray and --emit a number of GPUs, such as 1"
        if self.memory is not None and not re.fullmatch(r"[0-9]{1,9}[KMGT]?", self.memory):
            yield f"--mem {self.memory!r}: expected a size such as 16G"
        if self.emit is not None:
            yield from _path_problems(self.emit)

    def resources_of(self, run: PlannedRun, gpus_there: bool, threads: int | None) -> Resources:
        """Returns the resources of a run.

        Args:
            run: its mesh decides on the number of GPUs; -1, which spreads over all, counts as one.
            gpus_there: whether the machines have GPUs, as far as known.
            threads: of XLA on a CPU.
        """
        gpus = (mesh_size(run.config) if gpus_there else 0) if self.gpus is None else int(self.gpus)
        memory = MEMORY_OF_A_PROCESS + BYTES_PER_PARAMETER * run.arm.parameters["total"]
        if self.memory is not None:
            number, unit = re.fullmatch(r"([0-9]+)([KMGT]?)", self.memory).groups()
            memory = int(number) * _SIZES[unit]
        return Resources(gpus, self.cpus or (1 if gpus else threads or compute_threads()), memory)

    def mesh_problems(self, runs: Iterable[PlannedRun]) -> list[str]:
        """Returns a line for every arm whose mesh does not fit the number of GPUs."""
        arms: dict[str, PlannedArm] = {run.arm.name: run.arm for run in runs}
        number = int(self.gpus or 0)
        return [
            f"--gpus-per-node {number}: the mesh of {name or 'the run'} needs "
            f"{'a multiple of ' if _spreads(arm) else ''}{mesh_size(arm.config)}"
            for name, arm in arms.items()
            if number and (number % mesh_size(arm.config) if _spreads(arm) else number != mesh_size(arm.config))
        ]


def _spreads(arm: PlannedArm) -> bool:
    """Returns whether a mesh takes all devices that there are."""
    return -1 in (arm.config.mesh.data, arm.config.mesh.fsdp)


@dataclass(frozen=True)
class RunTask:
    """A run that a scheduler is to start.

    Attributes:
        name: folder of the run inside the sweep's; unique in a sweep.
        argv: the command. It trains the run, or continues it from its last checkpoint, in any working
            directory; exit codes: 0 done, 4 diverged, 75 saved and to be started again, else failed.
        folder: absolute path of the run's folder.
        resources: what it asks for.
        needs: names of the tasks that have to end with 0 before.
    """

    name: str
    argv: tuple[str, ...]
    folder: Path
    resources: Resources
    needs: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {
            "name": self.name,
            "argv": list(self.argv),
            "folder": str(self.folder),
            "resources": self.resources._asdict(),
            "prerequisites": list(self.needs),
        }


def open_prerequisites(runs: Iterable[PlannedRun]) -> dict[str, tuple[str, ...]]:
    """Returns the folders of those among the given runs that each of them waits for, by its folder."""
    runs = list(runs)
    there = {run.folder for run in runs}
    return {run.folder: tuple(needed.folder for needed in run.needs if needed.folder in there) for run in runs}


def make_tasks(
    runs: Sequence[PlannedRun], sweep: Path, resources: Mapping[str, Resources], threads: int | None
) -> list[RunTask]:
    """Returns the tasks of unfinished runs, prerequisites first.

    Args:
        runs: in this order.
        sweep: the sweep's folder.
        resources: by the run's folder.
        threads: of XLA in runs without a GPU; None for one for each core that they are given.
    """
    needs = open_prerequisites(runs)
    sweep, here = Path(os.path.abspath(sweep)), os.getcwd()

    def task(run: PlannedRun) -> RunTask:
        asked = resources[run.folder]
        argv = [sys.executable, "-m", "zoo.lab.launch.attempt", str(sweep / run.folder), f"--directory={here}"]
        if not asked.gpus:
            argv.append(f"--threads={threads or asked.cpus}")
        argv += [f"--after={name}" for name in needs[run.folder]]
        return RunTask(run.folder, tuple(argv), sweep / run.folder, asked, needs[run.folder])

    return [task(run) for run in runs]


def json_lines(tasks: Iterable[RunTask]) -> str:
    """Returns a JSON object for each task, one on a line."""
    return "".join(json.dumps(task.record()) + "\n" for task in tasks)


def _path_problems(path: Path) -> Iterator[str]:
    """Yields what is wrong with a file that tasks are to be written to."""
    if path.is_dir() or not path.name:
        yield f"--emit {shown(str(path))}: expected a file, and this is a folder"
    elif not path.parent.is_dir():
        yield f"--emit {path}: there is no folder {path.parent}"
    elif path.exists() and not _holds_tasks(path):
        yield f"--emit {path}: this file was not written by --emit, and would be lost; name another one"


def _holds_tasks(path: Path) -> bool:
    """Returns whether a file is empty or begins with a task."""
    try:
        with open(path, encoding="utf-8") as file:
            line = file.readline()
        return not line or {"argv", "folder"} <= json.loads(line).keys()
    except (OSError, ValueError, AttributeError):
        return False


def emit_tasks(path: Path, tasks: Sequence[RunTask], runs: Iterable[PlannedRun], sweep: Path) -> None:
    """Writes the configs of runs into their folders and their tasks to a file of JSON lines.

    Raises:
        ConfigError: the file cannot be written.
    """
    for run in runs:
        write_config(sweep, run)
    try:
        write_atomic(path, json_lines(tasks))
    except OSError as error:
        raise not_writable(path, error, "--emit") from error
