"""RWKV-7's time mixing: a state with the generalised delta rule, of which every part is shifted by a
token and gated by matrices of a low rank.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention import rwkv7_values as values
from zoo.layers.attention.gated_linear_recurrence import document_starts
from zoo.layers.attention.generalized_delta import MIN_LOG_DECAY, RankOneTokens, rank_one_by_chunks, rank_one_by_token
from zoo.layers.attention.linear_recurrence import RecurrentState
from zoo.layers.attention.token_mixer import HeadCounts, SharedScores, TokenMixer
from zoo.layers.context import Context
from zoo.layers.norm import inner_epsilon, layer_norm
from zoo.layers.parameter import (
    Initializer,
    Linear,
    constant,
    kernel_initializer,
    normal,
    output_initializer,
    parameter,
    zeros,
)
from zoo.layers.short_convolution import PreviousToken

# Added to the squared length of a key; the authors divide by at least 1e-12.
EPSILON = 1e-12
SHIFT = "token shift"


class LowRank(nnx.Module):
    """y = f(x W_1) W_2 + c, with W_1 [D, R] and W_2 [R, I]. W_1 is 0 at first, the rows of W_2 have a
    length of about 0.1.

    Args:
        config: the `model` part, as this layer sees it.
        rank: R.
        width: I, those of all heads.
        activation: f.
        bias: initial values of c, or None for no c.
    """

    def __init__(
        self,
        config: ResolvedConfig,
        rank: int,
        width: int,
        activation: Callable[[Array], Array] = lambda x: x,
        bias: Initializer | None = None,
    ):
        self.activation = activation
        self.down = Linear(config.dim, rank, ("embed", None), False, zeros)
        up = normal(0.1 * width**-0.5)
        self.up = Linear(rank, width, (None, "heads"), False, up, heads=config.attention.num_heads)
        self.bias = None if bias is None else parameter((width,), ("heads",), bias, "scalar")

    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T I"]:
        """Applies the map in the type of `x`, c in float32."""
        y = self.up(self.activation(self.down(x)))
        return y if self.bias is None else (y.astype(jnp.float32) + self.bias[...]).astype(y.dtype)


class RWKV7(TokenMixer):
    """S_t = (diag(w_t) - (a_t * e_t) e_t^T) S_(t-1) + c_t v_t^T and y_h = (LayerNorm(S_t^T r_t) + (r_t
    . (p * c_t)) v_t) * g_t, for each head, with a state S [K, V] that is 0 at first: the time mixing
    of RWKV-7 (Peng et al. 2025, section 4).

    r, k, v, w, a and g are computed from six mixtures of the token and the one before it, x_t + m *
    (x_(t-1) - x_t), with learned m [D] each. r = x W_r, k = x W_k and v = x W_v. ln w = -exp(-1/2)
    sigmoid(tanh(x W_1) W_2 + d), a = sigmoid(x W_3 W_4 + b) and g = sigmoid(x W_5) W_6 have the ranks
    `attention.decay_rank`, `attention.rate_rank` and `attention.gate_rank`. What is read and taken off
    lies along e = (k * n) / |k * n|, what is written along c = k * (1 + (a - 1) * z), with learned n,
    z and p for each element of a key. The norm has a scale and a bias for each value, and K times
    `attention.norm_epsilon`; W_o projects the heads, side by side.

    The values of later layers are v + sigmoid(x W_7 W_8 + s) * (u - v), u those of the first layer,
    with rank `attention.value_rank`; 0 leaves this out. The first layer has these matrices too, and
    they get no gradient.

    Decays, rates and the state are float32 for any type of activations. Padding changes no state, and
    where documents are kept apart neither the state nor the token before passes from one to the next.
    A long row is processed in chunks of `attention.chunk_tokens`. Weight decay leaves out vectors, but
    no matrices of low rank; the authors leave out both. Vectors begin as in the authors' code, some by
    depth; weight matrices begin as `model.init` says, W_k at a tenth of it. The squared-ReLU
    feed-forward layer of RWKV-7, which also reads the token before, is no part of this.
    """

    publishes = ("value",)

    layer_name = "recurrence"

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        attention = self.config = config.attention
        H, K, V, depth = attention.num_heads, attention.head_dim, attention.value_dim, config.num_layers
        keys, wide = H * K, H * V
        self.epsilon = K * inner_epsilon(config)
        projected = ("embed", "heads"), False
        self.receptance = Linear(config.dim, keys, *projected, kernel_initializer(config), heads=H)
        self.key = Linear(config.dim, keys, *projected, kernel_initializer(config, 0.1), heads=H)
        self.value = Linear(config.dim, wide, *projected, kernel_initializer(config, gain), heads=H)
        self.output = Linear(wide, config.dim, ("heads", "embed"), False, output_initializer(config, gain))
        for name, power in values.MIX_POWERS.items():
            setattr(self, f"{name}_mix", parameter((config.dim,), ("embed",), values.token_mix(power, depth)))
        self.shift = PreviousToken(config, config.dim, "embed")
        self.decay = LowRank(config, attention.decay_rank, keys, jnp.tanh, values.decay_bias(K, depth))
        self.rate = LowRank(config, attention.rate_rank, keys, bias=values.rate_bias(K))
        self.gate = LowRank(config, attention.gate_rank, wide, jax.nn.sigmoid)
        rank = attention.value_rank
        self.value_gate = LowRank(config, rank, wide, bias=values.value_bias()) if rank else None
        self.publishes = RWKV7.publishes if rank else ()
        for name, width, initial in (
            ("erased_scale", keys, values.erased_scale()),
            ("rate_share", keys, constant(1.02)),
            ("bonus", keys, constant(-0.04)),
            ("scale", wide, values.norm_scale(depth)),
            ("bias", wide, zeros),
        ):
            setattr(self, name, parameter((width,), ("heads",), initial))

    def __call__(
        self, x: Float[Array, "B T D"], context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Float[Array, "B T D"]:
        """Mixes the tokens; see `TokenMixer.__call__`."""
        del shared
        wide = jnp.promote_types(x.dtype, jnp.float32)
        own = x.astype(wide)
        change = self.shift(x, context, SHIFT).astype(wide) - own
        read = {name: own + getattr(self, f"{name}_mix")[...] * change for name in values.MIX_POWERS}
        narrow = {name: each.astype(x.dtype) for name, each in read.items()}

        v = self._mixed_values(self.value(narrow["value"]), narrow["value"], context)
        r, k = self.receptance(narrow["receptance"]), self.key(narrow["key"])
        r, k, v = (self._by_head(each.astype(wide)) for each in (r, k, v))
        rate = self._by_head(jax.nn.sigmoid(self.rate(read["rate"])))
        log_decay = self._by_head(MIN_LOG_DECAY * jax.nn.sigmoid(self.decay(read["decay"])))
        erased = k * self._by_head(self.erased_scale[...])
        erased = erased * jax.lax.rsqrt(jnp.square(erased).sum(axis=-1, keepdims=True) + EPSILON)
        k = k * (1 + (rate - 1) * self._by_head(self.rate_share[...]))
        y = self._recurrence(r, erased, rate, k, v, log_decay, context)

        scale, bias, bonus = (self._by_head(each[...]) for each in (self.scale, self.bias, self.bonus))
        y = layer_norm(y, scale, bias, self.epsilon) + (r * bonus * k).sum(axis=-1, keepdims=True) * v
        return self.output(y.astype(x.dtype).reshape(*x.shape[:2], -1) * self.gate(narrow["gate"]))

    def _by_head(self, x: Float[Array, "*leading I"]) -> Float[Array, "*leading H J"]:
        return x.reshape(*x.shape[:-1], self.config.num_heads, -1)

    def _mixed_values(self, v: Float[Array, "B T I"], x: Float[Array, "B T D"], context: Context) -> Array:
        """Returns v + gate * (v_1 - v)."""
        if self.value_gate is None:
            return v
        context.publish("value", v)
        return v + jax.nn.sigmoid(self.value_gate(x)) * (context.published["value"] - v)

    def _recurrence(
        self, r: Array, erased: Array, rate: Array, k: Array, v: Array, log_decay: Array, context: Context
    ) -> Float[Array, "B T H V"]:
        """Returns what the heads read of the state, and keeps the last state in a cache."""
        shape = r.shape[:2]
        filled = jnp.broadcast_to(context.positions >= 0, shape)[..., None, None]
        added, k, log_decay = (jnp.where(filled, each, 0) for each in (erased * rate, k, log_decay))
        by_head = (jnp.swapaxes(each, 1, 2) for each in (r, erased, added, k, v, log_decay))
        tokens, cache = RankOneTokens(*by_head, document_starts(context, shape[1])), context.cache
        if cache is not None and self.part in cache.entries:
            y, state = rank_one_by_token(tokens, cache.entries[self.part].state)
        else:
            start = jnp.zeros((*tokens.v.shape[:2], tokens.k.shape[-1], tokens.v.shape[-1]), tokens.v.dtype)
            y, state = rank_one_by_chunks(tokens, start, self.config.chunk_tokens)
        if cache is not None:
            cache.entries[self.part] = RecurrentState(state)
        return jnp.swapaxes(y, 1, 2)

    @staticmethod
    def product_flops(layer: ResolvedConfig, queries: float, keys: float) -> float:
        """Returns the operations of the recurrence: for each token and head 2 K V each to read the
        state along e, to take that off, to write a value and to read for r.

        Chunks take some more, as masked scores of causal attention do, which are not counted either.
        """
        del keys
        attention = layer.attention
        return 8.0 * attention.num_heads * attention.head_dim * attention.value_dim * queries

    @staticmethod
    def state_bytes(layer: ResolvedConfig) -> int:
        """Returns the bytes of H matrices [K, V] in float32, and of the last token."""
        attention = layer.attention
        matrices = 4 * attention.num_heads * attention.head_dim * attention.value_dim
        return matrices + jnp.dtype(layer.dtype).itemsize * layer.dim

    @staticmethod
    def head_counts(layer: ResolvedConfig, cross: bool = False) -> HeadCounts | None:
        """Returns H of each: receptances, keys and values."""
        del cross
        return HeadCounts(*[layer.attention.num_heads] * 3)

    @staticmethod
    def sharing(heads: int, groups: int) -> str:
        """Returns what heads have of their own."""
        del heads, groups
        return "a state for each head"

    @staticmethod
    def letters(layer: ResolvedConfig) -> dict[int, str]:
        """Returns the letters of the widths of values and of keys and values of all heads."""
        attention = layer.attention
        H, K, V = attention.num_heads, attention.head_dim, attention.value_dim
        return {V: "V", H * K: "H K", H * V: "H V"}
