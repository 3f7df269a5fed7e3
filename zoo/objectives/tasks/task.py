"""The base of task objectives: one example a row, read by a model with a head for the task."""

from dataclasses import replace

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.layers.context import Context
from zoo.models.head import pool
from zoo.objectives.objective import Batch, Constants, ForwardMode, Objective, Sums, make_context


class TaskObjective(Objective):
    """The mean of a loss over examples.

    A batch is what `zoo.data.labelled` makes: {"tokens": [B, T], -1 after the row's end and in all
    of a row of padding, "segments": [B, T] 0 or 1 where rows are pairs, and the labels}. An ELMo
    reads tokens as their characters, "token_characters" [V, C], each row from zero states.

    Where only the head is trained, the body runs as in evaluation: without dropout, and with its
    statistics unchanged.
    """

    packed_without_padding, marks_padding = False, True

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.reads_characters = config.model.architecture == "elmo"
        self.frozen = config.training.trained_layers == 0
        self.constants = {}
        if self.reads_characters:
            self.constants["token_characters"] = self.pad_to_vocab(
                tokenizer.token_characters(config.model.elmo.characters)
            )

    def real(self, batch: Batch) -> Bool[Array, " B"]:
        """Returns which rows are examples; the others are padding."""
        return batch["tokens"][:, 0] >= 0

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the number of examples."""
        return {"loss": self.real(batch).sum()}

    def num_rows(self, batch: Batch) -> Int[Array, ""]:
        """Returns the number of examples."""
        return self.real(batch).sum()

    def features(
        self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode
    ) -> Float[Array, "B T ... D"]:
        """Runs the body and returns what the head reads: every token [B, T, D]; all layers of an
        ELMo.
        """
        mode = replace(mode, dropout_key=None, training=False) if self.frozen else mode
        tokens, context = batch["tokens"], self.context(batch, mode)
        ids = jnp.maximum(tokens, 0)
        if self.reads_characters:
            return model.states(constants["token_characters"][ids], tokens >= 0, mode.dropout_key)
        return model(ids, context, batch.get("segments"))

    def scores(
        self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode
    ) -> Float[Array, "B *T C"]:
        """Returns the head's scores, float32: of the batch's "features" if these were computed
        before, otherwise of `features`.
        """
        features = batch["features"] if "features" in batch else self.features(model, batch, constants, mode)
        return model.task_scores(features, self.context(batch, mode))

    def context(self, batch: Batch, mode: ForwardMode) -> Context:
        """Returns the context of the rows."""
        tokens = batch["tokens"]
        positions = jnp.where(tokens >= 0, jnp.arange(tokens.shape[1])[None], -1)
        return make_context(mode, positions, causal=self.config.model.architecture == "decoder")

    def num_tokens(self, batch: Batch) -> Int[Array, ""]:
        """Returns the number of tokens, special tokens included."""
        return (batch["tokens"] >= 0).sum()

    def why_too_long(self, model: nnx.Module, length: int) -> str | None:
        """Returns why rows are too long; a recurrent model reads rows of any length."""
        return None if self.reads_characters else super().why_too_long(model, length)


class RowObjective(TaskObjective):
    """A task that reads one vector of each row, chosen by `model.head.pooling`
    (`zoo.models.head.pool`).
    """

    def features(
        self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode
    ) -> Float[Array, "B ... D"]:
        """Returns the vectors, [B, D]; for an ELMo those of all layers."""
        states = super().features(model, batch, constants, mode)
        return pool(states, self.context(batch, mode).positions, self.config.model.head.pooling)
