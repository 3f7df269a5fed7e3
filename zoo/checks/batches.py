"""Batches of bytes for any objective of running text."""

from typing import Any

import numpy as np

from zoo.checks.outcome import NotApplicable
from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.data.rows.corruption import make_corruption
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer

EMPTY = -1


def ragged_rows(rows: int = 8, width: int = 17, last_empty: bool = True) -> np.ndarray:
    """Returns rows of random bytes with increasing numbers of empty slots at their ends, the last one
    all empty if it is asked for, so that a mean of means would be wrong: [rows, width].
    """
    tokens = np.random.default_rng(0).integers(0, 256, (rows, width), np.int32)
    for row in range(rows):
        tokens[row, max(2, width - 2 * row) :] = EMPTY
    if last_empty:
        tokens[-1] = EMPTY
    return tokens


def batch_of(config: ResolvedConfig, last_empty: bool = True) -> dict[str, Any]:
    """Returns a training batch with decreasing numbers of scored tokens in its rows, in the form that
    the objective of a config reads.

    Args:
        config: the resolved config.
        last_empty: whether the last row has no token. Terms that layers add to the loss are averaged
            over rows, and such a row, which no training batch has, would count in some parts of it.

    Raises:
        NotApplicable: the objective reads labelled data.
    """
    if config.objective.kind in TASKS:
        raise NotApplicable(f"objective.kind={config.objective.kind} reads labelled data, and bytes have no labels")
    T = config.data.sequence_length
    tokens = ragged_rows(config.data.batch_size, T + 1, last_empty)
    if config.objective.kind == "translation":
        return {"source": tokens[::-1, : T // 2 + 1], "targets": tokens[:, :T]}
    corruption = make_corruption(config, ByteTokenizer())
    if corruption is None:
        return {"tokens": tokens}
    # Training rows have no empty slots; a token that is never scored takes their place.
    rows = {"tokens": np.where(tokens < 0, 256, tokens)[:, :T]}
    if config.objective.next_sentence:
        rows |= {
            "segments": np.repeat(np.arange(T)[None] > 6, len(tokens), axis=0).astype(np.int32),
            "next": np.arange(len(tokens), dtype=np.int32) % 3 - 1,
        }
    return corruption.training_batch(rows, np.arange(len(tokens)), np.zeros(len(tokens), int), 0)
