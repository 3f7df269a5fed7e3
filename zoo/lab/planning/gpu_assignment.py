"""Divides the GPUs of this machine among the processes that train at once."""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from zoo.config import ResolvedConfig
from zoo.lab.planning.arm import PlannedRun

MEMORY_VARIABLES = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
# Share of a GPU's memory that its processes divide; CUDA itself needs the rest in each of them.
SHARED_MEMORY = 0.9


@dataclass(frozen=True)
class GpuAssignment:
    """The GPUs of each process.

    With one process at a time it has all GPUs, or as many as the mesh of its run asks for. With
    several, each has one GPU: that in slot i has GPU i modulo the number of GPUs.

    Attributes:
        jobs: processes at once.
        gpus: as CUDA_VISIBLE_DEVICES names them. If there are none, nothing is assigned.
    """

    jobs: int
    gpus: tuple[str, ...]

    def variables(self, slot: int, config: ResolvedConfig) -> dict[str, str]:
        """Returns the environment variables that give a process its GPUs and its share of memory.

        Args:
            slot: from 0 to `jobs` - 1, different for all processes that run at once.
            config: that of its run, or of any member of its population.
        """
        if not self.gpus:
            return {}
        if self.jobs == 1:
            number = len(self.gpus) if -1 in (config.mesh.data, config.mesh.fsdp) else mesh_size(config)
            # A mesh without -1 has to have exactly as many devices as the process sees.
            return {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus[:number])} if number < len(self.gpus) else {}
        variables = {"CUDA_VISIBLE_DEVICES": self.gpus[slot % len(self.gpus)]}
        if self._shares_memory():
            # By default JAX preallocates three quarters of a GPU's memory: two runs would not fit.
            variables["XLA_CLIENT_MEM_FRACTION"] = f"{self._memory_fraction():.3f}"
        return variables

    def problems(self, runs: Iterable[PlannedRun]) -> list[str]:
        """Returns a line for every mesh of the runs that is larger than the GPUs of a process."""
        if not self.gpus:
            return []
        available = len(self.gpus) if self.jobs == 1 else 1
        lines = [self._problem(run.config) for run in runs if mesh_size(run.config) > available]
        return list(dict.fromkeys(lines))

    def _problem(self, config: ResolvedConfig) -> str:
        needed, number = mesh_size(config), len(self.gpus)
        axes = ("data", "fsdp", "expert", "tensor")
        fields = [f"mesh.{name}={config.mesh[name]}" for name in axes if config.mesh[name] > 1]
        needs = f"{' x '.join(fields)} needs {needed} GPUs, but"
        if self.jobs == 1:
            there = "there is 1" if number == 1 else f"there are {number}"
            return f"{needs} {there}: use a mesh of at most {number}"
        change = "use a mesh of one device" if needed > number else "use --jobs 1, or a mesh of one device"
        return f"{needs} with --jobs {self.jobs} each process has one: {change}"

    def describe(self) -> str:
        """Returns a line that says which GPUs processes use; empty if there are none."""
        if not self.gpus:
            return ""
        if self.jobs == 1:
            share = "" if len(self.gpus) == 1 else ", with all of them or as many as its mesh asks for"
            return f"{_named(self.gpus)}: one process at a time{share}"
        processes = Counter(self.gpus[slot % len(self.gpus)] for slot in range(self.jobs))
        parts = []
        for number, group in groupby(self.gpus, key=lambda gpu: processes[gpu]):
            gpus = tuple(group)
            at_once = f"{'one process' if number == 1 else f'{number} processes'} at a time" if number else "not used"
            parts.append(f"{_named(gpus)}: {at_once}{' on each' if number and len(gpus) > 1 else ''}")
        shares = f", each with {self._memory_fraction():.3g} of its memory" if self._shares_memory() else ""
        return "; ".join(parts) + shares

    def _shares_memory(self) -> bool:
        """Returns whether several processes have one GPU, and nobody has set their shares."""
        return self.jobs > len(self.gpus) and not any(name in os.environ for name in MEMORY_VARIABLES)

    def _memory_fraction(self) -> float:
        return SHARED_MEMORY / -(-self.jobs // len(self.gpus))


def mesh_size(config: ResolvedConfig) -> int:
    """Returns the devices that a run needs at least: -1 counts as 1."""
    mesh = config.mesh
    return max(mesh.data, 1) * max(mesh.fsdp, 1) * mesh.expert * mesh.tensor


def _named(gpus: tuple[str, ...]) -> str:
    return f"GPU{'' if len(gpus) == 1 else 's'} {', '.join(gpus)}"
