"""Runs of a sweep that differ only in numbers and seeds train as one program, in one process: a
population (`zoo.training.executor`).
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo import config
from zoo.files import read_json
from zoo.lab.launch.sweep_folder import read_state
from zoo.lab.planning.arm import PlannedRun
from zoo.lab.results.schema import numerics
from zoo.nested import flatten

AUTO = "auto"


@dataclass(frozen=True)
class Together:
    """How runs are put together.

    Attributes:
        executor: "map", "vmap", or "auto": map on a CPU, vmap elsewhere.
        most: members of one population at most; 0 for no limit.
    """

    executor: str = AUTO
    most: int = 0

    def key(self, run: PlannedRun) -> Any:
        """Equal for runs that can be one population."""
        return config.program_key(flatten(run.config))

    def companions(self, run: PlannedRun, others: Iterable[PlannedRun]) -> list[PlannedRun]:
        """The run, and those of the others that can train with it, in their order."""
        key = self.key(run)
        found = [run, *(other for other in others if other is not run and self.key(other) == key)]
        return found[: self.most] if self.most else found

    def command(self, folders: Sequence[Path]) -> list[str]:
        """The command that trains, or continues, the runs in these folders."""
        return [sys.executable, "-m", "zoo.cli.sweeps.population", f"--executor={self.executor}", *map(str, folders)]


def populations(runs: Iterable[PlannedRun], together: Together) -> Iterator[list[PlannedRun]]:
    """How runs that are all ready would be put together."""
    left = list(runs)
    while left:
        members = together.companions(left[0], left[1:])
        yield members
        left = [run for run in left if not any(run is member for member in members)]


def mixed_executors(folder: Path, runs: Iterable[PlannedRun], together: Together | None) -> list[str]:
    """A line where runs of a sweep were computed in another way than the ones to come would be."""
    found: dict[str, list[str]] = {}
    for run in runs:
        try:
            meta = read_json(folder / run.folder / "meta.json")
        except (OSError, ValueError):
            continue
        if not read_state(folder / run.folder).finished and not any(
            (folder / run.folder / "checkpoints").glob("[0-9]*")
        ):
            continue  # It begins anew.
        found.setdefault(numerics(meta), []).append(run.folder)
        platform = (meta.get("device") or {}).get("platform")
    if not found:
        return []
    if together is None:
        wanted = "exact"
    elif together.executor == AUTO:
        wanted = "exact" if platform == "cpu" else "vmap"
    else:
        wanted = numerics({"executor": together.executor, "device": {"platform": platform}})
    return [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''} in {folder} trained {_how(kind)}, and the others would "
        f"train {_how(wanted)}: they round differently, and are not compared"
        for kind, names in found.items()
        if kind != wanted
    ]


def _how(kind: str) -> str:
    return "without --population" if kind == "exact" else f"with --population by {kind}"
