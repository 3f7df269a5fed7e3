"""Finished runs of other sweeps, which a sweep takes instead of training equal ones."""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from zoo import config
from zoo.errors import ConfigError, ZooError, is_disk_full, not_writable
from zoo.files import read_object_or_empty, write_json
from zoo.lab.declarations import TAKEN_FROM, TUNING_FOLDER
from zoo.lab.launch.populations import PopulationPolicy, mixed_numerics
from zoo.lab.launch.sweep_folder import read_folder, recorded_config, run_difference
from zoo.lab.planning.arm import PlannedRun
from zoo.lab.results.schema import as_dict, as_list
from zoo.training.records.record_faults import ignores_length_of_rows
from zoo.training.records.run_folder import RunFolder
from zoo.training.runtime.folder_lock import is_held

FLAG = "--runs-from"
CHECKPOINTS = "checkpoints"
# Parts of a run's folder that say nothing about the run.
LEFT_OUT = (".lock", "quarantine")
# Fields that change no parameters, but what a run has recorded or was allowed to.
RECORDING = ("dynamics_every", "translate_every", "allow_seen_text")


class EqualRuns:
    """The finished runs of other sweeps, by the identity of their configs (`zoo.config.identity`).

    A run of tuning counts as any other. Runs that start from another run, or learn from one, are never
    found: their configs name a folder, whose content may be another now. Nor are those without the
    records that tell what they were trained on.

    Args:
        sweeps: folders of sweeps; of equal runs in several, the first counts.
        own: the folder of the sweep that takes them.

    Raises:
        ConfigError: a folder is none of a sweep, or it is in `own`.
    """

    def __init__(self, sweeps: Sequence[Path], own: Path):
        problems = []
        self._found: dict[str, Path] = {}
        self._sweeps: dict[Path, Path] = {}
        for sweep in sweeps:
            if "arms" not in read_object_or_empty(sweep / "experiment.json"):
                problems.append(f"{FLAG} {sweep}: there is no sweep; name a folder that zoo run has written")
            elif sweep.resolve().is_relative_to(own.resolve()):
                problems.append(f"{FLAG} {sweep} is in the folder of this sweep, which keeps its runs; leave it out")
        if problems:
            raise ConfigError(problems)
        for sweep in sweeps:
            for record in (sweep / "experiment.json", *sorted(sweep.glob(f"{TUNING_FOLDER}*/experiment.json"))):
                self._add_runs(sweep, record)

    def _add_runs(self, sweep: Path, record: Path) -> None:
        for entry in as_list(read_object_or_empty(record).get("runs")):
            path = record.parent / str(as_dict(entry).get("folder"))
            run = read_folder(path)
            if _is_complete(run) and (found := recorded_config(run)) is not None:
                self._found.setdefault(config.identity(found), path)
                self._sweeps[path] = sweep

    def find(self, runs: Iterable[PlannedRun], folder: Path) -> dict[str, Path]:
        """Returns, for each planned run that has no folder yet and has an equal run, {folder of the
        planned run: path of the equal one}.

        Args:
            runs: the planned runs.
            folder: of their sweep.
        """
        return {
            run.folder: source
            for run in runs
            if (source := self._found.get(run.identity)) is not None
            and not (folder / run.folder).exists()
            and not _depends_on_another(run)
            and _is_equal(source, run)
        }

    def origin(self, path: Path) -> str:
        """Returns the name of the sweep of a run and its folder there."""
        sweep = self._sweeps[path]
        return f"{sweep.resolve().name}/{path.relative_to(sweep).as_posix()}"

    def take(self, runs: Iterable[PlannedRun], folder: Path) -> dict[str, Path]:
        """Copies equal runs into the folder of a sweep, each whole or not at all, and returns them as
        `find` does. Checkpoints become hard links where the file system has them: no program changes
        their files.

        Args:
            runs: the planned runs.
            folder: of the sweep, which the caller has locked.

        Raises:
            ConfigError: a run cannot be read, or its copy written.
            ZooError: the disk is full.
        """
        taken = {}
        for run in runs:
            source = self.find([run], folder).get(run.folder)
            if source is None:
                continue
            target, part = folder / run.folder, folder / f".{run.folder}.tmp"
            try:
                shutil.rmtree(part, ignore_errors=True)
                _copy(source, part, shutil.copy2)
                # Another process may have gone on with it meanwhile.
                if not _is_equal(source, run) or not _is_equal(part, run):
                    shutil.rmtree(part)
                    continue
                write_json(part / "meta.json", {TAKEN_FROM: self.origin(source)} | read_folder(part).meta)
                part.rename(target)
            except OSError as error:
                raise _failure(error, source, target) from error
            taken[run.folder] = source
        return taken


def unlike_runs(taken: Mapping[str, Path], runs: Iterable[PlannedRun], policy: PopulationPolicy | None) -> list[str]:
    """Returns a line for each group of runs to be taken that another executor trained than would train
    the others (`zoo.lab.launch.populations.mixed_numerics`); none if there are no others.
    """
    runs = list(runs)
    parts: dict[Path, list[PlannedRun]] = {}
    for run in runs:
        if (source := taken.get(run.folder)) is not None:
            parts.setdefault(source.parent, []).append(replace(run, folder=source.name))
    if len(taken) == len(runs) and len(parts) == 1:
        return []
    return [
        f"{FLAG}: {line}; leave it out, or train the others alike"
        for part, its_runs in parts.items()
        for line in mixed_numerics(part, its_runs, policy)
    ]


def _is_complete(run: RunFolder) -> bool:
    """Returns whether a run has ended, and has records of its config and its data.

    A version of zoo that chose other kernels of attention has other floating-point results.
    """
    data = as_dict(run.meta.get("data"))
    recorded = "identity" in run.meta and "fingerprint" in data
    return run.state.finished and recorded and not is_held(run.path) and not ignores_length_of_rows(run.meta)


def _is_equal(path: Path, run: PlannedRun) -> bool:
    """Returns whether a folder holds what a planned run would be, and has recorded as much."""
    there = read_folder(path)
    if not _is_complete(there) or run_difference(path, run):
        return False
    found, planned = there.resolved_config.training, run.config.training
    as_often = planned.eval_every in (0, found.eval_every)
    return as_often and all(found[name] == planned[name] for name in RECORDING)


def _depends_on_another(run: PlannedRun) -> bool:
    """Returns whether a run begins with the parameters of another, or learns from another."""
    return bool(run.needs or run.config.training.start_from or run.config.objective.distillation.teacher)


def _copy(source: Path, target: Path, transfer: Callable[[Path, Path], object]) -> None:
    """Copies a folder, with links in place of the files of checkpoints."""
    target.mkdir()
    for entry in sorted(source.iterdir()):
        if entry.name in LEFT_OUT:
            continue
        if entry.is_dir():
            _copy(entry, target / entry.name, _link if entry.name == CHECKPOINTS else transfer)
        else:
            transfer(entry, target / entry.name)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # Another file system, or one without links.
        shutil.copy2(source, target)


def _failure(error: OSError, source: Path, target: Path) -> ZooError:
    """Returns the error of one line for a copy that failed."""
    if is_disk_full(error) or not str(error.filename).startswith(str(source)):
        return not_writable(target, error, FLAG)
    return ConfigError(f"{FLAG} {source} cannot be read: {error.strerror}")
