"""Masked language modelling: tokens that were hidden are predicted from all others."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Int

from zoo.models.head import Prediction
from zoo.objectives.objective import Batch, Constants, Objective, Pass, context_of, structure, without_padding


class MaskedObjective(Objective):
    """-log p(x_t | the corrupted row), summed over the chosen t (Devlin et al. 2019, section 3.1, Task 1).

    A batch is what `zoo.data.masking.Masking` makes: {"tokens": [B, T] after corruption, "places": [B, N] of the chosen tokens in their
    row, "targets": [B, N] what stood there, -1 for places that stay unused}. Scores are computed for the N chosen tokens only. Padding
    (-1) is an empty slot that no token sees.
    """

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, how: Pass) -> tuple[Prediction, Int[Array, "B N"]]:
        """Predicts what stood at the chosen places."""
        tokens, places, targets = batch["tokens"], batch["places"], batch["targets"]
        positions, documents = structure(tokens, self.config.data.isolate_documents, self.document_id)
        context = context_of(how, without_padding(positions, tokens, how), documents, causal=False)
        hidden = model(jnp.maximum(tokens, 0), context)
        chosen = jnp.take_along_axis(hidden, places[..., None], axis=1)
        # What normalises over tokens inside the head counts those that are predicted.
        return model.prediction(chosen, context_of(how, jnp.where(targets >= 0, places, -1), causal=False)), targets

    def read(self, batch: Batch) -> Int[Array, ""]:
        """Number of tokens of text: a row shares none with the next."""
        return (batch["tokens"] >= 0).sum()
