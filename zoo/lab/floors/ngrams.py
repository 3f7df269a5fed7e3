"""Interpolated n-gram models, counted on the rows that a run reads: floors for its loss.

With c(h, w) the count of token w after the context h, N(h) = sum_w c(h, w), T(h) the number of
different tokens after h, and h' the context h without its first token,

    p(w | h) = (c(h, w) + T(h) p(w | h')) / (N(h) + T(h)),

which is the interpolation of Witten & Bell 1991 (method C) in the form of Chen & Goodman 1999,
section 2.4. It ends in the uniform distribution: p(w) = (c(w) + T / V) / (N + T). After a context
that never occurred, p(w | h) = p(w | h').
"""

from typing import NamedTuple

import numpy as np

from zoo.data.rows.packed_rows import PADDING

LONGEST_CONTEXT = 5
# Bounds the memory of scoring.
_TOKENS_AT_ONCE = 1 << 18


class _Order(NamedTuple):
    """Counts after contexts of one length.

    Attributes:
        keys: context * base + token of each n-gram that occurs, ascending; its place here is its
            number as a context of the next length.
        counts: c(h, w) of each.
        totals, different: N(h) and T(h), by context.
    """

    keys: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    different: np.ndarray


class WittenBell:
    """The interpolated models of all lengths of context up to a longest one.

    The first token of a row is never predicted, and no context reaches beyond its row, so there are
    no contexts longer than the training rows have.

    Args:
        rows: training rows, int [N, L], -1 where there is no token.
        vocab_size: V of the uniform distribution.
        longest: number of tokens in the longest context.
        opening: a token that opens documents and may only be the first of a context, where
            documents are kept apart; None where contexts reach into the document before.
    """

    def __init__(self, rows: np.ndarray, vocab_size: int, longest: int = LONGEST_CONTEXT, opening: int | None = None):
        self._vocab_size, self._opening = vocab_size, opening
        self._base = max(vocab_size, int(rows.max(initial=0)) + 1)
        self._orders: list[_Order] = []
        reach, contexts = self._reach(rows), np.zeros(rows.shape, np.int64)
        for length in range(longest + 1):
            row, place = np.nonzero((reach[:, :-1] >= length) & (contexts[:, :-1] >= 0) & (rows[:, 1:] != PADDING))
            if not len(row):  # No row is as long as this.
                break
            tokens, before = rows[row, place + 1], contexts[row, place]
            keys, numbers, counts = np.unique(before * self._base + tokens, return_inverse=True, return_counts=True)
            of_keys = keys // self._base
            self._orders.append(_Order(keys, counts, np.bincount(of_keys, counts), np.bincount(of_keys)))
            contexts = self._single(rows) if length == 0 else np.full(rows.shape, -1, np.int64)
            if length:
                contexts[row, place + 1] = numbers

    def losses(self, rows: np.ndarray, scored: np.ndarray | None = None) -> list[float]:
        """Returns the mean of -log p over the scored tokens in nats, by length of context.

        Args:
            rows: held-out rows, int [N, L], -1 where there is no token.
            scored: which of them count, bool [N, L]; by default all tokens but a row's first.

        Raises:
            ValueError: no token is scored.
        """
        counted = rows[:, 1:] != PADDING
        if scored is not None:
            counted &= scored[:, 1:]
        if not counted.any():
            raise ValueError("no token of the held-out rows is scored")
        size = max(1, _TOKENS_AT_ONCE // rows.shape[1])
        starts = range(0, len(rows), size)
        sums = [self._sums(rows[start : start + size], counted[start : start + size]) for start in starts]
        return (np.sum(sums, axis=0) / counted.sum()).tolist()

    def _sums(self, rows: np.ndarray, counted: np.ndarray) -> list[float]:
        """Returns the sum of -log p over the counted targets, [N, L - 1], by length of context."""
        targets = rows[:, 1:]
        reach, contexts = self._reach(rows), np.zeros(rows.shape, np.int64)
        p, found = np.full(targets.shape, 1 / self._vocab_size), []
        for length, order in enumerate(self._orders):
            # A context that did not occur, or that is too long for its row, has the number -1.
            before = np.where(reach[:, :-1] >= length, contexts[:, :-1], -1)
            keys = before * self._base + targets
            places = np.searchsorted(order.keys, keys).clip(max=len(order.keys) - 1)
            occurs = (before >= 0) & (targets != PADDING) & (order.keys[places] == keys)
            known = (before >= 0) & (before < len(order.totals))
            index = np.where(known, before, 0)
            total, different = np.where(known, order.totals[index], 0), np.where(known, order.different[index], 0)
            known &= total > 0
            count = np.where(occurs, order.counts[places], 0)
            p = np.where(known, (count + different * p) / np.where(known, total + different, 1), p)
            found.append(float(-np.log(p[counted]).sum()))
            contexts = np.full(rows.shape, -1, np.int64) if length else self._single(rows)
            if length:
                contexts[:, 1:] = np.where(occurs, places, -1)
        return found

    def _single(self, rows: np.ndarray) -> np.ndarray:
        """Returns the numbers of the contexts of one token: the tokens themselves."""
        return np.where(rows < self._base, rows, -1).astype(np.int64)

    def _reach(self, rows: np.ndarray) -> np.ndarray:
        """Returns how many tokens the longest context has that ends at each place, [N, L]."""
        places = np.arange(rows.shape[1])
        absent = rows == PADDING
        first = absent | (rows == self._opening) if self._opening is not None else absent.copy()
        first[:, 0] = True
        start = np.maximum.accumulate(np.where(first, places, -1), axis=1)
        return np.where(absent, 0, places - start + 1 - np.take_along_axis(absent, start, axis=1))
