"""Trains the runs of a sweep as tasks of a Ray cluster.

Ray queues and places the tasks and starts those again whose machine it has lost; an attempt continues
its run from the last checkpoint (`zoo.lab.launch.attempt`). A task takes the results of its
prerequisites as arguments, so that Ray starts it after them.
"""

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from zoo.errors import ConfigError, one_line
from zoo.lab.launch.display import PlainDisplay
from zoo.lab.launch.run_outcome import ATTEMPT_FILE
from zoo.lab.launch.run_task import Resources, RunTask
from zoo.lab.launch.stop_signals import StopSignals
from zoo.lab.launch.sweep_folder import read_folder, write_status
from zoo.lab.launch.worker import write_config
from zoo.lab.planning.arm import PlannedRun
from zoo.training.records.run_folder import FolderState

LOCAL = "local"
"""The address of a cluster on this machine that starts and ends with the command."""
POLL_SECONDS, CONNECT_SECONDS = 0.5, 10.0
# Values of tasks are exit codes; Ray's smallest object store holds them.
_OBJECT_STORE_BYTES = 80 << 20


def import_ray():
    """Returns the package `ray`.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import ray

        # A folder of this name on the path imports, too, as a package without contents.
        ray.init  # noqa: B018
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"--ray needs the package ray, which cannot be imported ({one_line(error)}): pip install ray"
        ) from error
    return ray


class RayCluster:
    """A Ray cluster: connects to it, or starts it, as a context manager.

    Args:
        address: "HOST:PORT", "auto" for the cluster of this machine, or `LOCAL`.
    """

    def __init__(self, address: str):
        self._address = address

    def __enter__(self) -> Self:
        """Raises:
        ConfigError: Ray is not installed, or no cluster answers at the address.
        """
        options: dict[str, Any] = {"address": self._address, "log_to_driver": False, "logging_level": "ERROR"}
        if self._address == LOCAL:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            # Ray's processes would give way to others, unlike those of a sweep without it.
            os.environ.setdefault("RAY_worker_niceness", "0")
            options |= {"include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
        ray = import_ray()
        try:
            if host := self._address.rpartition(":")[0]:
                # Ray itself tries for minutes.
                socket.create_connection((host, int(self._address.rpartition(":")[2])), CONNECT_SECONDS).close()
            ray.init(**options)
        except Exception as error:
            raise ConfigError(f"--ray {self._address}: no Ray cluster answers: {one_line(error)}") from error
        return self

    def __exit__(self, *error: object) -> None:
        import_ray().shutdown()

    @property
    def resources(self) -> Mapping[str, float]:
        """Returns the resources of all its machines together, as Ray names them."""
        return import_ray().cluster_resources()

    def missing(self, asked: Iterable[Resources]) -> list[str]:
        """Returns a line for what no machine of the cluster has, even when it is free; Ray waits for
        one that has.
        """
        machines = [node["Resources"] for node in import_ray().nodes() if node["Alive"]]
        return missing_resources(asked, machines)


def missing_resources(asked: Iterable[Resources], machines: Sequence[Mapping[str, float]]) -> list[str]:
    """Returns a line for each of the resources that none of the machines has.

    Args:
        asked: resources of runs.
        machines: resources of each machine, as Ray names them.
    """
    return [
        f"no machine of the Ray cluster has {one.gpus} GPUs, {one.cpus} cores and {one.memory / 2**30:.1f} GiB, as "
        "runs ask for: they wait for one that has"
        for one in asked
        if not any(all(machine.get(name, 0) >= number for name, number in _named(one).items()) for machine in machines)
    ]


def _named(asked: Resources) -> dict[str, float]:
    """Returns resources by the names that Ray gives them."""
    return {"GPU": asked.gpus, "CPU": asked.cpus, "memory": asked.memory}


def _task_body() -> Callable[..., tuple[int, str]]:
    """Returns the function that a task of Ray calls; it returns the exit code of an attempt, and the
    last line of its own errors.

    A function inside a function is sent by value: the process that calls it needs no import of zoo.
    """

    def train(argv: list[str], *needed: tuple[int, str]) -> tuple[int, str]:
        import subprocess
        import time

        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            while (code := process.poll()) is None:
                # Ray's cancellation interrupts Python code only.
                time.sleep(0.1)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if code == 75:
            raise InterruptedError("the run was stopped, and saved")
        # What an attempt prints itself is a line; the output of the run is in its log.
        return code, process.stderr.read().strip().rpartition("\n")[2]

    return train


class RayPool:
    """Trains the runs of a sweep on a connected cluster.

    Args:
        runs: in the order in which they are submitted, prerequisites first.
        tasks: of the runs, in the same order.
        sweep: the sweep's folder.
        display: is notified of every run.
    """

    def __init__(self, runs: Sequence[PlannedRun], tasks: Sequence[RunTask], sweep: Path, display: PlainDisplay):
        self._runs = {run.folder: run for run in runs}
        self._tasks, self._sweep, self._display = tasks, sweep, display
        self._references: dict[str, Any] = {}
        # When the last attempt at a run began, by the times of its file.
        self._attempts: dict[str, int] = {}
        self._signals = StopSignals(self._note_signal)
        # Calls of `ray.cancel` that are due: force or not. They are not made in a handler of signals,
        # which may interrupt Ray itself.
        self._cancellations: list[bool] = []

    @property
    def stopped(self) -> bool:
        """Whether a signal ended the pool before all runs had ended."""
        return self._signals.stopped

    def run(self) -> dict[str, FolderState]:
        """Trains all runs and returns the final state of every run that was started, by folder.

        The first SIGINT, SIGTERM or SIGHUP cancels the tasks, so that active runs save; a second one
        kills them.
        """
        ray, states = import_ray(), {}
        with self._display, self._signals.handled():
            self._submit(ray)
            waiting = {reference: name for name, reference in self._references.items()}
            while waiting:
                while self._cancellations:
                    force = self._cancellations.pop(0)
                    if not force:
                        self._display.stopping()
                    for reference in waiting:
                        ray.cancel(reference, force=force)
                self._show_attempts(waiting.values())
                for reference in ray.wait(list(waiting), timeout=POLL_SECONDS)[0]:
                    name = waiting.pop(reference)
                    if (state := self._settle(ray, name, reference)) is not None:
                        states[name] = state
                        self._display.ended(self._runs[name], state)
                self._display.refresh()
        return states

    def _submit(self, ray) -> None:
        body = ray.remote(_task_body())
        for task in self._tasks:
            if self.stopped:
                return
            write_config(self._sweep, self._runs[task.name])
            # The file of an attempt that was lost with an earlier cluster does not show a start.
            self._attempts[task.name] = self._attempt_of(task.name)
            asked = task.resources
            self._references[task.name] = body.options(
                name=task.name,
                num_gpus=asked.gpus,
                num_cpus=asked.cpus,
                memory=asked.memory,
                max_retries=-1,
                retry_exceptions=[InterruptedError],
            ).remote([*task.argv, "--end-with-parent"], *(self._references[name] for name in task.needs))

    def _note_signal(self, again: bool) -> None:
        self._cancellations.append(again)

    def _attempt_of(self, name: str) -> int:
        try:
            return os.stat(self._sweep / name / ATTEMPT_FILE).st_mtime_ns
        except OSError:
            return 0

    def _show_attempts(self, names) -> None:
        """Shows which runs have started, or have been started again."""
        for name in names:
            if (found := self._attempt_of(name)) not in (0, self._attempts[name]):
                run, state = self._runs[name], read_folder(self._sweep / name).state
                if name in self._display.progress.running:
                    self._display.retried(run, FolderState(state.name, state.step, "Ray has started it again"))
                self._attempts[name] = found
                self._display.started([run], state.step)

    def _settle(self, ray, name: str, reference: Any) -> FolderState | None:
        """Returns the state of a run whose task has ended; None if it was cancelled before it ran.

        Records why the task failed, unless the run has ended all the same or another process holds it.
        """
        folder, problem = self._sweep / name, ""
        try:
            code, line = ray.get(reference)
            if read_folder(folder).state.name not in ("done", "diverged", "failed"):
                problem = line or f"its attempt ended with exit code {code} and no message"
        except Exception as error:
            if not self.stopped:
                # A task's error has the original one as its cause.
                problem = one_line(getattr(error, "cause", None) or error)
        state = read_folder(folder).state
        # Ray may lose the result of an attempt, or the attempt itself after the run has ended.
        if problem and not state.finished:
            if not write_status(folder, "failed", self._runs[name].arm.steps, problem):
                problem += "; another process still trains the run"
            return FolderState("failed", state.step, problem)
        began = state.finished or name in self._display.progress.running
        return None if self.stopped and not began else state
