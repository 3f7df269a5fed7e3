"""Runs that are processes on this machine: started in order, watched, retried once, and asked to save when we are to stop."""

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from zoo.errors import Preempted
from zoo.lab.attempt import command, last_line, meaning, write_config
from zoo.lab.display import Display
from zoo.lab.plan import Run
from zoo.lab.sweep import State, SweepLock, read_state, read_status, write_status

POLL_SECONDS = 0.1
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class _Child:
    """One attempt at a run: its process, and what its files were before it."""

    run: Run
    folder: Path
    process: subprocess.Popen
    log_offset: int
    status_before: tuple[int, int] | None
    told: bool = False

    def stop(self) -> None:
        """Asks the run to save and end, once. Only the process itself: its data workers have to live until it has saved."""
        if not self.told:
            self.told = True
            self.process.terminate()


class Pool:
    """Runs a sweep's runs, at most `workers` at once, each when those that it needs are done."""

    def __init__(self, runs: Sequence[Run], folder: Path, workers: int, lock: SweepLock, display: Display):
        self._folder, self._workers, self._lock, self._display = folder, workers, lock, display
        self._waiting = deque(runs)
        self._children: list[_Child] = []
        self._retried: set[str] = set()
        self._ends: dict[str, State] = {}
        self._signals = 0

    @property
    def stopped(self) -> bool:
        """True if a signal asked for the end before all runs had ended."""
        return self._signals > 0

    def run(self) -> dict[str, State]:
        """Runs everything and returns how every run that was started ended, by folder.

        The first SIGINT, SIGTERM or SIGHUP asks the runs under way to save and starts no others; a second one kills them.
        """
        with self._listening():
            try:
                said = False
                while self._children or (self._waiting and not self.stopped):
                    if self.stopped and not said:
                        said = True
                        self._display.stopping()
                    while len(self._children) < self._workers and not self.stopped and (run := self._ready()) is not None:
                        self._start(run)
                    for child in [child for child in self._children if child.process.poll() is not None]:
                        self._end(child)
                    self._display.refresh()
                    time.sleep(POLL_SECONDS)
            finally:
                # Only an error of our own leaves children here: they save and end, and the next `zoo run` continues them.
                for child in self._children:
                    child.stop()
                for child in self._children:
                    child.process.wait()
        return self._ends

    @contextmanager
    def _listening(self) -> Iterator[None]:
        # Under nohup the end of the terminal is no reason to stop.
        heard = [number for number in STOP_SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, self._on_signal) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        self._signals += 1
        for child in self._children:
            if self._signals == 1:
                child.stop()
            elif child.process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.process.pid, signal.SIGKILL)

    def _ready(self) -> Run | None:
        """Takes the first waiting run that nothing keeps from starting; such as never can start end here."""
        for run in list(self._waiting):
            ahead = {other.folder for other in self._waiting} | {child.run.folder for child in self._children}
            undone = [(needed, read_state(self._folder / needed.folder)) for needed in run.needs if needed.folder not in ahead]
            undone = [(needed, state) for needed, state in undone if state.name != "done"]
            if undone:
                self._waiting.remove(run)
                self._give_up(run, *undone[0])
            elif not any(needed.folder in ahead for needed in run.needs):
                self._waiting.remove(run)
                return run
        return None

    def _give_up(self, run: Run, needed: Run, state: State) -> None:
        why = f": {state.reason}" if state.reason else ""
        reason = f"it starts from {needed.name}, which is {'not there' if state.name == 'new' else state.name}{why}"
        try:
            write_config(self._folder, run)
            write_status(self._folder / run.folder, "failed", run.arm.steps, reason)
        except OSError as error:
            reason = f"{reason}; and that could not be written: {error}"
        self._finish(run, State("failed", read_state(self._folder / run.folder).step, reason))

    def _start(self, run: Run) -> None:
        folder = self._folder / run.folder
        step = read_state(folder).step
        try:
            write_config(self._folder, run)
            stamp = _stamp(folder)
            with open(folder / "log.txt", "ab") as log:
                offset = log.tell()
                # Its own session: a Ctrl-C in the terminal reaches only us, and we pass it on once.
                process = subprocess.Popen(
                    command(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=self._environment(),
                    start_new_session=True, pass_fds=(self._lock.descriptor,))
        except OSError as error:
            self._display.started(run, step)
            self._finish(run, State("failed", step, f"could not be started: {error}"))
            return
        self._children.append(child := _Child(run, folder, process, offset, stamp))
        if self.stopped:
            # The signal came after the fork and before the list held the child.
            child.stop()
        self._lock.note(other.process.pid for other in self._children)
        self._display.started(run, step)

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if self._workers > 1 and not {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"} & environment.keys():
            # JAX takes three quarters of a GPU's memory at the start unless told otherwise: two runs would not fit.
            environment["XLA_CLIENT_MEM_FRACTION"] = f"{0.9 / self._workers:.3f}"
        return environment

    def _end(self, child: _Child) -> None:
        self._children.remove(child)
        self._lock.note(other.process.pid for other in self._children)
        state, again = self._settle(child)
        if again:
            self._retried.add(child.run.folder)
            self._waiting.appendleft(child.run)
            self._display.again(child.run, state)
        else:
            self._finish(child.run, state)

    def _finish(self, run: Run, state: State) -> None:
        self._ends[run.folder] = state
        self._display.ended(run, state)

    def _settle(self, child: _Child) -> tuple[State, bool]:
        """What an attempt came to, and whether to try again. What the child could not say in status.json is written there."""
        code, status = child.process.returncode, read_status(child.folder)
        if code == 0 and status.get("state") == "done":
            return read_state(child.folder), False
        interrupted = code < 0 or code == Preempted.exit_code
        again = interrupted and not self.stopped and child.run.folder not in self._retried
        state, reason = meaning(code, last_line(child.folder / "log.txt", child.log_offset))
        if state == "killed":
            # A run that is killed whenever it is tried has a fault of its own; one that was stopped with us has not.
            state = "preempted" if again or self.stopped else "failed"
            if -code == signal.SIGKILL and not self.stopped:
                reason += ", as the system does when memory runs out"
        if _stamp(child.folder) == child.status_before or status.get("state") != state:
            write_status(child.folder, state, child.run.arm.steps, reason)
        return read_state(child.folder), again


def _stamp(folder: Path) -> tuple[int, int] | None:
    """Changes whenever status.json is written anew."""
    try:
        found = os.stat(folder / "status.json")
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
