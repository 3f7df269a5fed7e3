"""Normalisation over the model dimension, and over the batch."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from zoo.config import ResolvedConfig
from zoo.config.kinds import NORM_KINDS
from zoo.layers.context import Context
from zoo.layers.parameter import Linear, constant, kernel_initializer, ones, parameter, statistic, zeros

Scale = Float[Array, " D"] | None


def _affine(y: Float[Array, "*leading D"], scale: Scale, bias: Scale, dtype: jnp.dtype) -> Float[Array, "*leading D"]:
    y = y if scale is None else y * scale
    return (y if bias is None else y + bias).astype(dtype)


def layer_norm(x: Float[Array, "*leading D"], scale: Scale, bias: Scale, epsilon: float) -> Float[Array, "*leading D"]:
    """Returns LayerNorm(x) (Ba et al. 2016, eq. 4): (x - mean) / sqrt(variance + epsilon) * scale +
    bias, statistics in float32.
    """
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    return _affine(
        centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axis=-1, keepdims=True) + epsilon), scale, bias, x.dtype
    )


def rms_norm(x: Float[Array, "*leading D"], scale: Scale, epsilon: float) -> Float[Array, "*leading D"]:
    """Returns RMSNorm(x) (Zhang & Sennrich 2019, eq. 4): x / sqrt(mean(x^2) + epsilon) * scale,
    statistics in float32.
    """
    wide = x.astype(jnp.float32)
    return _affine(
        wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + epsilon), scale, None, x.dtype
    )


def inner_epsilon(config: ResolvedConfig) -> float:
    """Returns the epsilon of the norms within attention: `attention.norm_epsilon`, or if that is 0
    `norm.epsilon`.
    """
    return config.attention.norm_epsilon or config.norm.epsilon


def unit_vectors(x: Float[Array, "*leading D"], axis: int = -1) -> Float[Array, "*leading D"]:
    """Returns x / |x| along an axis in float32. A vector of zeros stays as it is.

    The smallest length is that of torch.nn.functional.normalize.
    """
    wide = x.astype(jnp.float32)
    return wide * jax.lax.rsqrt(jnp.maximum(jnp.square(wide).sum(axis=axis, keepdims=True), 1e-24))


def applied_scale(scale: nnx.Param | None, unit_offset: bool) -> Scale:
    """Returns a learned scale as it is applied: with `norm.unit_offset` plus 1 (Gemma)."""
    if scale is None:
        return None
    return 1 + scale[...] if unit_offset else scale[...]


class Norm(nnx.Module):
    """Base class of all norms: holds the learned scale and, if the kind has the trait "bias", the
    learned bias, unless the config turns them off.
    """

    def __init__(self, config: ResolvedConfig):
        norm, dim = config.norm, config.dim
        self.epsilon, self.unit_offset = norm.epsilon, norm.unit_offset
        self.scale = parameter((dim,), (None,), zeros if norm.unit_offset else ones) if norm.scale else None
        self.bias = parameter((dim,), (None,), zeros) if norm.bias and norm.kind in NORM_KINDS.having("bias") else None

    @classmethod
    def for_part(cls, config: ResolvedConfig, part: str) -> "Norm":
        """Returns a new norm of the sublayer `part` ("attention", "cross_attention", "ffn"), or of
        none of them (""); by default they are all alike.
        """
        del part
        return cls(config)

    @property
    def effective_scale(self) -> Scale:
        """Returns the scale that is applied; with `norm.unit_offset` the parameter stores its
        difference from 1 (Gemma).
        """
        return applied_scale(self.scale, self.unit_offset)

    @property
    def effective_bias(self) -> Scale:
        """Returns the bias that is applied."""
        return None if self.bias is None else self.bias[...]

    def __call__(self, x: Float[Array, "*leading D"], context: Context | None = None) -> Float[Array, "*leading D"]:
        """Normalises each vector of `x`.

        Batch normalisation reads the context to exclude padding and to know whether it is training.
        """
        raise NotImplementedError


class NoNorm(Norm):
    """NoNorm(x) = x: the control without normalisation."""

    def __init__(self, config: ResolvedConfig):
        del config

    def __call__(self, x: Float[Array, "*leading D"], context: Context | None = None) -> Float[Array, "*leading D"]:
        """Returns `x`."""
        return x


class LayerNorm(Norm):
    """LayerNorm(x) = (x - mean(x)) / sqrt(variance(x) + epsilon) * scale + bias, over the D values
    of a token (Ba et al. 2016, eq. 4).

    Invariant to shifting and to scaling x.
    """

    def __call__(self, x: Float[Array, "*leading D"], context: Context | None = None) -> Float[Array, "*leading D"]:
        """Normalises each vector of `x`."""
        return layer_norm(x, self.effective_scale, self.effective_bias, self.epsilon)


class RMSNorm(Norm):
    """RMSNorm(x) = x / sqrt(mean(x^2) + epsilon) * scale, over the D values of a token (Zhang &
    Sennrich 2019, eq. 4).

    Invariant to scaling x, not to shifting it.
    """

    def __call__(self, x: Float[Array, "*leading D"], context: Context | None = None) -> Float[Array, "*leading D"]:
        """Normalises each vector of `x`."""
        return rms_norm(x, self.effective_scale, self.epsilon)


class GatedNorm(RMSNorm):
    """GatedNorm(x) = y * sigmoid(silu(y W_d) W_u), with y = RMSNorm(x), W_d [D, R] and W_u [R, D] of
    each norm and R = `norm.gate_rank` (Qiu et al. 2026, arXiv:2601.22966).

    The gate can shrink a dimension of a token, for which RMSNorm alone needs a large value in another
    dimension. There is no bias. With the matrices near 0 every gate is 1/2.
    """

    def __init__(self, config: ResolvedConfig):
        super().__init__(config)
        rank, kernel = config.norm.gate_rank, kernel_initializer(config)
        self.down = Linear(config.dim, rank, ("embed", None), False, kernel)
        self.up = Linear(rank, config.dim, (None, "embed"), False, kernel)

    def __call__(self, x: Float[Array, "*leading D"], context: Context | None = None) -> Float[Array, "*leading D"]:
        """Normalises each vector of `x`, and multiplies it with its gates."""
        y = super().__call__(x, context)
        return y * jax.nn.sigmoid(self.up(jax.nn.silu(self.down(y))))


class ScaleNorm(RMSNorm):
    """ScaleNorm(x) = g x / sqrt(|x|^2 + D epsilon), with one learned number g, sqrt(D) at first
    (Nguyen & Salazar 2019).

    RMSNorm with one factor for all dimensions: g / sqrt(D) is its scale. Without `norm.scale`, g
    stays sqrt(D).
    """

    def __init__(self, config: ResolvedConfig):
        self.epsilon, self.start = config.norm.epsilon, config.dim**0.5
        self.scale = parameter((), (), constant(self.start)) if config.norm.scale else None

    def __call__(self, x: Float[Array, "*leading D"], context: Context | None = None) -> Float[Array, "*leading D"]:
        """Normalises each vector of `x`."""
        g = self.start if self.scale is None else self.scale[...]
        return rms_norm(x, g / self.start, self.epsilon)


class UnitNorm(Norm):
    """UnitNorm(x) = x / |x| * scale, with the Euclidean length |x| of the D values of a token.

    Without `norm.scale` it is Norm(x) of Loshchilov et al. 2024 (nGPT, section 2.1), a point of the
    unit sphere: RMSNorm divided by sqrt(D).
    """

    def __call__(self, x: Float[Array, "*leading D"], context: Context | None = None) -> Float[Array, "*leading D"]:
        """Divides each vector of `x` by its length."""
        return _affine(unit_vectors(x), self.effective_scale, None, x.dtype)


class CenteringNorm(Norm):
    """Centering(x) = (x - mean(x)) * scale + bias: LayerNorm without the division, as a control
    (Zhang & Sennrich 2019, section 4).

    Invariant to shifting x, not to scaling it.
    """

    def __call__(self, x: Float[Array, "*leading D"], context: Context | None = None) -> Float[Array, "*leading D"]:
        """Centres each vector of `x`."""
        wide = x.astype(jnp.float32)
        return _affine(
            wide - jnp.mean(wide, axis=-1, keepdims=True), self.effective_scale, self.effective_bias, x.dtype
        )


class DynamicTanh(Norm):
    """DyT(x) = tanh(alpha x) * scale + bias, with a learned number alpha that begins at
    `norm.alpha_start` (Zhu et al. 2025, arXiv:2503.10622, section 4).

    It bounds each value by itself and takes no statistic of the token. Language models of the paper
    multiply the embedding by sqrt(D) (`embedding.scale`), and begin with an alpha that is smaller
    the wider the model, and larger for attention (`norm.attention_alpha_start`) than elsewhere.
    """

    def __init__(self, config: ResolvedConfig, start: float | None = None):
        super().__init__(config)
        self.alpha = parameter((1,), (None,), constant(config.norm.alpha_start if start is None else start), "scalar")

    @classmethod
    def for_part(cls, config: ResolvedConfig, part: str) -> "DynamicTanh":
        """Returns one whose alpha begins at `norm.attention_alpha_start` if it is attention's."""
        return cls(config, config.norm.attention_alpha_start if part.endswith("attention") else None)

    def __call__(self, x: Float[Array, "*leading D"], context: Context | None = None) -> Float[Array, "*leading D"]:
        """Bounds each vector of `x`."""
        wide = jnp.tanh(self.alpha[...] * x.astype(jnp.float32))
        return _affine(wide, self.effective_scale, self.effective_bias, x.dtype)


