"""Output of `zoo run`: the table of arms before it starts, then the progress of its runs."""

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from zoo.config import check_records, plugins
from zoo.data.pipeline.evaluation_fingerprint import evaluation_fingerprint
from zoo.errors import listed
from zoo.lab.experiment import Experiment
from zoo.lab.formatting import significant
from zoo.lab.launch.fitted_table import print_fitted
from zoo.lab.launch.progress import RunProgress, SweepProgress
from zoo.lab.planning.arm import PlannedArm, PlannedRun
from zoo.lab.planning.plan import Plan
from zoo.training.records.run_folder import FolderState

# Columns of a table of arms, the least important first.
COSTS = ("embedding", "rest", "tokens/parameter", "steps", "FLOPs/token", "tokens", "parameters")
_WHERE = "--dry-run --json has them"
REFRESH_SECONDS = 0.5
PLAIN_LINE_SECONDS = 15.0


def format_duration(seconds: float | None) -> str:
    """Formats as `1:05:09` or `3:20`; None is a dash."""
    if seconds is None:
        return "–"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def format_quantity(value: float) -> str:
    """Formats with three digits and a prefix: 532, 12.3 k, 1.25 M."""
    value = float(f"{value:.3g}")
    for power, letter in ((12, " T"), (9, " G"), (6, " M"), (3, " k")):
        if value >= 10**power:
            shown = value / 10**power
            return f"{shown:.{max(0, 2 - math.floor(math.log10(shown)))}f}{letter}"
    return f"{value:.0f}"


def print_line(console: Console, text: str, style: str = "") -> None:
    """Prints one line without wrapping, so that a path can be copied and a log file searched."""
    console.print(Text(text, style), soft_wrap=True)


def print_plan(console: Console, plan: Plan, states: Mapping[str, FolderState]) -> None:
    """Prints the question, the claim, the arms with their cost and state, and the warnings.

    Args:
        states: state of every run, by its folder.
    """
    experiment = plan.experiment

    def line(text: str, style: str = "") -> None:
        console.print(Text(text, style), soft_wrap=not console.is_terminal)

    line(f"{experiment.name}{f' ({experiment.size})' if experiment.size else ''}: {experiment.question}", "bold")
    if experiment.claim:
        line(f"Claim {experiment.claim.id}: {experiment.claim.statement} ({experiment.claim.source})")
    for contrast in experiment.contrasts:
        line(f"  expected: {contrast.expected}")
    if plan.prerequisites:
        prerequisites = list({run.arm.name: run.arm for run in plan.prerequisites}.values())
        console.print()
        rows = [([arm.name], arm, _states(arm, plan.prerequisites, states)) for arm in prerequisites]
        table = _table(["trained first"], rows, dataclasses.replace(experiment, tune=None))
        print_fitted(console, table, COSTS, _WHERE)
    console.print()
    rows = [(list(arm.levels.values()), arm, _states(arm, plan.runs, states)) for arm in plan.arms]
    print_fitted(console, _table(list(experiment.factors), rows, experiment), COSTS, _WHERE)
    for what, text in _common(plan.arms, experiment).items():
        line(f"{what}{' of every arm' if len(plan.arms) > 1 else ''}: {text}")
    for text in plan.differences:
        line(text)
    console.print()
    for warning in plan.warnings:
        line(f"warning: {warning}", "yellow")
    for text in _checks(plan):
        line(f"plug-in: {text}")


def _checks(plan: Plan) -> list[str]:
    """Returns what `zoo check` has found about the kinds of the plan's plug-ins."""
    return [text for plugin in plugins.named(plan.plugins) for text in check_records.lines_about(plugin)]


def _states(arm: PlannedArm, runs: list[PlannedRun], states: Mapping[str, FolderState]) -> list[FolderState]:
    return [states[run.folder] for run in runs if run.arm is arm]


