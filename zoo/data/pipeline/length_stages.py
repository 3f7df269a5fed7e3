"""Sequence-length warm-up: rows that are cut into shorter ones in the first updates of a run."""

from collections.abc import Sequence

import numpy as np

from zoo.data.rows.packed_rows import Arrays


def length_at(stages: Sequence[int], step: int, full: int) -> int:
    """Returns the length of the rows in batch number `step`.

    Args:
        stages: `data.length_stages`: a length, its number of updates, the next length, and so on.
        step: number of the batch, from 0.
        full: the length after the stages, T.
    """
    end = 0
    for length, updates in zip(stages[::2], stages[1::2], strict=True):
        end += updates
        if step < end:
            return length
    return full


def cut(batch: Arrays, length: int) -> Arrays:
    """Returns a batch {"tokens": [B, T + 1]} whose rows are cut into T / `length` rows each.

    Neighbours share one token, as packed rows do, so that every target is predicted exactly once and
    the batch keeps its text and its number of targets (Press et al. 2021, Shortformer, section 4;
    Li et al. 2022 drop what lies beyond the shorter length instead).
    """
    tokens = batch["tokens"]
    starts = np.arange(0, tokens.shape[1] - 1, length)
    places = starts[:, None] + np.arange(length + 1)
    return {"tokens": tokens[:, places].reshape(-1, length + 1)}
