"""Causal language modelling: every token is predicted from those before it."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.data.rows.packed_rows import BYTES
from zoo.layers.context import Context
from zoo.models.head import LogitFactors
from zoo.objectives.objective import (
    Batch,
    Constants,
    ForwardMode,
    Objective,
    make_context,
    mark_last_padding,
    positions_and_documents,
)


class CausalObjective(Objective):
    """-log p(x_t | x_<t), summed over the tokens of a batch (Radford et al. 2018, eq. 1).

    A batch is {"tokens": [B, T + 1]}: inputs are the first T of a row, targets the last T. Rows are
    padded with -1 at their end, where no earlier token can see it, and it is not scored. Evaluation
    leaves out the first `training.eval_context` tokens of a row.
    """

    def targets(self, batch: Batch) -> Int[Array, "B T"]:
        """Returns every token but a row's first."""
        return batch["tokens"][:, 1:]

    def target_bytes(self, batch: Batch) -> Int[Array, "B T"]:
        """Returns the bytes of every token but a row's first."""
        return batch[BYTES][:, 1:]

    def scored_targets(self, batch: Batch, mode: ForwardMode) -> Int[Array, "B T"]:
        """Returns the targets; in evaluation those after `training.eval_context` tokens."""
        targets, context = self.targets(batch), self.config.training.eval_context
        return (
            targets
            if mode.training or not context
            else jnp.where(jnp.arange(1, targets.shape[1] + 1) >= context, targets, -1)
        )

    def why_too_long(self, model: nnx.Module, length: int) -> str | None:
        """Returns why nothing is left to score, or why rows are too long."""
        if length <= (context := self.config.training.eval_context):
            return f"training.eval_context={context} leaves nothing of it to score"
        return super().why_too_long(model, length)

    def inputs(self, batch: Batch) -> Int[Array, "B T"]:
        """Returns every token but a row's last, -1 for padding."""
        return batch["tokens"][:, :-1]

    def context(self, batch: Batch, mode: ForwardMode) -> Context:
        """Returns the context of the rows."""
        data, inputs = self.config.data, self.inputs(batch)
        positions, documents = positions_and_documents(
            jnp.maximum(inputs, 0), data.isolate_documents, self.bos_id, data.position_offsets, mode.rows
        )
        positions = mark_last_padding(positions, inputs, mode)
        return make_context(mode, positions, documents, in_order=not data.position_offsets)

    def hidden(self, model: nnx.Module, batch: Batch, mode: ForwardMode) -> Float[Array, "B T D"]:
        """Runs the model on the input tokens; returns hidden states."""
        return model(jnp.maximum(self.inputs(batch), 0), self.context(batch, mode))

    def predict_from_hidden(
        self, model: nnx.Module, hidden: Float[Array, "B T D"], batch: Batch, mode: ForwardMode
    ) -> LogitFactors:
        """Returns the prediction of every token."""
        return model.prediction(hidden, self.context(batch, mode))

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> LogitFactors:
        """Predicts every token from those before it."""
        return self.predict_from_hidden(model, self.hidden(model, batch, mode), batch, mode)
