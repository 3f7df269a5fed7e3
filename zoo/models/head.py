"""Output heads: from hidden states to scores over the vocabulary or over classes."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig, embedding_config
from zoo.layers.context import Context
from zoo.layers.feedforward import activation
from zoo.layers.norm import make_norm
from zoo.layers.parameter import Linear, constant, kernel_initializer, vocabulary_parameter, zeros
from zoo.layers.parametrization import output_gain, reference_width, width_ratio


class LogitFactors(NamedTuple):
    """The logits as unmultiplied factors, so that the loss can multiply them chunk by chunk:

        logits = cap(hidden weights^T + bias)
        cap(x) = softcap * tanh(x / softcap)

    Attributes:
        hidden: [B, T, D], in the compute type.
        weights: [V, D], float32.
        bias: [V] or None.
        softcap: 0 for no cap.
        ids: V, where the weights have P > V rows (`model.vocab_multiple`); 0 for all rows.
    """

    hidden: Float[Array, "B T D"]
    weights: Float[Array, "V D"]
    bias: Float[Array, " V"] | None
    softcap: float
    ids: int = 0


NEVER = -1e30
"""Score of the ids that pad a vocabulary. Its exponential is 0, and differences of it are finite."""


class Head(nnx.Module):
    """logits = cap(scale * t(h) W^T + b); W is the token embedding, or with `tie_embeddings` off a
    matrix of its own.

    t is the identity, or with `head.transform` BERT's Norm(act(h W_d + b_d)) (Devlin et al. 2019), in
    ModernBERT without b_d (`head.transform_bias`); with `embedding.dim` W_d is [D, E] and W [V, E]
    (Lan et al. 2020). With `embedding.projection=tokens` and no transform, t(h) is h W_d alone, to
    width E. The scale is `head.multiplier` (Granite) times that of `head.scale`, where 1 / sqrt(D) is
    that of T5's tied head; the cap is that of Gemma 2 (section 2). Under muP the scale is also divided
    by D / `base_dim` (Yang et al. 2022, table 8), which a tied head allows, as the matrix itself stays
    as large as an embedding.

    With `head.logit_scale` the logit h W_v^T of token v is multiplied by a learned number z_v, 1 at
    first, which is stored as z_v / sqrt(D) (Loshchilov et al. 2024, arXiv:2410.01131, sections 2.1 and
    2.5); here it multiplies the row W_v.

    Args:
        config: the `model` part of the config.
        in_dim: width of the hidden states; 0 for D. Those of another width than the embeddings are
            mapped to it, without `head.transform` too, by W_d and b_d alone.
    """

    def __init__(self, config: ResolvedConfig, in_dim: int = 0):
        head = config.head
        back = config.embedding.dim > 0 and config.embedding.projection == "tokens"
        wide = embedding_config(config) if head.transform or in_dim or back else config
        in_dim = in_dim or config.dim
        matrix = wide, kernel_initializer(config, output_gain(config, config.vocab_size), transposed=True), "head"
        self.weights = None if config.tie_embeddings else vocabulary_parameter(*matrix)
        self.bias = vocabulary_parameter(config, zeros, columns=False) if head.bias else None
        stored = config.dim**-0.5
        self.logit_factor = 1 / stored
        scale = vocabulary_parameter(config, constant(stored), columns=False) if head.logit_scale else None
        self.logit_scale = scale
        biased = head.transform_bias and (head.transform or not back)
        dense = in_dim, wide.dim, ("embed", None), biased, kernel_initializer(config), "head"
        self.dense = Linear(*dense) if head.transform or back or in_dim != wide.dim else None
        if head.transform:
            self.norm = make_norm(wide)
        scale = reference_width(wide) ** -0.5 if head.scale == "rsqrt_dim" else 1.0
        self.scale = head.multiplier * scale / width_ratio(config)
        self.config = config

    def __call__(
        self, hidden: Float[Array, "B T D"], embedding: Float[Array, "V E"], context: Context | None = None
    ) -> LogitFactors:
        """Returns the factors of the logits of every token id.

        Args:
            hidden: hidden states.
            embedding: the token embedding, used where the head is tied.
            context: context of the forward pass, for batch normalisation in the transform.
        """
        if self.dense is not None:
            hidden = self.dense(hidden)
        if self.config.head.transform:
            hidden = self.norm(activation(self.config, hidden), context)
        if context is not None:
            hidden = context.shard_rows(hidden)
        if self.scale != 1.0:
            hidden = hidden * jnp.asarray(self.scale, hidden.dtype)
        weights = embedding if self.weights is None else self.weights[...]
        if self.logit_scale is not None:
            weights = weights * (self.logit_factor * self.logit_scale[...])[:, None]
        bias, padded = None if self.bias is None else self.bias[...], len(weights) > self.config.vocab_size
        ids = self.config.vocab_size if padded else 0
        return LogitFactors(hidden, weights, bias, self.config.head.softcap, ids)


# The activations of the poolers of BERT, ELECTRA and DistilBERT; GELU is the exact one.
POOLER_ACTIVATIONS: dict[str, Callable[[Float[Array, "..."]], Float[Array, "..."]]] = {
    "tanh": jnp.tanh,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "relu": jax.nn.relu,
}


class Pooler(Linear):
    """f(v W + b), where f is `model.head.pooler_activation`, by default tanh (Devlin et al. 2019,
    section 4.1; BERT's code).
    """

    def __init__(self, config: ResolvedConfig) -> None:
        super().__init__(config.dim, config.dim, ("embed", None), True, kernel_initializer(config), "head")
        self.activation = config.head.pooler_activation

    def __call__(self, x: Float[Array, "*rows D"]) -> Float[Array, "*rows D"]:
        """Returns the pooled vectors, in the shape of `x`."""
        return POOLER_ACTIVATIONS[self.activation](super().__call__(x))


class TaskHead:
    """Mixin for models with a task head: s = Dropout(v) W + b, float32 scores of C classes from one
    vector v per row or per token.

    With `model.head.pooler` v is replaced by the output of the pooler; an ELMo first mixes its layers
    (Peters et al. 2018, eq. 1). The module has `classifier` and `config`, and `pooler` or `mix` if it
    needs them.
    """

    def task_scores(self, states: Float[Array, "..."], context: Context) -> Float[Array, "... C"]:
        """Returns the scores of the classes.

        Args:
            states: vectors of rows [B, D] or tokens [B, T, D]; for an ELMo with all its layers,
                [..., L + 1, E].
            context: context of the forward pass.
        """
        vector = self.mix(states) if self.config.architecture == "elmo" else states
        if self.config.head.pooler:
            vector = self.pooler(vector)
        return self.classifier(context.dropout(vector, self.config.dropout, "classifier")).astype(jnp.float32)


def pool(hidden: Float[Array, "B T ... D"], positions: Int[Array, "#B T"], kind: str) -> Float[Array, "B ... D"]:
    """Returns one vector of each row of n + 1 tokens: h_0 (`first`), h_n (`last`), or (h_0 + ... +
    h_n) / (n + 1) (`mean`).

    Args:
        hidden: hidden states, of one layer [B, T, D] or of several [B, T, L, D].
        positions: -1 marks padding, which always follows the tokens.
        kind: `model.head.pooling`.
    """
    if kind == "first":
        return hidden[:, 0]
    real = jnp.broadcast_to(positions >= 0, hidden.shape[:2])
    counts = jnp.maximum(real.sum(axis=1), 1)
    if kind == "last":
        return jnp.take_along_axis(hidden, (counts - 1).reshape(-1, *(1,) * (hidden.ndim - 1)), axis=1)[:, 0]
    beyond = (..., *(None,) * (hidden.ndim - 2))
    total = jnp.where(real[beyond], hidden, 0).astype(jnp.float32).sum(axis=1)
    return (total / counts[beyond]).astype(hidden.dtype)


def logits(prediction: LogitFactors) -> Float[Array, "B T V"]:
    """Returns the logits of a prediction in float32, `NEVER` for ids that pad the vocabulary; training
    uses the chunked loss instead.
    """
    hidden, weights, bias, softcap, ids = prediction
    scores = jnp.einsum("btd,vd->btv", hidden, weights.astype(hidden.dtype), preferred_element_type=jnp.float32)
    if bias is not None:
        scores = scores + bias
    scores = softcap * jnp.tanh(scores / softcap) if softcap else scores
    return jnp.where(jnp.arange(len(weights)) < ids, scores, NEVER) if 0 < ids < len(weights) else scores
