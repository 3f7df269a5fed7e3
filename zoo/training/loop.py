"""The one training loop.

The order of one iteration is a contract: evaluate (parameters as they are) -> save -> take the next
batch -> dispatch the step -> handle the metrics of the *previous* step. A checkpoint at step n is
therefore a consistent snapshot: it holds the state after n updates; the evaluation at n and every
metric up to n are on disk before it; and batch n has not been taken.

Metrics are read one step late so that the device never waits for the host. Statistics of the
training dynamics, when due, are computed by a separate compiled function just before the step.
"""

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from zoo.errors import Preempted
from zoo.training.evaluation.evaluation_lengths import evaluate_lengths
from zoo.training.executor import StepExecutor
from zoo.training.population.batch_streams import BatchStreams, StackedBatches, number_distinct
from zoo.training.runtime.signals import StopSignal
from zoo.training.state import State
from zoo.training.training_run import TrainingRun
from zoo.training.update import Metrics


def train(executor: StepExecutor, runs: Sequence[TrainingRun], state: State, stop: StopSignal) -> State:
    """Trains one run, or several runs of the same program, to `training.steps`.

    All runs have the same evaluation and checkpoint intervals. A run is active from its start step
    until its metrics are no longer finite. A run that diverges gets an `error`; that update is not
    applied, nothing is saved after it, and the other runs go on. The module's docstring gives the
    order within an iteration.

    Args:
        executor: computes the steps.
        runs: the runs.
        state: the state of all runs, made by `executor.combine`; its memory is reused.
        stop: polled in every iteration.

    Returns:
        The state at the end.

    Raises:
        Preempted: a stop was requested; every active run is saved at the current step.
    """
    step = min(run.start_step for run in runs)
    with contextlib.closing(_Loop(executor, runs, stop)) as loop:
        while True:
            if not (active := loop.active_runs(step)):
                waiting = [run.start_step for run in runs if run.error is None]
                if not waiting:
                    return state
                step = min(waiting)
                continue
            stop.poll()
            due = loop.due(step, active)
            if due.evaluation or due.save or stop.requested:
                loop.stop_clocks()
                if not (active := loop.active_runs(step)):
                    continue
                loop.evaluate_and_save(step, state, active, due)
                if due.last:
                    return state
            state = loop.dispatch_step(step, state, active)
            step += 1


class _Due(NamedTuple):
    """What an iteration has to do before its step."""

    evaluation: bool
    save: bool
    last: bool


class _Pending(NamedTuple):
    """A dispatched step whose metrics have not been handled.

    Attributes:
        step: number of the update.
        metrics: still on the device.
        dynamics: results of `Program.dynamics_step`, by index of the run.
        indices: the runs that took part.
    """

    step: int
    metrics: Metrics
    dynamics: dict[int, dict[str, Any]]
    indices: list[int]


