"""The folder of a sweep: who holds it, what its runs have come to, and whether they are the planned
ones.
"""

import fcntl
import json
import math
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo import config
from zoo.errors import ConfigError
from zoo.files import read_json, write_json
from zoo.lab.launch.progress import read_tail
from zoo.lab.planning.arm import PlannedRun
from zoo.lab.planning.prerequisites import references
from zoo.lab.results.schema import parse_looks, restore_prepared_names
from zoo.nested import flatten

FINISHED = ("done", "diverged")


@dataclass(frozen=True)
class State:
    """What a run folder says: "new", "done", "diverged", "failed" or "half-done", and the updates
    applied.
    """

    name: str
    step: int = 0
    reason: str = ""

    @property
    def finished(self) -> bool:
        """True if there is nothing left to run: a diverged run is a result, and would diverge
        again.
        """
        return self.name in FINISHED


def read_status(folder: Path) -> dict[str, Any]:
    """Reads status.json of a run folder; empty if there is none, or none that can be read."""
    try:
        status = read_json(folder / "status.json")
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


def read_state(folder: Path) -> State:
    """Reads the state of a run folder. One without a status.json holds a new run."""
    status = read_status(folder)
    name, step, reason = status.get("state"), status.get("step"), status.get("reason")
    if not isinstance(name, str):
        return State("new")
    step = step if isinstance(step, int) else 0
    if name not in FINISHED:
        # A run that was killed could not say how far it had come, but its metrics do.
        step = max(step, read_tail(folder).step)
    return State(
        name if name in (*FINISHED, "failed") else "half-done", step, reason if isinstance(reason, str) else ""
    )


def write_status(folder: Path, state: str, steps: int, reason: str) -> None:
    """Writes the status.json of a run that could not do so itself, with the step that it had come
    to.
    """
    write_json(
        folder / "status.json", {"state": state, "step": read_state(folder).step, "steps": steps, "reason": reason}
    )


def conflicts(folder: Path, runs: Iterable[PlannedRun]) -> list[str]:
    """One line for every way in which run folders hold other runs than the planned ones."""
    having: dict[str, list[str]] = {}
    for run in runs:
        if difference := _difference(folder / run.folder, run):
            having.setdefault(difference, []).append(run.folder)
    return [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''} in {folder}: {difference}"
        for difference, names in having.items()
    ]


def _difference(folder: Path, run: PlannedRun) -> str:
    """What the run in `folder` has that `run` has not; empty if it is the same run or there is
    none.
    """
    if not (folder / "config.json").exists():
        return "holds a run without its config.json" if (folder / "status.json").exists() else ""
    try:
        found = config.resolve(config.load(str(folder / "config.json")))
        if run.needs:
            # As written: a tokenizer that is no longer where it was is found elsewhere.
            written = flatten(read_json(folder / "config.json"))
            started = restore_prepared_names(written, {needed.folder: needed.folder for needed in run.needs})
            found = config.resolve(
                config.override(found, {path: started[path] for path in references(config.from_flat(started))})
            )
    except ConfigError as error:
        return f"holds a run that cannot be told from its config.json: {error.problems[0]}"
    if config.identity(found) == run.identity:
        return ""
    here, there = config.result_relevant(run.config), config.result_relevant(found)
    # Fields that someone set come before those that may only follow from them.
    paths = sorted((path for path in here | there if here.get(path) != there.get(path)), key=config.derivable)
    shown = ", ".join(
        f"{path}={there.get(path, 'unset')} there and {here.get(path, 'unset')} here" for path in paths[:4]
    )
    return f"another run: {shown}{f', and {len(paths) - 4} more fields' if len(paths) > 4 else ''}"


AFTERWARDS = "changed after runs had finished"


def carried_over(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Returns the record of a plan with a lasting warning for everything that decides and was
    changed when results were there.

    What is expected and by which rule it is judged has to stand before the runs; seeds that are
    left out, or added to those that were judged, are a choice too.
    """
    try:
        before = read_json(folder / "experiment.json")
    except (OSError, ValueError):
        return record
    if not isinstance(before, dict):
        return record
    if before.get("looks") and not record.get("looks"):
        # Once seeds are added until it is decided, no later command makes the intervals narrower.
        # No single command asks for that.
        record = record | {"looks": before["looks"], "command": []}
    warnings = [line for line in before.get("warnings", []) if isinstance(line, str) and AFTERWARDS in line]
    earlier = [run.get("folder") for run in before.get("runs", []) if isinstance(run, dict)]
    if any(isinstance(name, str) and read_state(folder / name).finished for name in earlier):
        for what in ("metric", "contrasts", "claim"):
            if before.get(what) != record[what]:
                warnings.append(f"{what} {AFTERWARDS}; before: {json.dumps(before.get(what))}")
        for what, names in (("seeds", record["seeds"]), ("arms", [arm["name"] for arm in record["arms"]])):
            given = [arm.get("name") if isinstance(arm, dict) else arm for arm in before.get(what, [])]
            if left_out := [name for name in given if name not in names]:
                warnings.append(f"{what} {AFTERWARDS}; left out now: {', '.join(map(str, left_out))}")
        more = [seed for seed in record["seeds"] if seed not in before.get("seeds", [])]
        if record["contrasts"] and more and not record.get("looks"):
            warnings.append(
                f"seeds {AFTERWARDS}; added: {', '.join(map(str, more))}, which --until-decided would have allowed for"
            )
        elif (
            more
            and before.get("looks") == record.get("looks")
            and len(record["seeds"]) > _last_look(record.get("looks"))
        ):
            warnings.append(f"seeds {AFTERWARDS}; added after the last planned look: {', '.join(map(str, more))}")
        elif before.get("looks") != record.get("looks"):
            warnings.append(f"looks {AFTERWARDS}: they were not planned before the first")
    return record | {"warnings": [*record["warnings"], *dict.fromkeys(warnings)]}


def _last_look(looks: Any) -> float:
    """The number of seeds of the last planned look; without looks there is no end."""
    return max(parse_looks(looks, "experiment.json", []), default=math.inf)


def move_aside(folder: Path) -> Path:
    """Renames a sweep folder to the first free name with a number behind it, and returns that name."""
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(aside)
    return aside


class SweepLock:
    """Holds a sweep folder against a second `zoo run`, as long as this process or a run that it
    started lives.

    Children inherit the descriptor: the system lets go of the lock only when the last of them has
    ended, so runs that outlive a killed parent are not started a second time.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ConfigError(f"--output {folder} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            held = self._holder()
            os.close(self.descriptor)
            raise ConfigError(held) from error
        self.note([])

    def note(self, children: Iterable[int]) -> None:
        """Writes down who holds the folder, for the message that a second `zoo run` gives."""
        content = {"host": socket.gethostname(), "process": os.getpid(), "runs": sorted(children)}
        # On a full disk the folder is held without a note.
        with suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, json.dumps(content).encode(), 0)

    def close(self) -> None:
        os.close(self.descriptor)

    def _holder(self) -> str:
        try:
            content = json.loads(os.pread(self.descriptor, 10000, 0))
            process, host, runs = content["process"], content["host"], content["runs"]
        except (ValueError, KeyError, TypeError):
            return f"{self.folder} is in use by another process"
        if host == socket.gethostname() and not _alive(process):
            still = " ".join(str(child) for child in runs if _alive(child))
            return (
                f"{self.folder}: runs started by process {process}, which is gone, are still training; "
                f"wait for them or stop them with: kill {still}"
            )
        return f"{self.folder} is in use by process {process} on {host}; wait for it, or give another --output"


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
