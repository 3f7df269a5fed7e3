"""Language models over a stack: embedding, positions, blocks, final norm, head."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.layers.block import make_final_norm
from zoo.layers.context import Context
from zoo.layers.parameter import kernel_initializer, normal, parameter
from zoo.layers.position import make_position
from zoo.models.stack import Stack


class LanguageModel(nnx.Module):
    """A decoder: h = Norm(Blocks(E[token] + position)), logits = h W^T with W the head or, tied, the embedding itself.

    GPT-2 and LLaMA are configs of this class (Radford et al. 2019; Touvron et al. 2023).
    """

    def __init__(self, config: ResolvedConfig):
        shape = (config.vocab_size, config.dim)
        self.embedding = parameter(shape, ("vocab", "embed"), normal(config.init.embedding_std))
        self.position = make_position(config)
        self.stack = Stack(config)
        self.final_norm = make_final_norm(config)
        self.head = None if config.tie_embeddings else parameter(shape, ("vocab", "embed"), kernel_initializer(config, transposed=True))
        self.dtype, self.rate = jnp.dtype(config.dtype), config.dropout

    def __call__(self, tokens: Int[Array, "B T"], context: Context) -> Float[Array, "B T D"]:
        """Returns the hidden states from which the head predicts."""
        x = self.embedding[...].astype(self.dtype)[tokens]
        x = context.dropout(self.position.embed(x, context.positions), self.rate, "embedding")
        return self.final_norm(self.stack(x, context, self.position))

    @property
    def head_weights(self) -> Float[Array, "V D"]:
        """The output matrix, one row per token id."""
        return (self.embedding if self.head is None else self.head)[...]

    def logits(self, hidden: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        """Returns float32 scores of every token id; training uses the chunked loss instead."""
        return jnp.einsum("btd,vd->btv", hidden, self.head_weights.astype(hidden.dtype), preferred_element_type=jnp.float32)


ARCHITECTURES = {"decoder": LanguageModel}


def make_model(config: ResolvedConfig) -> LanguageModel:
    """Builds the abstract model of a resolved config: shapes and initializers, no memory."""
    return ARCHITECTURES[config.model.architecture](config.model)
