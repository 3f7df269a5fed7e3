"""Progress and remaining time of a sweep, from the ends of its runs' metrics files."""

import heapq
from pathlib import Path

from zoo.lab.planning.arm import PlannedRun
from zoo.training.records.run_folder import RunFolder


def training_flops(run: PlannedRun, steps: int) -> float:
    """Returns the FLOPs of `steps` updates.

    Seconds per FLOP, measured on one arm, predict the time of the others.
    """
    return steps * run.arm.tokens_per_step * run.arm.flops_per_token


class RunProgress:
    """The progress of an active run. Times are seconds on the clock of the sweep."""

    def __init__(self, run: PlannedRun, folder: Path, metric: str, now: float):
        self.run, self.folder, self.metric, self.started = run, folder, metric, now
        self.tail = RunFolder(folder).tail(metric)
        # Steps of earlier attempts say nothing about the pace of this one.
        self.first_step = self.tail.step
        self.training_since: float | None = None
        self.newest = now

    def refresh(self, now: float) -> None:
        """Reads the files again."""
        before, self.tail = self.tail, RunFolder(self.folder).tail(self.metric)
        if self.tail.step == before.step:
            return
        self.newest = now
        if self.training_since is None:
            # A lower step is not training yet: the run goes back to the last checkpoint first.
            self.training_since = now if self.tail.step > before.step else None
            self.first_step = self.tail.step

    @property
    def phase(self) -> str:
        """ "starting" until new metrics appear, then "training"; "finishing" after the last step."""
        if self.training_since is None:
            return "starting"
        return "training" if self.tail.step < self.run.arm.steps else "finishing"

    @property
    def measured(self) -> tuple[float, float]:
        """(FLOPs, seconds) between the first and the newest metrics of this attempt."""
        if self.training_since is None:
            return 0.0, 0.0
        return training_flops(self.run, self.tail.step - self.first_step), self.newest - self.training_since

    def remaining(self, now: float, pace: float | None, startup: float) -> float | None:
        """Returns the seconds until this run ends; None if nothing is known yet.

        Args:
            now: on the clock of the sweep.
            pace: pace of the sweep, in seconds per FLOP.
            startup: seconds from the start of a run to its first metrics.
        """
        done, seconds = self.measured
        pace = seconds / done if done > 0 and seconds > 0 else pace
        if pace is None:
            return None
        if self.training_since is None:
            startup = max(0.0, startup - (now - self.started))
            return startup + pace * training_flops(self.run, self.run.arm.steps - self.first_step)
        return max(0.0, pace * training_flops(self.run, self.run.arm.steps - self.tail.step) - (now - self.newest))


class SweepProgress:
    """The progress of a sweep: active and ended runs, and the remaining time."""

    def __init__(self, folder: Path, runs: list[PlannedRun], pending: list[PlannedRun], workers: int, metric: str):
        self.folder, self.metric, self.workers = folder, metric, workers
        self.total, self.ended = len(runs), len(runs) - len(pending)
        self.pending = list(pending)
        self.running: dict[str, RunProgress] = {}
        self._measured: list[tuple[float, float]] = []
        self._startups: list[float] = []
        self._stopped = False

    def start(self, run: PlannedRun, now: float) -> None:
        """Records that an attempt at a run has started."""
        self.pending = [other for other in self.pending if other is not run]
        self.running[run.folder] = RunProgress(run, self.folder / run.folder, self.metric, now)
        self._stopped = False

    def requeue(self, run: PlannedRun) -> None:
        """Records that an attempt was interrupted and that the run waits for another."""
        del self.running[run.folder]
        self.pending.insert(0, run)

    def end(self, run: PlannedRun, now: float, final: bool = True) -> RunProgress:
        """Records that a run has ended or, unless `final`, was stopped. Until another one starts, the
        sweep is taken to be stopped too.
        """
        # A run that could not be started is not among the active ones.
        progress = self.running.pop(run.folder, None) or RunProgress(run, self.folder / run.folder, self.metric, now)
        self.pending = [other for other in self.pending if other is not run]
        progress.refresh(now)
        done, _ = progress.measured
        # The time after the last step (evaluation, saving) is part of the cost of a run.
        if done > 0:
            self._measured.append((done, now - progress.training_since))
            self._startups.append(progress.training_since - progress.started)
        elif progress.training_since is not None:
            # It trained and ended between two refreshes: startup and steps cannot be separated.
            self._measured.append((training_flops(run, progress.tail.step), now - progress.started))
        self.ended += final
        self._stopped |= not final
        return progress

    def refresh(self, now: float) -> None:
        """Reads the files of all active runs again."""
        for progress in self.running.values():
            progress.refresh(now)

    def pace(self) -> tuple[float | None, float]:
        """Returns (seconds per FLOP, seconds from a run's start to its first metrics) so far."""
        measured = [*self._measured, *(progress.measured for progress in self.running.values())]
        done, seconds = (sum(column) for column in zip(*measured)) if measured else (0.0, 0.0)
        startups = [
            *self._startups,
            *(
                progress.training_since - progress.started
                for progress in self.running.values()
                if progress.training_since is not None
            ),
        ]
        return (seconds / done if done > 0 and seconds > 0 else None), (
            sum(startups) / len(startups) if startups else 0.0
        )

    def remaining(self, now: float) -> float | None:
        """Returns the seconds until the sweep ends; None if nothing is known yet or it was stopped.

        Assumes that every free worker takes the next run.
        """
        pace, startup = self.pace()
        free = [progress.remaining(now, pace, startup) for progress in self.running.values()]
        if self._stopped or None in free or (self.pending and pace is None):
            return None
        ends = sorted(free) or [0.0]
        workers = free + [0.0] * (self.workers - len(free))
        heapq.heapify(workers)
        for run in self.pending:
            # An unfinished run counts as new: its checkpoint, which is not read here, would tell
            # where it continues.
            ends.append(heapq.heappop(workers) + startup + pace * training_flops(run, run.arm.steps))
            heapq.heappush(workers, ends[-1])
        return max(ends)
