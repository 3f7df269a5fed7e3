"""The mixers whose state is a matrix for each head: one module, of which each kind is a setting."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from zoo.config import AUTO, ResolvedConfig
from zoo.config.kinds import ATTENTION_KINDS
from zoo.layers.attention.linear_recurrence import RecurrentState, Tokens, by_chunks, token_by_token
from zoo.layers.attention.token_mixer import HeadCounts, SharedScores, TokenMixer
from zoo.layers.context import Context
from zoo.layers.norm import inner_epsilon
from zoo.layers.parameter import Linear, kernel_initializer, ones, output_initializer, parameter
from zoo.layers.short_convolution import MixerConvolution

# Added to the squared length of a key or query, as flash-linear-attention does.
EPSILON = 1e-6


class GatedLinearRecurrence(TokenMixer):
    """y = concat_h(f(S_h^T q_h)) W_o, with S_t = diag(a_t) S_(t-1) + b_t k_t v_t^T or its delta rule
    (`zoo.layers.attention.linear_recurrence`): a mixer of tokens whose state has one size, whatever
    the number of tokens.

    H = `attention.num_heads` heads have values of V = `attention.value_dim` elements and a state
    [K, V] each; queries and keys of K = `attention.head_dim` elements serve H /
    `attention.key_heads` neighbouring heads. A subclass says what a, b and f are (`log_decay`,
    `rate`, `merge`), which features of queries and keys enter (`features`), and by class attributes
    what else there is.

    Gates and state are float32 for any type of activations. Padding changes no state, so it may be
    anywhere in a row; with a cache and convolutions it stands after the tokens. Where documents are
    kept apart, the state is dropped where one begins. A long row is processed in chunks of
    `attention.chunk_tokens`.
    """

    delta: bool = False
    """Whether a token replaces what the state stored for its key."""
    convolution_bias: bool = False
    """Whether the short convolutions of queries, keys and values have a bias."""
    normaliser: bool = False
    """Whether the state has another column, the sum of the keys, for a subclass to divide by."""
    layer_name = "recurrence"

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        attention = self.config = config.attention
        self.epsilon = inner_epsilon(config)
        H, G, K, V = attention.num_heads, attention.key_heads, attention.head_dim, attention.value_dim
        initializer, value_initializer = kernel_initializer(config), kernel_initializer(config, gain)
        self.query = Linear(config.dim, G * K, ("embed", "heads"), False, initializer, heads=G)
        self.key = Linear(config.dim, G * K, ("embed", "heads"), False, initializer, heads=G)
        self.value = Linear(config.dim, H * V, ("embed", "heads"), False, value_initializer, heads=H)
        self.output = Linear(H * V, config.dim, ("heads", "embed"), False, output_initializer(config, gain))
        convolved, self.activated = _convolution_width(config) > 0, _has_convolutions(config)
        for name, width in (("query", G * K), ("key", G * K), ("value", H * V)):
            made = MixerConvolution(config, width, "heads", self.convolution_bias) if convolved else None
            setattr(self, f"{name}_convolution", made)

    def __call__(
        self, x: Float[Array, "B T D"], context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Float[Array, "B T D"]:
        """Mixes the tokens; see `TokenMixer.__call__`."""
        del shared
        heads = self.config.num_heads, self.config.key_heads
        q, k, v = (
            self._projected(name, x, context).reshape(*x.shape[:2], count, -1)
            for name, count in (("query", heads[1]), ("key", heads[1]), ("value", heads[0]))
        )
        tokens, cache = self._tokens(x, q, k, v, context), context.cache
        if cache is not None and self.part in cache.entries:
            y, state = token_by_token(tokens, cache.entries[self.part].state, self.delta)
        else:
            start = jnp.zeros((*tokens.v.shape[:2], tokens.k.shape[-1], tokens.v.shape[-1]), tokens.v.dtype)
            y, state = by_chunks(tokens, start, self.delta, self.config.chunk_tokens)
        if cache is not None:
            cache.entries[self.part] = RecurrentState(state)
        merged = self.merge(jnp.swapaxes(y, 1, 2), x, v)
        return self.output(merged.astype(x.dtype).reshape(*x.shape[:2], -1))

    def _projected(self, name: str, x: Float[Array, "B T D"], context: Context) -> Float[Array, "B T I"]:
        y, convolution = getattr(self, name)(x), getattr(self, f"{name}_convolution")
        if convolution is not None:
            return convolution(y, context, f"{name} convolution")
        return jax.nn.silu(y) if self.activated else y

    def _tokens(self, x: Array, q: Array, k: Array, v: Array, context: Context) -> Tokens:
        """Returns what the tokens do with the states of all heads; padding does nothing."""
        wide = jnp.promote_types(x.dtype, jnp.float32)
        q, k, v = (array.astype(wide) for array in (q, k, v))
        gated, log_decay = x.astype(wide), self.log_decay(x.astype(wide), k, context)
        q, k = (jnp.repeat(each, v.shape[2] // q.shape[2], axis=2) for each in self.features(q, k, context))
        if self.normaliser:
            v = jnp.concatenate([v, jnp.ones((*v.shape[:3], 1), wide)], axis=-1)
        filled = jnp.broadcast_to(context.positions >= 0, x.shape[:2])[..., None]
        log_decay = jnp.where(filled[..., None], log_decay, 0)
        rate = jnp.where(filled, self.rate(gated), 0)
        by_head = (jnp.swapaxes(array, 1, 2) for array in (q, k, v, log_decay, rate))
        return Tokens(*by_head, document_starts(context, x.shape[1]))

    def features(
        self, q: Float[Array, "B T G K"], k: Float[Array, "B T G K"], context: Context
    ) -> tuple[Float[Array, "B T G K"], Float[Array, "B T G K"]]:
        """Returns the queries that read the state and the keys that are written to it; by default q
        times 1 / sqrt(K), and k.
        """
        del context
        return q * q.shape[-1] ** -0.5, k

    def log_decay(
        self, x: Float[Array, "B T D"], k: Float[Array, "B T G K"], context: Context
    ) -> Float[Array, "B T H E"]:
        """Returns ln a of the tokens, with E = 1 or K; by default 0, no decay.

        Args:
            x: the input of the layer.
            k: the keys, before `features`.
            context: structure of the sequence.
        """
        del k, context
        return jnp.zeros((*x.shape[:2], self.config.num_heads, 1), x.dtype)

    def rate(self, x: Float[Array, "B T D"]) -> Float[Array, "B T H"]:
        """Returns b of the tokens, by default 1."""
        return jnp.ones((*x.shape[:2], self.config.num_heads), x.dtype)

    def merge(
        self, y: Float[Array, "B T H V"], x: Float[Array, "B T D"], v: Float[Array, "B T H V"]
    ) -> Float[Array, "B T H V"]:
        """Returns f(y), what the heads give to the output projection.

        Args:
            y: what the heads have read.
            x: the input of the layer.
            v: the values.
        """
        raise NotImplementedError

    @classmethod
    def product_flops(cls, layer: ResolvedConfig, queries: float, keys: float) -> float:
        """Returns the operations of the recurrence: for each token and head 2 K V to write the state
        and 2 K V to read it, and with the delta rule 2 K V to read it for the key.

        Chunks take some more, as masked scores of causal attention do, which are not counted either.
        """
        del keys
        attention = layer.attention
        products = 2 + cls.delta
        width = attention.value_dim + cls.normaliser
        return 2.0 * products * attention.num_heads * attention.head_dim * width * queries

    @classmethod
    def state_bytes(cls, layer: ResolvedConfig) -> int:
        """Returns the bytes of H matrices [K, V] in float32, and of the vectors that the convolutions
        keep.
        """
        attention = layer.attention
        H, G, K, V = attention.num_heads, attention.key_heads, attention.head_dim, attention.value_dim
        lags = max(0, _convolution_width(layer) - 1)
        return 4 * H * K * (V + cls.normaliser) + jnp.dtype(layer.dtype).itemsize * lags * (2 * G * K + H * V)

    @staticmethod
    def head_counts(layer: ResolvedConfig, cross: bool = False) -> HeadCounts | None:
        """Returns G queries and keys, and the values of all H heads, each with its own state."""
        del cross
        attention = layer.attention
        return HeadCounts(attention.key_heads, attention.key_heads, attention.num_heads)

    @staticmethod
    def sharing(heads: int, groups: int) -> str:
        """Returns what heads have of their own, and that they share keys."""
        return "a state for each head" + (f", {heads // groups} heads share a key" if groups < heads else "")

    @staticmethod
    def letters(layer: ResolvedConfig) -> dict[int, str]:
        """Returns the letters of the widths of keys and values of all heads."""
        attention = layer.attention
        H, G, K, V = attention.num_heads, attention.key_heads, attention.head_dim, attention.value_dim
        return {V: "V", G * K: "G K", H * V: "H V"}


def _convolution_width(layer: ResolvedConfig) -> int:
    """Returns the width of the short convolutions; 0 where there are none."""
    width = layer.attention.convolution_width
    return width if _has_convolutions(layer) and width != AUTO else 0


def _has_convolutions(layer: ResolvedConfig) -> bool:
    """Whether layers of this kind have short convolutions, with their activation. Another kind of the
    same stack may have them where this one has none.
    """
    return layer.attention.kind in ATTENTION_KINDS.having("convolved")


def unit_length(x: Float[Array, "*leading K"]) -> Float[Array, "*leading K"]:
    """Returns x / sqrt(|x|^2 + epsilon)."""
    return x * jax.lax.rsqrt(jnp.square(x).sum(axis=-1, keepdims=True) + EPSILON)


def document_starts(context: Context, length: int) -> Bool[Array, "#B T"]:
    """Returns which tokens begin another document than that of the token before; one row for all where
    documents are not kept apart. XLA computes what follows from it when it compiles, for hundreds of
    rows in minutes.
    """
    if context.documents is None:
        return jnp.zeros((1, length), bool)
    changes = context.documents[:, 1:] != context.documents[:, :-1]
    return jnp.pad(changes, ((0, 0), (1, 0)))


def head_norm(config: ResolvedConfig) -> nnx.Param:
    """Describes the scale [V] of an RMSNorm of what each head has read, one for all heads."""
    return parameter((config.attention.value_dim,), (None,), ones)


class StepSize(nnx.Module):
    """ln a = -exp(r) * softplus(s + d), with learned numbers r of each head and d: the decay of
    Mamba-2 (Dao & Gu 2024, section 7), where softplus(s + d) is the step size.

    exp(r) begins uniform between two bounds, and softplus(d) log-uniform between 0.001 and 0.1. Weight
    decay leaves both out.

    Args:
        heads: H.
        width: elements of a head that have decays of their own; 1 for one for the head.
        bounds: of exp(r) at first.
    """

    def __init__(self, heads: int, width: int, bounds: tuple[float, float]):
        low, high = bounds

        def log_uniform(key: Array, shape: tuple[int, ...]) -> Array:
            return jnp.log(jax.random.uniform(key, shape, minval=low, maxval=high))

        self.log_rate = parameter((heads,), ("heads",), log_uniform, "scalar")
        self.bias = parameter((heads * width,), ("heads",), _step_bias, "scalar")

    def sizes(self, s: Float[Array, "B T I"]) -> Float[Array, "B T H E"]:
        """Returns softplus(s + d)."""
        return jax.nn.softplus(s + self.bias[...]).reshape(*s.shape[:2], self.log_rate[...].shape[0], -1)

    def log_decay(self, s: Float[Array, "B T I"]) -> Float[Array, "B T H E"]:
        """Returns ln a."""
        return -jnp.exp(self.log_rate[...])[:, None] * self.sizes(s)


def _step_bias(key: Array, shape: tuple[int, ...]) -> Array:
    """Returns d with softplus(d) log-uniform in [0.001, 0.1]: d = ln(exp(step) - 1)."""
    step = jnp.exp(jax.random.uniform(key, shape, minval=math.log(1e-3), maxval=math.log(0.1)))
    return step + jnp.log(-jnp.expm1(-step))
