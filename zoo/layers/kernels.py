"""Implementations of the attention product, all with one signature, chosen by name.

What each can honour stands in `zoo.config.ATTENTION_KERNELS`; a config that asks more is refused before anything is built.
The einsum one is the reference that the others are tested against.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ATTENTION_KERNELS
from zoo.layers.context import Context


def einsum_attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G K"],
    context: Context,
    window: int,
    scale: float,
    score: Float[Array, "B H T S"] | None,
    dropout: float,
) -> Float[Array, "B T H K"]:
    """softmax(scale * q k^T + score, over the visible keys) v, softmax in float32; query head h reads key head h G / H."""
    B, T, H, K = q.shape
    G, S = k.shape[2], k.shape[1]
    grouped = (q * scale).reshape(B, T, G, H // G, K)
    scores = jnp.einsum("btgrk,bsgk->bgrts", grouped, k, preferred_element_type=jnp.float32)
    if score is not None:
        scores = scores + score.reshape(score.shape[0], G, H // G, T, S)
    visible = context.visible(window)[:, None, None]
    probabilities = jax.nn.softmax(jnp.where(visible, scores, jnp.finfo(jnp.float32).min), axis=-1).astype(v.dtype)
    probabilities = context.dropout(probabilities, dropout, "attention/probabilities")
    return jnp.einsum("bgrts,bsgk->btgrk", probabilities, v).reshape(B, T, H, K)


def _library_attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G K"],
    context: Context,
    window: int,
    scale: float,
    score: Float[Array, "B H T S"] | None,
    dropout: float,
    *,
    implementation: str,
) -> Float[Array, "B T H K"]:
    """`jax.nn.dot_product_attention`, given the structure of the mask where that is enough and a mask array where it is not."""
    del dropout  # Refused with the config.
    # Positions that simply count up are what the kernel's own causal mask and window assume.
    structured = context.causal and context.documents is None and context.positions.shape[0] == 1
    return jax.nn.dot_product_attention(
        q, k, v,
        bias=None if score is None else score.astype(q.dtype),
        mask=None if structured else context.visible(window)[:, None],
        scale=scale,
        is_causal=structured,
        local_window_size=(window - 1, 0) if structured and window else None,
        implementation=implementation,
    )  # fmt: skip


def xla_attention(*arguments) -> Float[Array, "B T H K"]:
    """`jax.nn.dot_product_attention` as compiled by XLA, on any device."""
    return _library_attention(*arguments, implementation="xla")


def cudnn_attention(*arguments) -> Float[Array, "B T H K"]:
    """cuDNN's fused attention on NVIDIA GPUs, memory linear in T."""
    return _library_attention(*arguments, implementation="cudnn")


KERNELS = {"einsum": einsum_attention, "xla": xla_attention, "cudnn": cudnn_attention}


def choose_kernel(kernel: str, platform: str, dtype: str, score: bool, documents: bool, dropout: bool, head_dim: int) -> str:
    """Resolves `attention.kernel=auto`: the fused one on a GPU where it can do what is asked, else the reference.

    Args:
        kernel: name from the config.
        platform: "cpu", "gpu" or "tpu".
        dtype, score, documents, dropout, head_dim: what the config asks of the kernel.
    """
    if kernel != "auto":
        return kernel
    can = ATTENTION_KERNELS["cudnn"]
    asked = {"score": score, "documents": documents, "dropout": dropout}
    fits = dtype in can["dtypes"] and head_dim <= 128 and head_dim % 8 == 0
    return "cudnn" if platform == "gpu" and fits and not any(asked[name] and not can[name] for name in asked) else "einsum"
