"""What the objectives of tasks share: rows of single examples, read by a model with a head for the task."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from zoo.config import ResolvedConfig
from zoo.data.tokenizers import Tokenizer
from zoo.layers.context import Context
from zoo.objectives.objective import Batch, Objective, Pass, Sums, context_of


class TaskObjective(Objective):
    """The mean of a loss over examples.

    A batch is what `zoo.data.labelled` makes: {"tokens": [B, T], -1 behind the row's end and everywhere in rows that only fill up,
    "segments": [B, T] 0 or 1 where rows are pairs, and the labels}.
    """

    full_rows = False

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.constants = {}

    def real(self, batch: Batch) -> Bool[Array, " B"]:
        """Which rows are examples; the others only fill up."""
        return batch["tokens"][:, 0] >= 0

    def weights(self, batch: Batch) -> Sums:
        """The examples."""
        return {"loss": self.real(batch).sum()}

    def hidden(self, model: nnx.Module, batch: Batch, how: Pass) -> tuple[Float[Array, "B T D"], Context]:
        """Reads the rows: (hidden states, the context they were read in)."""
        tokens = batch["tokens"]
        positions = jnp.where(tokens >= 0, jnp.arange(tokens.shape[1])[None], -1)
        context = context_of(how, positions, causal=self.config.model.architecture == "decoder")
        return model(jnp.maximum(tokens, 0), context, batch.get("segments")), context

    def read(self, batch: Batch) -> Int[Array, ""]:
        """Number of tokens, those that stand around texts included."""
        return (batch["tokens"] >= 0).sum()
