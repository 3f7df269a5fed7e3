"""Batches of runs that are trained together: runs with equal batches share one stream of them."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from zoo.data.pipeline.batches import TrainingBatches
from zoo.errors import ConfigError

HostBatch = Mapping[str, np.ndarray]


class StackedBatches(NamedTuple):
    """One batch for each of several runs.

    Attributes:
        arrays: the different batches, [S, B, ...].
        streams: for each run, the index of its batch in 0 .. S - 1. The first run has 0, and every
            later one an index that an earlier run has or the next number.
    """

    arrays: HostBatch
    streams: tuple[int, ...]

    def of_run(self, index: int) -> HostBatch:
        """Returns the batch of one run, [B, ...], without a copy."""
        return {name: array[self.streams[index]] for name, array in self.arrays.items()}


class BatchStreams:
    """The training batches of several runs, in step with each other.

    A background thread makes the batches of all streams that are in use and stacks them.

    Args:
        streams: see `StackedBatches`.
        makers: for each run, the function that makes batch number n; runs of one stream have the
            same batches.
    """

    def __init__(self, streams: Sequence[int], makers: Sequence[Callable[[int], HostBatch]]):
        self._streams = tuple(streams)
        self._makers = [makers[streams.index(stream)] for stream in range(max(streams) + 1)]
        self._batches: TrainingBatches | None = None
        self._position: tuple[frozenset[int], int] | None = None

    def take(self, step: int, active: Collection[int]) -> StackedBatches:
        """Returns batch number `step` of the active runs; those of other runs are never read.

        Raises:
            ConfigError: the batches differ in shape.
        """
        used = frozenset(self._streams[index] for index in active)
        if self._position != (used, step):
            self.close()
            self._batches = TrainingBatches(lambda number: self._stacked(number, used), step)
        self._position = used, step + 1
        return StackedBatches(next(self._batches), self._streams)

    def _stacked(self, step: int, used: Collection[int]) -> HostBatch:
        made = {stream: self._makers[stream](step) for stream in used}
        any_batch = next(iter(made.values()))
        return stacked([made.get(stream, any_batch) for stream in range(len(self._makers))])

    def close(self) -> None:
        """Ends the background thread."""
        if self._batches is not None:
            self._batches.close()


def number_distinct(values: Iterable[Hashable]) -> tuple[int, ...]:
    """Returns a number for each value: the same for equal ones, in the order of their first."""
    numbers: dict[Hashable, int] = {}
    return tuple(numbers.setdefault(value, len(numbers)) for value in values)


def stacked(batches: Sequence[HostBatch]) -> HostBatch:
    """Returns batches [B, ...] as one, [S, B, ...]; a single one is not copied.

    Raises:
        ConfigError: they differ in shape.
    """
    first, *others = batches
    if not others:
        return {name: array[None] for name, array in first.items()}
    shapes = {name: array.shape for name, array in first.items()}
    if any({name: array.shape for name, array in other.items()} != shapes for other in others):
        raise ConfigError("the runs of a population have batches of different shapes; train them without --population")
    return {name: np.stack([batch[name] for batch in batches]) for name in first}
