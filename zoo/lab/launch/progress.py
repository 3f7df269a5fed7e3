"""How far the runs of a sweep are and how long they will still take, from the ends of their files."""

import heapq
import json
from dataclasses import dataclass
from pathlib import Path

from zoo.lab.planning.arm import PlannedRun

TAIL_BYTES = 16384


@dataclass(frozen=True)
class Tail:
    """What the last lines of metrics.jsonl say; None where they say nothing. NaN stands for a value
    that was not finite.
    """

    step: int = 0
    loss: float | None = None
    tokens_per_second: float | None = None
    metric: float | None = None


def read_tail(folder: Path, metric: str = "eval/loss") -> Tail:
    """Reads the newest values from the end of metrics.jsonl; a torn line is left out."""
    try:
        with open(folder / "metrics.jsonl", "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().split(b"\n")[1 if size > TAIL_BYTES else 0 :]
    except OSError:
        return Tail()
    found: dict[str, float] = {}
    step = 0
    for line in lines:
        try:
            row = json.loads(line)
            step = int(row["step"])
        except (ValueError, KeyError, TypeError):
            continue
        for key in ("train/loss", "train/tokens_per_second", metric):
            if key in row:
                found[key] = float("nan") if row[key] is None else float(row[key])
    return Tail(step, found.get("train/loss"), found.get("train/tokens_per_second"), found.get(metric))


def work(run: PlannedRun, steps: int) -> float:
    """FLOPs in `steps` updates: what makes the pace of one arm say something about another."""
    return steps * run.arm.tokens_per_step * run.arm.flops_per_token


class RunProgress:
    """One run that is under way. Times are seconds on the clock of the sweep."""

    def __init__(self, run: PlannedRun, folder: Path, metric: str, now: float):
        self.run, self.folder, self.metric, self.started = run, folder, metric, now
        self.tail = read_tail(folder, metric)
        # Work done before this start, by an earlier attempt, says nothing about the pace of this
        # one.
        self.first_step = self.tail.step
        self.trains_since: float | None = None
        self.newest = now

    def refresh(self, now: float) -> None:
        """Looks at the files again."""
        before, self.tail = self.tail, read_tail(self.folder, self.metric)
        if self.tail.step == before.step:
            return
        self.newest = now
        if self.trains_since is None:
            # A lower step is not training yet: resuming goes back to the last checkpoint.
            self.trains_since = now if self.tail.step > before.step else None
            self.first_step = self.tail.step

    @property
    def phase(self) -> str:
        """ "starts" until the first new metrics appear, then "trains", and "finishes" after the
        last step.
        """
        if self.trains_since is None:
            return "starts"
        return "trains" if self.tail.step < self.run.arm.steps else "finishes"

    @property
    def measured(self) -> tuple[float, float]:
        """(FLOPs, seconds) from the first metrics of this attempt to the newest."""
        if self.trains_since is None:
            return 0.0, 0.0
        return work(self.run, self.tail.step - self.first_step), self.newest - self.trains_since

    def remaining(self, now: float, pace: float | None, startup: float) -> float | None:
        """Seconds until this run ends; None while nothing is known. `pace` is the sweep's, in
        seconds per FLOP.
        """
        done, seconds = self.measured
        pace = seconds / done if done > 0 and seconds > 0 else pace
        if pace is None:
            return None
        if self.trains_since is None:
            startup = max(0.0, startup - (now - self.started))
            return startup + pace * work(self.run, self.run.arm.steps - self.first_step)
        return max(0.0, pace * work(self.run, self.run.arm.steps - self.tail.step) - (now - self.newest))


class SweepProgress:
    """All runs of a sweep: which are under way, how many have ended, and when the last will."""

    def __init__(self, folder: Path, runs: list[PlannedRun], pending: list[PlannedRun], workers: int, metric: str):
        self.folder, self.metric, self.workers = folder, metric, workers
        self.total, self.ended = len(runs), len(runs) - len(pending)
        self.pending = list(pending)
        self.running: dict[str, RunProgress] = {}
        self._measured: list[tuple[float, float]] = []
        self._startups: list[float] = []

    def start(self, run: PlannedRun, now: float) -> None:
        """Notes that an attempt at a run has started."""
        self.pending = [other for other in self.pending if other is not run]
        self.running[run.folder] = RunProgress(run, self.folder / run.folder, self.metric, now)

    def drop(self, run: PlannedRun) -> None:
        """Notes that an attempt came to nothing and that the run waits for another."""
        del self.running[run.folder]
        self.pending.insert(0, run)

    def end(self, run: PlannedRun, now: float, for_good: bool = True) -> RunProgress:
        """Notes that a run has come to its end, or was stopped before it."""
        # One that never could start has no beginning either.
        progress = self.running.pop(run.folder, None) or RunProgress(run, self.folder / run.folder, self.metric, now)
        self.pending = [other for other in self.pending if other is not run]
        progress.refresh(now)
        done, _ = progress.measured
        # What follows the last step (evaluation, saving) belongs to the price of a run.
        if done > 0:
            self._measured.append((done, now - progress.trains_since))
            self._startups.append(progress.trains_since - progress.started)
        elif progress.trains_since is not None:
            # Over between two looks: its start and its steps cannot be told apart.
            self._measured.append((work(run, progress.tail.step), now - progress.started))
        self.ended += for_good
        return progress

    def refresh(self, now: float) -> None:
        """Looks at the files of all runs that are under way."""
        for progress in self.running.values():
            progress.refresh(now)

    def pace(self) -> tuple[float | None, float]:
        """(seconds per FLOP, seconds from the start of a run to its first metrics), over all that
        was seen so far.
        """
        measured = [*self._measured, *(progress.measured for progress in self.running.values())]
        done, seconds = (sum(column) for column in zip(*measured)) if measured else (0.0, 0.0)
        startups = [
            *self._startups,
            *(
                progress.trains_since - progress.started
                for progress in self.running.values()
                if progress.trains_since is not None
            ),
        ]
        return (seconds / done if done > 0 and seconds > 0 else None), (
            sum(startups) / len(startups) if startups else 0.0
        )

    def remaining(self, now: float) -> float | None:
        """Seconds until the sweep ends, if every free place takes the next run; None while nothing
        is known.
        """
        pace, startup = self.pace()
        free = [progress.remaining(now, pace, startup) for progress in self.running.values()]
        if None in free or (self.pending and pace is None):
            return None
        ends = sorted(free) or [0.0]
        places = free + [0.0] * (self.workers - len(free))
        heapq.heapify(places)
        for run in self.pending:
            # What a half-done run has behind it is not known here without its checkpoint, so it
            # counts as new.
            ends.append(heapq.heappop(places) + startup + pace * work(run, run.arm.steps))
            heapq.heappush(places, ends[-1])
        return max(ends)
