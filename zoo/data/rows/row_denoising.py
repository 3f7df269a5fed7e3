"""Corruption of rows for an encoder-decoder that writes the whole row again: what masked language
modelling hides, with other targets.
"""

from dataclasses import dataclass

import numpy as np

from zoo.data.rows.masking import Masking
from zoo.data.rows.packed_rows import PADDING, Arrays


@dataclass(frozen=True)
class Denoising:
    """Tokens of a row are hidden as masks do it; the target is the row as it was (Raffel et al.
    2020, section 3.3.1, "BERT-style").

    text "a b c d", chosen "b" and "d": the encoder reads "a [MASK] c x <end>", the decoder writes
    "a b c d <end>".

    Attributes:
        masking: which tokens are hidden, and behind what.
        end_id: what ends both sides: the token that opens documents.
    """

    masking: Masking
    end_id: int

    def training_batch(self, rows: Arrays, indices: np.ndarray, epochs: np.ndarray, seed: int) -> Arrays:
        """Corrupts rows for training.

        Args:
            rows: "tokens" [B, T], padded with -1; what else there is stays as it is.
            indices: number of each row, [B].
            epochs: epoch of each row, [B].
            seed: the run's.

        Returns:
            int32 arrays, padded with -1: "source" and "targets" [B, T + 1]. Besides, all else that
                `rows` has.
        """
        return self._sides(rows, self.masking.training_batch(rows, indices, epochs, seed))

    def evaluation_batch(self, rows: Arrays, indices: np.ndarray) -> Arrays:
        """Corrupts rows for evaluation, the same way every time and for every seed; as
        `training_batch`.
        """
        return self._sides(rows, self.masking.evaluation_batch(rows, indices))

    def _sides(self, rows: Arrays, masked: Arrays) -> Arrays:
        others = {name: array for name, array in rows.items() if name != "tokens"}
        return {**others, "source": self._ended(masked["tokens"]), "targets": self._ended(rows["tokens"])}

    def _ended(self, rows: np.ndarray) -> np.ndarray:
        """Rows with what ends them after their last token; rows of padding alone stay so."""
        ended = np.pad(rows, [(0, 0), (0, 1)], constant_values=PADDING).astype(np.int32)
        lengths = (rows != PADDING).sum(axis=1)
        filled = np.flatnonzero(lengths)
        ended[filled, lengths[filled]] = self.end_id
        return ended
