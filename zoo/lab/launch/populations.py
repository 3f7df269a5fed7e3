"""Groups runs that differ only in seeds and numeric hyperparameters.

Each group is a population (`zoo.training.executor`): it is trained as one program, in one process.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo import config
from zoo.errors import listed
from zoo.lab.launch.sweep_folder import read_folder
from zoo.lab.planning.arm import PlannedRun
from zoo.lab.results.schema import as_dict, numerics
from zoo.nested import flatten


@dataclass(frozen=True)
class PopulationPolicy:
    """Rules by which runs are grouped into populations.

    Attributes:
        executor: "map", "vmap", or "auto": map on a CPU, vmap elsewhere.
        max_members: largest size of a population; 0 for no limit.
    """

    executor: str = "auto"
    max_members: int = 0

    def program_key(self, run: PlannedRun) -> Any:
        """Returns a value that is equal for runs that can share a program."""
        return config.program_key(flatten(run.config))

    def batch(self, run: PlannedRun, others: Iterable[PlannedRun]) -> list[PlannedRun]:
        """Returns the run and those of the others that can train with it, in their order."""
        key = self.program_key(run)
        members = [run, *(other for other in others if other is not run and self.program_key(other) == key)]
        return members[: self.max_members] if self.max_members else members

    def command(self, folders: Sequence[Path]) -> list[str]:
        """Returns the command that trains, or continues, the runs in these folders."""
        return [sys.executable, "-m", "zoo.cli.sweeps.population", f"--executor={self.executor}", *map(str, folders)]


def group_runs(runs: Iterable[PlannedRun], policy: PopulationPolicy) -> Iterator[list[PlannedRun]]:
    """Yields the populations of runs that are all ready to start."""
    remaining = list(runs)
    while remaining:
        members = policy.batch(remaining[0], remaining[1:])
        yield members
        remaining = [run for run in remaining if not any(run is member for member in members)]


def mixed_numerics(folder: Path, runs: Iterable[PlannedRun], policy: PopulationPolicy | None) -> list[str]:
    """Returns a line for each group of trained runs whose numerics differ from those of the rest.

    Args:
        policy: policy of the rest, the runs still to be trained; None for one process per run.
    """
    trained: dict[str, list[str]] = {}
    platform = None
    for run in runs:
        found = read_folder(folder / run.folder)
        if not found.meta or not (found.steps or found.state.finished):
            continue  # It will start from scratch.
        trained.setdefault(numerics(found.meta), []).append(run.folder)
        platform = as_dict(found.meta.get("device")).get("platform")
    if not trained:
        return []
    if policy is None:
        planned = "exact"
    elif policy.executor == "auto":
        planned = "exact" if platform == "cpu" else "vmap"
    else:
        planned = numerics({"executor": policy.executor, "device": {"platform": platform}})
    return [
        f"{listed(names, 1)} in {folder} trained {_describe(kind)}, "
        f"and the others would train {_describe(planned)}: their floating-point results differ, so they cannot be "
        "compared"
        for kind, names in trained.items()
        if kind != planned
    ]


def _describe(kind: str) -> str:
    return "without --population" if kind == "exact" else f"with --population by {kind}"
