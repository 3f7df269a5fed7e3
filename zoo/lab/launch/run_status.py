"""Where every run of a sweep stands, wherever it runs: from the files in the runs' folders, and
from SLURM's queue where there is one.
"""

import os
import platform
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.launch.slurm_queue import FOLDER, Queued, Submitted, in_queue, read_jobs
from zoo.lab.launch.sweep_folder import read_state, read_status
from zoo.lab.results.schema import is_inside

STATES = ("running", "waiting", "preempted", "failed", "diverged", "done")
# What a run writes while it lives.
SIGNS = ("metrics.jsonl", "status.json", "log.txt")


@dataclass(frozen=True)
class Standing:
    """One run.

    Attributes:
        folder: in the sweep's.
        state: one of `STATES`. A preempted run was stopped before its end, or its process is gone,
            and can be continued.
        step, steps: updates done, and all of them (0: not known yet).
        silent: seconds since the last sign of life; None if there was none.
        reason: of what is not running and not done.
        job: that of SLURM, "ID_INDEX"; empty without one.
    """

    folder: str
    state: str
    step: int = 0
    steps: int = 0
    silent: float | None = None
    reason: str = ""
    job: str = ""


@dataclass(frozen=True)
class Standings:
    """All runs of a sweep: those that are prepared for others first."""

    name: str
    runs: list[Standing]

    @property
    def counts(self) -> dict[str, int]:
        """Runs in each state that there is."""
        found = Counter(run.state for run in self.runs)
        return {state: found[state] for state in STATES if found[state]}

    def record(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"name": self.name, "counts": self.counts, "runs": [asdict(run) for run in self.runs]}


def read_standings(sweep: Path) -> Standings:
    """Reads where all runs of a sweep stand.

    Raises:
        ConfigError: no sweep, or one whose records cannot be read; SLURM does not answer.
    """
    if not sweep.is_dir():
        raise ConfigError(f"{sweep} is not a folder")
    try:
        experiment = read_json(sweep / "experiment.json")
        folders = [run["folder"] for kind in ("prepared", "runs") for run in experiment.get(kind, [])]
        name = str(experiment["name"])
        if not all(map(is_inside, folders)):
            raise ValueError("a run's folder is none in the sweep's")
    except FileNotFoundError:
        a_run = (sweep / "status.json").exists() or (sweep / "config.json").exists()
        raise ConfigError(f"{sweep} is {'a single run' if a_run else 'no sweep'}: it has no experiment.json") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{sweep / 'experiment.json'} is not the record of a sweep") from error
    jobs = read_jobs(sweep)
    queue = in_queue(sweep, jobs)
    return Standings(name, list(_all(sweep, folders, jobs, queue)))


def _all(
    sweep: Path, folders: list[str], jobs: Mapping[str, Submitted], queue: Mapping[str, Queued] | None
) -> Iterator[Standing]:
    states: dict[str, str] = {}
    for name in folders:
        standing = _standing(sweep, name, jobs.get(name), queue, states)
        states[name] = standing.state
        yield standing


def _standing(
    sweep: Path, name: str, job: Submitted | None, queue: Mapping[str, Queued] | None, before: Mapping[str, str]
) -> Standing:
    """One run; `before` has the states of those that it may need."""
    folder = sweep / name
    status, state, silent = read_status(folder), read_state(folder), _silent(folder)
    steps = status.get("steps") if isinstance(status.get("steps"), int) else 0
    queued = (queue or {}).get(name)

    def found(what: str, reason: str = "") -> Standing:
        return Standing(name, what, state.step, steps, silent, reason, job.task if job else "")

    if state.finished:
        return found(state.name, state.reason)
    if queued is not None and queued.state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"):
        return found(
            "preempted" if state.step else "waiting", f"in SLURM's queue{f': {queued.reason}' if queued.reason else ''}"
        )
    if queued is not None and queued.state != "COMPLETING":
        return found("running")
    if state.name == "new" and job is not None and queue is not None and queued is None:
        if bad := [
            needed for needed in job.needs if before.get(needed) not in ("done", "running", "waiting", "preempted")
        ]:
            return found("failed", f"it starts from {bad[0]}, which is {before.get(bad[0], 'not there')}")
        return found("failed", f"its job left the queue before it started; see {sweep / FOLDER / job.task}.txt")
    if state.name == "new":
        return found("waiting")
    if state.name == "failed":
        return found("failed", state.reason)
    if status.get("state") == "preempted":
        return found("preempted", state.reason)
    gone = _gone(folder)
    if gone or (gone is None and job is not None and queue is not None and queued is None):
        return found("preempted", f"its {'process' if gone else 'job'} is gone without a word; zoo run continues it")
    return found("running")


def _silent(folder: Path) -> float | None:
    times = []
    for name in SIGNS:
        try:
            times.append(os.stat(folder / name).st_mtime)
        except OSError:
            continue
    # Clocks of other machines may be ahead.
    return max(0.0, time.time() - max(times)) if times else None


def _gone(folder: Path) -> bool | None:
    """Whether the process that had the run's lock has ended; None if that cannot be told from this
    machine.
    """
    try:
        found = re.fullmatch(r"process (\d+) on (.*)", (folder / ".lock").read_text().strip())
    except (OSError, ValueError):
        return None
    if found is None or found[2] != platform.node():
        return None
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False