class DynamicErf(DynamicTanh):
    """Derf(x) = erf(alpha x + s) * scale + bias, with learned numbers alpha and s that begin at
    `norm.alpha_start` and 0 (Chen et al. 2025, arXiv:2512.10938).

    erf is the error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0. Like dynamic tanh
    it takes no statistic of the token; it is steeper at 0.
    """

    def __init__(self, config: ResolvedConfig, start: float | None = None):
        super().__init__(config, start)
        self.shift = parameter((1,), (None,), zeros, "scalar")

    def __call__(self, x: Float[Array, "*leading D"], context: Context | None = None) -> Float[Array, "*leading D"]:
        """Bounds each vector of `x`."""
        wide = jax.lax.erf(self.alpha[...] * x.astype(jnp.float32) + self.shift[...])
        return _affine(wide, self.effective_scale, self.effective_bias, x.dtype)


class BatchNorm(Norm):
    """BatchNorm(x)_d = (x_d - mean_d) / sqrt(variance_d + epsilon) * scale_d + bias_d (Ioffe &
    Szegedy 2015, algorithm 1).

    In training mean and variance of dimension d are those over the tokens of the batch, without
    padding. In evaluation they are running averages: running = momentum * running + (1 - momentum)
    * batch, with the unbiased variance (n / (n - 1)), as in section 3.1 of the paper. In a decoder
    the batch's mean depends on later tokens: this is a control, not a valid language model.
    """

    def __init__(self, config: ResolvedConfig):
        super().__init__(config)
        self.momentum = config.norm.momentum
        self.mean, self.variance = statistic((config.dim,), zeros), statistic((config.dim,), ones)

    def __call__(self, x: Float[Array, "B T D"], context: Context) -> Float[Array, "B T D"]:
        """Normalises each dimension of `x` over the tokens."""
        wide = x.astype(jnp.float32)
        if not context.training:
            mean, variance = self.mean[...], self.variance[...]
        else:
            mean, variance, count = masked_moments(wide, jnp.broadcast_to(context.positions >= 0, x.shape[:2]))
            # A batch without tokens must leave the averages unchanged.
            keep = jnp.where(count > 0, self.momentum, 1.0)
            self.mean.set_value(keep * self.mean[...] + (1 - keep) * jax.lax.stop_gradient(mean))
            unbiased = jax.lax.stop_gradient(variance) * count / jnp.maximum(count - 1, 1)
            self.variance.set_value(keep * self.variance[...] + (1 - keep) * unbiased)
        return _affine(
            (wide - mean) * jax.lax.rsqrt(variance + self.epsilon), self.effective_scale, self.effective_bias, x.dtype
        )


def masked_moments(
    x: Float[Array, "B T D"], filled: Bool[Array, "B T"]
) -> tuple[Float[Array, " D"], Float[Array, " D"], Float[Array, ""]]:
    """Returns mean and variance of every dimension over the tokens, and the number of tokens."""
    weight = filled.astype(jnp.float32)[..., None]
    count = weight.sum()
    mean = (x * weight).sum(axis=(0, 1)) / jnp.maximum(count, 1)
    return mean, (jnp.square(x - mean) * weight).sum(axis=(0, 1)) / jnp.maximum(count, 1), count


def make_norm(config: ResolvedConfig, part: str = "") -> Norm:
    """Builds the norm that `norm.kind` names, from the `model` part of a config; `part` as in
    `Norm.for_part`.
    """
    return NORM_KINDS.code_of(config.norm.kind).for_part(config, part)
