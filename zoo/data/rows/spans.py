"""Span corruption: which spans are removed, and what an encoder-decoder reads and writes instead.

Like masks, spans depend only on the seed, the epoch and the row number.
"""

from dataclasses import dataclass

import numpy as np

from zoo.config.kinds.side_lengths import SpanLengths
from zoo.data.rows.masking import EVALUATION, TRAINING, row_keys, uniform_draws
from zoo.data.rows.packed_rows import BYTES, PADDING, Arrays


@dataclass(frozen=True)
class SpanCorruption:
    """Replaces spans of a row by sentinels; the target is the spans, each after its sentinel.

    For the text "a b c d e f" with the spans "b c" and "e", the encoder reads "a <0> d <1> f <end>"
    and the decoder writes "<0> b c <1> e <end>". Positions and lengths of the spans are uniform
    over all ways to cut the row into the same number of parts, the first of which is not removed.

    Attributes:
        density: share of the tokens that are removed.
        mean: mean length of a span.
        vocab_size: number of the tokenizer's ids; sentinels follow them, number i is vocab_size +
            sentinels - 1 - i.
        sentinels: number of sentinels.
        end_id: ends both sides: the token that opens documents.
    """

    density: float
    mean: float
    vocab_size: int
    sentinels: int
    end_id: int

    def training_batch(self, rows: Arrays, indices: np.ndarray, epochs: np.ndarray, seed: int) -> Arrays:
        """Corrupts rows for training.

        Args:
            rows: "tokens" [B, T], padded with -1; all other arrays are passed on unchanged.
            indices: number of each row, [B].
            epochs: epoch of each row, [B].
            seed: the run's seed.

        Returns:
            int32 arrays, padded with -1: "source" [B, S] and "targets" [B, N], as long as rows
                without padding need; `BYTES` as "targets", if `rows` has them; and all other arrays of
                `rows`.
        """
        return self._corrupted(rows, row_keys(TRAINING, seed, epochs, indices))

    def evaluation_batch(self, rows: Arrays, indices: np.ndarray) -> Arrays:
        """Corrupts rows for evaluation: the same way every time and for every seed.

        Arguments and result are those of `training_batch`.
        """
        return self._corrupted(rows, row_keys(EVALUATION, indices))

    def _corrupted(self, named: Arrays, keys: np.ndarray) -> Arrays:
        rows, others = named["tokens"], {name: array for name, array in named.items() if name != "tokens"}
        sizes = named.get(BYTES)
        keys = np.broadcast_to(keys, len(rows))
        lengths = (rows != PADDING).sum(axis=1)
        full = SpanLengths.of(rows.shape[1], self.density, self.mean)
        source = np.full((len(rows), full.source), PADDING, np.int32)
        targets = np.full((len(rows), full.targets), PADDING, np.int32)
        if sizes is not None:
            others[BYTES] = np.zeros(targets.shape, np.int32)
        # Rows of one length at a time: all but the last of a text have no padding. A row of fewer
        # than two tokens has no span.
        for length in np.unique(lengths[lengths > 1]):
            chosen = np.flatnonzero(lengths == length)
            one, other, bytes_cut = self._cut(
                rows[chosen, :length], keys[chosen], None if sizes is None else sizes[chosen, :length]
            )
            source[chosen, : one.shape[1]], targets[chosen, : other.shape[1]] = one, other
            if sizes is not None:
                others[BYTES][chosen, : bytes_cut.shape[1]] = bytes_cut
        return {**others, "source": source, "targets": targets}

    def _cut(
        self, rows: np.ndarray, keys: np.ndarray, sizes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Returns the sources and targets of rows without padding, [B, n], and the bytes of the
        targets if those of the tokens are given; sentinels and the end have none.
        """
        batch, length = rows.shape
        lengths = SpanLengths.of(length, self.density, self.mean)
        draws = uniform_draws(keys, length)
        staying = _parts(draws[:, : length - lengths.noise], lengths.spans)
        cut = _parts(draws[:, length - lengths.noise :], lengths.spans)
        # Parts alternate between text that stays and spans: [B, 2 spans] lengths in the order of
        # the row.
        ends = np.stack([staying, cut], axis=2).reshape(batch, -1).cumsum(axis=1)
        part = (np.arange(length)[None, :, None] >= ends[:, None, :]).sum(axis=2)
        is_cut = part % 2 == 1
        sentinel = self.vocab_size + self.sentinels - 1 - np.arange(lengths.spans)
        end = np.full((batch, 1), self.end_id)
        # A sentinel precedes the first token of its span: sort by (position, sentinel first).
        starts = ends[:, 0::2]
        return (
            np.concatenate([_merged(rows, ~is_cut, starts, sentinel), end], axis=1),
            np.concatenate([_merged(rows, is_cut, starts, sentinel), end], axis=1),
            None if sizes is None else _merged(sizes, is_cut, starts, np.zeros_like(sentinel)),
        )

    def inverse(self, source: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns the original row of a source and its targets, [n]; all without padding."""
        first = self.vocab_size + self.sentinels - 1
        spans: dict[int, list[int]] = {}
        for token in targets[:-1].tolist():
            if self.vocab_size <= token <= first:
                spans[token] = []
                current = token
            else:
                spans[current].append(token)
        return np.array([token for one in source[:-1].tolist() for token in spans.get(one, [one])], np.int32)


def _parts(draws: np.ndarray, parts: int) -> np.ndarray:
    """Divides n things into parts, none empty, all ways equally likely; returns lengths [B, parts].

    `draws` [B, n] are the random numbers.
    """
    borders = np.sort(np.argsort(draws[:, 1:], axis=1, kind="stable")[:, : parts - 1], axis=1) + 1
    ends = np.concatenate(
        [np.zeros((len(draws), 1), np.int64), borders, np.full((len(draws), 1), draws.shape[1])], axis=1
    )
    return np.diff(ends, axis=1)


def _merged(rows: np.ndarray, kept: np.ndarray, starts: np.ndarray, sentinel: np.ndarray) -> np.ndarray:
    """Returns the kept tokens of every row with the sentinels at their positions."""
    batch, length = rows.shape
    tokens = np.concatenate([np.broadcast_to(sentinel, (batch, len(sentinel))), rows], axis=1)
    places = np.concatenate([starts * 2, np.broadcast_to(2 * np.arange(length) + 1, (batch, length))], axis=1)
    wanted = np.concatenate([np.ones(starts.shape, bool), kept], axis=1)
    order = np.argsort(np.where(wanted, places, 2 * length + 2), axis=1, kind="stable")[:, : wanted[0].sum()]
    return np.take_along_axis(tokens, order, axis=1)
