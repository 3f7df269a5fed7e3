"""The one training loop."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np

from zoo.config import ResolvedConfig
from zoo.data import Dataset
from zoo.errors import Diverged, Preempted
from zoo.objectives import Objective
from zoo.training.checkpoint import Checkpoints
from zoo.training.dynamics import DynamicsFile
from zoo.training.metrics import Clock, MetricsFile
from zoo.training.processes import Agreement
from zoo.training.step import Program, State
from zoo.training.translations import Translations


class StopSignal:
    """Remembers SIGTERM, SIGINT and SIGHUP, so that the loop can save before it ends; a second one ends the process at once.

    A scheduler and a sweep may both pass on the same request: repeats within a second count as one. Signals reach only the main
    thread; elsewhere nothing is installed and nothing is ever requested. As a context it gives the handlers back at its end, so that
    whoever called the run is interrupted as before.

    Where several processes train together, they have to stop at the same step: a signal to one of them counts from the moment that
    `Agreement` chooses, and `requested` changes in `ask` only.
    """

    def __init__(self):
        self.requested = False
        self._agreement = Agreement() if jax.process_count() > 1 else None
        self._first = 0.0
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            # With several processes SIGTERM is JAX's.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[self._agreement is not None:]:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    self._before[number] = signal.signal(number, self._handle)

    def __enter__(self) -> "StopSignal":
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ask(self) -> bool:
        """Whether to stop now. Every process has to ask equally often."""
        if self._agreement is not None:
            self.requested = self._agreement.ask()
        return self.requested

    def _handle(self, number: int, frame: Any) -> None:
        del frame
        if self._agreement is not None:
            signal.raise_signal(signal.SIGTERM)
            return
        if self.requested and time.monotonic() - self._first > 1:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if not self.requested:
            self.requested, self._first = True, time.monotonic()


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
    clock: Clock = field(default_factory=Clock)
    losses: list[float] = field(default_factory=list)


def evaluate(
    program: Program, params: Any, stats: Any, batches: Iterator[dict[str, np.ndarray]], constants: Any, stop: StopSignal | None = None,
    measure: Callable[[dict[str, np.ndarray]], dict[str, float]] | None = None,
) -> dict[str, float] | None:
    """Scores a model on every example of `batches` exactly once.

    Args:
        program, params, stats, constants: of the run.
        batches: what is scored.
        stop: asks to end before all is scored.
        measure: makes further scores of the objective's outputs for all rows, in their order and without those that only fill up.

    Returns:
        {"loss": nats per token, "perplexity": e^loss, "bits_per_byte": bits of information per UTF-8 byte of text, and what else the
        objective reports}, of a task {"loss": its mean, what the objective reports, and what `measure` makes}, or None if a stop was
        requested before the end.
    """
    sums, outputs = [], []
    for batch in batches:
        if stop is not None and stop.ask():
            return None
        one, output = program.eval_step(params, stats, program.put_batch(batch), constants)
        sums.append(one)
        outputs.append(output)
    total = {name: float(np.sum([np.float64(part[name]) for part in jax.device_get(sums)])) for name in sums[0]}

    def ratio(one: str, other: str) -> float:
        return total[one] / total[other] if total[other] else float("nan")

    means = {name: ratio(*pair) for name, pair in program.means.items()}
    if "bytes" not in total:
        if measure is not None and outputs[0]:
            arrays = jax.device_get(outputs)
            real = np.concatenate([part["real"] for part in arrays])
            means |= measure({name: joined([part[name] for part in arrays])[real] for name in arrays[0] if name != "real"})
        return means
    return {"loss": means.pop("loss"), "perplexity": float(np.exp(min(ratio("loss", "weight"), 700.0))),
            "bits_per_byte": ratio("loss", "bytes") / float(np.log(2)), **means}


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """The rows of all batches; where these differ in width, [B, T], the narrower ones are filled up with zeros."""
    widest = max(part.shape[1:] for part in parts)
    return np.concatenate([np.pad(part, [(0, 0), *((0, size - own) for own, size in zip(part.shape[1:], widest, strict=True))])
                           for part in parts])


def evaluations(
    config: ResolvedConfig, objective: Objective, program: Program, dataset: Dataset, state: State, constants: Any, rows: int,
    stop: StopSignal, last: bool, log: Callable[[str], None],
) -> dict[str, float] | None:
    """Evaluates at the trained length and, when `last`, at `training.eval_lengths`.

    Lengths beyond what the model or the objective can do are left out, with a line that says so. Metrics at the trained length carry
    no suffix, those at `eval_lengths` carry "@" and the length. Batches are filled up to a multiple of `rows`.
    """
    results: dict[str, float] = {}
    trained, further = config.data.sequence_length, config.training.eval_lengths if last else ()
    for length in dict.fromkeys((trained, *further)):
        if (reason := objective.too_long(length)) is not None:
            log(f"not evaluated at length {length}: {reason}")
            continue
        batches = dataset.evaluation_batches(length, rows, jax.process_index(), jax.process_count())
        scores = evaluate(program, state["params"], state["stats"], batches, constants, stop, partial(dataset.measure, length=length))
        if scores is None:
            return None
        for suffix in ([""] if length == trained else []) + ([f"@{length}"] if length in further else []):
            results |= {f"eval/{name}{suffix}": value for name, value in scores.items()}
    return results


def progress_line(step: int, steps: int, tokens_per_step: float, values: dict[str, float]) -> str:
    """One line for people: step, loss, gradient norm, pace, and the time left at this pace."""
    text = f"step {step}/{steps}  loss {values['train/loss']:.4f}  gradient norm {values['train/gradient_norm']:.3g}"
    pace = values.get("train/tokens_per_second")
    if not pace:
        return text
    minutes, seconds = divmod(round((steps - step) * tokens_per_step / pace), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{text}  {pace:,.0f} tokens/s  {hours}:{minutes:02d}:{seconds:02d} left"


def train(
    config: ResolvedConfig,
    objective: Objective,
    program: Program,
    dataset: Dataset,
    state: State,
    progress: Progress,
    checkpoints: Checkpoints,
    metrics: MetricsFile,
    stop: StopSignal,
    log: Callable[[str], None],
    rows: int,
    translations: Translations | None = None,
    dynamics: DynamicsFile | None = None,
) -> State:
    """Trains from the step in `state` to `training.steps`.

    With `translations` the evaluations where these are due have their scores too, with `dynamics` the steps where it is due its
    statistics, which a program of its own computes just before the step.

    The order is a contract: evaluate (parameters as they are) -> save -> take the next batch -> dispatch the step -> handle the
    metrics of the *previous* step. So what is saved at step n is one moment: the state after n updates, the evaluation at n and
    every metric up to n are on disk before the checkpoint is, and batch n has not been taken. Metrics come one step late so that
    the device never waits for the host.

    Raises:
        Diverged: the loss or gradient is not finite. That update was not applied, and nothing is saved after it.
        Preempted: a stop was requested; the state is saved at the current step.
    """
    training = config.training
    constants = program.constants(config.seed)
    step = start = int(state["step"])
    batches = dataset.training_batches(start, jax.process_index(), jax.process_count())
    # Shapes that a program was compiled for.
    compiled: set[tuple] = set()
    pending: tuple[int, dict[str, jax.Array], dict[str, jax.Array] | None] | None = None
    logged_tokens, logged_seconds = progress.tokens, progress.clock.seconds

    def handle_pending() -> None:
        nonlocal pending, logged_tokens, logged_seconds
        if pending is None:
            return
        number, device_values, observed = pending
        pending = None
        values = {name: value.item() for name, value in jax.device_get(device_values).items()}
        progress.tokens += int(values.pop("tokens"))
        finite = values.pop("finite")
        if dynamics is not None:
            dynamics.write(number, values["loss"], {} if observed is None else program.dynamics_step.rows(observed))
        if progress.clock.running:
            seconds = progress.clock.seconds
        else:
            # The first step of a shape in a process compiles: the clock runs from its end.
            progress.clock.start()
            seconds = progress.clock.seconds
            logged_tokens, logged_seconds = progress.tokens, seconds
        if number % training.log_every == 0 or number in (1, training.steps) or not finite:
            line = {f"train/{name}": value for name, value in values.items()}
            if seconds > logged_seconds:
                line["train/tokens_per_second"] = (progress.tokens - logged_tokens) / (seconds - logged_seconds)
            metrics.write(number, progress.tokens, seconds, line)
            log(progress_line(number, training.steps, progress.tokens / number, line))
            logged_tokens, logged_seconds = progress.tokens, seconds
        if not finite:
            raise Diverged(f"step {number}: loss {values['loss']}, gradient norm {values['gradient_norm']}; the update was not applied")

    def save(scores: dict[str, float] | None) -> None:
        beside = {"tokens": progress.tokens, "seconds": progress.clock.seconds, "evaluated": progress.evaluated}
        if dynamics is not None and dynamics.every:
            beside["losses"] = dynamics.losses
        checkpoints.save(step, state, beside, scores)

    try:
        while True:
            stop.ask()
            last = step == training.steps
            eval_due = last or (training.eval_every and step and step % training.eval_every == 0)
            save_due = last or (training.checkpoint_every and step and step % training.checkpoint_every == 0)
            scores = None
            if (eval_due and not progress.evaluated) or save_due or stop.requested:
                handle_pending()
                progress.clock.stop()
            if eval_due and not progress.evaluated and not stop.requested:
                scores = evaluations(config, objective, program, dataset, state, constants, rows, stop, last, log)
                if scores is not None and translations is not None and translations.due(step):
                    more = translations(step, state, stop.ask)
                    scores = None if more is None else scores | more
                if scores is not None:
                    metrics.write(step, progress.tokens, progress.clock.seconds, scores)
                    log(f"step {step}: " + ", ".join(f"{name} {value:.4f}" for name, value in scores.items()))
                    progress.evaluated = True
            if (save_due or stop.requested) and (step > start or step not in checkpoints.steps()):
                save(scores)
            if stop.requested and not (last and progress.evaluated):
                raise Preempted(f"stopped at step {step} of {training.steps} and saved; the same command continues")
            if last:
                return state
            if pending is None and step > start:
                progress.clock.start()
            batch = next(batches)
            observe = dynamics is not None and dynamics.due(step + 1)
            if (shape := (observe, *(array.shape for array in batch.values()))) not in compiled:
                # The clock does not run while a program is compiled, as at the start.
                handle_pending()
                progress.clock.stop()
                # With the program that observes, the other one is compiled too.
                compiled |= {shape, (False, *shape[1:])}
            batch = program.put_batch(batch)
            progress.evaluated = False
            observed = program.dynamics_step(state, batch, constants) if observe else None
            state, device_values = program.train_step(state, batch, constants)
            handle_pending()
            progress.step = step = step + 1
            pending = (step, device_values, observed)
            checkpoints.poll()
    finally:
        batches.close()
