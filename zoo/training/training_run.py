"""One run during training: its progress, its batches, and what it writes.

Runs that are trained together share a program and cadences.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import jax

from zoo.config import ResolvedConfig
from zoo.errors import Diverged
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.dynamics import DynamicsFile
from zoo.training.evaluation.held_out import Dataset
from zoo.training.evaluation.translation_evaluation import TranslationEvaluator
from zoo.training.records.metrics_file import MetricsFile, TrainingClock
from zoo.training.runtime.device_peaks import ComputeRate
from zoo.training.runtime.signals import StopSignal
from zoo.training.state import State
from zoo.training.step import Program
from zoo.training.update import Constants


@dataclass
class Progress:
    """Progress of a run, kept on the host; saved and restored with the state.

    Attributes:
        step: updates done.
        tokens: tokens read in all updates so far.
        evaluated: whether the evaluation due at the current step is done.
        clock: seconds of training.
        losses: the last losses, if the run records spikes of the loss.
    """

    step: int = 0
    tokens: int = 0
    evaluated: bool = False
    clock: TrainingClock = field(default_factory=TrainingClock)
    losses: list[float] = field(default_factory=list)

    @classmethod
    def from_checkpoint(cls, step: int, metadata: dict[str, Any]) -> "Progress":
        """Returns the progress at `step` from a checkpoint's metadata."""
        return cls(
            step,
            metadata["tokens"],
            metadata["evaluated"],
            TrainingClock(metadata["seconds"]),
            metadata.get("losses", []),
        )


@dataclass(frozen=True)
class RunFiles:
    """The files that a run writes while it trains: checkpoints, metrics.jsonl, dynamics.jsonl."""

    checkpoints: Checkpoints
    metrics: MetricsFile
    dynamics: DynamicsFile

    def close(self) -> None:
        """Closes all files, once everything is on disk."""
        with ExitStack() as stack:  # All of them, also if one cannot write what it still holds.
            for file in (self.checkpoints, self.dynamics, self.metrics):
                stack.callback(file.close)


@dataclass(eq=False, kw_only=True)
class TrainingRun:
    """A run in the training loop, which trains it separately or together with others.

    Attributes:
        config: the resolved config.
        program: shared by all runs of the loop.
        dataset: gives the batches.
        constants: the program's constants for this run.
        progress: how far the run is.
        files: where it is saved and where it writes.
        compute: turns tokens per second into operations per second.
        translation: translates and scores held-out pairs; None except for translation.
        log: called with each line of console output.
        on_divergence: called as soon as the run diverges.
        error: why the run takes no further part, if it diverged.
        start_step: updates done before; the run takes part from there.
        batch: makes training batch number n.
    """

    config: ResolvedConfig
    program: Program
    dataset: Dataset
    constants: Constants
    progress: Progress
    files: RunFiles
    compute: ComputeRate
    translation: TranslationEvaluator | None
    log: Callable[[str], None]
    on_divergence: Callable[[Diverged], None]
    error: Diverged | None = None

    def __post_init__(self):
        self.start_step = self.progress.step
        part = {"process_index": jax.process_index(), "process_count": jax.process_count()}
        self.batch = self.dataset.training_batches(**part).batch
        self._logged = self.progress.tokens, self.progress.clock.seconds

    def is_active(self, step: int) -> bool:
        """Returns whether this run takes part in update `step` + 1."""
        return self.error is None and self.start_step <= step

    def handle_metrics(self, step: int, values: dict[str, float], dynamics: dict[str, Any] | None) -> None:
        """Records the metrics of update number `step`; metrics that are not finite end the run.

        Args:
            step: number of the update.
            values: metrics as `Program.train_step` returns them, on the host.
            dynamics: result of `Program.dynamics_step` for the same update, if it was computed.
        """
        progress, training = self.progress, self.config.training
        progress.tokens += int(values.pop("tokens"))
        finite = values.pop("finite")
        self.files.dynamics.write(
            step, values["loss"], {} if dynamics is None else self.program.dynamics_step.fetch(dynamics)
        )
        if progress.clock.running:
            seconds = progress.clock.seconds
        else:
            # The first step of each batch shape compiles: the clock runs from its end.
            progress.clock.start()
            seconds = progress.clock.seconds
            self._logged = progress.tokens, seconds
        if step % training.log_every == 0 or step in (1, training.steps) or not finite:
            self._write_metrics(step, seconds, values)
        if not finite:
            self.error = Diverged(
                f"step {step}: loss {values['loss']}, gradient norm {values['gradient_norm']}; "
                "the update was not applied"
            )
            self.on_divergence(self.error)

    def _write_metrics(self, step: int, seconds: float, values: dict[str, float]) -> None:
        progress = self.progress
        line = {f"train/{name}": value for name, value in values.items()}
        tokens, before = self._logged
        if seconds > before:
            line["train/tokens_per_second"] = (progress.tokens - tokens) / (seconds - before)
        self.files.metrics.write(step, progress.tokens, seconds, line)
        self.log(progress_line(step, self.config.training.steps, progress.tokens / step, line, self.compute))
        self._logged = progress.tokens, seconds

    def record_evaluation(
        self, step: int, scores: dict[str, float], state: Callable[[], State], stop: StopSignal
    ) -> dict[str, float] | None:
        """Translates if that is due, and writes the scores.

        Args:
            step: updates done.
            scores: those of the held-out data.
            state: returns the state of this run.
            stop: polled during translation.

        Returns:
            All scores, or None if a stop was requested before they were complete.
        """
        if self.translation is not None and self.translation.is_due(step):
            translation_scores = self.translation(step, state(), stop.poll)
            if translation_scores is None:
                return None
            scores = scores | translation_scores
        self.files.metrics.write(step, self.progress.tokens, self.progress.clock.seconds, scores)
        self.log(f"step {step}: " + ", ".join(f"{name} {value:.4f}" for name, value in scores.items()))
        self.progress.evaluated = True
        return scores

    def save(self, step: int, state: State, scores: dict[str, float] | None) -> None:
        """Starts saving the state after `step` updates, unless it was restored at this step."""
        checkpoints, dynamics = self.files.checkpoints, self.files.dynamics
        if step == self.start_step and step in checkpoints.steps():
            return
        metadata = {
            "tokens": self.progress.tokens,
            "seconds": self.progress.clock.seconds,
            "evaluated": self.progress.evaluated,
        }
        if dynamics.every:
            metadata["losses"] = dynamics.losses
        checkpoints.save(step, state, metadata, scores)

    def close(self) -> None:
        """Closes all files, once everything is on disk."""
        self.files.close()


def progress_line(step: int, steps: int, tokens_per_step: float, values: dict[str, float], compute: ComputeRate) -> str:
    """Returns a line of console output: step, loss, gradient norm, pace, the model's operations per
    second, time left at this pace.
    """
    text = f"step {step}/{steps}  loss {values['train/loss']:.4f}  gradient norm {values['train/gradient_norm']:.3g}"
    pace = values.get("train/tokens_per_second")
    if not pace:
        return text
    minutes, seconds = divmod(round((steps - step) * tokens_per_step / pace), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{text}  {pace:,.0f} tokens/s  {compute.describe(pace)}  {hours}:{minutes:02d}:{seconds:02d} left"
