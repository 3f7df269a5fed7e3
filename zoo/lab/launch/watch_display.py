"""Terminal display of a sweep that another process runs: active runs and results so far."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from zoo.lab.formatting import number, plus_minus
from zoo.lab.launch.display import REFRESH_SECONDS, LiveDisplay, PlainDisplay, format_duration
from zoo.lab.launch.fitted_table import print_fitted
from zoo.lab.launch.progress import SweepProgress
from zoo.lab.launch.sweep_folder import is_starting, read_folder, started_at
from zoo.lab.metrics import higher_is_better
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import as_dict
from zoo.lab.results.sweep_results import SweepResults, load_any
from zoo.lab.statistics.paired import spread
from zoo.training.records.run_folder import FolderState

ENDED = ("done", "diverged", "failed")
MAX_ARMS = 12
SILENT_SECONDS = 600


@dataclass(frozen=True)
class _WatchedArm:
    """The fields of `PlannedArm` that progress needs, from the files of the runs."""

    name: str
    steps: int
    tokens_per_step: int
    flops_per_token: float


@dataclass(frozen=True)
class _WatchedRun:
    folder: str
    name: str
    arm: _WatchedArm


def _cost(run: RunRecord) -> tuple[int, int, float] | None:
    """Returns (steps, tokens per step, FLOPs per token) of a run that has started, else None."""
    data, steps = as_dict(run.config.get("data")), run.status.get("steps")
    steps = steps if isinstance(steps, int) else as_dict(run.config.get("training")).get("steps")
    tokens, flops = (data.get("batch_size"), data.get("sequence_length")), run.meta.get("flops_per_token")
    if not isinstance(steps, int) or steps < 1:
        return None
    tokens_per_step = tokens[0] * tokens[1] if all(isinstance(count, int) for count in tokens) else 1
    return steps, tokens_per_step, float(flops) if isinstance(flops, int | float) else 1.0


def watched_runs(sweep: SweepResults) -> list[_WatchedRun]:
    """Returns all runs of a sweep.

    A run that has not started gets the cost of another run of its arm, or else of any run.
    """
    everything = [*sweep.prerequisites, *sweep.runs]
    known = {run.folder: cost for run in everything if (cost := _cost(run))}
    any_cost = next(iter(known.values()), (1, 1, 1.0))
    labels = {arm.name: arm.label for arm in sweep.arms}
    found = []
    for run in everything:
        of_arm = (known[other.folder] for other in everything if other.arm == run.arm and other.folder in known)
        cost = known.get(run.folder) or next(of_arm, any_cost)
        label = labels.get(run.arm, run.arm)
        found.append(_WatchedRun(_inside(sweep, run), f"{label} seed {run.seed}", _WatchedArm(label, *cost)))
    return found


def _inside(sweep: SweepResults, run: RunRecord) -> str:
    return str(run.folder.relative_to(sweep.folder)) if run.folder != sweep.folder else "."


class _ArmResults:
    """The final metric of the finished runs of each arm."""

    def __init__(self, sweep: SweepResults, runs: list[_WatchedRun]):
        self.metric = sweep.metric
        self.finals: dict[str, list[float]] = {run.arm.name: [] for run in runs}
        self.totals = {name: sum(run.arm.name == name for run in runs) for name in self.finals}
        self.ended = dict.fromkeys(self.finals, 0)

    def add(self, run: _WatchedRun, value: float | None) -> None:
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
        for name in names[:MAX_ARMS]:
            values = spread(self.finals[name])
            final = (
                "–" if values is None else plus_minus(values.mean, values.sd) if values.n > 1 else number(values.mean)
            )
            table.add_row(Text(name), final, f"{self.ended[name]}/{self.totals[name]}")
        if len(names) > MAX_ARMS:
            table.add_row(Text(f"and {len(names) - MAX_ARMS} more", "dim"), "", "")
        return table


class WatchDisplay(LiveDisplay):
    """The live display of `zoo run`, below a table of the arms' results."""

    def __init__(
        self,
        console: Console,
        progress: SweepProgress,
        seen: _ArmResults,
        now: Callable[[], float] = time.monotonic,
        age: float = 0.0,
    ):
        self.seen = seen
        super().__init__(console, progress, now, age)

    def _describe(self, progress) -> str:
        text = super()._describe(progress)
        silent = self.now() - progress.newest
        return f"{text}, no news for {format_duration(silent)}" if silent > SILENT_SECONDS else text

    def _render(self) -> Group:
        running, whole = self._bars()
        if not self.progress.running:
            running.add_row(Text("no run is active", "dim"))
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
    version, sweep = _plan_version(folder), load_any(folder)
    console.print(Text(f"{sweep.name}: {sweep.question}" if sweep.question else sweep.name, "bold"), soft_wrap=True)
    while not _follow_plan(sweep, version, console, now, sleep):
        # Seeds were added.
        version, sweep = _plan_version(folder), load_any(folder)


