"""A pool of local processes that train the runs of a sweep.

Runs start in order, each as soon as its prerequisites are done. A killed run is retried once. A
signal asks all runs to save and stop. A process trains one run, or a population of runs
(`zoo.lab.launch.populations`) that all end with it.
"""

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from zoo.config import ResolvedConfig
from zoo.lab.launch.display import PlainDisplay
from zoo.lab.launch.populations import PopulationPolicy
from zoo.lab.launch.run_outcome import prerequisite_problem
from zoo.lab.launch.stop_signals import StopSignals
from zoo.lab.launch.sweep_folder import read_folder, write_status
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.launch.warm_process import WarmProcess
from zoo.lab.launch.worker import classify_exit, last_line, train_command, write_config
from zoo.lab.planning.arm import PlannedRun
from zoo.lab.planning.gpu_assignment import GpuAssignment
from zoo.training.records.run_folder import FolderState

POLL_SECONDS = 0.1
# Whether processes that have trained a run train others after it.
REUSE_PROCESSES = True


@dataclass(frozen=True)
class _Attempt:
    """An attempt at a run: its folder, and the state of its files before it."""

    run: PlannedRun
    folder: Path
    log_offset: int
    status_before: tuple[int, int] | None


@dataclass
class _Worker:
    """A process, the runs that it attempts, and its slot (`GpuAssignment`)."""

    attempts: list[_Attempt]
    process: subprocess.Popen | WarmProcess
    slot: int
    asked_to_stop: bool = False

    def stop(self) -> None:
        """Asks the process to save and end, once.

        Only the process itself gets the signal: its data workers must live until it has saved.
        """
        if not self.asked_to_stop:
            self.asked_to_stop = True
            self.process.terminate()


