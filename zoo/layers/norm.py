"""Normalisation over the model dimension."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.parameter import ones, parameter, zeros


def layer_norm(
    x: Float[Array, "*leading D"], scale: Float[Array, " D"], bias: Float[Array, " D"] | None, epsilon: float
) -> Float[Array, "*leading D"]:
    """LayerNorm (Ba et al. 2016, eq. 4): (x - mean) / sqrt(variance + epsilon) * scale + bias, statistics in float32."""
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    y = centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axis=-1, keepdims=True) + epsilon) * scale
    return (y if bias is None else y + bias).astype(x.dtype)


def rms_norm(x: Float[Array, "*leading D"], scale: Float[Array, " D"], epsilon: float) -> Float[Array, "*leading D"]:
    """RMSNorm (Zhang & Sennrich 2019, eq. 4): x / sqrt(mean(x^2) + epsilon) * scale, statistics in float32."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + epsilon) * scale).astype(x.dtype)


class LayerNorm(nnx.Module):
    """LayerNorm with a learned scale and, if `norm.bias`, a learned shift."""

    def __init__(self, config: ResolvedConfig):
        self.epsilon = config.norm.epsilon
        self.scale = parameter((config.dim,), (None,), ones)
        self.bias = parameter((config.dim,), (None,), zeros) if config.norm.bias else None

    def __call__(self, x: Float[Array, "*leading D"]) -> Float[Array, "*leading D"]:
        """Normalises each vector of `x`."""
        return layer_norm(x, self.scale[...], None if self.bias is None else self.bias[...], self.epsilon)


class RMSNorm(nnx.Module):
    """RMSNorm with a learned scale."""

    def __init__(self, config: ResolvedConfig):
        self.epsilon = config.norm.epsilon
        self.scale = parameter((config.dim,), (None,), ones)

    def __call__(self, x: Float[Array, "*leading D"]) -> Float[Array, "*leading D"]:
        """Normalises each vector of `x`."""
        return rms_norm(x, self.scale[...], self.epsilon)


class NoNorm(nnx.Module):
    """The identity: the control arm without normalisation."""

    def __init__(self, config: ResolvedConfig):
        del config

    def __call__(self, x: Float[Array, "*leading D"]) -> Float[Array, "*leading D"]:
        """Returns `x`."""
        return x


NORMS = {"layernorm": LayerNorm, "rmsnorm": RMSNorm, "none": NoNorm}


def make_norm(config: ResolvedConfig) -> nnx.Module:
    """Builds the norm that `norm.kind` names, from the `model` part of a config."""
    return NORMS[config.norm.kind](config)