def _table(
    names: list[str], rows: list[tuple[list[str], PlannedArm, list[FolderState]]], experiment: Experiment
) -> Table:
    """Returns the table of arms with their cost and the states of their runs.

    Args:
        names: headers of the first columns.
        rows: (first cells, arm, states of its runs).
        experiment: that the arms belong to.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(Text(name))
    # With experts, the parameters that are applied to a token.
    active = ["active"] if any("active" in arm.parameters for _, arm, _ in rows) else []
    for name in ("parameters", *active, "embedding", "rest", "FLOPs/token", "tokens", "tokens/parameter", "steps"):
        table.add_column(name, justify="right", no_wrap=True)
    common = _common([arm for _, arm, _ in rows], experiment)
    differing = [what for what in _CONDITIONS if what not in common]
    for what in differing:
        table.add_column(what)
    seeds = max(len(states) for _, _, states in rows)
    table.add_column(f"runs ({seeds} seeds)" if seeds > 1 else "run")
    for first, arm, states in rows:
        total, embedding = arm.parameters["total"], arm.parameters["embedding"]
        applied = [arm.parameters.get("active", total)] if active else []
        table.add_row(
            *map(Text, first),
            *map(format_quantity, (total, *applied, embedding, total - embedding, arm.flops_per_token, arm.tokens)),
            f"{arm.tokens / total:.2g}",
            f"{arm.steps:,}",
            *(Text(_CONDITIONS[what](arm, experiment)) for what in differing),
            Text(_summary(states)),
        )
    return table


def _optimizer(arm: PlannedArm, experiment: Experiment) -> str:
    optimizer, schedule = arm.config.optimizer, arm.config.schedule
    rate = f"{optimizer.learning_rate:g}"
    tune = next((tune for tune in experiment.tunings if tune.field == "optimizer.learning_rate"), None)
    if tune and tune.field not in experiment.tuned_values.get(arm.name, {}):
        rate = f"with the best rate around {', '.join(f'{value:g}' for value in sorted(tune.values))}"
    warmup = f", warm-up {schedule.warmup_steps:,}" if schedule.warmup_steps else ""
    return f"{optimizer.kind} {rate}, {schedule.kind}{warmup}"


def _data(arm: PlannedArm, experiment: Experiment) -> str:
    del experiment
    data = arm.config.data
    return f"{data.source}, batches of {data.batch_size:,} rows x {data.sequence_length:,} tokens"


def _scored(arm: PlannedArm, experiment: Experiment) -> str:
    del experiment
    return evaluation_fingerprint(arm.config).description


_CONDITIONS: dict[str, Callable[[PlannedArm, Experiment], str]] = {
    "optimizer": _optimizer,
    "data": _data,
    "evaluation": _scored,
}


def _common(arms: list[PlannedArm], experiment: Experiment) -> dict[str, str]:
    """Returns the training conditions that all arms share."""
    found = {what: {text(arm, experiment) for arm in arms} for what, text in _CONDITIONS.items()}
    return {what: texts.pop() for what, texts in found.items() if len(texts) == 1}


def _summary(states: list[FolderState]) -> str:
    """Returns e.g. `2 done, 1 unfinished at step 250`."""
    words = [
        f"{state.name} at step {state.step:,}" if state.name in ("unfinished", "failed") else state.name
        for state in states
    ]
    counts = Counter(words)
    return ", ".join(f"{number} {word}" if len(states) > 1 else word for word, number in counts.items())


def _name(runs: Sequence[PlannedRun]) -> str:
    """Returns the name of a run, or e.g. `12 runs as one program (norm=pre seed 0 and 11 more)`."""
    if len(runs) == 1:
        return runs[0].name
    return f"{len(runs)} runs as one program ({listed([run.name for run in runs], 1)})"


def _loss(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "not finite"


def plan_record(plan: Plan, states: Mapping[str, FolderState], folder: Path) -> dict[str, Any]:
    """Returns the plan of a sweep as plain JSON: what experiment.json will hold, and of each arm
    also its steps, tokens and conditions, of each run its state.

    Args:
        states: state of every run, by its folder.
        folder: of the sweep.
    """
    record = plan.record()
    arms = [
        entry
        | {"steps": arm.steps, "tokens": arm.tokens}
        | {what: text(arm, plan.experiment) for what, text in _CONDITIONS.items()}
        for entry, arm in zip(record["arms"], plan.arms, strict=True)
    ]
    runs = {
        name: [run | {"state": states[run["folder"]].name, "step": states[run["folder"]].step} for run in record[name]]
        for name in ("runs", "prerequisites")
    }
    checks = {"plugin_checks": _checks(plan)} if plan.plugins else {}
    return {"folder": str(folder)} | record | {"arms": arms} | runs | checks


class PlainDisplay:
    """Shows the progress of runs as lines for a log file: when a run starts or ends, and every 15
    seconds per active process.

    Args:
        console: where to.
        progress: of the sweep.
        now: a clock in seconds.
        age: seconds since the sweep began.
    """

    def __init__(
        self, console: Console, progress: SweepProgress, now: Callable[[], float] = time.monotonic, age: float = 0.0
    ):
        self.console, self.progress, self.now = console, progress, now
        self._refreshed = self._printed = now()
        self._started = now() - age
        # The runs that train as one program, by the folder of each.
        self._together: dict[str, list[PlannedRun]] = {}

    def _line(self, text: str, style: str = "") -> None:
        print_line(self.console, text, style)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def started(self, runs: Sequence[PlannedRun], step: int) -> None:
        """Shows that runs, which train as one program, have started, or continue from about `step`
        updates.
        """
        for run in runs:
            self.progress.start(run, self.now())
            self._together[run.folder] = list(runs)
        self._line(f"start    {_name(runs)}" + (f", continues from about step {step:,}" if step else ""))

    def retried(self, run: PlannedRun, state: FolderState) -> None:
        """Shows that a run was interrupted and will be retried once."""
        self.progress.requeue(run)
        self._line(f"retry    {run.name}: {state.reason or 'interrupted'}", "yellow")

    def ended_together(self, ended: Sequence[tuple[PlannedRun, FolderState]]) -> None:
        """Shows that the runs of a program have ended: those that are done in one line."""
        done = [run for run, state in ended if state.name == "done"]
        for run, state in ended:
            if state.name != "done" or len(done) == 1:
                self.ended(run, state)
        if len(done) > 1:
            tails = [self.progress.end(run, self.now()) for run in done]
            values = [tail.tail.metric for tail in tails if tail.tail.metric is not None]
            between = f"{_loss(min(values))} to {_loss(max(values))}" if values else "not written"
            took = format_duration(self.now() - tails[0].started)
            self._line(f"done     {_name(done)}: {self.progress.metric} {between} ({took})", "green")
            self._show()

    def ended(self, run: PlannedRun, state: FolderState) -> None:
        """Shows that a run has ended."""
        stopped = state.name == "unfinished"
        progress = self.progress.end(run, self.now(), final=not stopped)
        style = {"done": "green", "failed": "red", "diverged": "magenta"}.get(state.name, "")
        took = format_duration(self.now() - progress.started)
        self._line(
            f"{'stopped' if stopped else state.name:<8} {run.name}: {self._result(progress, state)} ({took})", style
        )
        self._show()

    def stopping(self) -> None:
        """Shows that a signal arrived and the active runs were asked to save."""
        number = len(self.progress.running)
        self._line(
            f"stopping: {number} active run{'' if number == 1 else 's'} will save first; a second signal kills",
            "yellow",
        )

    def refresh(self) -> None:
        """Reads files and prints at its own intervals; to be called often."""
        if self.now() - self._refreshed >= REFRESH_SECONDS:
            self._refreshed = self.now()
            self.progress.refresh(self.now())
            self._report()

    def _report(self) -> None:
        if self.now() - self._printed >= PLAIN_LINE_SECONDS:
            for runs, progress in self._programs():
                self._line(f"         {_name(runs)}: {self._describe(progress)}")
            self._show()

    def _programs(self) -> Iterator[tuple[list[PlannedRun], RunProgress]]:
        """Yields (active runs, progress of the first of them) of each program."""
        seen: set[str] = set()
        for folder, progress in self.progress.running.items():
            if folder not in seen:
                runs = [
                    run for run in self._together.get(folder, [progress.run]) if run.folder in self.progress.running
                ]
                seen |= {run.folder for run in runs}
                yield runs, progress

    def _show(self) -> None:
        self._printed = self.now()
        self._line(f"         {self._overall()}")

    def _result(self, progress: RunProgress, state: FolderState) -> str:
        if state.name == "done":
            value = progress.tail.metric
            return f"{self.progress.metric} {'not written' if value is None else _loss(value)}"
        reason = state.reason.rstrip(".")
        return f"step {state.step:,}" + (f", {reason}" if reason else "")

    def _describe(self, progress: RunProgress) -> str:
        waited = format_duration(self.now() - progress.started)
        if progress.phase == "starting":
            return f"loading and compiling ({waited})"
        tail, steps = progress.tail, progress.run.arm.steps
        parts = [f"step {tail.step:,}/{steps:,}"]
        if tail.loss is not None:
            parts.append(f"loss {_loss(tail.loss)}")
        if progress.phase == "finishing":
            return ", ".join([*parts, "evaluating and saving"])
        if tail.tokens_per_second:
            parts.append(f"{significant(tail.tokens_per_second, 3):,.0f} tokens/s")
        left = progress.remaining(self.now(), *self.progress.pace())
        return ", ".join([*parts, f"{format_duration(left)} left"] if left is not None else parts)

    def _overall(self) -> str:
        now, progress = self.now(), self.progress
        left = progress.remaining(now)
        text = f"runs {progress.ended}/{progress.total}, {format_duration(now - self._started)} elapsed"
        return text + (
            f", about {format_duration(left)} left" if left is not None and progress.ended < progress.total else ""
        )


class LiveDisplay(PlainDisplay):
    """For a terminal: permanent lines of ended runs above progress bars of the active ones."""

    def __init__(
        self, console: Console, progress: SweepProgress, now: Callable[[], float] = time.monotonic, age: float = 0.0
    ):
        super().__init__(console, progress, now, age)
        self._live = Live(console=console, auto_refresh=False, transient=True, get_renderable=self._render)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def started(self, runs: Sequence[PlannedRun], step: int) -> None:
        for run in runs:
            self.progress.start(run, self.now())
            self._together[run.folder] = list(runs)
        self._show()

    def _report(self) -> None:
        self._show()

    def _show(self) -> None:
        self._live.refresh()

    def _render(self) -> Group:
        return Group(*self._bars())

    def _bars(self) -> tuple[Table, Table]:
        """Returns the bars of the active runs, and that of the sweep."""
        table = Table.grid(padding=(0, 2, 0, 0))
        running = self.progress.running.values()
        for runs, progress in self._programs():
            bar = ProgressBar(total=progress.run.arm.steps, completed=progress.tail.step, width=20)
            table.add_row(Text(_name(runs)), bar, Text(self._describe(progress)))
        whole = Table.grid(padding=(0, 2, 0, 0))
        # Active runs count in part, so that the bar moves between the ends of runs.
        parts = sum(min(1.0, progress.tail.step / progress.run.arm.steps) for progress in running)
        bar = ProgressBar(total=self.progress.total, completed=self.progress.ended + parts, width=40)
        whole.add_row(bar, Text(self._overall(), "bold"))
        return table, whole
