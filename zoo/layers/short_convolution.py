"""Short causal convolutions over the tokens of a row: Canon layers, Primer's, token shift."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.config.kinds import CONVOLUTION_KINDS
from zoo.layers.context import Context
from zoo.layers.parameter import Initializer, Linear, kernel_initializer, parameter, zeros

Channels = Float[Array, "B T C"]


class LastTokens(NamedTuple):
    """Decoder cache: the last tokens' vectors of each row, oldest first, zero-padded."""

    vectors: Float[Array, "B N C"]

    def take(self, rows: Int[Array, " R"]) -> "LastTokens":
        """Returns R rows, by number."""
        return LastTokens(self.vectors[rows])


class ShortConvolution(nnx.Module):
    """Mixes each token with the ones before it; a subclass says how (`mix`).

    A token mixes only with tokens of its own document, where documents are kept apart, and never with
    padding: what is missing counts as a vector of zeros.

    Args:
        config: the `model` part, as this layer sees it.
        channels: width of the vectors.
        axis: logical name of that dimension.
    """

    width: int = 2
    """Number of tokens that are read, the token itself included."""

    def __init__(self, config: ResolvedConfig, channels: int, axis: str):
        del config, channels, axis

    @staticmethod
    def places(config: ResolvedConfig) -> str:
        """Returns its places in a block, some of the letters A (input of attention), B (queries,
        keys and values), C (input of the feed-forward layer), D (inside the feed-forward layer,
        before the activation) and K (keys and values alone).
        """
        raise NotImplementedError

    def mix(self, x: Channels, earlier: Sequence[Channels]) -> Channels:
        """Returns the new vectors.

        Args:
            x: the tokens.
            earlier: the tokens 1, 2, ..., `width` - 1 places before them.
        """
        raise NotImplementedError

    def mix_reading(self, x: Channels, earlier: Sequence[Channels], source: Float[Array, "B T D"]) -> Channels:
        """Returns the new vectors where they also depend on what x was projected from; by default they
        do not, and this is `mix`.

        Args:
            x, earlier: see `mix`.
            source: the tokens before the projection, or x where there is none.
        """
        del source
        return self.mix(x, earlier)

    def __call__(
        self, x: Channels, context: Context, name: str, source: Float[Array, "B T D"] | None = None
    ) -> Channels:
        """Mixes the tokens of rows, or with a filled cache the next token of every row.

        Args:
            x: the tokens.
            context: structure of the sequence.
            name: entry of the layer's cache.
            source: see `mix_reading`.
        """
        source = x if source is None else source
        cache, before = context.cache, self.width - 1
        if cache is not None and name in cache.entries:
            kept = cache.entries[name].vectors
            cache.entries[name] = LastTokens(jnp.concatenate([kept[:, 1:], x], axis=1))
            earlier = [kept[:, before - lag : before - lag + 1] for lag in range(1, self.width)]
            return self.mix_reading(x, earlier, source)
        if cache is not None:
            # Index p + `before` is the token at position p.
            padded = jnp.pad(x, [(0, 0), (before, 0), (0, 0)])
            places = cache.newest[:, None] + 1 + jnp.arange(before)
            cache.entries[name] = LastTokens(jnp.take_along_axis(padded, places[..., None], axis=1))
        return self.mix_reading(x, [_shifted(x, lag, context) for lag in range(1, self.width)], source)


class NoConvolution(ShortConvolution):
    """y = x: a block without convolutions."""

    @staticmethod
    def places(config: ResolvedConfig) -> str:
        """Returns no place."""
        del config
        return ""

    def mix(self, x: Channels, earlier: Sequence[Channels]) -> Channels:
        """Returns `x`."""
        del earlier
        return x


def _shifted(x: Channels, lag: int, context: Context) -> Channels:
    """Returns the token `lag` places before each, and zeros where it is none of the same document."""

    def before(array: Array, fill: int) -> Array:
        pads = [(0, 0), (lag, 0), *[(0, 0)] * (array.ndim - 2)]
        return jnp.pad(array, pads, constant_values=fill)[:, : array.shape[1]]

    positions = before(context.positions, -1)
    same = (positions >= 0) & (positions == context.positions - lag)
    if context.documents is not None:
        same = same & (before(context.documents, -1) == context.documents)
    return jnp.where(same[..., None], before(x, 0), 0)


class DepthwiseConvolution(ShortConvolution):
    """y_t = sum_i w_i * x_(t-i), i = 0 .. `convolution.width` - 1, with a weight for each channel."""

    def __init__(self, config: ResolvedConfig, channels: int, axis: str):
        self.width = config.convolution.width
        self.taps = parameter((self.width, channels), (None, axis), self.initializer(self.width), "vector")

    @staticmethod
    def initializer(width: int) -> Initializer:
        """Returns the initializer of the weights [width, channels]."""
        raise NotImplementedError

    def weighted(self, x: Channels, earlier: Sequence[Channels]) -> Channels:
        """Returns the weighted sum, in float32."""
        taps = self.taps[...]
        tokens = (token.astype(jnp.float32) for token in (x, *earlier))
        return sum(tap * token for tap, token in zip(taps, tokens, strict=True))

    def mix(self, x: Channels, earlier: Sequence[Channels]) -> Channels:
        """Returns the weighted sum, which is computed in float32."""
        return self.weighted(x, earlier).astype(x.dtype)


def _as_conv1d(width: int) -> Initializer:
    """Returns the initializer of torch.nn.Conv1d: uniform in +-1 / sqrt(W)."""
    limit = width**-0.5
    return lambda key, shape: jax.random.uniform(key, shape, minval=-limit, maxval=limit)


