"""The status of every run of a sweep, from the runs' folders and from SLURM's queue."""

import platform
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.files import is_step, open_file, read_json
from zoo.lab.launch.slurm_queue import SLURM_FOLDER, QueuedJob, SubmittedJob, queued_jobs, read_jobs
from zoo.lab.launch.sweep_folder import is_starting, read_folder
from zoo.lab.launch.sweep_lock import is_alive
from zoo.lab.results.schema import is_inside, prerequisite_entries
from zoo.training.records.extension import recorded_extensions
from zoo.training.runtime.folder_lock import is_held

STARTING = "loads and compiles"
STATES = ("running", "waiting", "preempted", "failed", "diverged", "done")


@dataclass(frozen=True)
class RunStatus:
    """The status of one run.

    Attributes:
        folder: relative to the sweep's.
        state: one of `STATES`. A preempted run was stopped before its end, or its process has
            ended without a status; it can be continued.
        step, steps: updates applied, and updates in all (0 if not known yet).
        silent: seconds since the run last wrote a file; None if it never did.
        reason: why the run is not running and not done; that it still loads and compiles; that it is
            trained longer than first planned.
        job: "ID_INDEX" of its SLURM job; empty without one.
    """

    folder: str
    state: str
    step: int = 0
    steps: int = 0
    silent: float | None = None
    reason: str = ""
    job: str = ""


@dataclass(frozen=True)
class SweepStatus:
    """The status of all runs of a sweep, prerequisite runs first."""

    name: str
    runs: list[RunStatus]

    @property
    def counts(self) -> dict[str, int]:
        """Number of runs by state, without states that no run is in."""
        found = Counter(run.state for run in self.runs)
        return {state: found[state] for state in STATES if found[state]}

    def record(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {"name": self.name, "counts": self.counts, "runs": [asdict(run) for run in self.runs]}


def read_sweep_status(sweep: Path) -> SweepStatus:
    """Reads the status of all runs of a sweep.

    Raises:
        ConfigError: the folder holds no sweep, a record is damaged, or SLURM does not answer.
    """
    if not sweep.is_dir():
        raise ConfigError(f"{sweep} is not a folder")
    try:
        experiment = read_json(sweep / "experiment.json")
        folders = [run["folder"] for run in (*prerequisite_entries(experiment), *experiment.get("runs", []))]
        name = str(experiment["name"])
        if not all(map(is_inside, folders)):
            raise ValueError("a run's folder is outside the sweep's")
    except FileNotFoundError:
        a_run = (sweep / "status.json").exists() or (sweep / "config.json").exists()
        raise ConfigError(
            f"{sweep} is {'a single run' if a_run else 'not a sweep'}: it has no experiment.json"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{sweep / 'experiment.json'} is not a record of a sweep") from error
    jobs = read_jobs(sweep)
    queue = queued_jobs(sweep, jobs)
    return SweepStatus(name, list(_all_runs(sweep, folders, jobs, queue)))


def _all_runs(
    sweep: Path, folders: list[str], jobs: Mapping[str, SubmittedJob], queue: Mapping[str, QueuedJob] | None
) -> Iterator[RunStatus]:
    states: dict[str, str] = {}
    for name in folders:
        status = _run_status(sweep, name, jobs.get(name), queue, states)
        states[name] = status.state
        yield status


def _run_status(
    sweep: Path, name: str, job: SubmittedJob | None, queue: Mapping[str, QueuedJob] | None, states: Mapping[str, str]
) -> RunStatus:
    """Returns the status of one run.

    Args:
        sweep: folder of the sweep.
        name: folder of the run.
        job: the last one that was submitted for it.
        queue: None if there is no SLURM.
        states: states of the runs before it, among them those that it needs.
    """
    folder = read_folder(sweep / name)
    status, state, silent = folder.status, folder.state, folder.silent
    steps = status["steps"] if is_step(status.get("steps")) else 0
    queued = (queue or {}).get(name)
    grown = [one for one in recorded_extensions(folder.meta) if str(one) != state.reason]
    left_queue = job is not None and queue is not None and queued is None

    def found(state_name: str, reason: str = "") -> RunStatus:
        text = "; ".join(filter(None, (reason, *map(str, grown))))
        return RunStatus(name, state_name, state.step, steps, silent, text, job.task if job else "")

    if state.finished:
        return found(state.name, state.reason)
    if is_held(folder.path):
        return found("running", "" if status else STARTING)
    if queued is not None and queued.state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"):
        return found(
            "preempted" if state.step else "waiting", f"in SLURM's queue{f': {queued.reason}' if queued.reason else ''}"
        )
    if queued is not None and queued.state != "COMPLETING":
        return found("running")
    if state.name == "new" and left_queue:
        usable = ("done", "running", "waiting", "preempted")
        if failed := [needed for needed in job.needs if states.get(needed) not in usable]:
            return found("failed", f"it starts from {failed[0]}, which is {states.get(failed[0], 'missing')}")
        return found("failed", f"its job left the queue before it started; see {sweep / SLURM_FOLDER / job.task}.txt")
    if state.name == "new":
        return found("running", STARTING) if is_starting(sweep, folder) else found("waiting")
    if state.name == "failed":
        return found("failed", state.reason)
    if status.get("state") == "preempted":
        return found("preempted", state.reason)
    ended = _process_ended(folder.path)
    if ended or (ended is None and left_queue):
        return found("preempted", f"its {'process' if ended else 'job'} ended without a status; zoo run continues it")
    return found("running")


def _process_ended(folder: Path) -> bool | None:
    """Whether the process that held the run's lock has ended; None if it ran on another machine."""
    try:
        with open_file(folder / ".lock") as file:
            found = re.fullmatch(r"process ([0-9]{1,9}) on (.*)", file.read(1000).decode().strip())
    except (OSError, ValueError):
        return None
    return None if found is None or found[2] != platform.node() else not is_alive(int(found[1]))
