"""A model is scored on what is held out, every example exactly once."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

from zoo.config import ResolvedConfig
from zoo.data import TextDataset
from zoo.objectives import Objective
from zoo.training.runtime.signals import StopSignal
from zoo.training.step import Program, State


def evaluate(
    program: Program,
    params: Any,
    stats: Any,
    batches: Iterator[dict[str, np.ndarray]],
    constants: Any,
    stop: StopSignal | None = None,
    measure: Callable[[dict[str, np.ndarray]], dict[str, float]] | None = None,
) -> dict[str, float] | None:
    """Scores a model on every example of `batches` exactly once.

    Args:
        program, params, stats, constants: of the run.
        batches: what is scored.
        stop: asks to end before all is scored.
        measure: makes further scores of the objective's outputs for all rows, in their order and
            without those that only fill up.

    Returns:
        {"loss": nats per token, "perplexity": e^loss, "bits_per_byte": bits of information per
        UTF-8 byte of text, and what else the objective reports}, of a task {"loss": its mean, what
        the objective reports, and what `measure` makes}, or None if a stop was requested before the
        end.
    """
    sums, outputs = [], []
    for batch in batches:
        if stop is not None and stop.poll():
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
            means |= measure(
                {name: joined([part[name] for part in arrays])[real] for name in arrays[0] if name != "real"}
            )
        return means
    return {
        "loss": means.pop("loss"),
        "perplexity": float(np.exp(min(ratio("loss", "weight"), 700.0))),
        "bits_per_byte": ratio("loss", "bytes") / float(np.log(2)),
        **means,
    }


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """The rows of all batches; where these differ in width, [B, T], the narrower ones are filled up
    with zeros.
    """
    widest = max(part.shape[1:] for part in parts)
    return np.concatenate(
        [
            np.pad(part, [(0, 0), *((0, size - own) for own, size in zip(part.shape[1:], widest, strict=True))])
            for part in parts
        ]
    )


def evaluations(
    config: ResolvedConfig,
    objective: Objective,
    program: Program,
    dataset: TextDataset,
    state: State,
    constants: Any,
    rows: int,
    stop: StopSignal,
    last: bool,
    log: Callable[[str], None],
) -> dict[str, float] | None:
    """Evaluates at the trained length and, when `last`, at `training.eval_lengths`.

    Lengths beyond what the model or the objective can do are left out, with a line that says so.
    Metrics at the trained length carry no suffix, those at `eval_lengths` carry "@" and the length.
    Batches are filled up to a multiple of `rows`.
    """
    results: dict[str, float] = {}
    trained, further = config.data.sequence_length, config.training.eval_lengths if last else ()
    for length in dict.fromkeys((trained, *further)):
        if (reason := objective.too_long(program.model, length)) is not None:
            log(f"not evaluated at length {length}: {reason}")
            continue
        batches = dataset.evaluation_batches(length, rows, jax.process_index(), jax.process_count())
        scores = evaluate(
            program, state["params"], state["stats"], batches, constants, stop, partial(dataset.measure, length=length)
        )
        if scores is None:
            return None
        for suffix in ([""] if length == trained else []) + ([f"@{length}"] if length in further else []):
            results |= {f"eval/{name}{suffix}": value for name, value in scores.items()}
    return results
