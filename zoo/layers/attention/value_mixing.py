"""Softmax attention whose values are mixed with others: with those of the first layer, or with a
table of vectors for each token.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.context import Context
from zoo.layers.parameter import Linear, constant, normal, parameter, vocabulary_parameter, zeros


class ValueResidualAttention(SoftmaxAttention):
    """Softmax attention with v = (1 - m) x W_v + m v_1, v_1 the values of the first layer (Zhou et al.
    2024, arXiv:2410.17897, ResFormer, section 3).

    m is `attention.value_mix`, or with `attention.value_mix_learned` a number of each layer that
    begins there. Values are mixed after their bias; the first layer's stay as they are, and so do
    those that cross-attention reads from an encoder.
    """

    publishes = ("value",)

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        learned = config.attention.value_mix_learned and not cross
        self.mix = parameter((1,), (None,), constant(config.attention.value_mix), "scalar") if learned else None

    def mixed_values(
        self, v: Float[Array, "B T G V"], x: Float[Array, "B T D"], context: Context
    ) -> Float[Array, "B T G V"]:
        """Returns (1 - m) v + m v_1."""
        context.publish("value", v)
        mix = jnp.asarray(self.config.value_mix if self.mix is None else self.mix[...], v.dtype)
        return (1 - mix) * v + mix * context.published["value"]


class ValueEmbeddingAttention(SoftmaxAttention):
    """Softmax attention with v_g = x W_v,g + 2 sigmoid(x[:c] W_gate,g) E_g[token], for each head g of
    keys and values; E the table [V, G, K] of the layer, with a vector for each token of the vocabulary
    and each head (Karpathy 2026, nanochat, without its constants; after Zhou et al. 2024,
    arXiv:2410.17897).

    The gate reads the first c = `attention.value_gate_channels` values of the token and is 1 at
    first; with c = 0 there is none. The table adds V G K parameters to a layer and almost no
    operations: a baseline with as many parameters is not the one with as many FLOPs. Cross-attention
    is plain.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        heads, channels = config.attention.num_kv_heads, config.attention.value_gate_channels
        table, width = normal(config.init.embedding_std), heads * self.value_dim
        gate = channels, heads, (None, "kv_heads"), False, zeros
        self.value_embedding = None if cross else vocabulary_parameter(config, table, "embedding", width=width)
        self.value_gate = Linear(*gate) if channels and not cross else None

    def mixed_values(
        self, v: Float[Array, "B T G V"], x: Float[Array, "B T D"], context: Context
    ) -> Float[Array, "B T G V"]:
        """Returns v + gate * E[token]."""
        added = context.shard_lookup(self.value_embedding[...][context.tokens]).astype(v.dtype).reshape(v.shape)
        if self.value_gate is not None:
            gate = 2 * jax.nn.sigmoid(self.value_gate(x[..., : self.config.value_gate_channels]))
            added = added * gate[..., None]
        return v + added
