"""Attention whose heads exchange their scores and their weights."""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.context import Context
from zoo.layers.parameter import parameter


def _identity(key: Array, shape: tuple[int, int]) -> Float[Array, "H H"]:
    del key
    return jnp.eye(*shape)


def _mixed(x: Float[Array, "B G R T S"], heads: Float[Array, "H H"]) -> Float[Array, "B G R T S"]:
    """Returns sum_j heads[j, h] x_j for each head h."""
    B, G, R, T, S = x.shape
    return jnp.einsum("bjts,jh->bhts", x.reshape(B, G * R, T, S), heads).reshape(x.shape)


class TalkingHeadsAttention(SoftmaxAttention):
    """y = concat_h(w_h v_g) W_o with w_h = sum_i P_w[i, h] softmax_s(sum_j P_l[j, i] score_j):
    talking-heads attention (Shazeer et al. 2020, arXiv:2003.02436, section 3).

    P_l [H, H] mixes the scores of the heads before the softmax, P_w [H, H] its weights after it, with
    as many heads for queries, softmax and values (h_k = h = h_v). The scores include a bias by
    positions and a cap. Weights may be negative and need not add up to 1. Both matrices begin as the
    identity, which is softmax attention.
    """

    weighting = "weights that heads exchange"

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        mixed = (config.attention.num_heads,) * 2, (None, None), _identity, "vector"
        self.mixed_scores, self.mixed_weights = parameter(*mixed), parameter(*mixed)

    def _scoring(self, context: Context, shared: Array | None) -> Scoring:
        before, after = self.mixed_scores[...], self.mixed_weights[...]
        return replace(
            super()._scoring(context, shared),
            weigh=lambda scores, visible, softmax: _mixed(softmax(_mixed(scores, before)), after),
        )

    @staticmethod
    def product_flops(layer: ResolvedConfig, queries: float, keys: float) -> float:
        """Returns the operations of q k^T and p v, 2 H K each for a query and a key that it sees, and
        of the two mixtures, 2 H^2 each.
        """
        mixtures = 4 * layer.attention.num_heads**2 * keys * queries
        return SoftmaxAttention.product_flops(layer, queries, keys) + mixtures
