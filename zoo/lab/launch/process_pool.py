"""Runs that are processes on this machine: started in order, watched, retried once, and asked to
save when we are to stop.

A process trains one run, or a population of runs (`zoo.lab.launch.populations`) that all end with
it.
"""

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from zoo.lab.launch.display import Display
from zoo.lab.launch.populations import Together
from zoo.lab.launch.sweep_folder import State, SweepLock, read_state, read_status, write_status
from zoo.lab.launch.worker import command, last_line, meaning, write_config
from zoo.lab.planning.arm import PlannedRun

POLL_SECONDS = 0.1
# Signals that come within this time are one.
REPEATED_SECONDS = 1.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class _Begun:
    """An attempt at a run: its folder, and what its files were before it."""

    run: PlannedRun
    folder: Path
    log_offset: int
    status_before: tuple[int, int] | None


@dataclass
class _Child:
    """A process, and the runs that it attempts."""

    attempts: list[_Begun]
    process: subprocess.Popen
    told: bool = False

    def stop(self) -> None:
        """Asks the run to save and end, once. Only the process itself: its data workers have to
        live until it has saved.
        """
        if not self.told:
            self.told = True
            self.process.terminate()


class Pool:
    """Runs a sweep's runs, each when those that it needs are done.

    Args:
        runs: in the order in which they start.
        folder: the sweep's.
        workers: processes at once.
        lock: holds the folder.
        display: is told of every run.
        together: puts runs into populations; None for a process of its own for each.
    """

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        folder: Path,
        workers: int,
        lock: SweepLock,
        display: Display,
        together: Together | None = None,
    ):
        self._folder, self._workers, self._lock, self._display, self._together = (
            folder,
            workers,
            lock,
            display,
            together,
        )
        self._waiting = deque(runs)
        self._children: list[_Child] = []
        self._retried: set[str] = set()
        self._ends: dict[str, State] = {}
        self._asked: float | None = None

    @property
    def stopped(self) -> bool:
        """True if a signal asked for the end before all runs had ended."""
        return self._asked is not None

    def run(self) -> dict[str, State]:
        """Runs everything and returns how every run that was started ended, by folder.

        The first SIGINT, SIGTERM or SIGHUP asks the runs under way to save and starts no others; a
        second one kills them.
        """
        with self._listening():
            try:
                said = False
                while self._children or (self._waiting and not self.stopped):
                    if self.stopped and not said:
                        said = True
                        self._display.stopping()
                    while len(self._children) < self._workers and not self.stopped and (runs := self._ready()):
                        self._start(runs)
                    for child in [child for child in self._children if child.process.poll() is not None]:
                        self._end(child)
                    self._display.refresh()
                    time.sleep(POLL_SECONDS)
            finally:
                # Only an error of our own leaves children here: they save and end, and the next
                # `zoo run` continues them.
                for child in self._children:
                    child.stop()
                for child in self._children:
                    child.process.wait()
        return self._ends

    @contextmanager
    def _listening(self) -> Iterator[None]:
        # Under nohup the end of the terminal is no reason to stop.
        heard = [
            number for number in STOP_SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
        ]
        before = {number: signal.signal(number, self._on_signal) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        # The end of a terminal, for one, is told twice within moments.
        if self._asked is not None and time.monotonic() - self._asked < REPEATED_SECONDS:
            return
        again, self._asked = self._asked is not None, time.monotonic()
        for child in self._children:
            if not again:
                child.stop()
            elif child.process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.process.pid, signal.SIGKILL)

    def _ready(self) -> list[PlannedRun]:
        """Takes the first waiting run that nothing keeps from starting, with those that train with
        it; such as never can start end here.
        """
        ready = []
        for run in list(self._waiting):
            trained = {begun.run.folder for child in self._children for begun in child.attempts}
            ahead = {other.folder for other in self._waiting} | trained
            undone = [
                (needed, read_state(self._folder / needed.folder)) for needed in run.needs if needed.folder not in ahead
            ]
            undone = [(needed, state) for needed, state in undone if state.name != "done"]
            if undone:
                self._waiting.remove(run)
                self._give_up(run, *undone[0])
            elif not any(needed.folder in ahead for needed in run.needs):
                ready.append(run)
                if self._together is None:
                    break
        if ready and self._together is not None:
            ready = self._together.companions(ready[0], ready)
        for run in ready:
            self._waiting.remove(run)
        return ready

    def _give_up(self, run: PlannedRun, needed: PlannedRun, state: State) -> None:
        why = f": {state.reason}" if state.reason else ""
        reason = f"it starts from {needed.name}, which is {'not there' if state.name == 'new' else state.name}{why}"
        try:
            write_config(self._folder, run)
            write_status(self._folder / run.folder, "failed", run.arm.steps, reason)
        except OSError as error:
            reason = f"{reason}; and that could not be written: {error}"
        self._finish(run, State("failed", read_state(self._folder / run.folder).step, reason))

    def _start(self, runs: list[PlannedRun]) -> None:
        attempts, steps = [], {run.folder: read_state(self._folder / run.folder).step for run in runs}
        try:
            for run in runs:
                folder = self._folder / run.folder
                write_config(self._folder, run)
                log = folder / "log.txt"
                attempts.append(_Begun(run, folder, log.stat().st_size if log.exists() else 0, _stamp(folder)))
            with open(attempts[0].folder / "log.txt", "ab") as log:
                # Its own session: a Ctrl-C in the terminal reaches only us, and we pass it on once.
                process = subprocess.Popen(
                    self._command([begun.folder for begun in attempts]),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self._environment(),
                    start_new_session=True,
                    pass_fds=(self._lock.descriptor,),
                )
        except OSError as error:
            for run in runs:
                self._display.started(run, steps[run.folder])
                self._finish(run, State("failed", steps[run.folder], f"could not be started: {error}"))
            return
        self._children.append(child := _Child(attempts, process))
        if self.stopped:
            # The signal came after the fork and before the list held the child.
            child.stop()
        self._lock.note(other.process.pid for other in self._children)
        for run in runs:
            self._display.started(run, steps[run.folder])

    def _command(self, folders: list[Path]) -> list[str]:
        return command(*folders) if self._together is None else self._together.command(folders)

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if self._workers > 1 and not {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"} & environment.keys():
            # JAX takes three quarters of a GPU's memory at the start unless told otherwise: two
            # runs would not fit.
            environment["XLA_CLIENT_MEM_FRACTION"] = f"{0.9 / self._workers:.3f}"
        return environment

    def _end(self, child: _Child) -> None:
        self._children.remove(child)
        self._lock.note(other.process.pid for other in self._children)
        again = []
        for begun in child.attempts:
            state, is_tried_again = self._settle(child, begun)
            if is_tried_again:
                again.append(begun.run)
                self._retried.add(begun.run.folder)
                self._display.again(begun.run, state)
            else:
                self._finish(begun.run, state)
        self._waiting.extendleft(reversed(again))

    def _finish(self, run: PlannedRun, state: State) -> None:
        self._ends[run.folder] = state
        self._display.ended(run, state)

    def _settle(self, child: _Child, begun: _Begun) -> tuple[State, bool]:
        """What an attempt came to, and whether to try again. What the child could not say in
        status.json is written there.
        """
        code, folder = child.process.returncode, begun.folder
        said, changed = read_status(folder).get("state"), _stamp(folder) != begun.status_before
        if (said == "done" and code == 0) or (changed and said in ("done", "diverged")):
            return read_state(folder), False
        first = child.attempts[0]
        line = last_line(folder / "log.txt", begun.log_offset) or last_line(first.folder / "log.txt", first.log_offset)
        state, reason = meaning(code, line)
        if changed and said in ("failed", "preempted"):
            # Of a population it is not the code that tells.
            state = said
        again = state in ("killed", "preempted") and not self.stopped and begun.run.folder not in self._retried
        if state == "killed":
            # A run that is killed whenever it is tried has a fault of its own; one that was stopped
            # with us has not.
            state = "preempted" if again or self.stopped else "failed"
            if -code == signal.SIGKILL and not self.stopped:
                reason += ", as the system does when memory runs out"
        if not changed or said != state:
            try:
                write_status(folder, state, begun.run.arm.steps, reason)
            except OSError as error:  # A full disk, most likely, which ended the run too.
                return State(
                    "failed", read_state(folder).step, f"{reason}; and status.json: {error.strerror or error}"
                ), False
        return read_state(folder), again


def _stamp(folder: Path) -> tuple[int, int] | None:
    """Changes whenever status.json is written anew."""
    try:
        found = os.stat(folder / "status.json")
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
