"""Optional operations on the vectors of heads: norms of queries, keys and values, a factor on queries
by the number of visible keys, the norm and the gate of the output, and exclusive self attention.
"""

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.norm import applied_scale, layer_norm, rms_norm, unit_vectors
from zoo.layers.parameter import Linear, constant, kernel_initializer, ones, parameter, zeros


def _scale(config: ResolvedConfig, shape: tuple[int, ...], axes: tuple[None, ...]) -> nnx.Param | None:
    if not config.attention.qk_norm_scale:
        return None
    return parameter(shape, axes, zeros if config.norm.unit_offset else ones, "vector")


class HeadNorm(nnx.Module):
    """q = q / sqrt(mean(q^2) + epsilon) * scale, and the same for k, before rotation (Henry et al.
    2020; Dehghani et al. 2023).

    "head" takes the mean over the K values of each head, with one scale [K] for all heads; "full"
    over the values of all heads, with a scale [H K]. It is an RMSNorm whatever `norm.kind` is. Without
    `attention.qk_norm_scale` there is no scale (Karpathy 2025, nanochat).
    """

    def __init__(self, config: ResolvedConfig, heads: int):
        K = config.attention.head_dim
        self.full, self.epsilon, self.unit_offset = (
            config.attention.qk_norm == "full",
            config.norm.epsilon,
            config.norm.unit_offset,
        )
        self.scale = _scale(config, (heads * K if self.full else K,), (None,))

    def __call__(self, x: Float[Array, "B T H K"]) -> Float[Array, "B T H K"]:
        """Normalises queries or keys."""
        scale = applied_scale(self.scale, self.unit_offset)
        if not self.full:
            return rms_norm(x, scale, self.epsilon)
        return rms_norm(x.reshape(*x.shape[:2], -1), scale, self.epsilon).reshape(x.shape)


class HeadLayerNorm(nnx.Module):
    """q_h = (q_h - mean(q_h)) / sqrt(variance(q_h) + epsilon) * scale_h, and the same for k, before
    rotation (Dehghani et al. 2023; Bellagente et al. 2024, StableLM 2).

    Mean and variance are those of the K values of a head, and each head has its own scale [K]. There
    is no bias, and it is a LayerNorm whatever `norm.kind` is. Without `attention.qk_norm_scale` there
    is no scale.
    """

    def __init__(self, config: ResolvedConfig, heads: int):
        self.epsilon, self.unit_offset = config.norm.epsilon, config.norm.unit_offset
        self.scale = _scale(config, (heads, config.attention.head_dim), (None, None))

    def __call__(self, x: Float[Array, "B T H K"]) -> Float[Array, "B T H K"]:
        """Normalises queries or keys."""
        return layer_norm(x, applied_scale(self.scale, self.unit_offset), None, self.epsilon)


class CosineNorm(nnx.Module):
    """score(t, s) = g_h cos(q_t, k_s), g_h = exp(min(a_h, ln 100)): queries and keys are divided by
    their lengths, and the a_h of each head is learned, ln 10 at first (Liu et al. 2022, Swin
    Transformer V2; Henry et al. 2020).

    The lengths are taken before rotation, which keeps them.

    Args:
        heads: number of queries that have a factor; 0 for keys, which have none.
    """

    def __init__(self, heads: int):
        first = math.log(10.0)
        self.log_factor = parameter((heads,), ("heads",), constant(first), "scalar") if heads else None

    def __call__(self, x: Float[Array, "B T H K"]) -> Float[Array, "B T H K"]:
        """Divides queries or keys by their lengths, and multiplies queries by the factor."""
        wide = unit_vectors(x)
        if self.log_factor is not None:
            wide = wide * jnp.exp(jnp.minimum(self.log_factor[...], math.log(100.0)))[:, None]
        return wide.astype(x.dtype)


class UnitHeadNorm(nnx.Module):
    """q_h = q_h / |q_h| and the same for k, before rotation, which keeps the lengths; `DimensionScale`
    follows after it.
    """

    def __call__(self, x: Float[Array, "B T H K"]) -> Float[Array, "B T H K"]:
        """Divides queries or keys by their lengths."""
        return unit_vectors(x).astype(x.dtype)


