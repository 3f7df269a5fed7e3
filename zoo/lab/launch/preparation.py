"""Prepares a sweep: loads its data, finds its queued jobs, and archives an earlier sweep."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.errors import ConfigError, DataError, listed
from zoo.files import write_json
from zoo.lab.declarations import TUNING_FOLDER, arm_text
from zoo.lab.floors.record import FLOORS_FILE, RunFloors, floors_record
from zoo.lab.launch.slurm_queue import SubmittedJob, queued_jobs, read_jobs
from zoo.lab.launch.sweep_folder import archive_folder, read_folder
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.planning.plan import Plan
from zoo.lab.planning.prerequisites import references, resolve_references
from zoo.lab.results.schema import as_dict
from zoo.nested import flatten
from zoo.training.records.run_folder import RunFolder
from zoo.training.runtime.folder_lock import is_held

_TEACHER = "objective.distillation.teacher"


def load_data(
    plan: Plan, folder: Path | None, read_only: bool = False, taken: Mapping[str, Path] | None = None
) -> dict[str, Any]:
    """Reads and tokenises each text of a plan once.

    Bad data is found before any run starts, and runs share the result. A text whose tokenizer is
    that of an untrained prerequisite is read but not tokenised.

    Args:
        plan: whose data are loaded.
        folder: of the sweep that the plan continues, if any.
        read_only: read the texts and store nothing.
        taken: runs that are taken from other sweeps (`zoo.lab.launch.equal_runs`).

    Returns:
        The data set of each run that has been loaded, by its folder; runs of equal data have one.

    Raises:
        ConfigError, DataError: with the problems of all texts, as `zoo.data.load`; a text or a
            tokenizer has changed since a run in `folder`, or one that is taken, was trained on it.
    """
    # Imported here because most mistakes in a plan are found without it.
    from zoo import data

    loaded: dict[tuple, tuple[str, str | None]] = {}
    datasets: dict[tuple, Any] = {}
    by_run: dict[str, Any] = {}
    changed: dict[tuple[Path, str, str], list[str]] = {}
    errors: dict[tuple, ConfigError | DataError] = {}
    for run in plan.in_order:
        key = _data_key(run.config)
        if key not in loaded and key not in errors:
            try:
                if _is_read_only(run.config, read_only):
                    loaded[key] = data.source_fingerprint(run.config), None
                else:
                    datasets[key] = data.load(run.config)
                    summary = datasets[key].summary()
                    loaded[key] = summary["fingerprint"], summary["tokenizer"]["fingerprint"]
            except (ConfigError, DataError) as error:
                errors[key] = error
        if key in errors:
            continue
        if key in datasets:
            by_run[run.folder] = datasets[key]
        if (trained := (taken or {}).get(run.folder)) is not None:
            way_out = "leave out --runs-from"
        else:
            trained, way_out = folder and folder / run.folder, "use another --output or --fresh"
        for line in _data_changes(read_folder(trained), *loaded[key]) if trained else ():
            changed.setdefault((trained.parent, line, way_out), []).append(trained.name)
    if errors:
        raise _together(errors.values())
    if changed:
        raise ConfigError(
            [
                f"{listed(names, 6)} in {sweep}: {line}; restore it, or {way_out}"
                for (sweep, line, way_out), names in changed.items()
            ]
        )
    return by_run


def data_problems(configs: Iterable[ResolvedConfig], known: Sequence[str]) -> list[str]:
    """Returns what is wrong with the data of configs, which may have other problems; without lines
    that are part of those known.
    """
    from zoo import data

    lines, seen = [], set()
    for each in configs:
        if (key := _data_key(each)) in seen:
            continue
        seen.add(key)
        try:
            (data.source_fingerprint if _is_read_only(each, True) else data.load)(each)
        except (ConfigError, DataError) as error:
            lines += error.problems
        except Exception:  # A reader relies on what the other problems deny.
            continue
    return [line for line in dict.fromkeys(lines) if not any(line in other for other in known)]


def _data_key(config: ResolvedConfig) -> tuple:
    """Returns what decides which data are loaded."""
    untrained = "data.tokenizer.path" in references(config)
    # Without its tokenizer, a text is the same for all arms. The kind names the task.
    return tuple(
        (path, value)
        for path, value in flatten(config).items()
        if path == "objective.kind" or (path.startswith("data.") and not (untrained and path == "data.tokenizer.path"))
    )


def _is_read_only(config: ResolvedConfig, read_only: bool) -> bool:
    """Returns whether a text is read and not tokenised."""
    return "data.tokenizer.path" in references(config) or (read_only and config.objective.kind not in TASKS)


def _together(errors: Iterable[ConfigError | DataError]) -> ConfigError | DataError:
    """Returns errors as one; it is of bad data if all are."""
    found = list(errors)
    kind = DataError if all(isinstance(error, DataError) for error in found) else ConfigError
    return kind(list(dict.fromkeys(line for error in found for line in error.problems)))


def write_floors(plan: Plan, folder: Path, datasets: Mapping[str, Any], say: Callable[[str], None]) -> bool:
    """Writes the floors of each arm, those of its first run, into the sweep's folder.

    Args:
        plan, folder: of the sweep.
        datasets: as `load_data` returns them. A run whose tokenizer is that of a prerequisite run has
            none; its data are loaded if that run is trained.
        say: is called with a line if the count takes long.

    Returns:
        Whether an arm waits for a tokenizer, so that floors are to be written again later.
    """
    # Imported here because most mistakes in a plan are found without it.
    from zoo import data
    from zoo.lab.floors.run_floors import run_floors

    found = {}
    for run in plan.runs:
        if run.arm.name in found:
            continue
        config, dataset = run.config, datasets.get(run.folder)
        if dataset is None and all(read_folder(folder / needed.folder).state.name == "done" for needed in run.needs):
            config = resolve_references(config, lambda name: str(folder / name))
            try:
                dataset = None if config.objective.kind in TASKS else data.load(config)
            except (ConfigError, DataError) as error:
                # The runs of this arm fail with the same line.
                found[run.arm.name] = RunFloors(note=error.problems[0])
                continue
        found[run.arm.name] = run_floors(config, dataset, say)
    write_json(folder / FLOORS_FILE, {"arms": {arm: floors_record(floors) for arm, floors in found.items()}})
    return any(floors.waits for floors in found.values())


def _data_changes(folder: RunFolder, text: str, tokenizer: str | None) -> Iterator[str]:
    """Yields a line for the text and for the tokenizer of a run if they are no longer those that it
    was trained on, by the fingerprints in its meta.json.
    """
    if not folder.state.finished and not any((folder.path / "checkpoints").glob("*")):
        return  # It begins anew.
    before = as_dict(folder.meta.get("data"))
    pairs = (
        (f"the text of data.source{' or data.held_out' * ('held_out' in before)}", before.get("fingerprint"), text),
        ("the tokenizer", as_dict(before.get("tokenizer")).get("fingerprint"), tokenizer),
    )
    for what, old, new in pairs:
        if isinstance(old, str) and new is not None and old != new:
            yield f"{what} has changed since the run was trained (fingerprint {old[:12]}, now {new[:12]})"


def related_run_problems(runs: Iterable[tuple[str, ResolvedConfig]]) -> list[str]:
    """Returns a line for every run that others start from, or learn from, and that is missing, with
    the arms that need it.

    Prerequisite runs are trained before they are needed, and are not looked for.

    Args:
        runs: the arm and the config of each.
    """
    problems: dict[str, list[str]] = {}
    for arm, config in runs:
        reference = references(config)
        checked = [
            ("training.start_from", config.training.start_from),
            (_TEACHER, config.objective.distillation.teacher),
        ]
        if not any(folder for path, folder in checked if path not in reference):
            continue
        # Imported here because it needs JAX, and few plans name other runs.
        from zoo.training.checkpoints.warm_start import check_start_from, check_teacher

        for (path, _), check in zip(checked, (check_start_from, check_teacher), strict=True):
            try:
                if path not in reference:
                    check(config)
            except ConfigError as error:
                for line in error.problems:
                    problems.setdefault(line, []).append(arm)
    return [f"arm {' and arm '.join(dict.fromkeys(map(arm_text, names)))}: {line}" for line, names in problems.items()]


def submitted_jobs(folder: Path) -> dict[str, SubmittedJob]:
    """Returns the jobs of a sweep in SLURM's queue, by the run's folder; empty without SLURM.

    Raises:
        ConfigError: SLURM does not answer.
    """
    jobs = read_jobs(folder)
    return {run: jobs[run] for run in queued_jobs(folder, jobs) or {}}


def archive_sweep(folder: Path) -> Path | None:
    """Archives an earlier sweep in `folder`; returns its new path, or None if the folder is empty.

    Raises:
        ConfigError: another process holds the folder or a run in it.
    """
    with contextlib.ExitStack() as locks:
        locks.enter_context(contextlib.closing(SweepLock(folder)))
        # Tuning runs that outlive a killed `zoo run` hold only the lock of their own folder.
        tunings = sorted(
            each
            for each in folder.glob(f"{TUNING_FOLDER}*")
            if each.is_dir() and (each.name == TUNING_FOLDER or (each / "experiment.json").is_file())
        )
        for each in tunings:
            locks.enter_context(contextlib.closing(SweepLock(each)))
        # Attempts that another scheduler started hold only the locks of their runs.
        parts = [folder, *tunings]
        runs = [run for part in parts for run in sorted(part.iterdir()) if run.is_dir() and run not in parts]
        if held := [run.name for run in runs if is_held(run)]:
            raise ConfigError(f"{folder}: {listed(held, 3)} still trains; stop it before --fresh")
        has_content = any(entry.name != ".lock" for entry in folder.iterdir())
        return archive_folder(folder) if has_content else None
