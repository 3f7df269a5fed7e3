"""Runs that somebody else started, shown live in a terminal: which are under way, how far, and what
their arms have come to.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zoo.lab.formatting import number, plus_minus
from zoo.lab.launch.display import LOOK_SECONDS, LiveDisplay, PlainDisplay, clock
from zoo.lab.launch.progress import SweepProgress
from zoo.lab.launch.sweep_folder import State, read_status
from zoo.lab.metrics import higher_is_better
from zoo.lab.results.run_records import RunRecord as ReadRun
from zoo.lab.results.schema import as_dict
from zoo.lab.results.sweep_results import SweepResults, load_any
from zoo.lab.statistics.paired import spread

ENDED = ("done", "diverged", "failed")
MOST_ARMS = 12
SILENT_SECONDS = 600


@dataclass(frozen=True)
class _Arm:
    """What progress needs to know of an arm, as its runs' files say."""

    name: str
    steps: int
    tokens_per_step: int
    flops_per_token: float


@dataclass(frozen=True)
class _Run:
    folder: str
    name: str
    arm: _Arm


def _cost(run: ReadRun) -> tuple[int, int, float] | None:
    """(steps, tokens of a step, FLOPs per token) of a run that has begun."""
    data, steps = as_dict(run.config.get("data")), run.status.get("steps")
    steps = steps if isinstance(steps, int) else as_dict(run.config.get("training")).get("steps")
    tokens, flops = (data.get("batch_size"), data.get("sequence_length")), run.meta.get("flops_per_token")
    if not isinstance(steps, int) or steps < 1:
        return None
    tokens_per_step = tokens[0] * tokens[1] if all(isinstance(count, int) for count in tokens) else 1
    return steps, tokens_per_step, float(flops) if isinstance(flops, int | float) else 1.0


def watched_runs(sweep: SweepResults) -> list[_Run]:
    """All runs of a sweep. One that has not begun counts as another of its arm, or as any other,
    until it has.
    """
    everything = [*sweep.prepared, *sweep.runs]
    known = {run.folder: cost for run in everything if (cost := _cost(run))}
    any_cost = next(iter(known.values()), (1, 1, 1.0))
    labels = {arm.name: arm.label for arm in sweep.arms}
    found = []
    for run in everything:
        of_arm = (known[other.folder] for other in everything if other.arm == run.arm and other.folder in known)
        cost = known.get(run.folder) or next(of_arm, any_cost)
        label = labels.get(run.arm, run.arm)
        found.append(_Run(_inside(sweep, run), f"{label} seed {run.seed}", _Arm(label, *cost)))
    return found


def _inside(sweep: SweepResults, run: ReadRun) -> str:
    return str(run.folder.relative_to(sweep.folder)) if run.folder != sweep.folder else "."


class _Seen:
    """What the arms have come to: the metric of their finished runs, best first."""

    def __init__(self, sweep: SweepResults, runs: list[_Run]):
        self.metric = sweep.metric
        self.finals: dict[str, list[float]] = {run.arm.name: [] for run in runs}
        self.totals = {name: sum(run.arm.name == name for run in runs) for name in self.finals}
        self.ended = dict.fromkeys(self.finals, 0)

    def add(self, run: _Run, value: float | None) -> None:
        self.ended[run.arm.name] += 1
        if value is not None and value == value:
            self.finals[run.arm.name].append(value)

    def table(self) -> Table:
        best = -1 if higher_is_better(self.metric) else 1
        means = {name: sum(values) / len(values) for name, values in self.finals.items() if values}
        names = sorted(self.finals, key=lambda name: (name not in means, best * means.get(name, 0)))
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for column in ("arm", f"final {self.metric}", "ended"):
            table.add_column(Text(column), justify="left" if column == "arm" else "right")
        for name in names[:MOST_ARMS]:
            values = spread(self.finals[name])
            final = (
                "–" if values is None else plus_minus(values.mean, values.sd) if values.n > 1 else number(values.mean)
            )
            table.add_row(Text(name), final, f"{self.ended[name]}/{self.totals[name]}")
        if len(names) > MOST_ARMS:
            table.add_row(Text(f"and {len(names) - MOST_ARMS} more", "dim"), "", "")
        return table


