"""Attention whose weights need not add up to 1: a sigmoid of each score, and softmax+1."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.context import Context


class SigmoidAttention(SoftmaxAttention):
    """p_s = sigmoid(score_s + b), without a sum over the keys; b = -ln n for rows of n tokens
    (Ramapuram et al. 2024).

    With scores near 0 and all n keys visible, the weights add up to about 1. b is a constant,
    `attention.sigmoid_bias`, so a query that sees few keys, at the beginning of a causal row,
    gets smaller outputs, and rows of another length have the same b.
    """

    weighting = "weights by a sigmoid"

    def _scoring(self, context: Context, shared: Array | None) -> Scoring:
        bias = self.config.sigmoid_bias
        return replace(
            super()._scoring(context, shared),
            weigh=lambda scores, visible, softmax: jnp.where(visible, jax.nn.sigmoid(scores + bias), 0),
        )


class SoftmaxPlusOneAttention(SoftmaxAttention):
    """p_s = exp(score_s) / (1 + sum_r exp(score_r)): softmax+1, with which a head may attend to
    nothing (Miller 2023, "Attention Is Off By One"; `add_zero_attn` of PyTorch).

    It is attention with a sink b_h that is fixed at 0, since exp(0) = 1; `attention.sinks` learns b_h.
    """

    @property
    def sink_scores(self) -> Float[Array, " H"]:
        """Returns a score of 0 for every head."""
        return jnp.zeros(self.config.num_heads, jnp.float32)
