"""The folder of a sweep: the states of its runs, and whether they are the planned ones."""

import datetime
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from zoo import config
from zoo.config import plugins
from zoo.errors import ConfigError, listed, shown
from zoo.files import file_above, foreign_entries, read_json, read_object_or_empty, write_json
from zoo.lab.declarations import POST_HOC, TUNING_FOLDER
from zoo.lab.launch.slurm_queue import SLURM_FOLDER
from zoo.lab.planning.arm import PlannedRun
from zoo.lab.planning.prerequisites import references
from zoo.lab.results.schema import as_dict, as_list, is_named, parse_looks, restore_prerequisite_names, source_of
from zoo.nested import flatten
from zoo.training.records.extension import extension_obstacle, find_extension
from zoo.training.records.record_faults import config_edit
from zoo.training.records.run_folder import FolderState, RunFolder
from zoo.training.runtime.folder_lock import is_held

# The entries of a plan's record that say how its runs are analysed, and the entry of the record of
# tuning that keeps them.
ANALYSIS = ("metric", "claim", "contrasts", "noise")
STATED = "stated"


def read_folder(folder: Path) -> RunFolder:
    """Returns the content of a run's folder; a damaged record reads as if it were missing."""
    return RunFolder(folder, strict=False)


def read_planned_state(sweep: Path, run: PlannedRun) -> FolderState:
    """Returns the state of a run's folder; "unfinished" if the run is done, but of fewer steps than
    are planned now.
    """
    folder = read_folder(sweep / run.folder)
    state = folder.state
    if state.name == "done" and (found := recorded_config(folder)) is not None:
        longer = find_extension(folder, found, run.config)
        return FolderState("unfinished", state.step, str(longer)) if longer else state
    return state


def is_starting(sweep: Path, run: RunFolder) -> bool:
    """Whether a process has taken a run and has written no status yet: it loads and compiles.

    A run that waits for a scheduler has its config.json, and no log.
    """
    begun = (run.path / "config.json").exists() and (run.path / "log.txt").exists()
    return not run.status and (is_held(run.path) or (begun and is_held(sweep)))


def started_at(run: RunFolder) -> float | None:
    """Returns when a run was first started, in seconds since the epoch; None if it was not.

    Runs of earlier versions have no date: that of their config.json stands for it.
    """
    with suppress(ValueError):
        return datetime.datetime.fromisoformat(str(run.meta.get("started"))).timestamp()
    with suppress(OSError):
        return (run.path / "config.json").stat().st_mtime
    return None


def write_status(folder: Path, state: str, steps: int, reason: str) -> bool:
    """Writes the status.json of a run that could not do so itself, with the last known step.

    Returns:
        Whether it was written: the status of a run that another process trains is that process's.
    """
    if is_held(folder):
        return False
    content = {"state": state, "step": read_folder(folder).state.step, "steps": steps, "reason": reason}
    write_json(folder / "status.json", content)
    return True


def check_sweep_folder(folder: Path, runs: Iterable[PlannedRun]) -> None:
    """Refuses a path at which something else than a sweep is stored; changes nothing.

    Args:
        folder: the sweep's, which need not exist.
        runs: the planned runs, which may have been trained one by one before.

    Raises:
        ConfigError: naming what is in the folder.
    """
    if folder.name in ("", ".."):
        raise ConfigError(f'--output needs a folder of its own, not "{folder}"')
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--output {folder} is a file; name a folder")
    if (file := file_above(folder)) is not None:
        raise ConfigError(f"--output {folder} cannot be a folder: {file} is a file")
    if (folder / "status.json").exists():
        raise ConfigError(f"{folder} is the folder of a single run; use another --output")
    try:
        record = read_json(folder / "experiment.json")
    except OSError:
        known = {".lock", plugins.FOLDER, SLURM_FOLDER, *(Path(run.folder).parts[0] for run in runs)}
        known |= {path.name for path in folder.glob(f"{TUNING_FOLDER}*")}
        foreign = foreign_entries(folder, known)
    except ValueError:
        return  # A sweep's record that was damaged is written anew.
    else:
        foreign = [] if isinstance(record, dict) and "arms" in record else ["experiment.json"]
    if foreign:
        raise ConfigError(
            f"--output {folder} holds files that are not of a sweep ({listed(foreign, 3)}); name a new or an empty "
            "folder"
        )


