"""Attention by the difference of two softmaxes."""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import AUTO, ResolvedConfig
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.context import Context
from zoo.layers.norm import rms_norm
from zoo.layers.parameter import normal, parameter

LAMBDA_STD = 0.1


class DifferentialAttention(SoftmaxAttention):
    """y = concat_j((1 - lambda_0) Norm((P_j - lambda P_(j + H/2)) [v_j; v_(j + G/2)])) W_o, for the
    H / 2 pairs of heads j and j + H/2, P_h = softmax(scale * q_h k_g^T) (Ye et al. 2024,
    arXiv:2410.05258, Differential Transformer, section 2.1).

    lambda = exp(a_1 . b_1) - exp(a_2 . b_2) + lambda_0, with four learned vectors [K] of each layer,
    drawn with a standard deviation of 0.1. lambda_0 is `attention.lambda_init`, by default
    0.8 - 0.6 exp(-0.3 l) in layer l, counted from 0. The values of a pair are two heads' side by
    side, so parameters, operations and cache are those of multi-head attention; of G key/value
    heads, j and j + G/2 belong together. Norm is an RMSNorm over the 2 K elements of a pair, without
    a scale, whatever `norm.kind` is. Which heads make a pair is the order of DiffLlama (transformers);
    the authors' code pairs neighbours.
    """

    weighting = "the difference of two softmaxes"

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        vector = (config.attention.head_dim,), (None,), normal(LAMBDA_STD)
        self.lambda_q1, self.lambda_k1 = parameter(*vector), parameter(*vector)
        self.lambda_q2, self.lambda_k2 = parameter(*vector), parameter(*vector)
        self.epsilon = config.norm.epsilon

    def merge(
        self, attended: Float[Array, "B T P W"], x: Float[Array, "B T D"], context: Context
    ) -> Float[Array, "B T D"]:
        """Returns the normed outputs of the P = H / 2 pairs, each W = 2 K wide, times W_o; see
        `Attention.merge`.
        """
        normed = rms_norm(attended, 1 - self._initial_lambda(context), self.epsilon)
        heads = normed.reshape(*x.shape[:2], self.config.num_heads, self.config.head_dim)
        return super().merge(heads, x, context)

    def _initial_lambda(self, context: Context) -> Float[Array, ""]:
        first = self.config.lambda_init
        return jnp.float32(0.8 - 0.6 * jnp.exp(-0.3 * context.layer_index) if first == AUTO else first)

    def _scoring(self, context: Context, shared: Array | None) -> Scoring:
        exponents = (
            (q[...] * k[...]).sum() for q, k in ((self.lambda_q1, self.lambda_k1), (self.lambda_q2, self.lambda_k2))
        )
        first, second = map(jnp.exp, exponents)
        return replace(super()._scoring(context, shared), subtracted=first - second + self._initial_lambda(context))
