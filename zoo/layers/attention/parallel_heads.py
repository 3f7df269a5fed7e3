"""Attention and a mixer with a state, side by side in one layer."""

from dataclasses import replace

from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.config.kinds import ATTENTION_KINDS
from zoo.config.scopes import attention_part, state_part
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.attention.token_mixer import HeadCounts, SharedScores, TokenMixer
from zoo.layers.context import Context
from zoo.layers.norm import rms_norm
from zoo.layers.parameter import Linear, constant, output_initializer, parameter

STATE = "state "
"""What the names of the cache's entries of the mixer with a state begin with."""


class Unprojected(nnx.Module):
    """The identity, in place of the output projection of a part."""

    def __call__(self, x: Float[Array, "B T I"]) -> Float[Array, "B T I"]:
        """Returns x."""
        return x


class ParallelHeads(TokenMixer):
    """y = (b_1 * Norm(a) + b_2 * Norm(s)) W_o: a is what the heads of softmax attention have read,
    side by side, and s what the heads with a state give, both of the same input (Dong et al. 2024,
    Hymba, section 2.1).

    The mixer with a state is that of `attention.state_kind`, with `attention.state_heads` states and
    queries and keys of `attention.state_dim` elements; other fields of `attention` that both could
    read are those of the softmax attention. Norm is an RMSNorm over all heads, b_1 and b_2 are learned
    vectors, 1/2 at first, and a and s are equally wide. With `attention.mixing=sum` each part has an
    output projection of its own, and y is their sum (Zuo et al. 2025, Falcon-H1). In a
    cache each part has its own entries.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        attention, of_state = attention_part(config), state_part(config)
        self.softmax = SoftmaxAttention(attention, cross, gain)
        self.state = ATTENTION_KINDS.code_of(of_state.attention.kind)(of_state, cross, gain)
        self.normed, self.epsilon = config.attention.mixing == "normed", config.norm.epsilon
        if self.normed:
            wide = config.attention.num_heads * self.softmax.value_dim
            self.softmax.output = self.state.output = Unprojected()
            self.softmax_scale = parameter((wide,), (None,), constant(0.5))
            self.state_scale = parameter((wide,), (None,), constant(0.5))
            bias = config.attention.bias and config.attention.output_bias
            self.output = Linear(wide, config.dim, ("heads", "embed"), bias, output_initializer(config, gain))

    def __call__(
        self, x: Float[Array, "B T D"], context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Float[Array, "B T D"]:
        """Mixes the tokens; see `TokenMixer.__call__`."""
        a = self.softmax(x, context, shared)
        if context.cache is None:
            s = self.state(x, context)
        else:
            entries = context.cache.entries
            own = {name.removeprefix(STATE): entry for name, entry in entries.items() if name.startswith(STATE)}
            s = self.state(x, replace(context, cache=replace(context.cache, layers=[own])))
            entries |= {STATE + name: entry for name, entry in own.items()}
        if not self.normed:
            return a + s
        a, s = rms_norm(a, self.softmax_scale[...], self.epsilon), rms_norm(s, self.state_scale[...], self.epsilon)
        return self.output(a + s)

    @staticmethod
    def head_counts(layer: ResolvedConfig, cross: bool = False) -> HeadCounts | None:
        """Returns those of softmax attention."""
        return SoftmaxAttention.head_counts(layer, cross)

    @staticmethod
    def read_window(layer: ResolvedConfig) -> int:
        """Returns 0: the heads with a state depend on all tokens, whatever the window of others."""
        del layer
        return 0

    @staticmethod
    def product_flops(layer: ResolvedConfig, queries: float, keys: float) -> float:
        """Returns the operations of both parts."""
        of_state = state_part(layer)
        state = ATTENTION_KINDS.code_of(of_state.attention.kind)
        return SoftmaxAttention.product_flops(layer, queries, keys) + state.product_flops(of_state, queries, keys)

    @staticmethod
    def cached_numbers(layer: ResolvedConfig) -> int:
        """Returns 2 G K, of the keys and values of softmax attention."""
        return SoftmaxAttention.cached_numbers(layer)

    @staticmethod
    def state_bytes(layer: ResolvedConfig) -> int:
        """Returns those of the mixer with a state."""
        of_state = state_part(layer)
        return ATTENTION_KINDS.code_of(of_state.attention.kind).state_bytes(of_state)
