"""From rows to batches: an endless shuffled sequence for training, a fixed list for evaluation.

Training batch n is a function of (seed, n) alone. So all arms of an experiment see the same
batches, a run resumes from a step number, and the number of processes changes nothing. Rows are
also corrupted here, one by one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from zoo.data.pipeline.batch_stages import sum_before, value_at
from zoo.data.rows.corruption import Corruption
from zoo.data.rows.packed_rows import Arrays, Rows
from zoo.errors import ConfigError, DataError

_PREFETCHED_BATCHES = 4
# More batches than any run takes, and few enough that their rows have 64-bit numbers.
_ENDLESS = 1 << 40


class TrainingBatches:
    """An endless iterator over numbered batches, which a background thread makes ahead of time.

    The thread starts with the first batch that is taken.

    Args:
        batch: makes batch number n.
        start_step: number of the first batch.

    Attributes:
        batch: as given.
    """

    def __init__(self, batch: Callable[[int], Arrays], start_step: int):
        self.batch, self._start_step, self._iterator = batch, start_step, None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Arrays:
        if self._iterator is None:
            self._iterator = _prefetched(self.batch, self._start_step)
        return next(self._iterator)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends the background thread. Closing twice is allowed."""
        if self._iterator is not None:
            self._iterator.close()


def training_batches(
    rows: Rows,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    process_index: int = 0,
    process_count: int = 1,
    corruption: Corruption | None = None,
    stages: Sequence[int] = (),
) -> TrainingBatches:
    """Yields batches of shuffled rows, without end.

    Each epoch is a new permutation of all full rows; a batch may span two epochs. This process gets
    part number `process_index` of `process_count` consecutive parts of each batch, so the
    concatenated parts of all processes are the same batch for any number of processes.

    Args:
        rows: the rows.
        batch_size: B, over all processes.
        seed: determines the order.
        start_step: number of the first batch; no earlier batch is computed.
        process_index: part of each batch, 0 .. process_count - 1.
        process_count: number of parts.
        corruption: corrupts each row, depending on the seed, its number and the epoch.
        stages: other batch sizes of the first batches (`zoo.data.pipeline.batch_stages`).

    Returns:
        iterator of the arrays of `rows.gather`, [B / process_count, ...], after the corruption.

    Raises:
        DataError: there is no full row.
        ConfigError: the batch size is not divisible by the number of processes.
    """
    if rows.num_training_rows == 0:
        raise DataError(
            f"the training text is too short: {rows.shortage}; "
            "take a longer text, a smaller data.sequence_length or a smaller data.validation_fraction"
        )
    process_slice(batch_size, process_index, process_count)

    def batch(step: int) -> Arrays:
        first = sum_before(stages, step, batch_size)
        mine = process_slice(value_at(stages, step, batch_size), process_index, process_count)
        indices, epochs = rows.order(np.arange(first + mine.start, first + mine.stop), seed)
        gathered = rows.gather(indices, epochs, seed)
        return gathered if corruption is None else corruption.training_batch(gathered, indices, epochs, seed)

    return TrainingBatches(batch, start_step)


def _prefetched(batch: Callable[[int], Arrays], start_step: int) -> Any:
    """Returns Grain's iterator over the batches from number `start_step` on."""
    import grain

    # An element is a whole batch: with one row per element, grain's per-element overhead makes
    # batches 2-3 times slower.
    batches = grain.MapDataset.range(_ENDLESS).map(batch)
    # One thread: batches are cheap to make, and more threads would only compete for the interpreter
    # lock.
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=_PREFETCHED_BATCHES)
    iterator = iter(batches.to_iter_dataset(options))
    grain.experimental.set_next_index(iterator, start_step)
    return iterator


def evaluation_batches(
    rows: Rows,
    batch_size: int,
    limit_rows: int = 0,
    process_index: int = 0,
    process_count: int = 1,
    corruption: Corruption | None = None,
) -> Iterator[Arrays]:
    """Yields rows in order, all of them or an evenly spaced sample; the same on every call.

    All batches have the same shape: the last one is filled up with rows of padding.

    Args:
        rows: the rows.
        batch_size: B, over all processes.
        limit_rows: largest number of rows; 0 = all. The choice of rows does not depend on B.
        process_index: part of each batch, as in `training_batches`.
        process_count: number of parts.
        corruption: corrupts each row, depending on its number alone.

    Returns:
        finite iterator of arrays as in `training_batches`.

    Raises:
        DataError: there is no row.
        ConfigError: the batch size is not divisible by the number of processes.
    """
    if rows.num_rows == 0:
        raise DataError(f"the evaluation text is too short: {rows.shortage}; nothing is predicted")
    count = min(rows.num_rows, limit_rows) if limit_rows else rows.num_rows
    chosen = np.arange(count) * rows.num_rows // count
    mine = process_slice(batch_size, process_index, process_count)

    def batch(start: int) -> Arrays:
        part = chosen[start : start + batch_size][mine]
        result, indices = rows.padding_rows(mine.stop - mine.start), np.zeros(mine.stop - mine.start, np.int64)
        if len(part):
            indices[: len(part)] = part
            for name, array in rows.gather(part, None, 0).items():
                result[name][: len(part)] = array
        return result if corruption is None else corruption.evaluation_batch(result, indices)

    return (batch(start) for start in range(0, count, batch_size))


def process_slice(batch_size: int, process_index: int, process_count: int) -> slice:
    """Returns this process's rows of a batch.

    Raises:
        ConfigError: the batch size is not divisible by the number of processes.
    """
    if batch_size % process_count:
        raise ConfigError(f"data.batch_size={batch_size} is not divisible by the {process_count} processes")
    size = batch_size // process_count
    return slice(process_index * size, (process_index + 1) * size)