class CanonConvolution(DepthwiseConvolution):
    """y_t = x_t + sum_i w_i * x_(t-i), i = 0 .. W - 1, W = `convolution.width`: a Canon layer, a
    causal depthwise convolution with a residual connection, without bias and activation (Allen-Zhu
    2025).

    `convolution.places` names the places as the paper does: Canon-A is on the normed input of
    attention, Canon-B on queries, keys and values, Canon-C on the normed input of the feed-forward
    layer, Canon-D on its hidden units before the activation (x W_up, and x W_gate where there is
    one). The weights begin uniform in +-1 / sqrt(W), as those of torch.nn.Conv1d.
    """

    @staticmethod
    def places(config: ResolvedConfig) -> str:
        """Returns `convolution.places`."""
        return config.convolution.places

    @staticmethod
    def initializer(width: int) -> Initializer:
        """Returns the initializer of torch.nn.Conv1d."""
        return _as_conv1d(width)

    def mix(self, x: Channels, earlier: Sequence[Channels]) -> Channels:
        """Adds the weighted sum to x."""
        return x + super().mix(x, earlier)


class PrimerConvolution(DepthwiseConvolution):
    """q_t = sum_i w_i * (x_(t-i) W_q), i = 0 .. W - 1, W = `convolution.width`, and the same for k and
    v, with weights for each channel of every head: multi-dconv-head attention (So et al. 2021,
    Primer).

    The weights begin at 1/2 for the token itself and at 1 / (2 W) for the others.
    """

    @staticmethod
    def places(config: ResolvedConfig) -> str:
        """Returns B."""
        del config
        return "B"

    @staticmethod
    def initializer(width: int) -> Initializer:
        """Returns the constants."""
        return lambda key, shape: jnp.full(shape, 0.5 / width).at[0].set(0.5)


class MixerConvolution(DepthwiseConvolution):
    """y_t = f(sum_i w_i * x_(t-i) + c), i = 0 .. `attention.convolution_width` - 1: a convolution that
    belongs to a mixer of tokens, on its queries, keys and values or between its gates.

    The weights begin as those of torch.nn.Conv1d, c at 0.

    Args:
        config: the `model` part, as this layer sees it.
        channels, axis: see `ShortConvolution`.
        bias: whether there is c.
        activation: f, or None for the identity.
    """

    def __init__(
        self,
        config: ResolvedConfig,
        channels: int,
        axis: str,
        bias: bool = False,
        activation: Callable[[Array], Array] | None = jax.nn.silu,
    ):
        self.width, self.activation = config.attention.convolution_width, activation
        self.taps = parameter((self.width, channels), (None, axis), _as_conv1d(self.width), "vector")
        self.bias = parameter((channels,), (axis,), zeros) if bias else None

    @staticmethod
    def places(config: ResolvedConfig) -> str:
        """Returns no place of a block: the mixer calls it."""
        del config
        return ""

    def mix(self, x: Channels, earlier: Sequence[Channels]) -> Channels:
        """Returns f of the weighted sum, in float32."""
        y = self.weighted(x, earlier)
        y = y if self.bias is None else y + self.bias[...]
        return (y if self.activation is None else self.activation(y)).astype(x.dtype)


class PreviousToken(ShortConvolution):
    """y_t = x_(t-1): the token before, for a mixer that mixes it with x_t itself."""

    @staticmethod
    def places(config: ResolvedConfig) -> str:
        """Returns no place of a block: the mixer calls it."""
        del config
        return ""

    def mix(self, x: Channels, earlier: Sequence[Channels]) -> Channels:
        """Returns the token before."""
        del x
        return earlier[0]


class TokenShift(ShortConvolution):
    """y_t = (x_(t-1)[: D / 2], x_t[D / 2 :]): the first half of the channels is taken from the token
    before. It has no parameters, and stands before attention and before the feed-forward layer
    (Peng 2021; later RWKV).
    """

    @staticmethod
    def places(config: ResolvedConfig) -> str:
        """Returns A and C."""
        del config
        return "AC"

    def mix(self, x: Channels, earlier: Sequence[Channels]) -> Channels:
        """Takes the first half of the channels from the token before."""
        half = x.shape[-1] // 2
        return jnp.concatenate([earlier[0][..., :half], x[..., half:]], axis=-1)


class KeyValueShift(ShortConvolution):
    """k_t = a_t k'_(t-1) + (1 - a_t) k'_t, k'_t = x_t W_k, a_t = sigmoid(x_t w_h) for each key/value
    head h, and the same for values with weights of their own: the data-dependent shift of keys and
    values of FoX (Pro) (Lin et al. 2025).

    Norms of keys (`attention.qk_norm`) and rotation come after it.
    """

    def __init__(self, config: ResolvedConfig, channels: int, axis: str):
        del channels
        self.shares = Linear(
            config.dim, config.attention.num_kv_heads, ("embed", axis), False, kernel_initializer(config)
        )

    @staticmethod
    def places(config: ResolvedConfig) -> str:
        """Returns K."""
        del config
        return "K"

    def mix_reading(self, x: Channels, earlier: Sequence[Channels], source: Float[Array, "B T D"]) -> Channels:
        """Returns the keys or values of the heads, mixed with those of the token before in float32."""
        share = jax.nn.sigmoid(self.shares(source).astype(jnp.float32))[..., None]
        own, last = (y.astype(jnp.float32).reshape(*share.shape[:3], -1) for y in (x, earlier[0]))
        return (share * last + (1 - share) * own).astype(x.dtype).reshape(x.shape)


def make_short_convolution(config: ResolvedConfig, places: str, channels: int, axis: str) -> ShortConvolution | None:
    """Builds the convolution of a block at any of these places; None if there is none."""
    made = CONVOLUTION_KINDS.code_of(config.convolution.kind)
    return made(config, channels, axis) if set(places) & set(made.places(config)) else None
