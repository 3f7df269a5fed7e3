"""What a job does after its run has ended: `python -m zoo.lab.launch.slurm_task FOLDER CODE`, with
the exit code of srun.

Writes into status.json what the run could not say itself, and exits with the code that the job
should have: 75 where it should be queued again. The job has written the length of the run's log
before the attempt into the file `.attempt` of its folder.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.errors import Preempted
from zoo.files import read_json, write_json
from zoo.lab.launch.sweep_folder import read_status, write_status
from zoo.lab.launch.worker import last_line, meaning

START, ATTEMPTS = ".attempt", "attempts.json"
# So often a run may be stopped at the same step before it counts as one that gets nowhere.
FRUITLESS = 3


def settle(folder: Path, code: int) -> int:
    """Notes how the attempt that ended with srun's `code` came out; returns the exit code of the
    job.
    """
    status, (fresh, offset) = read_status(folder), _since_start(folder)
    name = status.get("state")
    if code == 0 and name == "done":
        return 0
    # srun ends the other processes with the first one that fails: what the run says of itself
    # counts more than their codes.
    said = name if fresh and name in ("preempted", "diverged", "failed") else None
    # More than 128 is a shell's way of saying that a signal ended it.
    state, why = meaning(128 - code if code > 128 else code, last_line(folder / "log.txt", offset))
    if state == "killed":
        # What SLURM sends before it needs the nodes may come before the run listens to it.
        state = "preempted" if code == 128 + signal.SIGTERM else "failed"
        if code == 128 + signal.SIGKILL:
            why += ", as the system does when memory runs out"
    elif state == "failed" and code == 0:
        why = "ended without a word"
    state = said or state
    if state == "preempted" and _fruitless(folder):
        state, said = "failed", None
        why = f"was stopped {FRUITLESS} times at the same step: more --time, or a longer --grace, would let it go on"
    if said is None:
        write_status(folder, state, status.get("steps") or _steps(folder), why)
    if state == "preempted":
        return Preempted.exit_code
    return 1 if code in (0, Preempted.exit_code) else code


def _since_start(folder: Path) -> tuple[bool, int]:
    """(Whether status.json was written by this attempt, length of the log before it)."""
    try:
        return os.stat(folder / "status.json").st_mtime_ns >= os.stat(folder / START).st_mtime_ns, int(
            (folder / START).read_text() or 0
        )
    except (OSError, ValueError):
        return False, 0


def _steps(folder: Path) -> int:
    try:
        return int(read_json(folder / "config.json")["training"]["steps"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _fruitless(folder: Path) -> bool:
    """Notes the step at which a run was stopped; says whether it was so too often in a row."""
    path = folder / ATTEMPTS
    try:
        steps = read_json(path)
    except (OSError, ValueError):
        steps = []
    steps = [*(steps if isinstance(steps, list) else []), _saved(folder)][-FRUITLESS:]
    write_json(path, steps)
    return len(steps) == FRUITLESS and len(set(steps)) == 1


def _saved(folder: Path) -> int:
    """The step of the newest checkpoint."""
    try:
        return max((int(name) for name in os.listdir(folder / "checkpoints") if name.isdigit()), default=0)
    except OSError:
        return 0


def main(arguments: Sequence[str]) -> int:
    """Reads the arguments; an error of its own leaves the code as it is."""
    folder, code = Path(arguments[0]), int(arguments[1])
    try:
        return settle(folder, code)
    except OSError as error:
        print(f"{folder}: its end could not be noted: {error}", file=sys.stderr)
        return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