class ProcessPool:
    """Trains the runs of a sweep, each when its prerequisites are done.

    Args:
        runs: in the order in which they start.
        folder: the sweep's.
        workers: processes at once.
        lock: holds the folder.
        display: is notified of every run.
        population: groups runs into populations; None for one process per run.
        gpus: that the processes are spread over, as CUDA_VISIBLE_DEVICES names them; if there are
            none, every process has the environment of the pool.
        variables: further variables of the environment of every process.
    """

    def __init__(
        self,
        runs: Sequence[PlannedRun],
        folder: Path,
        workers: int,
        lock: SweepLock,
        display: PlainDisplay,
        population: PopulationPolicy | None = None,
        gpus: Sequence[str] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
    ):
        self._variables = variables
        self._folder, self._max_workers, self._lock = folder, workers, lock
        self._display, self._population = display, population
        self._assignment = GpuAssignment(workers, tuple(gpus))
        self._waiting = deque(runs)
        self._workers: list[_Worker] = []
        # By slot. A process keeps its GPU's memory while it waits: a slot has one process at most.
        self._idle: dict[int, WarmProcess] = {}
        self._retried: set[str] = set()
        self._final_states: dict[str, FolderState] = {}
        self._signals = StopSignals(self._stop)

    @property
    def stopped(self) -> bool:
        """Whether a signal ended the pool before all runs had ended."""
        return self._signals.stopped

    def run(self) -> dict[str, FolderState]:
        """Trains all runs and returns the final state of every run that was started, by folder.

        The first SIGINT, SIGTERM or SIGHUP asks the active runs to save and starts no others; a
        second one kills them.
        """
        with self._display, self._signals.handled():
            try:
                announced = False
                while self._workers or (self._waiting and not self.stopped):
                    if self.stopped and not announced:
                        announced = True
                        self._display.stopping()
                    while len(self._workers) < self._max_workers and not self.stopped and (runs := self._next_batch()):
                        self._start(runs)
                    for worker in [worker for worker in self._workers if worker.process.poll() is not None]:
                        self._end(worker)
                    self._display.refresh()
                    time.sleep(POLL_SECONDS)
            finally:
                # Workers are left only after an error of the pool: they save and end, and the next
                # `zoo run` continues their runs.
                for worker in self._workers:
                    worker.stop()
                for worker in self._workers:
                    worker.process.wait()
                for process in self._idle.values():
                    process.wait()
        return self._final_states

    def _stop(self, again: bool) -> None:
        for worker in self._workers:
            if not again:
                worker.stop()
            elif worker.process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(worker.process.pid, signal.SIGKILL)

    def _next_batch(self) -> list[PlannedRun]:
        """Takes the first waiting run that can start, with the runs that train in its process.

        Runs whose prerequisites failed are marked failed.
        """
        ready = []
        for run in list(self._waiting):
            active = {attempt.run.folder for worker in self._workers for attempt in worker.attempts}
            unfinished = {other.folder for other in self._waiting} | active
            ended = [needed for needed in run.needs if needed.folder not in unfinished]
            states = [(needed, read_folder(self._folder / needed.folder).state) for needed in ended]
            if failed := [(needed, state) for needed, state in states if state.name != "done"]:
                self._waiting.remove(run)
                self._fail_without_prerequisite(run, *failed[0])
            elif len(ended) == len(run.needs):
                ready.append(run)
                if self._population is None:
                    break
        if ready and self._population is not None:
            ready = self._population.batch(ready[0], ready)
        for run in ready:
            self._waiting.remove(run)
        return ready

    def _fail_without_prerequisite(self, run: PlannedRun, needed: PlannedRun, state: FolderState) -> None:
        reason = prerequisite_problem(needed.name, state)
        try:
            write_config(self._folder, run)
            write_status(self._folder / run.folder, "failed", run.arm.steps, reason)
        except OSError as error:
            reason = f"{reason}; and that could not be written: {error}"
        self._finish(run, FolderState("failed", read_folder(self._folder / run.folder).state.step, reason))

    def _start(self, runs: list[PlannedRun]) -> None:
        attempts, steps = [], {run.folder: read_folder(self._folder / run.folder).state.step for run in runs}
        try:
            for run in runs:
                folder = self._folder / run.folder
                write_config(self._folder, run)
                log = folder / "log.txt"
                log.touch()
                attempts.append(_Attempt(run, folder, log.stat().st_size, _version(folder)))
            with open(attempts[0].folder / "log.txt", "ab") as log:
                slot, process = self._process(attempts, log)
        except OSError as error:
            for run in runs:
                self._display.started([run], steps[run.folder])
                self._finish(run, FolderState("failed", steps[run.folder], f"could not be started: {error}"))
            return
        self._workers.append(worker := _Worker(attempts, process, slot))
        if self.stopped:
            # The signal came between the fork and this line.
            worker.stop()
        self._record_workers()
        self._display.started(runs, min(steps.values()))

    def _process(self, attempts: list[_Attempt], log: IO[bytes]) -> tuple[int, subprocess.Popen | WarmProcess]:
        """Returns (slot, process): one that waited for a run, or a new one; it has begun to train."""
        folders, config = [attempt.folder for attempt in attempts], attempts[0].run.config
        busy = {worker.slot for worker in self._workers}
        free = [slot for slot in range(self._max_workers) if slot not in busy]
        # A session of its own: Ctrl-C in the terminal reaches only the pool, which passes it on once.
        if not REUSE_PROCESSES or self._population is not None:
            return free[0], subprocess.Popen(
                self._command(folders),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(free[0], config),
                start_new_session=True,
                pass_fds=(self._lock.descriptor,),
            )
        ((folder,), plugins) = folders, tuple(config.plugins)
        for slot in [slot for slot in free if slot in self._idle]:
            # Kinds of one plug-in must not be there for runs without it, and JAX keeps its devices.
            if (self._idle[slot].plugins, self._idle[slot].environment) == (plugins, self._environment(slot, config)):
                process = self._idle.pop(slot)
                if process.train(folder, plugins):
                    return slot, process
                process.wait()
        slot = next((slot for slot in free if slot not in self._idle), free[0])
        if slot in self._idle:
            self._idle.pop(slot).wait()
        process = WarmProcess(self._environment(slot, config), (self._lock.descriptor,), log)
        process.train(folder, plugins)
        return slot, process

    def _record_workers(self) -> None:
        processes = [*(worker.process for worker in self._workers), *self._idle.values()]
        self._lock.record_children(process.pid for process in processes)

    def _command(self, folders: list[Path]) -> list[str]:
        return train_command(*folders) if self._population is None else self._population.command(folders)

    def _environment(self, slot: int, config: ResolvedConfig) -> dict[str, str]:
        return {**os.environ, "PYTHONUNBUFFERED": "1", **self._variables, **self._assignment.variables(slot, config)}

    def _end(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        if isinstance(worker.process, WarmProcess):
            if worker.process.usable and not worker.asked_to_stop:
                self._idle[worker.slot] = worker.process
            else:
                worker.process.wait()
        self._record_workers()
        retries, ended = [], []
        for attempt in worker.attempts:
            state, retry = self._settle(worker, attempt)
            if retry:
                retries.append(attempt.run)
                self._retried.add(attempt.run.folder)
                self._display.retried(attempt.run, state)
            else:
                self._final_states[attempt.run.folder] = state
                ended.append((attempt.run, state))
        self._display.ended_together(ended)
        self._waiting.extendleft(reversed(retries))

    def _finish(self, run: PlannedRun, state: FolderState) -> None:
        self._final_states[run.folder] = state
        self._display.ended(run, state)

    def _settle(self, worker: _Worker, attempt: _Attempt) -> tuple[FolderState, bool]:
        """Returns (state of the run after the attempt, whether to retry it).

        Writes status.json if the process could not.
        """
        code, folder = worker.process.returncode, attempt.folder
        written, changed = read_folder(folder).status.get("state"), _version(folder) != attempt.status_before
        if (written == "done" and code == 0) or (changed and written in ("done", "diverged")):
            return read_folder(folder).state, False
        first = worker.attempts[0]
        line = last_line(folder / "log.txt", attempt.log_offset) or last_line(
            first.folder / "log.txt", first.log_offset
        )
        state, reason = classify_exit(code, line)
        if changed and written in ("failed", "preempted"):
            # In a population the exit code is that of another member.
            state = written
        retry = state in ("killed", "preempted") and not self.stopped and attempt.run.folder not in self._retried
        if state == "killed":
            # A run that is killed twice is at fault itself, unless the pool was stopped.
            state = "preempted" if retry or self.stopped else "failed"
            if -code == signal.SIGKILL and not self.stopped:
                reason += ", as the system does when memory runs out"
        if not changed or written != state:
            try:
                ours = write_status(folder, state, attempt.run.arm.steps, reason)
            except OSError as error:  # Probably a full disk, which ended the run too.
                reason = f"{reason}; and status.json: {error.strerror or error}"
                return FolderState("failed", read_folder(folder).state.step, reason), False
            if not ours:  # Another process trains the run.
                return FolderState("failed", read_folder(folder).state.step, reason), False
        return read_folder(folder).state, retry


def _version(folder: Path) -> tuple[int, int] | None:
    """Returns a value that changes whenever status.json is rewritten."""
    try:
        found = os.stat(folder / "status.json")
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