class WatchDisplay(LiveDisplay):
    """The picture of `zoo run` with the arms above it."""

    def __init__(
        self, console: Console, progress: SweepProgress, seen: _Seen, now: Callable[[], float] = time.monotonic
    ):
        self.seen = seen
        super().__init__(console, progress, now)

    def _where(self, progress) -> str:
        text = super()._where(progress)
        silent = self.now() - progress.newest
        return f"{text}, no news for {clock(silent)}" if silent > SILENT_SECONDS else text

    def _picture(self) -> Group:
        running = Table.grid(padding=(0, 2, 0, 0))
        for progress in self.progress.running.values():
            bar = ProgressBar(total=progress.run.arm.steps, completed=progress.tail.step, width=20)
            running.add_row(Text(progress.run.name), bar, Text(self._where(progress)))
        if not self.progress.running:
            running.add_row(Text("no run is under way", "dim"))
        parts = sum(
            min(1.0, progress.tail.step / progress.run.arm.steps) for progress in self.progress.running.values()
        )
        bar = ProgressBar(total=self.progress.total, completed=self.progress.ended + parts, width=40)
        whole = Table.grid(padding=(0, 2, 0, 0))
        whole.add_row(bar, Text(self._overall(), "bold"))
        return Group(self.seen.table(), Text(), running, Text(), whole)


def follow(
    folder: Path,
    console: Console,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Shows the runs of a folder until all have ended.

    Raises:
        ConfigError: the folder holds neither a sweep nor a run.
    """
    planned, sweep = _planned(folder), load_any(folder)
    console.print(Text(f"{sweep.name}: {sweep.question}" if sweep.question else sweep.name, "bold"), soft_wrap=True)
    while not _follow(sweep, planned, console, now, sleep):
        # Seeds were added.
        planned, sweep = _planned(folder), load_any(folder)


def _planned(folder: Path) -> int:
    """Changes with the plan of a sweep; asked before the plan is read, so that no change falls
    between the two.
    """
    try:
        return (folder / "experiment.json").stat().st_mtime_ns
    except OSError:
        return 0


def _follow(
    sweep: SweepResults, planned: int, console: Console, now: Callable[[], float], sleep: Callable[[float], None]
) -> bool:
    """False when the plan is no longer the one that was `planned`, True when all runs have ended."""
    runs = watched_runs(sweep)
    states = {run.folder: read_status(sweep.folder / run.folder).get("state") for run in runs}
    progress = SweepProgress(
        sweep.folder, runs, [run for run in runs if states[run.folder] not in ENDED], 1, sweep.metric
    )
    seen = _Seen(sweep, runs)
    for run, read in zip(runs, [*sweep.prepared, *sweep.runs], strict=True):
        if states[run.folder] in ENDED:
            seen.add(run, read.final(sweep.metric))
    display = (
        WatchDisplay(console, progress, seen, now) if console.is_terminal else PlainDisplay(console, progress, now)
    )
    ended = {folder for folder, state in states.items() if state in ENDED}
    with display:
        while _planned(sweep.folder) == planned:
            for run in runs:
                _look(sweep, run, display, seen, ended)
            progress.workers = max(progress.workers, len(progress.running))
            if len(ended) == len(runs):
                break
            display.refresh()
            sleep(LOOK_SECONDS)
        else:
            return False
    console.print(seen.table())
    return True


def _look(sweep: SweepResults, run: _Run, display: PlainDisplay, seen: _Seen, ended: set[str]) -> None:
    """Tells the display of what has become of a run since the last look."""
    status = read_status(sweep.folder / run.folder)
    state, progress = status.get("state"), display.progress
    if run.folder in progress.running:
        if state == "running":
            return
        tail = progress.running[run.folder]
        step, reason = status.get("step"), status.get("reason")
        name = state if state in ENDED else "half-done"
        display.ended(run, State(name, step if isinstance(step, int) else 0, reason if isinstance(reason, str) else ""))
        if name in ENDED:
            ended.add(run.folder)
            seen.add(run, tail.tail.metric if state == "done" else None)
    elif state == "running":
        if run.folder in ended:
            # A failed run that is tried again.
            ended.discard(run.folder)
            progress.ended -= 1
            seen.ended[run.arm.name] -= 1
        display.started(run, 0)
        found = progress.running[run.folder]
        # It may have been going on for long.
        found.trains_since = display.now() if found.tail.step else None
    elif state in ENDED and run.folder not in ended:
        # Began and ended between two looks.
        display.started(run, 0)
        _look(sweep, run, display, seen, ended)
