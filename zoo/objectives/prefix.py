"""Prefix language modelling: the end of a row is predicted from its beginning, which an encoder reads,
or the decoder itself.
"""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Int

from zoo.config import side
from zoo.data.rows.packed_rows import BYTES
from zoo.models.head import LogitFactors
from zoo.objectives.objective import (
    Batch,
    Constants,
    ForwardMode,
    Objective,
    beyond_position_table,
    make_context,
    mark_last_padding,
    mark_padding,
)


class AfterPrefix(Objective):
    """Base class of objectives whose targets are the tokens from `objective.prefix_length` on."""

    def targets(self, batch: Batch) -> Int[Array, "B N"]:
        """Returns the tokens after the prefix."""
        return batch["tokens"][:, self.config.objective.prefix_length :]

    def target_bytes(self, batch: Batch) -> Int[Array, "B N"]:
        """Returns the bytes of the tokens after the prefix."""
        return batch[BYTES][:, self.config.objective.prefix_length :]


class PrefixObjective(AfterPrefix):
    """-log p(x_t | x_<t), summed over t >= P (Raffel et al. 2020, section 3.2.3, with an encoder
    that reads the prefix).

    A batch is {"tokens": [B, T + 1]}. The encoder reads the P = `objective.prefix_length` first
    tokens of a row, the decoder the last of these and all later ones except the row's last; targets
    are the T + 1 - P tokens from P on. Both sides count positions from 0.
    """

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> LogitFactors:
        """Predicts the second part of every row."""
        tokens, prefix = batch["tokens"], self.config.objective.prefix_length
        source, inputs = tokens[:, :prefix], tokens[:, prefix - 1 : -1]
        source_context = make_context(mode, mark_padding(jnp.arange(prefix)[None], source, mode), causal=False)
        context = make_context(mode, mark_last_padding(jnp.arange(inputs.shape[1])[None], inputs, mode))
        hidden = model(jnp.maximum(source, 0), jnp.maximum(inputs, 0), source_context, context)
        return model.prediction(hidden, context)

    def why_too_long(self, model: nnx.Module, length: int) -> str | None:
        """Returns why the rest after a prefix of the same length does not fit the decoder."""
        prefix, config = self.config.objective.prefix_length, self.config.model
        if prefix >= length:
            return f"objective.prefix_length={prefix} leaves nothing of it to predict"
        return beyond_position_table(side(config, "decoder"), model.decoder, length + 1 - prefix, "the decoder's ")


class PrefixDecoderObjective(AfterPrefix):
    """-log p(x_t | x_<t), summed over t >= P, where query t sees key s if s <= t or s < P (Raffel
    et al. 2020, section 3.2.3, "prefix LM").

    A batch is {"tokens": [B, T + 1]}: inputs are the first T of a row, of which the first P =
    `objective.prefix_length` see each other; targets are the T + 1 - P tokens from P on. Earlier
    tokens are not scored. Rows are padded with -1 at their end, where no token with a target sees
    it.
    """

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> LogitFactors:
        """Predicts the second part of every row, from the prefix's last token on."""
        inputs, prefix = batch["tokens"][:, :-1], self.config.objective.prefix_length
        positions = mark_last_padding(jnp.arange(inputs.shape[1])[None], inputs, mode)
        hidden = model(jnp.maximum(inputs, 0), make_context(mode, positions, prefix=prefix))
        # A norm over tokens inside the head counts only the scored ones.
        return model.prediction(hidden[:, prefix - 1 :], make_context(mode, positions[:, prefix - 1 :]))

    def why_too_long(self, model: nnx.Module, length: int) -> str | None:
        """Returns why rows do not fit; the prefix has the same length in all."""
        if (prefix := self.config.objective.prefix_length) >= length:
            return f"objective.prefix_length={prefix} leaves nothing of it to predict"
        return beyond_position_table(self.config.model, model, length)
