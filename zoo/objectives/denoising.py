"""Denoising: an encoder-decoder reads a corrupted row and writes the whole row."""

from flax import nnx
from jaxtyping import Array, Int

from zoo.config.kinds.side_lengths import side_lengths
from zoo.objectives.objective import Batch
from zoo.objectives.span_corruption import SpanObjective


class DenoisingObjective(SpanObjective):
    """-log p(y_t | y_<t, x), the mean over all tokens of the row y and its end; x is the row with
    some of its tokens hidden as in masked language modelling (Raffel et al. 2020, section 3.3.1,
    "BERT-style", where 0.15 are chosen, of which 0.9 are masks and 0.1 random).

    A batch is what `zoo.data.rows.row_denoising.Denoising` makes: {"source": [B, T + 1], "targets":
    [B, T + 1]}, padded with -1. The decoder reads the token that opens documents and the targets
    but the last. No token sees padding.
    """

    def num_tokens(self, batch: Batch) -> Int[Array, ""]:
        """Returns the number of tokens of text: the written ones, without the ends."""
        targets = batch["targets"]
        return (targets >= 0).sum() - (targets[:, 0] >= 0).sum()

    def why_too_long(self, model: nnx.Module, length: int) -> str | None:
        """Returns why a side, one token longer than the row, does not fit."""
        return self.beyond_tables(model, *side_lengths(self.config.objective, length))
