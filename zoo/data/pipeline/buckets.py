"""Batches of pairs of similar lengths, in a few shapes.

A pair is as wide as its longer side, the token that ends it included. Batches have the widths T, T
// 2, ..., T // K, and of width T // k they have B * k rows: about as many places on either side as
B rows of T, and rows that divide by whatever B divides by. Each width is a shape, for which a
program is compiled once.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from zoo.data.pipeline.batches import TrainingBatches, numbered_batches, process_slice
from zoo.data.rows.packed_rows import PADDING, Arrays
from zoo.errors import DataError


class Bucket(NamedTuple):
    """The shape of a batch: `rows` pairs, either side of up to `width` tokens."""

    width: int
    rows: int


def bucket_shapes(length: int, batch_size: int, count: int) -> list[Bucket]:
    """The shapes of batches from the narrowest to the widest, T // k with B * k rows; of equal
    widths the one with most rows.
    """
    rows = {length // k: batch_size * k for k in range(1, min(count, length) + 1)}
    return [Bucket(width, rows[width]) for width in sorted(rows)]


class TokenSequences:
    """Texts as tokens, one after the other.

    Args:
        texts: int arrays [tokens].
        end_id: what ends each of them.

    Attributes:
        tokens: all of them, int32 [tokens].
        starts: where each text begins, and the end of the last, int64 [texts + 1].
        lengths: tokens of each text, the end included, int64 [texts].
    """

    def __init__(self, texts: Sequence[np.ndarray], end_id: int):
        self.starts = np.cumsum([0, *(len(text) + 1 for text in texts)], dtype=np.int64)
        self.lengths = np.diff(self.starts)
        self.tokens = np.full(self.starts[-1], end_id, np.int32)
        for text, start in zip(texts, self.starts.tolist(), strict=False):
            self.tokens[start : start + len(text)] = text

    def rows(self, indices: np.ndarray, width: int) -> np.ndarray:
        """Texts of at most `width` tokens by their numbers, int32 [rows, width], padded with -1; a
        number of -1 is an empty row.
        """
        numbers = np.maximum(indices, 0)
        places = np.arange(width)[None]
        there = (places < self.lengths[numbers][:, None]) & (indices >= 0)[:, None]
        return np.where(there, self.tokens.take(self.starts[numbers][:, None] + places, mode="clip"), PADDING)


class EpochPlan(NamedTuple):
    """The batches of an epoch.

    Attributes:
        order: numbers of the pairs, batch after batch.
        first: where each batch begins in `order`, int64 [batches].
        bucket: number of each batch's shape, [batches].
    """

    order: np.ndarray
    first: np.ndarray
    bucket: np.ndarray


class PairBatches:
    """Batches of pairs; number n is a function of (seed, n) alone.

    In an epoch every pair comes once, but for fewer than B that are left over. Pairs of a width are
    in a new order each epoch; those that fill no batch go with the next wider ones, the last of
    them wait for another epoch; then batches are put in a new order.

    Args:
        source, target: both sides, as many of each.
        buckets: shapes of batches, from the narrowest to the widest.

    Attributes:
        fits: which pairs are no wider than the widest shape, bool [pairs]; the others are left out.
        per_epoch: number of training batches of an epoch.
    """

    def __init__(self, source: TokenSequences, target: TokenSequences, buckets: list[Bucket]):
        self.source, self.target, self.buckets = source, target, buckets
        self._fitting = np.searchsorted(
            [bucket.width for bucket in buckets], np.maximum(source.lengths, target.lengths)
        )
        self.fits = self._fitting < len(buckets)
        self.per_epoch = len(self._plan(0, 0).first)
        self._plan = lru_cache(maxsize=2)(self._plan)

    def _plan(self, seed: int, epoch: int) -> EpochPlan:
        # Neighbouring seeds must not replay each other's epochs.
        random = np.random.default_rng(np.random.SeedSequence((seed, epoch)))
        shuffled = random.permutation(len(self._fitting))
        fitting = self._fitting[shuffled]
        batches, left = [], shuffled[:0]
        for number, bucket in enumerate(self.buckets):
            mine = np.concatenate([left, shuffled[fitting == number]])
            count = len(mine) // bucket.rows
            batches += [(number, part) for part in mine[: count * bucket.rows].reshape(count, bucket.rows)]
            left = mine[count * bucket.rows :]
        batches = [batches[place] for place in random.permutation(len(batches))]
        sizes = [len(part) for _, part in batches]
        order = np.concatenate([shuffled[:0], *(part for _, part in batches)])
        return EpochPlan(
            order, np.cumsum([0, *sizes], dtype=np.int64)[:-1], np.array([number for number, _ in batches], np.int64)
        )

    def numbers(self, seed: int, step: int) -> tuple[Bucket, np.ndarray]:
        """The shape of training batch number `step`, and the numbers of its pairs."""
        epoch, place = divmod(step, self.per_epoch)
        plan = self._plan(seed, epoch)
        bucket = self.buckets[plan.bucket[place]]
        return bucket, plan.order[plan.first[place] : plan.first[place] + bucket.rows]

    def training(
        self, seed: int, start_step: int = 0, process_index: int = 0, process_count: int = 1
    ) -> TrainingBatches:
        """The training batches from number `start_step` on, without end.

        Of each batch this process gets the `process_index`-th of `process_count` consecutive parts.

        Raises:
            DataError: there are too few pairs for one batch.
            ConfigError: batches do not divide over the processes.
        """
        if not self.per_epoch:
            widest = self.buckets[-1]
            raise DataError(
                f"{self.fits.sum():,} pairs of up to {widest.width} tokens a side are too few for a batch of data.batch_size="
                f"{widest.rows}; take more pairs, a smaller data.batch_size, or another data.sequence_length"
            )
        process_slice(self.buckets[-1].rows, process_index, process_count)

        def batch(step: int) -> Arrays:
            bucket, numbers = self.numbers(seed, step)
            return self._gathered(numbers[process_slice(bucket.rows, process_index, process_count)], bucket.width)

        return numbered_batches(batch, start_step, 1 << 40)

    def evaluation(
        self, multiple_of: int = 1, process_index: int = 0, process_count: int = 1, limit: int = 0
    ) -> Iterator[Arrays]:
        """Every pair that fits exactly once, in batches of the same shapes, or an even sample of
        `limit` batches; the same on every call.

        Which pairs are scored does not depend on `multiple_of`, to which rows of every batch are
        filled up with empty ones.
        """
        batches = []
        for number, bucket in enumerate(self.buckets):
            mine = np.flatnonzero(self._fitting == number)
            batches += [(bucket, mine[start : start + bucket.rows]) for start in range(0, len(mine), bucket.rows)]
        if not batches:
            raise DataError(f"no held-out pair has at most data.sequence_length={self.buckets[-1].width} tokens a side")
        count = min(len(batches), limit) if limit else len(batches)
        for place in np.arange(count) * len(batches) // count:
            bucket, numbers = batches[place]
            filled = np.full(-(-bucket.rows // multiple_of) * multiple_of, -1)
            filled[: len(numbers)] = numbers
            yield self._gathered(filled[process_slice(len(filled), process_index, process_count)], bucket.width)

    def _gathered(self, numbers: np.ndarray, width: int) -> Arrays:
        return {"source": self.source.rows(numbers, width), "targets": self.target.rows(numbers, width)}

    def batches_per_bucket(self) -> list[tuple[Bucket, int]]:
        """Every shape, and its batches in an epoch."""
        return list(
            zip(self.buckets, np.bincount(self._plan(0, 0).bucket, minlength=len(self.buckets)).tolist(), strict=True)
        )

    def padding(self) -> float:
        """Share of the places of an epoch's training batches that are empty."""
        plan = self._plan(0, 0)
        filled = (self.source.lengths + self.target.lengths)[plan.order].sum()
        places = 2 * sum(self.buckets[number].width * self.buckets[number].rows for number in plan.bucket.tolist())
        return float(1 - filled / places) if places else 0.0
