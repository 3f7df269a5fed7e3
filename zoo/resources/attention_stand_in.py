"""Stand-ins for the fused attention of GPUs and TPUs, so that a CPU can compile a program of the same
memory.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


@jax.custom_vjp
def _same_memory(
    q: Float[Array, "B T H K"], k: Float[Array, "B S H K"], v: Float[Array, "B S H K"], added: Array | None
) -> Array:
    return _forward(q, k, v, added)[0]


def _forward(q, k, v, added):
    out = q * k.mean(axis=1, keepdims=True) + v.mean(axis=1, keepdims=True)
    if added is not None:
        # XLA would not make the array for a sum of it alone.
        added = jax.lax.optimization_barrier(added)
        out = out + added.mean().astype(out.dtype)
    normalizer = out.astype(jnp.float32).sum(axis=-1)
    return out, (q, k, v, added, out, normalizer)


def _backward(residuals, gradient):
    q, k, v, added, out, normalizer = residuals
    scaled = (gradient * out).astype(jnp.float32) * normalizer[..., None]
    total = scaled.sum(axis=1, keepdims=True).astype(q.dtype)
    # jax always asks cuDNN for the gradient of what is added.
    d_added = None if added is None else jax.lax.optimization_barrier(added * total.mean().astype(added.dtype))
    return scaled.astype(q.dtype) * q, total * k, total * v, d_added


_same_memory.defvjp(_forward, _backward)


def fused_attention_stand_in(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G K"],
    bias: Float[Array, "#B #H T S"] | None = None,
    mask: Bool[Array, "#B 1 T S"] | None = None,
    **options: Any,
) -> Float[Array, "B T H K"]:
    """Computes nothing useful, but keeps for the backward pass what cuDNN's attention keeps: queries,
    keys, values, output and one number for each query and head. Only what is added to the scores, the
    bias and the mask together, and its gradient have both T and S.
    """
    del options
    added = None if mask is None else jnp.where(mask, 0, jnp.finfo(q.dtype).min).astype(q.dtype)
    if bias is not None:
        added = bias if added is None else bias + added
    repeats = q.shape[2] // k.shape[2]
    return _same_memory(q, *(jnp.repeat(x, repeats, axis=2) for x in (k, v)), added)


def splash_attention_stand_in(arrays: dict[str, Array], **options: Any) -> Float[Array, "B H T V"]:
    """Does the same for `zoo.layers.attention.kernels.splash.library_attention`, which adds nothing to
    the scores.
    """
    del options
    q, k, v = (arrays[name].transpose(0, 2, 1, 3) for name in "qkv")
    width = max(k.shape[-1], v.shape[-1])
    wide = (jnp.pad(x, [(0, 0)] * 3 + [(0, width - x.shape[-1])]) for x in (q, k, v))
    return fused_attention_stand_in(*wide)[..., : v.shape[-1]].transpose(0, 2, 1, 3)