class _Loop:
    """The parts of an iteration, and what they hand on to the next one."""

    def __init__(self, executor: StepExecutor, runs: Sequence[TrainingRun], stop: StopSignal):
        self._executor, self._runs, self._stop = executor, runs, stop
        # Batch n depends on the data set and n alone.
        streams = number_distinct([id(run.dataset) for run in runs])
        self._batches = BatchStreams(streams, [run.batch for run in runs])
        self._training, self._program = runs[0].config.training, runs[0].program
        self._compiled_shapes: set[tuple] = set()
        self._pending: _Pending | None = None

    def close(self) -> None:
        """Ends the thread that makes batches."""
        self._batches.close()

    def active_runs(self, step: int) -> dict[int, TrainingRun]:
        """Returns the runs that take part in update `step` + 1, by index."""
        return {index: run for index, run in enumerate(self._runs) if run.is_active(step)}

    def due(self, step: int, active: dict[int, TrainingRun]) -> _Due:
        """Returns what is due after `step` updates."""
        training, last = self._training, step == self._training.steps
        evaluation = bool(last or (training.eval_every and step % training.eval_every == 0))
        save = last or (training.checkpoint_every and step and step % training.checkpoint_every == 0)
        return _Due(evaluation and any(not run.progress.evaluated for run in active.values()), bool(save), last)

    def evaluate_and_save(self, step: int, state: State, active: dict[int, TrainingRun], due: _Due) -> None:
        """Evaluates and saves the active runs where that is due.

        Raises:
            Preempted: a stop was requested, and there is still something to do.
        """
        stop, scores = self._stop, {}
        stop.doing = "this evaluation" if due.evaluation else "this step"
        if due.evaluation and not stop.requested:
            scores = self._evaluate(step, state, active)
        for index, run in active.items():
            if due.save or stop.requested:
                run.save(step, self._executor.state_of(state, index), scores.get(index))
        stop.doing = "this step"
        if stop.requested and not (due.last and all(run.progress.evaluated for run in active.values())):
            raise Preempted(f"stopped at step {step} of {self._training.steps} and saved; the same command continues")

    def _evaluate(self, step: int, state: State, active: dict[int, TrainingRun]) -> dict[int, dict[str, float] | None]:
        """Evaluates the active runs that are not, all at once; returns their scores by index."""
        wanted = [index for index, run in active.items() if not run.progress.evaluated]
        found = evaluate_lengths(self._executor, self._runs, state, wanted, self._stop, step) if wanted else {}
        return {
            index: self._runs[index].record_evaluation(
                step, scores, partial(self._executor.state_of, state, index), self._stop
            )
            for index, scores in (found or {}).items()
        }

    def dispatch_step(self, step: int, state: State, active: dict[int, TrainingRun]) -> State:
        """Takes the next batches, dispatches the step, handles the previous step's metrics."""
        for run in active.values():
            if self._pending is None and step > run.start_step:
                run.progress.clock.start()
        batches = self._batches.take(step, active)
        record_dynamics = next(iter(active.values())).files.dynamics.due(step + 1)
        self._stop_clocks_to_compile((record_dynamics, *(array.shape for array in batches.arrays.values())))
        for run in active.values():
            run.progress.evaluated = False
        dynamics = {index: self._dynamics_of(index, state, batches) for index in active} if record_dynamics else {}
        state, metrics = self._executor.step(state, batches, [index in active for index in range(len(self._runs))])
        self._stop.doing = "this step"
        self._handle_pending()
        for run in active.values():
            if run.error is None:
                run.progress.step = step + 1
        self._pending = _Pending(step + 1, metrics, dynamics, list(active))
        for run in self._runs:
            run.files.checkpoints.poll()
        return state

    def _dynamics_of(self, index: int, state: State, batches: StackedBatches) -> dict[str, Any]:
        program, constants = self._program, self._runs[index].constants
        batch = program.put_batch(batches.of_run(index))
        return program.dynamics_step(self._executor.state_of(state, index), batch, constants)

    def _stop_clocks_to_compile(self, shape: tuple) -> None:
        """Excludes compilation from the measured time: stops the clocks if `shape` is new.

        Args:
            shape: (whether dynamics are recorded, *batch shapes).
        """
        if shape not in self._compiled_shapes:
            self.stop_clocks()
            self._stop.doing = "compiling"
            # The step itself is compiled with the program that records dynamics.
            self._compiled_shapes |= {shape, (False, *shape[1:])}

    def stop_clocks(self) -> None:
        """Handles the metrics of the previous step and stops the clocks of all runs."""
        self._handle_pending()
        for run in self._runs:
            run.progress.clock.stop()

    def _handle_pending(self) -> None:
        if self._pending is None:
            return
        pending, self._pending = self._pending, None
        values = self._executor.fetch_metrics(pending.metrics)
        for index in pending.indices:
            if self._runs[index].error is None:
                self._runs[index].handle_metrics(pending.step, values[index], pending.dynamics.get(index))
