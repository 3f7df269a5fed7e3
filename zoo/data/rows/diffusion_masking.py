"""Masking for masked diffusion, in which every share of hidden tokens is equally likely."""

from dataclasses import dataclass

import numpy as np

from zoo.data.rows.masking import EVALUATION, TRAINING, bytes_at, row_keys, uniform_draws
from zoo.data.rows.packed_rows import PADDING, Arrays


@dataclass(frozen=True)
class DiffusionMasking:
    """Hides k of the n tokens of a row, k uniform over 1 .. n, all as [MASK]; each choice of k tokens
    is equally likely.

    The masks depend only on the seed, the epoch and the row number, as in
    `zoo.data.rows.masking.Masking`. Padding and boundary tokens are never hidden and do not count
    among the n.

    Attributes:
        boundary_ids: ids that are never hidden: the token that opens a document, and the separator
            if rows have one.
        mask_id: id of [MASK].
    """

    boundary_ids: tuple[int, ...]
    mask_id: int

    def training_batch(self, rows: Arrays, indices: np.ndarray, epochs: np.ndarray, seed: int) -> Arrays:
        """Hides tokens for training.

        Arguments are those of `Masking.training_batch`. So are the arrays that are returned, with
        N = T, and "candidates" [B], the n of each row.
        """
        return self._hidden(rows, row_keys(TRAINING, seed, epochs, indices))

    def evaluation_batch(self, rows: Arrays, indices: np.ndarray) -> Arrays:
        """Hides tokens for evaluation: the same way every time and for every seed."""
        return self._hidden(rows, row_keys(EVALUATION, indices))

    def _hidden(self, named: Arrays, keys: np.ndarray) -> Arrays:
        rows = named["tokens"]
        length = rows.shape[1]
        *order, share = uniform_draws(keys, length + 1).T
        candidates = (rows != PADDING) & ~np.isin(rows, self.boundary_ids)
        total = candidates.sum(axis=1)
        count = np.minimum(1 + np.floor(share * total).astype(np.int64), total)
        # The candidates with the smallest draws: a uniform choice without replacement.
        places = np.argsort(np.where(candidates, np.stack(order, axis=1), 2.0), axis=1, kind="stable")
        used = np.arange(length) < count[:, None]
        tokens = rows.copy()
        row, place = np.nonzero(used)
        tokens[row, places[row, place]] = self.mask_id
        batch = {
            **named,
            "tokens": tokens,
            "masked_positions": np.where(used, places, 0),
            "targets": np.where(used, np.take_along_axis(rows, places, axis=1), PADDING),
            "candidates": total,
            **bytes_at(named, places, used),
        }
        return {name: array.astype(np.int32) for name, array in batch.items()}
