"""A run in the loop: how far it is, its batches, and what it writes. Runs that are trained together
differ in nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax

from zoo.config import ResolvedConfig
from zoo.data import TextDataset
from zoo.errors import Diverged
from zoo.objectives import Objective
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.dynamics import DynamicsFile
from zoo.training.evaluation import evaluations
from zoo.training.records.metrics_file import MetricsFile, TrainingClock
from zoo.training.runtime.signals import StopSignal
from zoo.training.step import Program, State
from zoo.training.translation_files import Translations


@dataclass
class Progress:
    """Where a run stands on the host's side; saved and restored with the state.

    Attributes:
        step: updates done.
        tokens: tokens read in all updates so far.
        evaluated: the evaluation due at the current step is done.
        clock: seconds of training.
        losses: of the last steps before, where it continues a run that watches for spikes.
    """

    step: int = 0
    tokens: int = 0
    evaluated: bool = False
    clock: TrainingClock = field(default_factory=TrainingClock)
    losses: list[float] = field(default_factory=list)


@dataclass(eq=False)
class Member:
    """One of the runs that a loop trains together; a lone run is the only one.

    Attributes:
        config: resolved.
        program, objective: those of the loop.
        dataset: its batches.
        constants: of its program.
        progress: where it stands; its step at the start is that from which it takes part.
        checkpoints, metrics, dynamics: where it is saved, and where it writes.
        translations: scores what it translates, where it does.
        rows: a batch's rows must be a multiple of this.
        log: takes a line for people.
        diverged: told at once when it takes no further part.
        error: why.
    """

    config: ResolvedConfig
    program: Program
    objective: Objective
    dataset: TextDataset
    constants: dict[str, Any]
    progress: Progress
    checkpoints: Checkpoints
    metrics: MetricsFile
    dynamics: DynamicsFile
    translations: Translations | None
    rows: int
    log: Callable[[str], None]
    diverged: Callable[[Diverged], None]
    error: Diverged | None = None

    def __post_init__(self):
        self.begun = self.progress.step
        self.batches = self.dataset.training_batches(self.begun, jax.process_index(), jax.process_count())
        self._logged = self.progress.tokens, self.progress.clock.seconds

    def takes_part(self, step: int) -> bool:
        """Whether the update after `step` updates is one of its own."""
        return self.error is None and self.begun <= step

    def handle(self, number: int, values: dict[str, float], observed: dict[str, Any] | None) -> None:
        """Takes the metrics of an update, and what was observed of it; if they are not finite, it
        takes no further part.
        """
        progress, training = self.progress, self.config.training
        progress.tokens += int(values.pop("tokens"))
        finite = values.pop("finite")
        self.dynamics.write(
            number, values["loss"], {} if observed is None else self.program.dynamics_step.rows(observed)
        )
        if progress.clock.running:
            seconds = progress.clock.seconds
        else:
            # The first step of a shape in a process compiles: the clock runs from its end.
            progress.clock.start()
            seconds = progress.clock.seconds
            self._logged = progress.tokens, seconds
        if number % training.log_every == 0 or number in (1, training.steps) or not finite:
            line = {f"train/{name}": value for name, value in values.items()}
            tokens, before = self._logged
            if seconds > before:
                line["train/tokens_per_second"] = (progress.tokens - tokens) / (seconds - before)
            self.metrics.write(number, progress.tokens, seconds, line)
            self.log(progress_line(number, training.steps, progress.tokens / number, line))
            self._logged = progress.tokens, seconds
        if not finite:
            self.error = Diverged(
                f"step {number}: loss {values['loss']}, gradient norm {values['gradient_norm']}; the update was not applied"
            )
            self.diverged(self.error)

    def evaluate(self, step: int, state: State, stop: StopSignal) -> dict[str, float] | None:
        """Scores what is held out, and writes that down; returns the scores, or None if a stop was
        requested before the end.
        """
        last = step == self.config.training.steps
        scores = evaluations(
            self.config,
            self.objective,
            self.program,
            self.dataset,
            state,
            self.constants,
            self.rows,
            stop,
            last,
            self.log,
        )
        if scores is not None and self.translations is not None and self.translations.due(step):
            more = self.translations(step, state, stop.poll)
            scores = None if more is None else scores | more
        if scores is not None:
            self.metrics.write(step, self.progress.tokens, self.progress.clock.seconds, scores)
            self.log(f"step {step}: " + ", ".join(f"{name} {value:.4f}" for name, value in scores.items()))
            self.progress.evaluated = True
        return scores

    def save(self, step: int, state: State, scores: dict[str, float] | None) -> None:
        """Starts saving the state after `step` updates, unless it is the one that the run continues
        from.
        """
        if step == self.begun and step in self.checkpoints.steps():
            return
        beside = {
            "tokens": self.progress.tokens,
            "seconds": self.progress.clock.seconds,
            "evaluated": self.progress.evaluated,
        }
        if self.dynamics.every:
            beside["losses"] = self.dynamics.losses
        self.checkpoints.save(step, state, beside, scores)

    def close(self) -> None:
        """Closes its files, once everything is on disk."""
        for part in (self.batches, self.metrics, self.dynamics, self.checkpoints):
            part.close()


def progress_line(step: int, steps: int, tokens_per_step: float, values: dict[str, float]) -> str:
    """One line for people: step, loss, gradient norm, pace, and the time left at this pace."""
    text = f"step {step}/{steps}  loss {values['train/loss']:.4f}  gradient norm {values['train/gradient_norm']:.3g}"
    pace = values.get("train/tokens_per_second")
    if not pace:
        return text
    minutes, seconds = divmod(round((steps - step) * tokens_per_step / pace), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{text}  {pace:,.0f} tokens/s  {hours}:{minutes:02d}:{seconds:02d} left"
