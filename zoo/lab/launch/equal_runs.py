"""Finished runs of other sweeps, which a sweep takes instead of training equal ones."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from zoo import config
from zoo.errors import ConfigError, not_writable
from zoo.files import read_object_or_empty, write_json
from zoo.lab.declarations import TAKEN_FROM, TUNING_FOLDER
from zoo.lab.launch.populations import PopulationPolicy, mixed_numerics
from zoo.lab.launch.sweep_folder import read_folder, recorded_config, run_difference
from zoo.lab.planning.arm import PlannedRun
from zoo.training.records.record_faults import ignores_length_of_rows

FLAG = "--runs-from"
CHECKPOINTS = "checkpoints"


class EqualRuns:
    """The finished runs of other sweeps, by the identity of their configs (`zoo.config.identity`).

    A run of tuning counts as any other. Runs that start from a prerequisite run are never found: their
    identity depends on the folder of that run.

    Args:
        sweeps: folders of sweeps; of equal runs in several, the first counts.
        own: the folder of the sweep that takes them.

    Raises:
        ConfigError: a folder is none of a sweep, or it is `own`.
    """

    def __init__(self, sweeps: Sequence[Path], own: Path):
        problems = []
        self._found: dict[str, Path] = {}
        self._sweeps: dict[Path, Path] = {}
        for sweep in sweeps:
            if "arms" not in read_object_or_empty(sweep / "experiment.json"):
                problems.append(f"{FLAG} {sweep}: there is no sweep; name a folder that zoo run has written")
            elif sweep.resolve() == own.resolve():
                problems.append(f"{FLAG} {sweep} is the folder of this sweep, which keeps its runs; leave it out")
        if problems:
            raise ConfigError(problems)
        for sweep in sweeps:
            for record in (sweep / "experiment.json", *sorted(sweep.glob(f"{TUNING_FOLDER}*/experiment.json"))):
                self._add_runs(sweep, record.parent)

    def _add_runs(self, sweep: Path, part: Path) -> None:
        for path in sorted(part.iterdir()):
            run = read_folder(path)
            # A version of zoo that chose other kernels of attention has other floating-point results.
            if not run.state.finished or ignores_length_of_rows(run.meta):
                continue
            if (found := recorded_config(run)) is not None:
                self._found.setdefault(config.identity(found), path)
                self._sweeps[path] = sweep

    def find(self, runs: Iterable[PlannedRun], folder: Path) -> dict[str, Path]:
        """Returns the folders of runs equal to planned ones that have not begun, by the folder of the
        planned run.

        Args:
            runs: the planned runs.
            folder: of their sweep.
        """
        return {
            run.folder: self._found[run.identity]
            for run in runs
            if run.identity in self._found
            and not (folder / run.folder).exists()
            and not run_difference(self._found[run.identity], run)
        }

    def origin(self, path: Path) -> str:
        """Returns the name of the sweep of a run and its folder there."""
        return path.resolve().relative_to(self._sweeps[path].resolve().parent).as_posix()

    def take(self, taken: Mapping[str, Path], folder: Path) -> None:
        """Copies runs into the folder of a sweep, each whole or not at all. Checkpoints become hard
        links where the file system has them: no program changes their files.

        Args:
            taken: as `find` returns them.
            folder: of the sweep.

        Raises:
            ConfigError: a run cannot be copied.
        """
        for name, source in taken.items():
            target, part = folder / name, folder / f".{name}.tmp"
            try:
                shutil.rmtree(part, ignore_errors=True)
                shutil.copytree(source, part, ignore=shutil.ignore_patterns(".lock", "*.tmp", CHECKPOINTS))
                if (source / CHECKPOINTS).is_dir():
                    shutil.copytree(source / CHECKPOINTS, part / CHECKPOINTS, copy_function=_link)
                write_json(part / "meta.json", {TAKEN_FROM: self.origin(source)} | read_folder(source).meta)
                part.rename(target)
            except OSError as error:
                raise not_writable(target, error, FLAG) from error


def unlike_runs(taken: Mapping[str, Path], runs: Iterable[PlannedRun], policy: PopulationPolicy | None) -> list[str]:
    """Returns a line for each group of runs to be taken that another executor trained than would train
    the others (`zoo.lab.launch.populations.mixed_numerics`).
    """
    parts: dict[Path, list[PlannedRun]] = {}
    for run in runs:
        if (source := taken.get(run.folder)) is not None:
            parts.setdefault(source.parent, []).append(replace(run, folder=source.name))
    return [f"{FLAG}: {line}" for part, its_runs in parts.items() for line in mixed_numerics(part, its_runs, policy)]


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # Another file system, or one without links.
        shutil.copy2(source, target)
