"""Corruption for an encoder-decoder that reconstructs the whole row from a masked one."""

from dataclasses import dataclass

import numpy as np

from zoo.data.rows.masking import Masking
from zoo.data.rows.packed_rows import BYTES, PADDING, Arrays


@dataclass(frozen=True)
class Denoising:
    """Tokens of a row are masked; the target is the original row.

    This is "BERT-style" denoising (Raffel et al. 2020, section 3.3.1). For the text "a b c d" with
    "b" and "d" selected, the encoder reads "a [MASK] c x <end>" and the decoder writes "a b c d
    <end>".

    Attributes:
        masking: selects and replaces tokens.
        end_id: ends both sides: the token that opens documents.
    """

    masking: Masking
    end_id: int

    def training_batch(self, rows: Arrays, indices: np.ndarray, epochs: np.ndarray, seed: int) -> Arrays:
        """Corrupts rows for training.

        Args:
            rows: "tokens" [B, T], padded with -1; all other arrays are passed on unchanged.
            indices: number of each row, [B].
            epochs: epoch of each row, [B].
            seed: the run's seed.

        Returns:
            int32 arrays, padded with -1: "source" and "targets" [B, T + 1]; and all other arrays of
                `rows`.
        """
        return self._sides(rows, self.masking.training_batch(rows, indices, epochs, seed))

    def evaluation_batch(self, rows: Arrays, indices: np.ndarray) -> Arrays:
        """Corrupts rows for evaluation: the same way every time and for every seed.

        Arguments and result are those of `training_batch`.
        """
        return self._sides(rows, self.masking.evaluation_batch(rows, indices))

    def _sides(self, rows: Arrays, masked: Arrays) -> Arrays:
        others = {name: array for name, array in rows.items() if name != "tokens"}
        if BYTES in rows:
            others[BYTES] = np.pad(rows[BYTES], [(0, 0), (0, 1)]).astype(np.int32)
        return {**others, "source": self._ended(masked["tokens"]), "targets": self._ended(rows["tokens"])}

    def _ended(self, rows: np.ndarray) -> np.ndarray:
        """Appends the end token to each row; rows of padding stay unchanged."""
        ended = np.pad(rows, [(0, 0), (0, 1)], constant_values=PADDING).astype(np.int32)
        lengths = (rows != PADDING).sum(axis=1)
        filled = np.flatnonzero(lengths)
        ended[filled, lengths[filled]] = self.end_id
        return ended
