"""Scores a model on held-out data, every example exactly once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import jax
import numpy as np

from zoo.config import ResolvedConfig
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data import LabelledDataset, TextDataset, TranslationDataset
from zoo.data.rows.token_streams import Stream
from zoo.models.functional import Params, Stats
from zoo.training.runtime.signals import StopSignal
from zoo.training.state import State
from zoo.training.step import Program
from zoo.training.update import Constants

Dataset = TextDataset | LabelledDataset | TranslationDataset


def evaluate(
    program: Program,
    params: Params,
    stats: Stats,
    batches: Iterator[Mapping[str, np.ndarray]],
    constants: Constants,
    stop: StopSignal | None = None,
    measure: Callable[[dict[str, np.ndarray]], dict[str, float]] | None = None,
) -> dict[str, float] | None:
    """Scores a model on every example of `batches` exactly once.

    Args:
        program, params, stats, constants: those of the run.
        batches: the examples.
        stop: polled before each batch.
        measure: computes further scores from the objective's outputs for all rows, in order and
            without the rows that only fill up batches.

    Returns:
        For text {"loss": nats per token, "perplexity": e^loss, "bits_per_byte": bits of information
        per UTF-8 byte of text, and the objective's other means}; for a task {"loss": its mean, the
        objective's other means, and the scores of `measure`}. None if a stop was requested.
    """
    sums, outputs = [], []
    for batch in batches:
        if stop is not None and stop.poll():
            return None
        of_batch, output = program.eval_step(params, stats, program.put_batch(batch), constants)
        sums.append(of_batch)
        outputs.append(output)
    total = {name: float(np.sum([np.float64(part[name]) for part in jax.device_get(sums)])) for name in sums[0]}

    def ratio(numerator: str, denominator: str) -> float:
        return total[numerator] / total[denominator] if total[denominator] else float("nan")

    means = {name: ratio(*pair) for name, pair in program.objective.means.items()}
    if "bytes" not in total:
        if measure is not None and outputs[0]:
            arrays = jax.device_get(outputs)
            real = np.concatenate([part["real"] for part in arrays])
            means |= measure(
                {
                    name: concatenate_padded([part[name] for part in arrays])[real]
                    for name in arrays[0]
                    if name != "real"
                }
            )
        return means
    return {
        "loss": means.pop("loss"),
        "perplexity": float(np.exp(min(ratio("loss", "weight"), 700.0))),
        "bits_per_byte": ratio("loss", "bytes") / float(np.log(2)),
        **means,
    }


def bits_per_text_byte(kind: str, bos_id: int, streams: Sequence[Stream], loss: float) -> float:
    """Returns the bits per byte of a text whose tokens do not stand for exactly its bytes.

    These are the bits of all its tokens, divided by its bytes: the loss of a causal model times the
    number of its targets, which are all tokens but the first. A masked model is scored as if every
    token of the text were hidden.

    Args:
        kind: `objective.kind`.
        bos_id: the token that opens documents, which no masked model predicts.
        streams: the text, with its number of bytes.
        loss: nats per scored token.

    Returns:
        nan where targets are not the tokens of the text, one by one.
    """
    size = sum(stream.text_bytes or 0 for stream in streams)
    if kind not in OBJECTIVE_KINDS.having("whole_rows") or not size:
        return float("nan")
    if kind in OBJECTIVE_KINDS.having("causal"):
        targets = sum(len(stream) - 1 for stream in streams)
    else:
        targets = sum(int((stream.tokens != bos_id).sum()) for stream in streams)
    return loss * targets / size / float(np.log(2))


def concatenate_padded(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenates batches [B, ...]; where widths [B, T] differ, pads narrower ones with 0."""
    widest = max(part.shape[1:] for part in parts)
    return np.concatenate(
        [
            np.pad(part, [(0, 0), *((0, size - own) for own, size in zip(part.shape[1:], widest, strict=True))])
            for part in parts
        ]
    )


def evaluate_lengths(
    config: ResolvedConfig,
    program: Program,
    dataset: Dataset,
    state: State,
    constants: Constants,
    stop: StopSignal,
    last: bool,
    log: Callable[[str], None],
) -> dict[str, float] | None:
    """Evaluates at the training length and, after the last step, at `training.eval_lengths`.

    Lengths that the model or the objective cannot handle are skipped with a log line. Scores at the
    training length have no suffix; those at `eval_lengths` end in "@" and the length.

    Args:
        config, program, dataset, state, constants: those of the run.
        stop: polled before each batch.
        last: whether this is the evaluation after the last step.
        log: called with each line of console output.

    Returns:
        {"eval/NAME" or "eval/NAME@LENGTH": score}, or None if a stop was requested.
    """
    results: dict[str, float] = {}
    training_length, further = config.data.sequence_length, config.training.eval_lengths if last else ()
    for length in dict.fromkeys((training_length, *further)):
        if (reason := program.objective.why_too_long(program.model, length)) is not None:
            log(f"not evaluated at length {length}: {reason}")
            continue
        batches = dataset.evaluation_batches(
            length, program.data_parallel_size, jax.process_index(), jax.process_count()
        )
        measure = partial(dataset.measure, length=length)
        scores = evaluate(program, state["params"], state["stats"], batches, constants, stop, measure)
        if scores is None:
            return None
        suffixes = ([""] if length == training_length else []) + ([f"@{length}"] if length in further else [])
        for suffix in suffixes:
            results |= {f"eval/{name}{suffix}": value for name, value in scores.items()}
    return results
