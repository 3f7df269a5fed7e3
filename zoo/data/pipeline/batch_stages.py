"""Warm-up of sequence length and batch size: shorter rows, or fewer, in the first updates of a run.

Stages are a value, its number of updates, the next value, its number of updates, and so on, as in
`data.length_stages` and `data.batch_stages`.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoo.config import ResolvedConfig
from zoo.data.rows.packed_rows import Arrays


def value_at(stages: Sequence[int], step: int, full: int) -> int:
    """Returns the value for batch number `step`, from 0: `full` after all stages."""
    end = 0
    for value, updates in zip(stages[::2], stages[1::2], strict=True):
        end += updates
        if step < end:
            return value
    return full


def sum_before(stages: Sequence[int], step: int, full: int) -> int:
    """Returns the sum of the values of all batches before number `step`."""
    total, left = 0, step
    for value, updates in zip(stages[::2], stages[1::2], strict=True):
        total += value * min(updates, left)
        left -= min(updates, left)
    return total + full * left


class BatchShape(NamedTuple):
    """Updates in a row whose batches have one shape.

    Attributes:
        steps: number of these updates.
        rows, length: of their batches.
    """

    steps: int
    rows: int
    length: int


def batch_shapes(config: ResolvedConfig) -> list[BatchShape]:
    """Returns the shapes of a run's batches in the order of its updates, whole batches last."""
    data, steps = config.data, config.training.steps
    ends = {end for stages in (data.batch_stages, data.length_stages) for end in itertools.accumulate(stages[1::2])}
    shapes, start = [], 0
    for end in sorted({*ends, steps}):
        rows, length = (
            value_at(data.batch_stages, start, data.batch_size),
            value_at(data.length_stages, start, data.sequence_length),
        )
        shapes.append(BatchShape(end - start, rows * data.sequence_length // length, length))
        start = end
    return shapes


def cut(batch: Arrays, length: int) -> Arrays:
    """Returns a batch {"tokens": [B, T + 1]} whose rows are cut into T / `length` rows each.

    Neighbours share one token, as packed rows do, so every target is predicted exactly once and
    the batch keeps its text and its number of targets (Press et al. 2021, Shortformer, section 4;
    Li et al. 2022 drop what lies beyond the shorter length instead).
    """
    tokens = batch["tokens"]
    starts = np.arange(0, tokens.shape[1] - 1, length)
    places = starts[:, None] + np.arange(length + 1)
    return {"tokens": tokens[:, places].reshape(-1, length + 1)}
