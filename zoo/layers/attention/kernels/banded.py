"""Sliding windows in time and memory linear in T: the sequence is cut into blocks that see
themselves and their neighbours.

Each block becomes a row, so every kernel, mask and position scheme works unchanged on shorter
rows.
"""

from collections.abc import Callable
from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context

MIN_BLOCK = 64
AttentionFunction = Callable[[Array, Array, Array, Context, Scoring], Array]


def block_length(length: int, window: int, causal: bool) -> int:
    """Returns the number of tokens per block, at least as many as a query sees on one side; 0 if
    splitting into blocks would save nothing.
    """
    reach = window - 1 if causal else (window - 1) // 2
    size = max(reach, MIN_BLOCK)
    return size if window and length >= 4 * size else 0


def _cut(x: Array, size: int, fill: int) -> Shaped[Array, "B N c ..."]:
    """Cuts [B, T, ...] to [B, N, c, ...], padded at the end."""
    x = jnp.pad(x, [(0, 0), (0, -x.shape[1] % size)] + [(0, 0)] * (x.ndim - 2), constant_values=fill)
    return x.reshape(x.shape[0], -1, size, *x.shape[2:])


def _neighbourhoods(x: Array, size: int, causal: bool, fill: int) -> Shaped[Array, "B N m ..."]:
    """Returns [B, N, 2c or 3c, ...] from [B, T, ...]: the previous block, each block, and, if not
    causal, the next.
    """
    cut = _cut(x, size, fill)
    edge = jnp.full_like(cut[:, :1], fill)
    parts = [jnp.concatenate([edge, cut[:, :-1]], axis=1), cut]
    if not causal:
        parts.append(jnp.concatenate([cut[:, 1:], edge], axis=1))
    return jnp.concatenate(parts, axis=2)


def banded_attention(
    kernel: AttentionFunction,
    size: int,
    q: Float[Array, "B T H K"],
    k: Float[Array, "B T G K"],
    v: Float[Array, "B T G V"],
    context: Context,
    scoring: Scoring,
) -> Float[Array, "B T H V"]:
    """Computes what `kernel` computes for a window, in O(T * size).

    Args:
        kernel: the kernel that attends within the blocks.
        size: tokens of a block, from `block_length`.
        q, k, v, context, scoring: arguments of the kernel. Tokens must be in order
            (`Context.in_order`). Every block sees the first `scoring.global_tokens` keys; the
            caller computes the output of their own queries.
    """
    B, T = q.shape[:2]
    first = scoring.global_tokens
    blocks = -(-T // size)

    def rows(x: Array) -> Array:
        """[B or 1, N, ...] -> [B N, ...]."""
        return jnp.broadcast_to(x, (B, *x.shape[1:])).reshape(B * blocks, *x.shape[2:])

    def keys(x: Array, fill: int = 0) -> Array:
        near = _neighbourhoods(x, size, context.causal, fill)
        if not first:
            return rows(near)
        everywhere = jnp.broadcast_to(x[:, None, :first], (x.shape[0], blocks, *x[:, :first].shape[1:]))
        return rows(jnp.concatenate([everywhere, near], axis=2))

    places = jnp.arange(T)[None]
    key_positions = keys(context.positions, -1)
    if first:
        # A global token inside the window must not be counted twice.
        near_again = jnp.arange(key_positions.shape[1]) >= first
        key_positions = jnp.where(near_again & (keys(places, T) < first), -1, key_positions)
    folded = replace(
        context, positions=rows(_cut(context.positions, size, -1)), key_positions=key_positions, in_order=False,
        no_padding=False, padding_last=False,
        documents=None if context.documents is None else rows(_cut(context.documents, size, -1)),
        key_documents=None if context.documents is None else keys(context.documents, -1),
    )  # fmt: skip
    shared = scoring.shared
    if shared is not None:
        shared = rows(_shared_blocks(shared, size, context.causal, first))
    attended = kernel(rows(_cut(q, size, 0)), keys(k), keys(v), folded, replace(scoring, shared=shared))
    return attended.reshape(B, blocks * size, *attended.shape[2:])[:, :T]


def _shared_blocks(shared: Float[Array, "#B H T S"], size: int, causal: bool, first: int) -> Float[Array, "B N H c m"]:
    """Returns the part of a T x S array of scores that each block needs."""
    blocks = -(-shared.shape[2] // size)
    pad = blocks * size - shared.shape[2]
    padded = jnp.pad(shared, [(0, 0), (0, 0), (0, pad), (size, pad + size)])
    width = (2 if causal else 3) * size
    parts = []
    for block in range(blocks):
        queries = slice(block * size, (block + 1) * size)
        near = padded[:, :, queries, block * size : block * size + width]
        parts.append(jnp.concatenate([padded[:, :, queries, size : size + first], near], axis=-1) if first else near)
    return jnp.stack(parts, axis=1)
