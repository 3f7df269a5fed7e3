"""Batches of pairs of similar lengths, in a few shapes.

The width of a pair is the length of its longer side, including the end token. Batches have the
widths T, T // 2, ..., T // K. A batch of width T // k has B * k rows, so all batches have about B T
tokens per side, and the number of rows is a multiple of B. A program is compiled once per shape.
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from zoo.data.pipeline.batches import TrainingBatches, process_slice
from zoo.data.rows.packed_rows import BYTES, PADDING, Arrays
from zoo.errors import DataError


class Bucket(NamedTuple):
    """The shape of a batch: `rows` pairs with sides of up to `width` tokens."""

    width: int
    rows: int


def bucket_shapes(length: int, batch_size: int, count: int) -> list[Bucket]:
    """Returns the shapes of batches, narrowest first: T // k with B * k rows.

    Of equal widths, the one with most rows is kept.
    """
    rows = {length // k: batch_size * k for k in range(1, min(count, length) + 1)}
    return [Bucket(width, rows[width]) for width in sorted(rows)]


class TokenSequences:
    """Tokenised texts, concatenated.

    Args:
        texts: int arrays [tokens].
        end_id: appended to each of them.
        sizes: bytes of each token of each text; None if its piece says them.

    Attributes:
        tokens: all tokens, int32 [tokens].
        sizes: their bytes, 0 for ends, or None.
        starts: start of each text, and the end of the last, int64 [texts + 1].
        lengths: tokens of each text, including the end token, int64 [texts].
    """

    def __init__(self, texts: Sequence[np.ndarray], end_id: int, sizes: Sequence[np.ndarray] | None = None):
        self.starts = np.cumsum([0, *(len(text) + 1 for text in texts)], dtype=np.int64)
        self.lengths = np.diff(self.starts)
        self.tokens = self._joined(texts, end_id)
        self.sizes = None if sizes is None else self._joined(sizes, 0)

    def _joined(self, texts: Sequence[np.ndarray], end: int) -> np.ndarray:
        joined = np.full(self.starts[-1], end, np.int32)
        for text, start in zip(texts, self.starts.tolist(), strict=False):
            joined[start : start + len(text)] = text
        return joined

    def rows(self, indices: np.ndarray, width: int) -> np.ndarray:
        """Returns the texts at `indices`, each of at most `width` tokens, as int32 [rows, width],
        padded with -1.

        An index of -1 gives a row of padding.
        """
        return self._rows_of(self.tokens, indices, width, PADDING)

    def byte_rows(self, indices: np.ndarray, width: int) -> np.ndarray:
        """Returns the bytes of the tokens that `rows` returns, 0 for padding."""
        return self._rows_of(self.sizes, indices, width, 0)

    def _rows_of(self, values: np.ndarray, indices: np.ndarray, width: int, padding: int) -> np.ndarray:
        texts = np.maximum(indices, 0)
        offsets = np.arange(width)[None]
        is_token = (offsets < self.lengths[texts][:, None]) & (indices >= 0)[:, None]
        return np.where(is_token, values.take(self.starts[texts][:, None] + offsets, mode="clip"), padding)


class EpochPlan(NamedTuple):
    """The batches of an epoch.

    Attributes:
        order: indices of the pairs, batch by batch.
        first: start of each batch in `order`, int64 [batches].
        bucket: index of each batch's shape in `PairBatches.buckets`, [batches].
    """

    order: np.ndarray
    first: np.ndarray
    bucket: np.ndarray


class PairBatches:
    """Batches of pairs; batch n is a function of (seed, n) alone.

    In each epoch, the pairs of each width are shuffled and cut into batches; pairs that do not fill
    a batch move to the next wider shape. Then the batches are shuffled. So every pair that fits
    occurs once per epoch, except for fewer than B that do not fill a batch of the widest shape.

    Args:
        source, target: the texts of both sides; pair n is text n of each.
        buckets: shapes of batches, narrowest first.

    Attributes:
        fits: which pairs fit into the widest shape, bool [pairs]; the others are left out.
        per_epoch: number of training batches per epoch.
    """

    def __init__(self, source: TokenSequences, target: TokenSequences, buckets: list[Bucket]):
        self.source, self.target, self.buckets = source, target, buckets
        self._fitting = np.searchsorted(
            [bucket.width for bucket in buckets], np.maximum(source.lengths, target.lengths)
        )
        self.fits = self._fitting < len(buckets)
        self.per_epoch = len(self._plan(0, 0).first)
        self._plan = lru_cache(maxsize=2)(self._plan)

    @property
    def tokens_sha256(self) -> str:
        """Returns the hash of the ids of both sides."""
        digest = hashlib.sha256()
        for side in (self.source, self.target):
            digest.update(side.tokens.data)
        return digest.hexdigest()

    def _plan(self, seed: int, epoch: int) -> EpochPlan:
        # Not seed + epoch: neighbouring seeds must not replay each other's epochs.
        random = np.random.default_rng(np.random.SeedSequence((seed, epoch)))
        shuffled = random.permutation(len(self._fitting))
        fitting = self._fitting[shuffled]
        batches, left = [], shuffled[:0]
        for number, bucket in enumerate(self.buckets):
            pairs = np.concatenate([left, shuffled[fitting == number]])
            count = len(pairs) // bucket.rows
            batches += [(number, part) for part in pairs[: count * bucket.rows].reshape(count, bucket.rows)]
            left = pairs[count * bucket.rows :]
        batches = [batches[place] for place in random.permutation(len(batches))]
        sizes = [len(part) for _, part in batches]
        order = np.concatenate([shuffled[:0], *(part for _, part in batches)])
        return EpochPlan(
            order, np.cumsum([0, *sizes], dtype=np.int64)[:-1], np.array([number for number, _ in batches], np.int64)
        )

    def batch_indices(self, seed: int, step: int) -> tuple[Bucket, np.ndarray]:
        """Returns the shape of the training batch of `step`, and the indices of its pairs."""
        epoch, place = divmod(step, self.per_epoch)
        plan = self._plan(seed, epoch)
        bucket = self.buckets[plan.bucket[place]]
        return bucket, plan.order[plan.first[place] : plan.first[place] + bucket.rows]

    def training(
        self, seed: int, start_step: int = 0, process_index: int = 0, process_count: int = 1
    ) -> TrainingBatches:
        """Returns the training batches from number `start_step` on, without end.

        This process gets part number `process_index` of `process_count` consecutive parts of each
        batch.

        Raises:
            DataError: there are too few pairs for one batch.
            ConfigError: the batch size is not divisible by the number of processes.
        """
        if not self.per_epoch:
            widest = self.buckets[-1]
            raise DataError(
                f"{self.fits.sum():,} pairs of up to {widest.width} tokens a side are too few for a batch of "
                f"data.batch_size={widest.rows}; take more pairs, a smaller data.batch_size, or another "
                "data.sequence_length"
            )
        process_slice(self.buckets[-1].rows, process_index, process_count)

        def batch(step: int) -> Arrays:
            bucket, numbers = self.batch_indices(seed, step)
            return self._gathered(numbers[process_slice(bucket.rows, process_index, process_count)], bucket.width)

        return TrainingBatches(batch, start_step)

    def evaluation(
        self, multiple_of: int = 1, process_index: int = 0, process_count: int = 1, limit: int = 0
    ) -> Iterator[Arrays]:
        """Yields every pair that fits exactly once, or `limit` batches, evenly spaced over all.

        Batches have the shapes of training, and are the same on every call. Rows of padding fill
        each batch up to a multiple of `multiple_of`; the choice of pairs does not depend on it.
        """
        batches = []
        for number, bucket in enumerate(self.buckets):
            pairs = np.flatnonzero(self._fitting == number)
            batches += [(bucket, pairs[start : start + bucket.rows]) for start in range(0, len(pairs), bucket.rows)]
        if not batches:
            raise DataError(f"no held-out pair has at most data.sequence_length={self.buckets[-1].width} tokens a side")
        count = min(len(batches), limit) if limit else len(batches)
        for place in np.arange(count) * len(batches) // count:
            bucket, numbers = batches[place]
            filled = np.full(-(-bucket.rows // multiple_of) * multiple_of, -1)
            filled[: len(numbers)] = numbers
            mine = filled[process_slice(len(filled), process_index, process_count)]
            sizes = {} if self.target.sizes is None else {BYTES: self.target.byte_rows(mine, bucket.width)}
            yield self._gathered(mine, bucket.width) | sizes

    def _gathered(self, numbers: np.ndarray, width: int) -> Arrays:
        return {"source": self.source.rows(numbers, width), "targets": self.target.rows(numbers, width)}

    def batches_per_bucket(self) -> list[tuple[Bucket, int]]:
        """Returns every shape with its number of batches per epoch."""
        return list(
            zip(self.buckets, np.bincount(self._plan(0, 0).bucket, minlength=len(self.buckets)).tolist(), strict=True)
        )

    def padding(self) -> float:
        """Returns the share of padding in an epoch's training batches."""
        plan = self._plan(0, 0)
        filled = (self.source.lengths + self.target.lengths)[plan.order].sum()
        places = 2 * sum(self.buckets[number].width * self.buckets[number].rows for number in plan.bucket.tolist())
        return float(1 - filled / places) if places else 0.0
