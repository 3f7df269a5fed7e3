"""Causal language modelling: every token is predicted from those before it."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.layers.context import Context
from zoo.models.head import Prediction
from zoo.objectives.objective import Batch, Constants, Objective, Pass, context_of, structure


class CausalObjective(Objective):
    """-log p(x_t | x_<t), summed over the tokens of a batch (Radford et al. 2018, eq. 1).

    A batch is {"tokens": [B, T + 1]}: inputs are the first T of a row, targets the last T. Rows are
    padded with -1 at their end, where no earlier token can see it, and it is not scored. Evaluation
    leaves out the first `training.eval_context` tokens of a row.
    """

    def targets(self, batch: Batch) -> Int[Array, "B T"]:
        """Every token but a row's first."""
        return batch["tokens"][:, 1:]

    def scored(self, batch: Batch, how: Pass) -> Int[Array, "B T"]:
        """In evaluation, the targets after the first `training.eval_context` tokens."""
        targets, context = self.targets(batch), self.config.training.eval_context
        return (
            targets
            if how.training or not context
            else jnp.where(jnp.arange(1, targets.shape[1] + 1) >= context, targets, -1)
        )

    def too_long(self, model: nnx.Module, length: int) -> str | None:
        """Something must be left to score."""
        if length <= (context := self.config.training.eval_context):
            return f"training.eval_context={context} leaves nothing of it to score"
        return super().too_long(model, length)

    def inputs(self, batch: Batch) -> Int[Array, "B T"]:
        """Every token but a row's last, -1 for empty slots."""
        return batch["tokens"][:, :-1]

    def context(self, batch: Batch, how: Pass) -> Context:
        """Where the tokens stand."""
        data, tokens = self.config.data, jnp.maximum(self.inputs(batch), 0)
        found = structure(tokens, data.isolate_documents, self.document_id, data.offsets)
        return context_of(how, *found, in_order=not data.offsets)

    def hidden(self, model: nnx.Module, batch: Batch, how: Pass) -> Float[Array, "B T D"]:
        """Reads the rows."""
        return model(jnp.maximum(self.inputs(batch), 0), self.context(batch, how))

    def predicted(self, model: nnx.Module, hidden: Float[Array, "B T D"], batch: Batch, how: Pass) -> Prediction:
        """What is predicted in every place, from the hidden states of all."""
        return model.prediction(hidden, self.context(batch, how))

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, how: Pass) -> Prediction:
        """Predicts every token from those before it."""
        return self.predicted(model, self.hidden(model, batch, how), batch, how)