def _plan_version(folder: Path) -> int:
    """Returns the version of a sweep's plan.

    Callers read it before the plan, so that no change between the two is missed.
    """
    try:
        return (folder / "experiment.json").stat().st_mtime_ns
    except OSError:
        return 0


def _follow_plan(
    sweep: SweepResults, version: int, console: Console, now: Callable[[], float], sleep: Callable[[float], None]
) -> bool:
    """Returns True when all runs have ended, False when the plan has changed."""
    runs = watched_runs(sweep)
    states = {run.folder: read_folder(sweep.folder / run.folder).status.get("state") for run in runs}
    progress = SweepProgress(
        sweep.folder, runs, [run for run in runs if states[run.folder] not in ENDED], 1, sweep.metric
    )
    seen = _ArmResults(sweep, runs)
    for run, read in zip(runs, [*sweep.prerequisites, *sweep.runs], strict=True):
        if states[run.folder] in ENDED:
            seen.add(run, read.final(sweep.metric))
    begun = [begin for run in runs if (begin := started_at(read_folder(sweep.folder / run.folder))) is not None]
    age = max(0.0, time.time() - min(begun)) if begun else 0.0
    display = (
        WatchDisplay(console, progress, seen, now, age)
        if console.is_terminal
        else PlainDisplay(console, progress, now, age)
    )
    ended = {folder for folder, state in states.items() if state in ENDED}
    with display:
        while _plan_version(sweep.folder) == version:
            for run in runs:
                _update(sweep, run, display, seen, ended)
            progress.workers = max(progress.workers, len(progress.running))
            if len(ended) == len(runs):
                break
            display.refresh()
            sleep(REFRESH_SECONDS)
        else:
            return False
    print_fitted(console, seen.table(), ["ended"], "zoo report --json has them")
    return True


def _update(sweep: SweepResults, run: _WatchedRun, display: PlainDisplay, seen: _ArmResults, ended: set[str]) -> None:
    """Shows how a run has changed since the last call."""
    folder, progress = read_folder(sweep.folder / run.folder), display.progress
    state = folder.status.get("state")
    if run.folder in progress.running:
        if state == "running" or is_starting(sweep.folder, folder):
            return
        tail = progress.running[run.folder]
        display.ended(run, folder.state if isinstance(state, str) else FolderState("unfinished"))
        if state in ENDED:
            ended.add(run.folder)
            seen.add(run, tail.tail.metric if state == "done" else None)
    elif state == "running":
        if run.folder in ended:
            # A failed run is retried.
            ended.discard(run.folder)
            progress.ended -= 1
            seen.ended[run.arm.name] -= 1
        display.started([run], 0)
        found = progress.running[run.folder]
        # It may have been training for long.
        found.training_since = display.now() if found.tail.step else None
    elif is_starting(sweep.folder, folder):
        display.started([run], 0)
        # It may have been compiling for a while.
        progress.running[run.folder].started -= max(0.0, time.time() - (started_at(folder) or time.time()))
    elif state in ENDED and run.folder not in ended:
        # It started and ended between two calls.
        display.started([run], 0)
        _update(sweep, run, display, seen, ended)
