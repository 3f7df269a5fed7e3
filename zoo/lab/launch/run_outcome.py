"""The outcome of an attempt at a run that a scheduler has started.

Before the attempt, the length of the run's log is written to the file `.attempt` in its folder.
"""

import os
import signal
from pathlib import Path

from zoo.errors import Preempted
from zoo.files import read_json, write_json
from zoo.lab.launch.sweep_folder import read_folder, write_status
from zoo.lab.launch.worker import classify_exit, last_line
from zoo.training.records.run_folder import FolderState, RunFolder
from zoo.training.runtime.folder_lock import is_held

ATTEMPT_FILE, STOPS_FILE = ".attempt", "attempts.json"
# A run that is stopped this often without progress counts as failed.
MAX_STOPS_WITHOUT_PROGRESS = 3
KILLED_BY_SYSTEM = "killed by SIGKILL, as the system does when memory runs out"
STUCK = f"was stopped {MAX_STOPS_WITHOUT_PROGRESS} times at the same step"


def record_outcome(folder: Path, code: int, advice: str, killed: str = KILLED_BY_SYSTEM) -> int:
    """Records the outcome of an attempt: writes status.json if the run could not and no other process
    trains it.

    Args:
        folder: of the run.
        code: exit code of the attempt, as a shell gives it.
        advice: what may help a run that makes no progress.
        killed: why SIGKILL ended the attempt, if it did.

    Returns:
        The exit code for the scheduler: 75 if the run is to be started again.
    """
    there, (fresh, offset) = read_folder(folder), _since_start(folder)
    status = there.status
    name = status.get("state")
    if name == "done" and (code == 0 or fresh):
        return 0
    if is_held(folder):
        # Another process trains the run, such as one on a node that SLURM has lost: its status is
        # not touched, and the job waits in the queue for what becomes of it.
        return Preempted.exit_code
    # srun kills the other processes when one fails, so the status that the run wrote itself counts
    # more than their exit codes.
    written = name if fresh and name in ("preempted", "diverged", "failed") else None
    # A shell reports signal N as exit code 128 + N.
    state, why = classify_exit(128 - code if code > 128 else code, last_line(folder / "log.txt", offset))
    if state == "killed":
        # SLURM's SIGTERM may arrive before the run handles it.
        state = "preempted" if code == 128 + signal.SIGTERM else "failed"
        if code == 128 + signal.SIGKILL:
            why = killed
    elif state == "failed" and code == 0:
        why = "ended without a status"
    state = written or state
    if state == "preempted" and is_stuck(there):
        state, written, why = "failed", None, f"{STUCK}; {advice}"
    if written is None:
        write_status(folder, state, status.get("steps") or planned_steps(there), why)
    if state == "preempted":
        return Preempted.exit_code
    return 1 if code in (0, Preempted.exit_code) else code


def _since_start(folder: Path) -> tuple[bool, int]:
    """Returns (whether this attempt wrote status.json, length of the log before it)."""
    try:
        return os.stat(folder / "status.json").st_mtime_ns >= os.stat(folder / ATTEMPT_FILE).st_mtime_ns, int(
            (folder / ATTEMPT_FILE).read_text() or 0
        )
    except (OSError, ValueError):
        return False, 0


def planned_steps(folder: RunFolder) -> int:
    """Returns the updates of a run by its config.json; 0 if that cannot be read."""
    try:
        return int(folder.config["training"]["steps"])
    except (ValueError, KeyError, TypeError):
        return 0


def is_stuck(folder: RunFolder) -> bool:
    """Records the step at which a run was stopped; returns whether it makes no progress."""
    path = folder.path / STOPS_FILE
    try:
        steps = read_json(path)
    except (OSError, ValueError):
        steps = []
    steps = [*(steps if isinstance(steps, list) else []), _saved(folder)][-MAX_STOPS_WITHOUT_PROGRESS:]
    write_json(path, steps)
    return len(steps) == MAX_STOPS_WITHOUT_PROGRESS and len(set(steps)) == 1


def _saved(folder: RunFolder) -> int:
    """Returns the step of the newest checkpoint."""
    try:
        return folder.newest
    except OSError:
        return 0


def prerequisite_problem(name: str, state: FolderState) -> str:
    """Returns why a run cannot start from another one, which is not done."""
    why = f": {state.reason}" if state.reason else ""
    return f"it starts from {name}, which is {'missing' if state.name == 'new' else state.name}{why}"
