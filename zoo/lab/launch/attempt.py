"""One attempt at a run, as a command for schedulers: `python -m zoo.lab.launch.attempt FOLDER`.

Trains the run in FOLDER, or continues it from its last checkpoint, in a process of its own whose
output goes to log.txt there, and records the outcome. SIGTERM asks it to save.
"""

import argparse
import contextlib
import ctypes
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from zoo.arguments import Parser
from zoo.errors import ConfigError, Diverged, Preempted, ZooError, reported, shortened
from zoo.lab.launch.run_outcome import (
    ATTEMPT_FILE,
    KILLED_BY_SYSTEM,
    STUCK,
    is_stuck,
    planned_steps,
    prerequisite_problem,
    record_outcome,
)
from zoo.lab.launch.stop_signals import StopSignals
from zoo.lab.launch.sweep_folder import read_folder, write_status
from zoo.lab.launch.worker import train_command
from zoo.training.records.run_folder import FolderState
from zoo.training.records.threads import THREADS
from zoo.training.runtime.folder_lock import is_held

POLL_SECONDS = 0.1
KILLED_BY_USER = "killed by a second signal"
ADVICE = "it may need more memory, or a smaller training.checkpoint_every"
# Request of prctl(2): the signal that a process gets when its parent ends.
_SET_PARENT_DEATH_SIGNAL = 1


def end_with_parent() -> None:
    """Has the system send SIGTERM to this process when its parent ends; on Linux only."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


class Attempt:
    """An attempt at a run.

    Args:
        folder: of the run, with its config.json.
        variables: further variables of the environment of its process.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str]):
        self._folder, self._variables = folder, variables
        self._process: subprocess.Popen | None = None
        # Whether the process was killed here, and not by the system.
        self._killed = False
        self._signals = StopSignals(self._stop)

    def run(self, needs: Sequence[str]) -> int:
        """Makes the attempt; returns its exit code: 0 done, 4 diverged, 75 to be started again, else
        failed.

        Args:
            needs: names of folders beside the run's, of runs that have to be done before.
        """
        with self._signals.handled():
            for name in needs:
                if (state := read_folder(self._folder.parent / name).state).name != "done":
                    return self._fail(prerequisite_problem(name, state))
            if self._wait_for_holder():
                state = read_folder(self._folder).state
                if state.finished:
                    return _exit_code(state)
            if self._signals.stopped:
                return Preempted.exit_code
            # An attempt that was lost with its machine has left this file.
            if (self._folder / ATTEMPT_FILE).exists() and is_stuck(read_folder(self._folder)):
                return self._fail(f"{STUCK}; {ADVICE}")
            code = self._train()
            why = KILLED_BY_USER if self._killed else KILLED_BY_SYSTEM
            code = record_outcome(self._folder, code, ADVICE, why)
            (self._folder / ATTEMPT_FILE).unlink(missing_ok=True)
            return code

    def fail_by(self, error: OSError) -> int:
        """Records an error of the system outside the run, such as a folder that this machine lacks;
        returns the exit code.

        Raises:
            ZooError: the line that was recorded, if the run has not ended all the same.
        """
        state = read_folder(self._folder).state
        if state.finished:
            return _exit_code(state)
        reason = f"{shortened(str(error.filename or self._folder))}: {error.strerror or error} on {platform.node()}"
        # The same disk may be full, or gone.
        with contextlib.suppress(OSError):
            self._fail(reason)
        raise ZooError(reason) from error

    def _train(self) -> int:
        """Trains the run; returns the exit code as a shell gives it."""
        with open(self._folder / "log.txt", "ab") as log:
            (self._folder / ATTEMPT_FILE).write_text(str(log.tell()))
            self._process = subprocess.Popen(
                train_command(self._folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self._variables},
                preexec_fn=end_with_parent,
            )
        if self._signals.stopped:
            # The signal came before this line.
            self._process.terminate()
        code = self._process.wait()
        return 128 - code if code < 0 else code

    def _stop(self, again: bool) -> None:
        if self._process is not None:
            self._killed |= again
            (self._process.kill if again else self._process.terminate)()

    def _wait_for_holder(self) -> bool:
        """Waits for another process that trains the run, such as one on a machine that its scheduler
        has lost; returns whether there was one.
        """
        waited = False
        while is_held(self._folder) and not self._signals.stopped:
            waited = True
            time.sleep(POLL_SECONDS)
        return waited

    def _fail(self, reason: str) -> int:
        if write_status(self._folder, "failed", planned_steps(read_folder(self._folder)), reason):
            (self._folder / ATTEMPT_FILE).unlink(missing_ok=True)
        return 1


def _exit_code(state: FolderState) -> int:
    """Returns the exit code of an attempt whose run has ended."""
    return 0 if state.name == "done" else Diverged.exit_code


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = Parser(prog="python -m zoo.lab.launch.attempt", description=__doc__)
    made.add_argument("folder", metavar="FOLDER", type=Path, help="absolute path of the run's folder")
    made.add_argument("--directory", metavar="DIR", type=Path, help="working directory, for relative paths of data")
    made.add_argument("--threads", metavar="N", type=int, help="threads of XLA on a CPU")
    made.add_argument(
        "--after", metavar="NAME", action="append", default=[], help="folder of a run that has to be done before"
    )
    made.add_argument("--end-with-parent", action="store_true", help="save and end when the parent process ends")
    return made


@reported
def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the flags, trains, and returns the exit code."""
    args = parser().parse_args(arguments)
    if args.end_with_parent:
        end_with_parent()
    if not args.folder.is_dir():
        raise ConfigError(f"{args.folder}: no such folder on {platform.node()}; all machines share the sweep's folder")
    attempt = Attempt(args.folder, {THREADS: str(args.threads)} if args.threads else {})
    try:
        if args.directory:
            os.chdir(args.directory)
        return attempt.run(args.after)
    except OSError as error:
        return attempt.fail_by(error)


if __name__ == "__main__":
    sys.exit(main())
