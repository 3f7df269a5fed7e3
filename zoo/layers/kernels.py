"""Implementations of the attention product, all with one signature, chosen by name.

What each can honour stands in `zoo.config.ATTENTION_KERNELS`; a config that asks more is refused before anything is built.
The einsum one is the reference that the others are tested against.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ATTENTION_KERNELS
from zoo.layers.context import Context


def _attend(q, k, v, visible, score, drop):
    """softmax(q k^T + score, over the visible keys) v with heads before tokens: q [B, G, R, T, K], k and v [B, G, S, K].

    Heads first makes the products plain batched matrix products, which XLA's CPU backend runs faster than the other order.
    """
    scores = jnp.einsum("bgrtk,bgsk->bgrts", q, k, preferred_element_type=jnp.float32)
    if score is not None:
        scores = scores + score.reshape(score.shape[0], *q.shape[1:3], *score.shape[2:])
    scores = jnp.where(visible[:, None, None], scores, jnp.finfo(jnp.float32).min)
    return jnp.einsum("bgrts,bgsk->bgrtk", drop(jax.nn.softmax(scores, axis=-1).astype(v.dtype)), v)


def _heads_first(q, k, v, scale):
    """[B, T, H, K] and [B, S, G, K] to what `_attend` takes: query head h reads key head h G / H."""
    B, T, H, K = q.shape
    G = k.shape[2]
    q = (q * scale).reshape(B, T, G, H // G, K).transpose(0, 2, 3, 1, 4)
    return q, k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)


def _tokens_first(attended):
    """[B, G, R, T, K] back to [B, T, H, K]."""
    B, G, R, T, K = attended.shape
    return attended.transpose(0, 3, 1, 2, 4).reshape(B, T, G * R, K)


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

    def drop(probabilities):
        return context.dropout(probabilities, dropout, "attention/probabilities")

    return _tokens_first(_attend(*_heads_first(q, k, v, scale), context.visible(window), score, drop))


QUERY_BLOCKS = 4


def blocks(length: int, window: int) -> list[tuple[slice, slice]]:
    """Cuts the queries of a causal row whose tokens are in order into blocks, each with the range of keys that it can see.

    A query sees no later token, and with a window none that is `window` or more tokens before it; packed documents only see less.
    """
    size = length // QUERY_BLOCKS if length % QUERY_BLOCKS == 0 else length
    return [(slice(start, start + size), slice(max(0, start - window + 1) if window else 0, start + size))
            for start in range(0, length, size)]


def rows_attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G K"],
    context: Context,
    window: int,
    scale: float,
    score: Float[Array, "B H T S"] | None,
    dropout: float,
) -> Float[Array, "B T H K"]:
    """What `einsum_attention` computes, one row of the batch at a time and in blocks of queries that skip the keys they cannot see.

    The probabilities are computed again on the way back, so that the scores of one block of one row exist at a time. That fits a
    CPU's cache: forward and backward take 0.64 of the time of the whole batch at once (4 heads of 64, T 256, B 16, two cores).
    """
    del dropout  # Refused with the config.
    per_row = {"positions": context.positions, "documents": context.documents, "score": score}
    shared = {name: x for name, x in per_row.items() if x is None or x.shape[0] == 1}
    mapped = {name: x[:, None] for name, x in per_row.items() if name not in shared}

    everything = [(slice(None), slice(None))]
    ranges = blocks(q.shape[1], window) if context.causal and context.in_order else everything

    def row(inputs):
        q, k, v, own = inputs
        structure = shared | own
        alone = Context(structure["positions"], structure["documents"], context.causal)
        score = structure["score"]
        q, k, v = _heads_first(q[None], k[None], v[None], scale)
        parts = [
            _attend(q[..., queries, :], k[..., keys, :], v[..., keys, :], alone.visible(window, queries, keys),
                    None if score is None else score[..., queries, keys], lambda probabilities: probabilities)
            for queries, keys in ranges
        ]
        return _tokens_first(jnp.concatenate(parts, axis=3))[0]

    return jax.lax.map(jax.checkpoint(row, prevent_cse=False), (q, k, v, mapped))


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
    structured = context.causal and context.in_order and context.documents is None
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


KERNELS = {"einsum": einsum_attention, "rows": rows_attention, "xla": xla_attention, "cudnn": cudnn_attention}


def choose_kernel(
    kernel: str, platform: str, devices: int, dtype: str, score: bool, documents: bool, dropout: bool, head_dim: int
) -> str:
    """Resolves `attention.kernel=auto` to the fastest kernel that can do what is asked.

    Args:
        kernel: name from the config.
        platform: "cpu", "gpu" or "tpu".
        devices: number of devices; a batch that is split over several is not walked through row by row.
        dtype, score, documents, dropout, head_dim: what the config asks of the kernel.
    """
    if kernel != "auto":
        return kernel
    asked = {"score": score, "documents": documents, "dropout": dropout}

    def able(name: str) -> bool:
        can = ATTENTION_KERNELS[name]
        fits = dtype in can["dtypes"] and head_dim in can["head_dims"] and platform in can["platforms"]
        return fits and all(can[feature] for feature, wanted in asked.items() if wanted)

    if able("cudnn"):
        return "cudnn"
    return "rows" if platform == "cpu" and devices == 1 and able("rows") else "einsum"
