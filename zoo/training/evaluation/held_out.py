"""Scores models on held-out data, every example exactly once."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from zoo.data import LabelledDataset, TextDataset, TranslationDataset
from zoo.models.functional import Params, Stats
from zoo.objectives import Objective
from zoo.training.executor import SingleExecutor, StepExecutor
from zoo.training.population.batch_streams import HostBatch, StackedBatches, stacked
from zoo.training.runtime.signals import StopSignal
from zoo.training.state import State
from zoo.training.step import Program
from zoo.training.update import Constants

Dataset = TextDataset | LabelledDataset | TranslationDataset
Outputs = dict[str, np.ndarray]
Measure = Callable[[Outputs], dict[str, float]]


def evaluate(
    program: Program,
    params: Params,
    stats: Stats,
    batches: Iterable[HostBatch],
    constants: Constants,
    measure: Measure | None = None,
) -> dict[str, float]:
    """Scores a model on every example of `batches` exactly once.

    Args:
        program, params, stats, constants: those of the run.
        batches: the examples.
        measure: see `scores_of`.

    Returns:
        What `scores_of` does.
    """
    executor, state = SingleExecutor(program, constants), {"params": params, "stats": stats}
    each = (StackedBatches(stacked([batch]), (0,)) for batch in batches)
    (parts,) = evaluate_runs(executor, state, each, [True]).values()
    return scores_of(program.objective, parts, measure)


Parts = list[tuple[dict[str, np.ndarray], Outputs]]
"""(Sums, outputs) of one run for each batch, on the host."""


def evaluate_runs(
    executor: StepExecutor,
    state: State,
    batches: Iterable[StackedBatches],
    active: Sequence[bool],
    stop: StopSignal | None = None,
) -> dict[int, Parts] | None:
    """Evaluates the active runs of an executor on every batch.

    Args:
        executor, state: of all runs; only "params" and "stats" of the state are read.
        batches: the examples of all runs.
        active: for each run, whether it is evaluated.
        stop: polled before each batch.

    Returns:
        {index of a run: results for each batch}, or None if a stop was requested.
    """
    results = []
    for batch in batches:
        if stop is not None and stop.poll():
            return None
        results.append(executor.eval_step(state, batch, active))
    return {
        index: parts
        for index, (parts, wanted) in enumerate(zip(executor.fetch(results), active, strict=True))
        if wanted
    }


def scores_of(objective: Objective, parts: Parts, measure: Measure | None = None) -> dict[str, float]:
    """Returns the scores of a run from its sums and outputs for each batch.

    Args:
        objective: says which ratios of the sums are reported.
        parts: the results of all batches, in order.
        measure: computes further scores from the objective's outputs for all rows, in order and
            without the rows that only fill up batches.

    Returns:
        For text {"loss": nats per token, "perplexity": e^loss, "bits_per_byte": bits of information
        per UTF-8 byte of the documents, and the objective's other means}; for a task {"loss": its
        mean, the objective's other means, and the scores of `measure`}.
    """
    total = {name: float(np.sum([np.float64(sums[name]) for sums, _ in parts])) for name in parts[0][0]}

    def ratio(numerator: str, denominator: str) -> float:
        return total[numerator] / total[denominator] if total[denominator] else float("nan")

    means = {name: ratio(*pair) for name, pair in objective.means.items()}
    if "bytes" not in total:
        return means | (measure(_real_rows(parts)) if measure is not None and parts[0][1] else {})
    return {
        "loss": means.pop("loss"),
        "perplexity": float(np.exp(min(ratio("loss", "weight"), 700.0))),
        "bits_per_byte": ratio("loss", "bytes") / float(np.log(2)),
        **means,
    }


def _real_rows(parts: Parts) -> Outputs:
    """Returns the outputs for all rows without those that only fill up batches."""
    real = np.concatenate([outputs["real"] for _, outputs in parts])
    return {
        name: concatenate_padded([outputs[name] for _, outputs in parts])[real]
        for name in parts[0][1]
        if name != "real"
    }


def concatenate_padded(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenates batches [B, ...]; where widths [B, T] differ, pads narrower ones with 0."""
    widest = max(part.shape[1:] for part in parts)
    return np.concatenate(
        [
            np.pad(part, [(0, 0), *((0, size - own) for own, size in zip(part.shape[1:], widest, strict=True))])
            for part in parts
        ]
    )
