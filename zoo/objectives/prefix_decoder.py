"""Prefix language modelling by a decoder: it reads the first part of a row as a whole and predicts
the rest token by token.
"""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Int

from zoo.models.head import LogitFactors
from zoo.objectives.objective import Batch, Constants, ForwardMode, Objective, beyond_position_table, make_context


class PrefixDecoderObjective(Objective):
    """-log p(x_t | x_<t), summed over t >= P, where query t sees key s if s <= t or s < P (Raffel
    et al. 2020, section 3.2.3, "prefix LM").

    A batch is {"tokens": [B, T + 1]}: inputs are the first T of a row, of which the first P =
    `objective.prefix_length` see each other; targets are the T + 1 - P tokens from P on. Earlier
    tokens are not scored. Rows are padded with -1 at their end, where no token with a target sees
    it.
    """

    def targets(self, batch: Batch) -> Int[Array, "B N"]:
        """Returns the tokens after the prefix."""
        return batch["tokens"][:, self.config.objective.prefix_length :]

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> LogitFactors:
        """Predicts the second part of every row, from the prefix's last token on."""
        inputs, prefix = batch["tokens"][:, :-1], self.config.objective.prefix_length
        positions = jnp.arange(inputs.shape[1])[None]
        hidden = model(jnp.maximum(inputs, 0), make_context(mode, positions, prefix=prefix))
        # A norm over tokens inside the head counts only the scored ones.
        return model.prediction(hidden[:, prefix - 1 :], make_context(mode, positions[:, prefix - 1 :]))

    def why_too_long(self, model: nnx.Module, length: int) -> str | None:
        """Returns why rows do not fit; the prefix has the same length in all."""
        if (prefix := self.config.objective.prefix_length) >= length:
            return f"objective.prefix_length={prefix} leaves nothing of it to predict"
        return beyond_position_table(self.config.model, model, length)
