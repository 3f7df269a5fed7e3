"""Position-wise feed-forward layers, plain and gated."""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.config.kinds import FEED_FORWARD_KINDS, WIDTH_FIELDS, activation_of, hidden_width, unit_kind
from zoo.errors import ConfigError
from zoo.layers.activation_record import fired
from zoo.layers.context import Context
from zoo.layers.grouped_product import grouped_product
from zoo.layers.parameter import Linear, constant, kernel_initializer, ones, output_initializer, parameter
from zoo.layers.short_convolution import make_short_convolution


def hidden_dim(config: ResolvedConfig) -> int:
    """Returns F: `ffn.hidden_dim`, or 2/3 of it for a gated kind with `ffn.match_parameters`, times
    `ffn.dim_multiplier` and rounded up to a multiple of `ffn.multiple_of` (Touvron et al. 2023).

    A gated layer has three matrices where a plain one has two (Shazeer 2020, section 2). In a mixture
    of experts it is the width of one expert.
    """
    values = {name: config.ffn[name] for name in WIDTH_FIELDS}
    return hidden_width(**values | {"kind": unit_kind(config.ffn.kind, config.ffn.experts.kind)})


def activation(config: ResolvedConfig, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Applies the activation of `ffn.kind`, or of the kind of its experts: relu, gelu (exact or by
    tanh), or silu.
    """
    return {
        "relu": jax.nn.relu,
        "silu": jax.nn.silu,
        "gelu": lambda x: jax.nn.gelu(x, approximate=config.ffn.gelu_approximation == "tanh"),
    }[activation_of(unit_kind(config.ffn.kind, config.ffn.experts.kind))](x)


class ConvolvedLinear(Linear):
    """A projection that a short convolution follows (place D), which needs the context of its tokens.

    Args:
        linear: the projection.
        name: of the attribute that holds it.
        config: the `model` part, as this layer sees it.
    """

    def __init__(self, linear: Linear, name: str, config: ResolvedConfig):
        self.kernel, self.bias = linear.kernel, linear.bias
        self.name, self.kind, self.places = name, config.ffn.kind, config.convolution.places

    def __call__(self, x: Float[Array, "*leading I"]) -> Float[Array, "*leading O"]:
        """Refuses to leave out the convolution."""
        raise ConfigError(
            f"model.convolution.places={self.places} has a convolution after self.{self.name}(x) of model.ffn.kind="
            f'{self.kind}, which would be left out; compute self.projected("{self.name}", x, context) there, or choose '
            "places without D"
        )

    def before_convolution(self, x: Float[Array, "*leading I"]) -> Float[Array, "*leading O"]:
        """Returns the projection alone."""
        return super().__call__(x)


class FeedForward(nnx.Module):
    """y = act(x W_up) W_down (Vaswani et al. 2017, section 3.3; Shazeer 2020, eq. 2 and 3).

    Args:
        config: the `model` part, as this layer sees it.
        gain: factor on the initial values of the weights.
    """

    activates = "up"
    """Name of the projection that the activation reads."""

    def __init__(self, config: ResolvedConfig, gain: float = 1.0):
        last = output_initializer(config, gain)
        self._add_projection("up", config, gain)
        self.down = Linear(hidden_dim(config), config.dim, ("mlp", "embed"), config.ffn.bias, last)
        self.config = config

    def _add_projection(self, name: str, config: ResolvedConfig, gain: float) -> None:
        projection = self.make_projection(config, gain)
        convolution = make_short_convolution(config, "D", hidden_dim(config), "mlp")
        setattr(self, name, projection if convolution is None else ConvolvedLinear(projection, name, config))
        setattr(self, f"{name}_convolution", convolution)
        scale = parameter((hidden_dim(config),), ("mlp",), ones) if config.ffn.hidden_scale else None
        setattr(self, f"{name}_scale", scale)

    @staticmethod
    def make_projection(config: ResolvedConfig, gain: float) -> Linear:
        """Returns a new projection to the F hidden units."""
        initializer = kernel_initializer(config, gain)
        return Linear(config.dim, hidden_dim(config), ("embed", "mlp"), config.ffn.bias, initializer)

    def projected(self, name: str, x: Float[Array, "B T D"], context: Context | None) -> Float[Array, "B T F"]:
        """Returns the projection "up" or "gate" of x, after the short convolution at place D if there
        is one, and times the learned factors of `ffn.hidden_scale`.

        The projection p that the activation reads becomes s p sqrt(D), the other one of a gated kind
        s p, with a learned vector s [F] each, 1 at first (Loshchilov et al. 2024, arXiv:2410.01131,
        section 2.4). The product of a token and a column of length 1 is about 1 / sqrt(D), where an
        activation is nearly linear.
        """
        y, scale = self._unscaled(name, x, context), getattr(self, f"{name}_scale")
        if scale is None:
            return y
        factor = x.shape[-1] ** 0.5 if name == self.activates else 1.0
        return (y.astype(jnp.float32) * (factor * scale[...])).astype(y.dtype)

    def _unscaled(self, name: str, x: Float[Array, "B T D"], context: Context | None) -> Float[Array, "B T F"]:
        projection, convolution = getattr(self, name), getattr(self, f"{name}_convolution")
        if context is not None and context.group_sizes is not None:
            return _grouped(projection, x, context)
        if convolution is None:
            return projection(x)
        return convolution(projection.before_convolution(x), context, f"{name} convolution")

    def __call__(self, x: Float[Array, "B T D"], context: Context | None = None) -> Float[Array, "B T D"]:
        """Applies the layer to every token; only a convolution inside of it and the record of
        statistics read `context`.
        """
        return self.down(self.hidden(x, context))

    def hidden(self, x: Float[Array, "B T D"], context: Context | None) -> Float[Array, "B T F"]:
        """Returns what the last matrix multiplies."""
        return self.activated(self.projected("up", x, context), context)

    def activated(self, x: Float[Array, "B T F"], context: Context | None) -> Float[Array, "B T F"]:
        """Applies `nonlinearity`, and records which units are above 0 if the kind is sparse."""
        active = self.nonlinearity(x)
        sparse = FEED_FORWARD_KINDS.having("sparse")
        if context is not None and context.record is not None and self.config.ffn.kind in sparse:
            context.record["fired"] = fired(active, context)
        return active

    def nonlinearity(self, x: Float[Array, "B T F"]) -> Float[Array, "B T F"]:
        """Returns act(x), with the activation of `ffn.kind`."""
        return activation(self.config, x)


class GatedFeedForward(FeedForward):
    """y = (act(x W_gate) * x W_up) W_down (Shazeer 2020, eq. 5 and 6)."""

    activates = "gate"

    def __init__(self, config: ResolvedConfig, gain: float = 1.0):
        super().__init__(config, gain)
        self._add_projection("gate", config, gain)

    def hidden(self, x: Float[Array, "B T D"], context: Context | None) -> Float[Array, "B T F"]:
        """Returns act(x W_gate) * x W_up."""
        return self.activated(self.projected("gate", x, context), context) * self.projected("up", x, context)


class SquaredReLU(FeedForward):
    """y = max(0, x W_up)^2 W_down (So et al. 2021, Primer, section 4; Nemotron-4, Arcee)."""

    def nonlinearity(self, x: Float[Array, "B T F"]) -> Float[Array, "B T F"]:
        """Returns max(0, x)^2."""
        return jnp.square(jax.nn.relu(x))


class LeakySquaredReLU(FeedForward):
    """y = f(x W_up) W_down, f(x) = x^2 above 0 and (s x)^2 below, s = `ffn.negative_slope` (Maas et
    al. 2013, squared as in So et al. 2021).

    Negative inputs give positive values too, s^2 times those of positive inputs of the same size.
    """

    def nonlinearity(self, x: Float[Array, "B T F"]) -> Float[Array, "B T F"]:
        """Returns leaky_relu(x)^2."""
        return jnp.square(jax.nn.leaky_relu(x, self.config.ffn.negative_slope))


class ClampedSwiGLU(GatedFeedForward):
    """y = (g sigmoid(1.702 g) * (u + 1)) W_down, g = min(x W_gate, c), u = min(max(x W_up, -c), c),
    c = `ffn.clamp` (OpenAI 2025, gpt-oss, section 2).

    The gate is bounded from above only, and the linear unit has 1 added to it.
    """

    def nonlinearity(self, x: Float[Array, "B T F"]) -> Float[Array, "B T F"]:
        """Returns g sigmoid(1.702 g), g = min(x, c)."""
        gate = jnp.minimum(x, self.config.ffn.clamp)
        return gate * jax.nn.sigmoid(1.702 * gate)

    def hidden(self, x: Float[Array, "B T D"], context: Context | None) -> Float[Array, "B T F"]:
        """Returns what the last matrix multiplies."""
        clamp = self.config.ffn.clamp
        linear = jnp.clip(self.projected("up", x, context), -clamp, clamp)
        return self.activated(self.projected("gate", x, context), context) * (linear + 1)


class XIELU(FeedForward):
    """y = f(x W_up) W_down with f(x) = p x^2 + x / 2 above 0 and n (exp(x) - 1 - x) + x / 2 below
    (Huang & Schlag 2024, arXiv:2411.13010, section 3; Apertus).

    Each layer learns one p and one n, both 0.8 at first: p = softplus(u) and n = 1/2 + softplus(w),
    where u and w are the parameters `positive` and `negative`.
    """

    BETA, START = 0.5, 0.8

    def __init__(self, config: ResolvedConfig, gain: float = 1.0):
        super().__init__(config, gain)
        for name, start in (("positive", self.START), ("negative", self.START - self.BETA)):
            setattr(self, name, parameter((1,), (None,), constant(math.log(math.expm1(start))), "scalar"))

    def nonlinearity(self, x: Float[Array, "B T F"]) -> Float[Array, "B T F"]:
        """Returns xIELU(x)."""
        positive, negative = jax.nn.softplus(self.positive[...]), self.BETA + jax.nn.softplus(self.negative[...])
        wide = x.astype(jnp.float32)
        # Bounded, so that the branch that is not taken has a finite gradient.
        below = jnp.expm1(jnp.minimum(wide, 0)) - wide
        return (jnp.where(wide > 0, positive * jnp.square(wide), negative * below) + self.BETA * wide).astype(x.dtype)


def _grouped(projection: Linear, x: Float[Array, "N D"], context: Context) -> Float[Array, "N F"]:
    """Returns the projection of each expert's rows by its own matrix."""
    sizes = context.group_sizes
    y = grouped_product(x, projection.kernel[...].astype(x.dtype), sizes, context.platform, context.group_room)
    if projection.bias is None:
        return y
    bias = jnp.repeat(projection.bias[...], sizes, axis=0, total_repeat_length=len(x))
    return (y.astype(jnp.float32) + bias).astype(x.dtype)


class NoFeedForward(FeedForward):
    """y = 0: no feed-forward layer. A block leaves out the sublayer with its norms, so that it is its
    mixer of tokens alone, as in Mamba-2 (Dao & Gu 2024, section 7).
    """

    def __init__(self, config: ResolvedConfig, gain: float = 1.0):
        # Without the projections of other kinds.
        del config, gain

    def __call__(self, x: Float[Array, "B T D"], context: Context | None = None) -> Float[Array, "B T D"]:
        """Returns zeros."""
        del context
        return jnp.zeros_like(x)


def make_feed_forward(config: ResolvedConfig, gain: float = 1.0) -> nnx.Module:
    """Builds the layer that `ffn.kind` names; see `FeedForward` for the arguments."""
    made = FEED_FORWARD_KINDS.code_of(config.ffn.kind)
    if config.ffn.kind in FEED_FORWARD_KINDS.having("experts"):
        return made(config, gain, make_feed_forward)
    return made(config, gain)
