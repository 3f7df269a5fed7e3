"""Batches of rows of similar lengths, in a few widths.

A row of at most T tokens is read in the narrowest of the widths T, T // 2, T // 4, ..., T // K that
holds it. A batch is as wide as its longest row needs and has B rows, whatever its width. A program
is compiled once for each width; none is below 16, where little can be saved.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from zoo.data.labelled.sequence_tasks import EncodedExamples
from zoo.data.pipeline.batches import TrainingBatches, process_slice
from zoo.data.rows.packed_rows import PADDING, Arrays

_NARROWEST = 16


def widths(length: int, count: int) -> np.ndarray:
    """Returns the widths of batches of rows of `length` tokens, narrowest first.

    They are length // k for k = 1, 2, 4 .. count, as far as they are at least 16.
    """
    halves = (length >> power for power in range(count.bit_length()))
    return np.unique([length, *(width for width in halves if width >= _NARROWEST)])


class _Plan(NamedTuple):
    """The batches of an epoch: row indices, and where each batch begins and ends in them."""

    order: np.ndarray
    begins: np.ndarray
    ends: np.ndarray


class ExampleBatches:
    """Batches of examples; batch n is a function of (seed, n) alone.

    In an epoch every row occurs once. The rows are shuffled, sorted by width and cut into batches,
    which are shuffled again. If B does not divide the number of rows, one random batch of the epoch
    is smaller and is filled up with padding.

    Args:
        encoded: the rows.
        length: T, capacity of a row.
        batch_size: B, over all processes.
        count: K.

    Attributes:
        per_epoch: number of batches per epoch.
        order: row indices in the order of evaluation.
    """

    def __init__(self, encoded: EncodedExamples, length: int, batch_size: int, count: int):
        self._encoded, self._size, self._widths = encoded, batch_size, widths(length, count)
        self.lengths = (encoded.arrays["tokens"] != PADDING).sum(axis=1)
        self._fitting = np.searchsorted(self._widths, self.lengths)
        self.per_epoch = -(-len(self.lengths) // batch_size)
        self.order = np.argsort(self._fitting, kind="stable")
        self._plan = lru_cache(maxsize=2)(self._planned)

    def _planned(self, seed: int, epoch: int) -> _Plan:
        # Not seed + epoch: neighbouring seeds must not replay each other's epochs.
        random = np.random.default_rng(np.random.SeedSequence((seed, epoch)))
        shuffled = random.permutation(len(self._fitting))
        sizes = np.full(self.per_epoch, self._size)
        sizes[random.integers(self.per_epoch)] -= self.per_epoch * self._size - len(shuffled)
        ends, places = np.cumsum(sizes), random.permutation(self.per_epoch)
        return _Plan(shuffled[np.argsort(self._fitting[shuffled], kind="stable")], (ends - sizes)[places], ends[places])

    def batch_indices(self, seed: int, step: int) -> np.ndarray:
        """Returns the row indices of the training batch of `step`."""
        epoch, place = divmod(step, self.per_epoch)
        plan = self._plan(seed, epoch)
        return plan.order[plan.begins[place] : plan.ends[place]]

    def training(
        self, seed: int, start_step: int = 0, process_index: int = 0, process_count: int = 1
    ) -> TrainingBatches:
        """Returns the training batches from number `start_step` on, without end.

        This process gets part number `process_index` of `process_count` consecutive parts of each
        batch.

        Raises:
            ConfigError: the batch size is not divisible by the number of processes.
        """
        part = process_slice(self._size, process_index, process_count)
        return TrainingBatches(
            lambda step: self._gathered(self.batch_indices(seed, step), self._size, part), start_step
        )

    def evaluation(self, multiple_of: int = 1, process_index: int = 0, process_count: int = 1) -> Iterator[Arrays]:
        """Yields every row once, in `order`.

        Batches are filled up with padding, to B rows and to a multiple of `multiple_of`.
        """
        size = -(-self._size // multiple_of) * multiple_of
        part = process_slice(size, process_index, process_count)
        return (
            self._gathered(self.order[start : start + size], size, part) for start in range(0, len(self.order), size)
        )

    def _gathered(self, numbers: np.ndarray, size: int, part: slice) -> Arrays:
        width = self._widths[self._fitting[numbers].max()]
        numbers = np.pad(numbers, (0, size - len(numbers)), constant_values=-1)[part]
        blanks, batch = {"segments": 0, "features": 0}, {}
        for name, array in self._encoded.arrays.items():
            batch[name] = (array[:, :width] if name in self._encoded.by_token else array)[numbers]
            batch[name][numbers < 0] = blanks.get(name, PADDING)
        return batch

    def padding(self) -> float:
        """Returns the share of padding in an epoch's batches."""
        plan = self._plan(0, 0)
        batch_widths = [
            self._widths[self._fitting[plan.order[begin:end]].max()]
            for begin, end in zip(plan.begins, plan.ends, strict=True)
        ]
        return 1 - float(self.lengths.sum()) / (sum(batch_widths) * self._size)
