"""Rows -> batches: an endless shuffled sequence for training, a fixed list for evaluation.

Training batch n is a function of (seed, n) alone, so every arm of an experiment sees the same
batches, a run resumes by giving a number, and the number of processes changes nothing. Masks are
made here too, row by row.
"""

import functools
import sys
from collections.abc import Iterator
from typing import Self

import numpy as np

from zoo.data.corruption import Corruption
from zoo.data.rows import PADDING, all_rows, full_rows, gather_rows
from zoo.errors import ConfigError, DataError

_PREFETCHED_BATCHES = 4


class TrainingBatches:
    """What `training_batches` returns: an endless iterator with a thread behind it."""

    def __init__(self, iterator):
        self._iterator = iterator

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, np.ndarray]:
        return next(self._iterator)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends the background thread. Closing twice is fine."""
        self._iterator.close()


def training_batches(
    tokens: np.ndarray,
    length: int,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    process_index: int = 0,
    process_count: int = 1,
    corruption: Corruption | None = None,
) -> TrainingBatches:
    """Shuffled rows of the stream, without end.

    Each epoch is a new permutation of all full rows; a batch may straddle two epochs. Of each batch
    this process gets the `process_index`-th of `process_count` consecutive parts, so the parts of all
    processes, one after the other, are the same batch for any number of processes.

    Args:
        tokens: the stream, [tokens].
        length: T.
        batch_size: B, over all processes.
        seed: chooses the order.
        start_step: number of the first batch; no earlier batch is made.
        process_index: which part of each batch, 0 .. process_count - 1.
        process_count: number of parts.
        corruption: corrupts each row, by the seed, its number and the epoch.

    Returns:
        iterator of {"tokens": int32 [B / process_count, T + 1]}, or with `corruption` of what that gives, of rows of T tokens.

    Raises:
        DataError: the stream is shorter than one row.
        ConfigError: the batch does not divide over the processes.
    """
    import grain

    ahead = _ahead(corruption)
    rows = full_rows(tokens, length, ahead)
    if rows == 0:
        raise DataError(
            f"the training text has {len(tokens)} tokens, one row takes data.sequence_length{' + 1' * ahead} = {length + ahead}; "
            "take a longer text, a smaller data.sequence_length or a smaller data.validation_fraction"
        )
    mine = _part(batch_size, process_index, process_count)

    def batch(step: int) -> dict[str, np.ndarray]:
        indices, epochs = _shuffled(range(step * batch_size + mine.start, step * batch_size + mine.stop), rows, seed)
        gathered = gather_rows(tokens, indices, length, ahead)
        return {"tokens": gathered} if corruption is None else corruption.training_batch(gathered, indices, epochs, seed)

    # An element is a whole batch: with one per row, calls between stages cost two to three times as much.
    batches = grain.MapDataset.range(sys.maxsize // batch_size).map(batch)
    # One thread: batches are cheap to make, and more threads would only compete for the interpreter lock.
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=_PREFETCHED_BATCHES)
    iterator = iter(batches.to_iter_dataset(options))
    grain.experimental.set_next_index(iterator, start_step)
    return TrainingBatches(iterator)


def evaluation_batches(
    tokens: np.ndarray,
    length: int,
    batch_size: int,
    limit_rows: int = 0,
    process_index: int = 0,
    process_count: int = 1,
    corruption: Corruption | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Rows of the stream in order, all of them or an evenly spaced sample; the same on every call.

    Every batch has the same shape: past the end of the stream tokens are -1, and the last batch is
    filled up with rows of -1.

    Args:
        tokens: the stream, [tokens].
        length: T.
        batch_size: B, over all processes.
        limit_rows: at most this many rows; 0 = all of them. Which rows are taken does not depend on B.
        process_index: which part of each batch, as in `training_batches`.
        process_count: number of parts.
        corruption: corrupts each row, by its number alone.

    Returns:
        finite iterator of {"tokens": int32 [B / process_count, T + 1]}, or with `corruption` of what that gives, of rows of T tokens.

    Raises:
        DataError: the stream holds no target.
        ConfigError: the batch does not divide over the processes.
    """
    ahead = _ahead(corruption)
    rows = all_rows(tokens, length, ahead)
    if rows == 0:
        raise DataError(f"the evaluation text has {len(tokens)} tokens; with fewer than {1 + ahead} nothing is predicted")
    count = min(rows, limit_rows) if limit_rows else rows
    chosen = np.arange(count) * rows // count
    mine = _part(batch_size, process_index, process_count)

    def batch(start: int) -> dict[str, np.ndarray]:
        result = np.full((batch_size, length + ahead), PADDING, np.int32)
        indices = np.zeros(batch_size, np.int64)
        part = chosen[start : start + batch_size]
        indices[: len(part)], result[: len(part)] = part, gather_rows(tokens, part, length, ahead)
        return {"tokens": result[mine]} if corruption is None else corruption.evaluation_batch(result[mine], indices[mine])

    return (batch(start) for start in range(0, count, batch_size))


def _ahead(corruption: Corruption | None) -> int:
    return 1 if corruption is None else 0


def _part(batch_size: int, process_index: int, process_count: int) -> slice:
    if batch_size % process_count:
        raise ConfigError(f"data.batch_size: {batch_size} does not divide over {process_count} processes")
    size = batch_size // process_count
    return slice(process_index * size, (process_index + 1) * size)


def _shuffled(positions: range, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers at these positions of the endless order, epoch after epoch, each its own permutation; and the epochs."""
    from grain.experimental import index_shuffle

    indices, epochs = np.empty((2, len(positions)), np.int64)
    for place, position in enumerate(positions):
        epoch, position = divmod(position, rows)
        indices[place] = index_shuffle(position, max_index=rows - 1, seed=_epoch_seed(seed, epoch), rounds=4)
        epochs[place] = epoch
    return indices, epochs


@functools.lru_cache(maxsize=1024)
def _epoch_seed(seed: int, epoch: int) -> int:
    # Not seed + epoch, as Grain's own shuffle does it: neighbouring seeds would replay each other's epochs.
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1)[0])