def find_conflicts(folder: Path, runs: Iterable[PlannedRun]) -> list[str]:
    """Returns a line for each difference between planned runs and those that their folders hold."""
    folders_with: dict[str, list[str]] = {}
    for run in runs:
        if difference := run_difference(folder / run.folder, run):
            folders_with.setdefault(difference, []).append(run.folder)
    return [f"{listed(names, 1)} in {folder}: {difference}" for difference, names in folders_with.items()]


def untuned_runs(folder: Path, runs: Iterable[PlannedRun]) -> str:
    """Returns which of the planned runs a sweep without tuning has started; empty if none."""
    record = read_object_or_empty(folder / "experiment.json")
    if not record or record.get("tuning"):
        return ""
    started = [run.folder for run in runs if read_folder(folder / run.folder).state.name != "new"]
    return f"{listed(started, 1)} in {folder} were trained without tuning" if started else ""


def run_difference(folder: Path, run: PlannedRun) -> str:
    """Returns how the run in `folder` differs from `run`; empty without a difference or a run."""
    there = RunFolder(folder)
    try:
        if edited := config_edit(read_folder(folder)):
            return f"holds a run whose config.json is not that of its start: {edited}"
        found = there.resolved_config
        if found is None:
            return "holds a run without its config.json" if (folder / "status.json").exists() else ""
        if run.needs:
            # References are restored from the file as written: loading looks for a tokenizer that
            # has moved in other places.
            written = flatten(there.config)
            restored = restore_prerequisite_names(written, {needed.folder: needed.folder for needed in run.needs})
            changes = {path: restored[path] for path in references(config.from_flat(restored))}
            found = config.resolve(config.override(found, changes))
    except ConfigError as error:
        return f"holds a run whose config.json cannot be read: {error.problems[0]}"
    if config.identity(found) == run.identity:
        return ""
    planned, present = config.result_relevant(run.config), config.result_relevant(found)
    if longer := find_extension(there, found, run.config):
        obstacle = extension_obstacle(there, found, longer)
        if obstacle or config.identity(_with_steps(found, longer.after)) == run.identity:
            return f"the run cannot be trained longer: {obstacle}" if obstacle else ""
    # Fields that were set come before fields that may follow from others.
    paths = sorted((path for path in planned | present if planned.get(path) != present.get(path)), key=config.derivable)
    shown = ", ".join(
        f"{path}={present.get(path, 'unset')} there and {planned.get(path, 'unset')} here" for path in paths[:4]
    )
    return f"another run: {shown}{f', and {len(paths) - 4} more fields' if len(paths) > 4 else ''}"


def recorded_config(folder: RunFolder) -> config.ResolvedConfig | None:
    """Returns the config of a run; None if it is missing or damaged."""
    try:
        return folder.resolved_config
    except ConfigError:
        return None


def _with_steps(found: config.ResolvedConfig, steps: int) -> config.ResolvedConfig:
    return config.resolve(config.override(found, {"training.steps": steps}))


def stated_analysis(record: Mapping[str, Any], seeds: Sequence[int], looks: Mapping[int, float]) -> dict[str, Any]:
    """Returns how a sweep will be analysed, for the record of its tuning: the runs of tuning compare
    the arms before the sweep has a record.

    Args:
        record: of the sweep's plan.
        seeds: those that the sweep begins with.
        looks: levels of its looks, by their number of seeds.
    """
    return {
        **{name: record[name] for name in ANALYSIS if name in record},
        "seeds": list(seeds),
        **({"looks": {str(number): level for number, level in looks.items()}} if looks else {}),
        "arms": [{"name": arm["name"]} for arm in record["arms"]],
        "warnings": [],
    }


