"""The last step of a SLURM job: `python -m zoo.lab.launch.slurm_task FOLDER CODE`.

CODE is the exit code of srun. Writes status.json if the run could not and no other process trains
it, and exits with the exit code of the job: 75 if it should be requeued. Before the attempt the job
has written the length of the run's log to the file `.attempt` in its folder.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.errors import Preempted
from zoo.files import read_json, write_json
from zoo.lab.launch.sweep_folder import read_folder, write_status
from zoo.lab.launch.worker import classify_exit, last_line
from zoo.training.records.run_folder import RunFolder
from zoo.training.runtime.folder_lock import is_held

ATTEMPT_FILE, STOPS_FILE = ".attempt", "attempts.json"
# A run that is stopped this often without progress counts as failed.
MAX_STOPS_WITHOUT_PROGRESS = 3


def record_outcome(folder: Path, code: int) -> int:
    """Records the outcome of an attempt by srun's exit code; returns that of the job."""
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
            why += ", as the system does when memory runs out"
    elif state == "failed" and code == 0:
        why = "ended without a status"
    state = written or state
    if state == "preempted" and _is_stuck(there):
        state, written = "failed", None
        times = f"{MAX_STOPS_WITHOUT_PROGRESS} times at the same step"
        why = f"was stopped {times}; it may need more --time or a longer --grace"
    if written is None:
        write_status(folder, state, status.get("steps") or _steps(there), why)
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


def _steps(folder: RunFolder) -> int:
    try:
        return int(folder.config["training"]["steps"])
    except (ValueError, KeyError, TypeError):
        return 0


def _is_stuck(folder: RunFolder) -> bool:
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


def main(arguments: Sequence[str]) -> int:
    """Reads the arguments and returns the job's exit code; after an error here, that of srun."""
    folder, code = Path(arguments[0]), int(arguments[1])
    try:
        return record_outcome(folder, code)
    except OSError as error:
        print(f"{folder}: its outcome could not be recorded: {error}", file=sys.stderr)
        return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
