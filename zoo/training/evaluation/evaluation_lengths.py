"""The evaluation during training, of one run or of several at once."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial

import jax

from zoo.config import held_out_key
from zoo.nested import flatten
from zoo.training.evaluation.held_out import evaluate_runs, scores_of
from zoo.training.executor import StepExecutor
from zoo.training.optimization.weight_average import averaged, averages
from zoo.training.population.batch_streams import StackedBatches, number_distinct, stacked
from zoo.training.runtime.signals import StopSignal
from zoo.training.state import State
from zoo.training.training_run import TrainingRun


def evaluate_lengths(
    executor: StepExecutor,
    runs: Sequence[TrainingRun],
    state: State,
    wanted: Collection[int],
    stop: StopSignal,
    step: int,
) -> dict[int, dict[str, float]] | None:
    """Evaluates at the training length and, after the last step, at `training.eval_lengths`.

    Lengths that the model or the objective cannot handle are skipped with a log line. Scores at the
    training length have no suffix; those at `eval_lengths` end in "@" and the length. Scores of the
    averages of the parameters, if there are any, begin with "eval/ema" and "eval/tail"; before its
    first update an average is one of nothing, and has none.

    Args:
        executor, runs, state: as in `zoo.training.loop.train`.
        wanted: indices of the runs to evaluate.
        stop: polled before each batch.
        step: updates done.

    Returns:
        {index: {"eval/NAME" or "eval/NAME@LENGTH": score}}, or None if a stop was requested.
    """
    config, program = runs[0].config, runs[0].program
    results: dict[int, dict[str, float]] = {index: {} for index in wanted}
    active = [index in results for index in range(len(runs))]
    states = {"eval": state} | {f"eval/{name}": averaged(state, name) for name in averages(config, step)}
    further = config.training.eval_lengths if step == config.training.steps else ()
    training_length = config.data.sequence_length
    for length in dict.fromkeys((training_length, *further)):
        if (reason := program.objective.why_too_long(program.model, length)) is not None:
            for index in wanted:
                runs[index].log(f"not evaluated at length {length}: {reason}")
            continue
        suffixes = ([""] if length == training_length else []) + ([f"@{length}"] if length in further else [])
        for prefix, evaluated in states.items():
            found = evaluate_runs(executor, evaluated, held_out_batches(runs, length), active, stop)
            if found is None:
                return None
            for index, parts in found.items():
                scores = scores_of(program.objective, parts, partial(runs[index].dataset.measure, length=length))
                for suffix in suffixes:
                    results[index] |= {f"{prefix}/{name}{suffix}": value for name, value in scores.items()}
    return results


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
