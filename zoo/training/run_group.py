"""The runs that the loop trains as one: a single run, or several runs of one program (a population).

All runs of a group have the same intervals between evaluations and between checkpoints. A run is
active from its start step until its metrics are no longer finite; the others go on without it.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax

from zoo.config import held_out_key
from zoo.nested import flatten
from zoo.training.evaluation.held_out import evaluate_runs, scores_of
from zoo.training.executor import StepExecutor
from zoo.training.optimization.weight_average import averaged, averages
from zoo.training.population.batch_streams import BatchStreams, StackedBatches, number_distinct, stacked
from zoo.training.runtime.signals import StopSignal
from zoo.training.state import State
from zoo.training.training_run import TrainingRun
from zoo.training.update import Metrics

Scores = dict[int, dict[str, float] | None]
"""Scores of an evaluation by index of the run; None if it was interrupted."""


class GroupBatch(NamedTuple):
    """The batches of one update.

    Attributes:
        step: updates done before.
        active: indices of the runs that take part.
        arrays: their batches.
        dynamics: whether statistics of the training dynamics are due.
    """

    step: int
    active: list[int]
    arrays: StackedBatches
    dynamics: bool

    @property
    def shape(self) -> tuple:
        """(Whether dynamics are recorded, *shapes of the arrays)."""
        return self.dynamics, *(array.shape for array in self.arrays.arrays.values())


class Dispatched(NamedTuple):
    """A dispatched update with unread metrics.

    Attributes:
        step: its number, from 1.
        active: indices of the runs that take part.
        metrics: still on the device.
        dynamics: results of `Program.dynamics_step`, by index of the run.
    """

    step: int
    active: list[int]
    metrics: Metrics
    dynamics: dict[int, dict[str, Any]]


class RunGroup:
    """Runs of the same program, trained in step with each other.

    Args:
        executor: computes their steps.
        runs: the runs, in the order of the executor's.

    Attributes:
        training: the fields `training.*`, which all runs share.
    """

    def __init__(self, executor: StepExecutor, runs: Sequence[TrainingRun]):
        self._executor, self._runs, self._program = executor, runs, runs[0].program
        self.training = runs[0].config.training
        # Batch n depends on the data set and n alone.
        streams = number_distinct([id(run.dataset) for run in runs])
        self._batches = BatchStreams(streams, [run.batch for run in runs])
        self._compiled_shapes: set[tuple] = set()

    def close(self) -> None:
        """Ends the thread that makes batches."""
        self._batches.close()

    def _active(self, step: int) -> dict[int, TrainingRun]:
        """Returns the runs that take part in update `step` + 1, by index."""
        return {index: run for index, run in enumerate(self._runs) if run.is_active(step)}

    def next_step(self, step: int) -> int | None:
        """Returns the number of updates, `step` or more, at which a run goes on; None if none does."""
        if self._active(step):
            return step
        return min((run.start_step for run in self._runs if run.error is None), default=None)

    def must_evaluate(self, step: int) -> bool:
        """Returns whether an active run is to be evaluated after `step` updates and is not yet."""
        training = self.training
        due = step == training.steps or (training.eval_every and step % training.eval_every == 0)
        return bool(due) and not self.is_evaluated(step)

    def is_evaluated(self, step: int) -> bool:
        """Returns whether all active runs are evaluated after `step` updates."""
        return all(run.progress.evaluated for run in self._active(step).values())

    def evaluate(self, step: int, state: State, stop: StopSignal) -> Scores:
        """Evaluates together the active runs that are not yet evaluated, and records their scores."""
        wanted = [index for index, run in self._active(step).items() if not run.progress.evaluated]
        found = self._score(step, state, wanted, stop) if wanted else {}
        return {
            index: self._runs[index].record_evaluation(
                step, scores, partial(self._executor.state_of, state, index), stop
            )
            for index, scores in (found or {}).items()
        }

    def _score(
        self, step: int, state: State, wanted: list[int], stop: StopSignal
    ) -> dict[int, dict[str, float]] | None:
        """Scores runs at the training length and, after the last step, at `training.eval_lengths`.

        Lengths that the model or the objective cannot handle are skipped with a log line. Scores at
        the training length have no suffix; those at `eval_lengths` end in "@" and the length. Scores
        of the averages of the parameters, if there are any, begin with "eval/ema" and "eval/tail";
        before its first update an average is one of nothing, and has none.

        Returns:
            {index: {"eval/NAME" or "eval/NAME@LENGTH": score}}, or None if a stop was requested.
        """
        config, program = self._runs[0].config, self._program
        results: dict[int, dict[str, float]] = {index: {} for index in wanted}
        active = [index in results for index in range(len(self._runs))]
        states = {"eval": state} | {f"eval/{name}": averaged(state, name) for name in averages(config, step)}
        further = config.training.eval_lengths if step == config.training.steps else ()
        training_length = config.data.sequence_length
        for length in dict.fromkeys((training_length, *further)):
            if (reason := program.objective.why_too_long(program.model, length)) is not None:
                for index in wanted:
                    self._runs[index].log(f"not evaluated at length {length}: {reason}")
                continue
            suffixes = ([""] if length == training_length else []) + ([f"@{length}"] if length in further else [])
            for prefix, evaluated in states.items():
                found = evaluate_runs(self._executor, evaluated, held_out_batches(self._runs, length), active, stop)
                if found is None:
                    return None
                for index, parts in found.items():
                    measure = partial(self._runs[index].dataset.measure, length=length)
                    scores = scores_of(program.objective, parts, measure)
                    for suffix in suffixes:
                        results[index] |= {f"{prefix}/{name}{suffix}": value for name, value in scores.items()}
        return results

    def save(self, step: int, state: State, scores: Scores) -> None:
        """Starts saving the active runs; `scores` are those of an evaluation at this step."""
        for index, run in self._active(step).items():
            run.save(step, self._executor.state_of(state, index), scores.get(index))

    def start_clocks(self, step: int) -> None:
        """Continues the clocks of the active runs; a run's first step is not part of its time."""
        for run in self._active(step).values():
            if step > run.start_step:
                run.progress.clock.start()

    def pause(self, previous: Dispatched | None) -> None:
        """Handles the metrics of an update and stops the clocks of all runs."""
        self.handle(previous)
        for run in self._runs:
            run.progress.clock.stop()

    def next_batch(self, step: int) -> GroupBatch:
        """Takes batch number `step` of the active runs."""
        active = self._active(step)
        dynamics = next(iter(active.values())).files.dynamics.due(step + 1)
        return GroupBatch(step, list(active), self._batches.take(step, active), dynamics)

    def must_compile(self, batch: GroupBatch) -> bool:
        """Returns whether no batch of this shape was taken before."""
        if batch.shape in self._compiled_shapes:
            return False
        # The step itself is compiled with the program that records dynamics.
        self._compiled_shapes |= {batch.shape, (False, *batch.shape[1:])}
        return True

    def dispatch(self, state: State, batch: GroupBatch) -> tuple[State, Dispatched]:
        """Dispatches the update, and before it the statistics of its dynamics if they are due."""
        for index in batch.active:
            self._runs[index].progress.evaluated = False
        dynamics = {index: self._dynamics(index, state, batch) for index in batch.active} if batch.dynamics else {}
        active = [index in batch.active for index in range(len(self._runs))]
        state, metrics = self._executor.step(state, batch.arrays, active)
        return state, Dispatched(batch.step + 1, batch.active, metrics, dynamics)

    def _dynamics(self, index: int, state: State, batch: GroupBatch) -> dict[str, Any]:
        """Computes statistics of a run's update, in a compiled function of its own."""
        arrays = self._program.put_batch(batch.arrays.of_run(index))
        return self._program.dynamics_step(self._executor.state_of(state, index), arrays, self._runs[index].constants)

    def handle(self, dispatched: Dispatched | None) -> None:
        """Waits for the metrics of an update, if there is one, and records them."""
        if dispatched is None:
            return
        values = self._executor.fetch_metrics(dispatched.metrics)
        for index in dispatched.active:
            if self._runs[index].error is None:
                self._runs[index].handle_metrics(dispatched.step, values[index], dispatched.dynamics.get(index))

    def advance(self, step: int) -> None:
        """Records that the active runs have had `step` updates; looks after the saves of all runs."""
        for run in self._active(step - 1).values():
            run.progress.step = step
        for run in self._runs:
            run.files.checkpoints.poll()


def held_out_batches(runs: Sequence[TrainingRun], length: int) -> Iterator[StackedBatches]:
    """Yields the held-out batches of all runs at a length; equal ones are made once."""
    streams = number_distinct([held_out_key(flatten(run.config)) for run in runs])
    batches = [
        runs[streams.index(stream)].dataset.evaluation_batches(
            length, runs[0].program.data_parallel_size, jax.process_index(), jax.process_count()
        )
        for stream in range(max(streams) + 1)
    ]
    return (StackedBatches(stacked(each), streams) for each in zip(*batches, strict=True))