class DimensionScale(nnx.Module):
    """q_h = s_g * q_h / |q_h| and k_g = s_g * k_g / |k_g| after rotation, with one learned vector s_g
    [K] for a key head and the queries that read it, 1 at first (Loshchilov et al. 2024,
    arXiv:2410.01131, section 2.3).

    The paper has a key head for each query head. What is stored is w = s / sqrt(D): a step of Adam
    has the size of the rate whatever the gradient is, so it moves s by sqrt(D) times the rate (section
    2.5).
    """

    def __init__(self, config: ResolvedConfig, keys: int):
        stored = config.dim**-0.5
        self.factor = 1 / stored
        self.keys = keys
        self.stored = parameter((keys * config.attention.head_dim,), ("kv_heads",), constant(stored))

    def __call__(self, x: Float[Array, "B T N K"]) -> Float[Array, "B T N K"]:
        """Multiplies the queries of all heads, or the keys."""
        s = jnp.repeat(self.factor * self.stored[...].reshape(self.keys, -1), x.shape[2] // self.keys, axis=0)
        return (x.astype(jnp.float32) * s).astype(x.dtype)


def make_head_norms(config: ResolvedConfig, queries: int, keys: int) -> tuple[nnx.Module | None, nnx.Module | None]:
    """Builds the norms that `attention.qk_norm` names, for these numbers of queries and of keys."""
    if config.attention.qk_norm == "none":
        return None, None
    if config.attention.qk_norm == "cosine":
        return CosineNorm(queries), CosineNorm(0)
    if config.attention.qk_norm == "unit":
        return UnitHeadNorm(), UnitHeadNorm()
    if config.attention.qk_norm == "head_layernorm":
        return HeadLayerNorm(config, queries), HeadLayerNorm(config, keys)
    return HeadNorm(config, queries), HeadNorm(config, keys)


class ValueNorm:
    """v_h = v_h / sqrt(mean(v_h^2) + epsilon): an RMSNorm of the values of each head, without a scale,
    as in the code of Gemma 3n.

    It is an RMSNorm whatever `norm.kind` is. What a head reads is then an average of vectors of one
    length, sqrt(V).
    """

    def __init__(self, config: ResolvedConfig):
        self.epsilon = config.norm.epsilon

    def __call__(self, v: Float[Array, "B S G V"]) -> Float[Array, "B S G V"]:
        """Normalises the values of each head."""
        return rms_norm(v, None, self.epsilon)


class OutputNorm(nnx.Module):
    """y = concat_h(a_h / sqrt(mean(a_h^2) + epsilon) * scale_h) W_o, where a_h is what head h has
    read, with a scale for each of its elements: the output norm of FoX (Pro) (Lin et al. 2025).

    It comes before the output gate, and is an RMSNorm whatever `norm.kind` is.
    """

    def __init__(self, config: ResolvedConfig, value_dim: int):
        self.epsilon, self.unit_offset = config.norm.epsilon, config.norm.unit_offset
        shape = (config.attention.num_heads, value_dim)
        self.scale = parameter(shape, ("heads", None), zeros if self.unit_offset else ones, "vector")

    def __call__(self, attended: Float[Array, "B T H V"]) -> Float[Array, "B T H V"]:
        """Normalises what each head has read."""
        return rms_norm(attended, applied_scale(self.scale, self.unit_offset), self.epsilon)


class OutputGate(nnx.Module):
    """y = concat_h(a_h * sigmoid(u W_g)) W_o, where a_h is what head h has read: the output gate (Qiu
    et al. 2025; Qwen3-Next).

    u is the layer's input x [D], or with `attention.gate_input=attended` concat_h(a_h) [H V]. W_g is
    [D, H V] or [H V, H V] if "elementwise", a gate for every element of a_h, and [D, H] or [H V, H] if
    "head", one gate for each head. There is no bias. With W_g near 0 every gate is 1/2.
    """

    def __init__(self, config: ResolvedConfig, value_dim: int):
        attention, wide = config.attention, config.attention.num_heads * value_dim
        self.reads_attended = attention.gate_input == "attended"
        # One dimension of a matrix can be divided over the devices that share the heads.
        axes = ("heads", None) if self.reads_attended else ("embed", "heads")
        self.projection = Linear(
            wide if self.reads_attended else config.dim,
            wide if attention.gate == "elementwise" else attention.num_heads,
            axes,
            False,
            kernel_initializer(config),
        )

    def __call__(self, attended: Float[Array, "B T H V"], x: Float[Array, "B T D"]) -> Float[Array, "B T H V"]:
        """Returns what the heads have read, times the gates."""
        gates = self.projection(attended.reshape(*x.shape[:2], -1) if self.reads_attended else x)
        return attended * jax.nn.sigmoid(gates).reshape(*attended.shape[:3], -1)


class LengthFactor(nnx.Module):
    """q_h = s_h ln(n) q_h, n the number of keys that the query sees: Scalable-Softmax, so scores
    grow with n and the largest weight does not fade (Nakanishi 2025).

    Each head learns its s; `attention.ssmax` is the value at first.
    """

    def __init__(self, config: ResolvedConfig):
        first = config.attention.ssmax
        heads = config.attention.num_heads
        self.s = parameter((heads,), ("heads",), constant(first), "scalar")

    def __call__(self, q: Float[Array, "B T H K"], seen: Float[Array, "#B #T #H"]) -> Float[Array, "B T H K"]:
        """Returns the queries times their factors; `seen` is n."""
        factor = self.s[...] * jnp.log(jnp.maximum(seen, 1.0))
        return (q.astype(jnp.float32) * factor[..., None]).astype(q.dtype)


def without_own_value(attended: Float[Array, "B T H V"], v: Float[Array, "B T G V"]) -> Float[Array, "B T H V"]:
    """Returns a - (a . v) v / |v|^2 for every head, v the value of the token itself: exclusive self
    attention (XSA), in which a head can read only what its own value does not say (Zhai 2026).

    Query head h has the value of key/value head h G / H. Computed in float32.
    """
    wide = attended.astype(jnp.float32)
    own = jnp.repeat(v.astype(jnp.float32), attended.shape[2] // v.shape[2], axis=2)
    share = (wide * own).sum(axis=-1, keepdims=True) / jnp.maximum(jnp.square(own).sum(axis=-1, keepdims=True), 1e-24)
    return (wide - share * own).astype(attended.dtype)
