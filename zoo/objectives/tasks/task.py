"""What the objectives of tasks share: rows of single examples, read by a model with a head for the
task.
"""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.layers.context import Context
from zoo.models.head import pool
from zoo.objectives.objective import Batch, Constants, Objective, Pass, Sums, context_of


class TaskObjective(Objective):
    """The mean of a loss over examples.

    A batch is what `zoo.data.labelled` makes: {"tokens": [B, T], -1 behind the row's end and
    everywhere in rows that only fill up, "segments": [B, T] 0 or 1 where rows are pairs, and the
    labels}. An ELMo reads tokens as the characters of "token_characters" [V, C], each row from zero
    states.

    Where the head alone is trained, the body runs as in evaluation: it drops nothing, and its
    statistics stay as they are.
    """

    full_rows = False

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.reads_characters = config.model.architecture == "elmo"
        self.frozen = config.training.trained_layers == 0
        self.constants = {}
        if self.reads_characters:
            self.constants["token_characters"] = self.per_id(tokenizer.token_characters(config.model.elmo.characters))

    def real(self, batch: Batch) -> Bool[Array, " B"]:
        """Which rows are examples; the others only fill up."""
        return batch["tokens"][:, 0] >= 0

    def weights(self, batch: Batch) -> Sums:
        """The examples."""
        return {"loss": self.real(batch).sum()}

    def features(self, model: nnx.Module, batch: Batch, constants: Constants, how: Pass) -> Float[Array, "B T ... D"]:
        """Runs the body: what the head reads, of every token [B, T, D]; of an ELMo all its layers."""
        how = how._replace(dropout_key=None, training=False) if self.frozen else how
        tokens, context = batch["tokens"], self.context(batch, how)
        ids = jnp.maximum(tokens, 0)
        if self.reads_characters:
            return model.states(constants["token_characters"][ids], tokens >= 0, how.dropout_key)
        return model(ids, context, batch.get("segments"))

    def scores(self, model: nnx.Module, batch: Batch, constants: Constants, how: Pass) -> Float[Array, "B *T C"]:
        """The head's scores, float32: of the "features" of a batch where these were computed
        before, else of what the body gives.
        """
        features = batch["features"] if "features" in batch else self.features(model, batch, constants, how)
        return model.task_scores(features, self.context(batch, how))

    def context(self, batch: Batch, how: Pass) -> Context:
        """The context that rows are read in."""
        tokens = batch["tokens"]
        positions = jnp.where(tokens >= 0, jnp.arange(tokens.shape[1])[None], -1)
        return context_of(how, positions, causal=self.config.model.architecture == "decoder")

    def read(self, batch: Batch) -> Int[Array, ""]:
        """Number of tokens, those that stand around texts included."""
        return (batch["tokens"] >= 0).sum()

    def too_long(self, model: nnx.Module, length: int) -> str | None:
        """As for text; a recurrent model reads rows of any length."""
        return None if self.reads_characters else super().too_long(model, length)


class RowObjective(TaskObjective):
    """A task that reads one vector of each row, which `model.head.pooling` takes (see
    `zoo.models.head.pool`).
    """

    def features(self, model: nnx.Module, batch: Batch, constants: Constants, how: Pass) -> Float[Array, "B ... D"]:
        """The vectors, [B, D]; of an ELMo those of all layers."""
        states = super().features(model, batch, constants, how)
        return pool(states, self.context(batch, how).positions, self.config.model.head.pooling)
