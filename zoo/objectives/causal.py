"""Causal language modelling: every token is predicted from those before it."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Int

from zoo.models.head import Prediction
from zoo.objectives.objective import Batch, Constants, Objective, Pass, context_of, structure


class CausalObjective(Objective):
    """-log p(x_t | x_<t), summed over the tokens of a batch (Radford et al. 2018, eq. 1).

    A batch is {"tokens": [B, T + 1]}: inputs are the first T of a row, targets the last T. Rows are padded with -1 at their end, where
    no earlier token can see it, and it is not scored. Evaluation leaves out the first `training.eval_context` tokens of a row.
    """

    def targets(self, batch: Batch) -> Int[Array, "B T"]:
        """Every token but a row's first."""
        return batch["tokens"][:, 1:]

    def scored(self, batch: Batch, how: Pass) -> Int[Array, "B T"]:
        """In evaluation, the targets after the first `training.eval_context` tokens."""
        targets, context = self.targets(batch), self.config.training.eval_context
        return targets if how.training or not context else jnp.where(jnp.arange(1, targets.shape[1] + 1) >= context, targets, -1)

    def too_long(self, length: int) -> str | None:
        """Something must be left to score."""
        if length <= (context := self.config.training.eval_context):
            return f"training.eval_context={context} leaves nothing of it to score"
        return super().too_long(length)

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, how: Pass) -> Prediction:
        """Predicts every token from those before it."""
        inputs = jnp.maximum(batch["tokens"][:, :-1], 0)
        context = context_of(how, *structure(inputs, self.config.data.isolate_documents, self.document_id))
        return model.prediction(model(inputs, context), context)