def carry_forward_warnings(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Returns a plan's record with permanent warnings about post-hoc changes of the analysis.

    Metric, contrasts, claim and noise must be stated before the runs, those of tuning too. Seeds that
    are left out, or added after a verdict, are a choice too.

    Args:
        folder: the sweep's folder, with the record of the previous plan.
        record: record of the new plan (`Plan.record`).
    """
    before = read_object_or_empty(folder / "experiment.json")
    if STATED in record and (stated := as_dict(before.get(STATED))):
        record = record | {STATED: _with_warnings(folder, stated | {"runs": before.get("runs")}, record[STATED])}
    if not before:
        tuning = read_object_or_empty(folder / TUNING_FOLDER / "experiment.json")
        before = as_dict(tuning.get(STATED))
        runs = [run for run in as_list(tuning.get("runs")) if isinstance(run, dict)]
        before |= {"runs": [run | {"folder": f"{TUNING_FOLDER}/{run.get('folder')}"} for run in runs]} if before else {}
    return _with_warnings(folder, before, record) if before else record


def _with_warnings(folder: Path, before: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Returns a record with the warnings of the one before it, and with those about their differences
    if runs of that one have finished.
    """
    if before.get("looks") and not record.get("looks"):
        # Intervals that were widened for several looks stay so. The record names no command, as no
        # single one produces this sweep.
        record = record | {"looks": before["looks"], "command": []}
    warnings = [line for line in as_list(before.get("warnings")) if isinstance(line, str) and POST_HOC in line]
    folders = [run.get("folder") for run in as_list(before.get("runs")) if isinstance(run, dict)]
    if any(isinstance(name, str) and read_folder(folder / name).state.finished for name in folders):
        warnings += _post_hoc_changes(before, record)
    return record | {"warnings": [*record["warnings"], *dict.fromkeys(warnings)]}


def _post_hoc_changes(before: dict[str, Any], record: dict[str, Any]) -> list[str]:
    warnings = [
        f"{key} {POST_HOC}; before: {json.dumps(before.get(key))}"
        for key in ("metric", "claim")
        if before.get(key) != record[key]
    ]
    noise = [as_dict(plan.get("noise")) for plan in (before, record)]
    if noise[0] != noise[1] and any(map(is_named, noise)):
        was, now = (
            listed(dict.fromkeys(source_of(one) for one in each.values()), 3) or "no earlier sweep" for each in noise
        )
        warnings.append(f"noise {POST_HOC}; before: {was}; now: {now}")
    warnings += _contrast_changes(*(as_list(plan.get("contrasts")) for plan in (before, record)))
    for key, names in (("seeds", record["seeds"]), ("arms", [arm["name"] for arm in record["arms"]])):
        given = [arm.get("name") if isinstance(arm, dict) else arm for arm in as_list(before.get(key))]
        if removed := [name for name in given if name not in names]:
            warnings.append(f"{key} {POST_HOC}; left out now: {', '.join(map(str, removed))}")
    added = [seed for seed in record["seeds"] if seed not in as_list(before.get("seeds"))]
    seeds, looks = ", ".join(map(str, added)), record.get("looks")
    # Runs of tuning are ranked and fitted, and no interval is of their seeds.
    if added and not looks and STATED not in record:
        only = "which only --until-decided allows for" if record["contrasts"] else "for which no interval allows"
        warnings.append(f"seeds {POST_HOC}; added: {seeds}, {only}")
    elif added and before.get("looks") == looks and len(record["seeds"]) > _last_look(looks):
        warnings.append(f"seeds {POST_HOC}; added after the last planned look: {seeds}")
    elif before.get("looks") != looks:
        warnings.append(f"looks {POST_HOC}: they were not planned before the first")
    return warnings


def _contrast_changes(before: list[Any], now: list[Any]) -> Iterator[str]:
    """Yields a line for each contrast that was added, left out or changed."""
    old, new = ({str(one.get("name")): one for one in plan if isinstance(one, dict)} for plan in (before, now))
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            yield f'contrast "{name}" {POST_HOC}; it is left out now'
        elif name not in old:
            yield f'contrast "{name}" {POST_HOC}; it was not stated before'
        else:
            flat = [flatten(one) for one in (old[name], new[name])]
            keys = [key for key in dict.fromkeys([*flat[0], *flat[1]]) if flat[0].get(key) != flat[1].get(key)]
            changes = [f"{key} was {shown(flat[0].get(key))}, is {shown(flat[1].get(key))}" for key in keys]
            if changes:
                yield f'contrast "{name}" {POST_HOC}; {", ".join(changes)}'


def _last_look(looks: Any) -> float:
    """Returns the number of seeds of the last planned look; infinity without looks."""
    return max(parse_looks(looks, "experiment.json", []), default=math.inf)


def archive_folder(folder: Path) -> Path:
    """Renames a sweep's folder to `FOLDER.N` with the first free number; returns the new path.

    A link keeps pointing to where it did: the folder there is renamed, and an empty one is made.
    """
    if folder.is_symlink():
        archived = archive_folder(real := folder.resolve())
        real.mkdir()
        return archived
    number = 1
    while (archived := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(archived)
    return archived
