"""Rows: the pieces of a token stream that a model reads one at a time, by number.

Packed row i of T tokens is stream[i*T : i*T + T + 1] if the next token is the target: neighbours
share one token (the target of one is the input of the next), and every token but the first is a
target exactly once. If the objective does not predict the next token, it is stream[i*T : i*T + T].
"""

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

PADDING = -1
# Name of the array with the bytes of the documents that tokens have, in evaluation; a tokenizer whose
# pieces say them needs none.
BYTES = "bytes"
# Up to this number a permutation is kept in memory: 4 MB, or less for fewer rows.
_LISTED_ROWS = 1 << 20
# Memory for permutations. Runs that are trained together take turns with one each.
_LISTED_BYTES = 128 << 20

Arrays = dict[str, np.ndarray]


class Rows(ABC):
    """Rows of one length.

    Attributes:
        num_training_rows: number of rows for training; 0 if there are too few.
        num_rows: number of all rows, for evaluation.
        shortage: why there are so few, for error messages.
    """

    num_training_rows: int
    num_rows: int
    shortage: str

    @abstractmethod
    def gather(self, indices: np.ndarray, epochs: np.ndarray | None, seed: int) -> Arrays:
        """Returns rows by number.

        Args:
            indices: row numbers, [B].
            epochs: epoch of each row, [B]; None in evaluation, where a row is the same every time
                and for every seed.
            seed: the run's seed.

        Returns:
            int32 arrays with the rows first: "tokens" [B, ...], padded with -1, and further arrays
                of this kind of rows; in evaluation also `BYTES`, as "tokens", if the bytes of the
                tokens are known one by one.
        """

    @abstractmethod
    def padding_rows(self, count: int) -> Arrays:
        """Returns rows of padding, which fill up a batch of an evaluation."""

    def order(self, positions: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns (row numbers, epochs) at these positions of the endless training order.

        Each epoch is a permutation of its own.
        """
        epochs, places = np.divmod(positions, self.num_training_rows)
        return shuffled(places, epochs, self.num_training_rows, seed), epochs


class PackedRows(Rows):
    """Consecutive tokens of the stream, across document boundaries.

    Args:
        tokens: the stream, [tokens].
        length: T.
        num_extra_tokens: number of tokens of a row beyond T: 1 if the next token is the target, 0
            if targets are within the row.
        sizes: bytes of the documents that each token has, [tokens]; None if its piece says them.
    """

    def __init__(self, tokens: np.ndarray, length: int, num_extra_tokens: int = 1, sizes: np.ndarray | None = None):
        self.tokens, self.length, self.num_extra_tokens, self.sizes = tokens, length, num_extra_tokens, sizes
        targets = max(len(tokens) - num_extra_tokens, 0)
        self.num_training_rows, self.num_rows = targets // length, -(-targets // length)
        self.shortage = (
            f"there are {len(tokens)} tokens, and one row takes data.sequence_length{' + 1' * num_extra_tokens} = "
            f"{length + num_extra_tokens}"
        )

    def gather(self, indices: np.ndarray, epochs: np.ndarray | None, seed: int) -> Arrays:
        positions = np.asarray(indices)[:, None] * self.length + np.arange(self.length + self.num_extra_tokens)
        rows, beyond = self.tokens.take(positions, mode="clip").astype(np.int32), positions >= len(self.tokens)
        rows[beyond] = PADDING
        if self.sizes is None or epochs is not None:
            return {"tokens": rows}
        return {"tokens": rows, BYTES: np.where(beyond, 0, self.sizes.take(positions, mode="clip"))}

    def padding_rows(self, count: int) -> Arrays:
        return padding_tokens(count, self.length + self.num_extra_tokens, self.sizes is not None)


def padding_tokens(count: int, length: int, with_bytes: bool) -> Arrays:
    """Returns rows of padding, [count, length], which have no bytes."""
    rows = {"tokens": np.full((count, length), PADDING, np.int32)}
    return rows | ({BYTES: np.zeros((count, length), np.int32)} if with_bytes else {})


class MixedRows(Rows):
    """Rows of several sources, sampled in training with given weights.

    Of every `PERIOD` rows each source gets its share, evenly spread. A source goes through its own
    rows epoch by epoch, each a new permutation, so a small source with a large weight is repeated
    more often. Rows are numbered source after source.

    Args:
        parts: rows of each source.
        weights: shares in training, positive, in any unit.
    """

    PERIOD = 4096

    def __init__(self, parts: Sequence[Rows], weights: Sequence[float]):
        self.parts = list(parts)
        empty = [part for part in parts if part.num_training_rows == 0]
        self.num_training_rows, self.num_rows = (
            0 if empty else sum(part.num_training_rows for part in parts),
            sum(part.num_rows for part in parts),
        )
        self.shortage = "; ".join(part.shortage for part in empty)
        self._first = np.cumsum([0, *(part.num_rows for part in parts)])
        shares = np.array(weights) / np.sum(weights) * self.PERIOD
        # Largest remainders, so that the shares add up; every source gets at least one row.
        counts = np.maximum(1, np.floor(shares)).astype(np.int64)
        for index in np.argsort(counts - shares, kind="stable")[: max(self.PERIOD - counts.sum(), 0)]:
            counts[index] += 1
        counts[counts.argmax()] += self.PERIOD - counts.sum()
        place = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
        source = np.repeat(np.arange(len(counts)), counts)
        self._source = source[np.lexsort((source, place))]
        self._counts, self._rank = counts, np.zeros(self.PERIOD, np.int64)
        for index, count in enumerate(counts):
            self._rank[self._source == index] = np.arange(count)

    def order(self, positions: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        periods, places = np.divmod(positions, self.PERIOD)
        sources = self._source[places]
        indices, epochs = np.empty((2, len(positions)), np.int64)
        for index, part in enumerate(self.parts):
            chosen = sources == index
            within = periods[chosen] * self._counts[index] + self._rank[places[chosen]]
            numbers, epochs[chosen] = part.order(within, seed)
            indices[chosen] = numbers + self._first[index]
        return indices, epochs

    def gather(self, indices: np.ndarray, epochs: np.ndarray | None, seed: int) -> Arrays:
        result = self.padding_rows(len(indices))
        if epochs is not None:
            result.pop(BYTES, None)
        sources = np.searchsorted(self._first, indices, side="right") - 1
        for source in np.unique(sources):
            chosen = np.flatnonzero(sources == source)
            rows = self.parts[source].gather(
                indices[chosen] - self._first[source], None if epochs is None else epochs[chosen], seed
            )
            for name, array in rows.items():
                result[name][chosen] = array
        return result

    def padding_rows(self, count: int) -> Arrays:
        return self.parts[0].padding_rows(count)


def shuffled(places: np.ndarray, epochs: np.ndarray, rows: int, seed: int) -> np.ndarray:
    """Returns the row at each place of each epoch's permutation of 0 .. rows - 1."""
    result = np.empty(len(places), np.int64)
    for epoch in np.unique(epochs).tolist():
        chosen = epochs == epoch
        if rows <= _LISTED_ROWS:
            result[chosen] = _permutation(rows, seed, epoch)[places[chosen]]
        else:
            result[chosen] = _computed(places[chosen], rows, seed, epoch)
    return result


class _Permutations:
    """Computes permutations, and keeps those last used, up to a number of bytes."""

    def __init__(self, limit: int):
        self._limit, self._bytes = limit, 0
        self._kept: OrderedDict[tuple[int, int, int], np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, rows: int, seed: int, epoch: int) -> np.ndarray:
        """Returns an epoch's permutation of 0 .. rows - 1."""
        key = rows, seed, epoch
        with self._lock:
            if key not in self._kept:
                made = np.random.default_rng(_epoch_sequence(seed, epoch)).permutation(rows).astype(np.int32)
                self._kept[key], self._bytes = made, self._bytes + made.nbytes
            self._kept.move_to_end(key)
            while self._bytes > self._limit and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
            return self._kept[key]


_permutation = _Permutations(_LISTED_BYTES)


def _computed(places: np.ndarray, rows: int, seed: int, epoch: int) -> list[int]:
    """Computes entries of a permutation without storing it.

    The cost per entry grows as the number of rows shrinks.
    """
    from grain.experimental import index_shuffle

    key = int(_epoch_sequence(seed, epoch).generate_state(1)[0])
    return [index_shuffle(place, max_index=rows - 1, seed=key, rounds=4) for place in places.tolist()]


def _epoch_sequence(seed: int, epoch: int) -> np.random.SeedSequence:
    # Not seed + epoch, as in Grain's own shuffle: neighbouring seeds would replay each other's
    # epochs.
    return np.random.SeedSequence((seed, epoch))
