"""Sliding windows in time and memory linear in T: the sequence is cut into blocks, which see
themselves and their neighbours.

A block becomes a row of its own, so that every kernel, mask and position scheme works as it is, on
shorter rows.
"""

from collections.abc import Callable
from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.layers.context import Context
from zoo.layers.kernels import Scoring

SMALLEST_BLOCK = 64
Kernel = Callable[[Array, Array, Array, Context, Scoring], Array]


def block_length(length: int, window: int, causal: bool) -> int:
    """Tokens of a block, at least as many as a token sees on one side; 0 where cutting would save
    nothing.
    """
    reach = window - 1 if causal else (window - 1) // 2
    size = max(reach, SMALLEST_BLOCK)
    return size if window and length >= 4 * size else 0


def _cut(x: Array, size: int, fill: float) -> Float[Array, "B N c ..."]:
    """[B, T, ...] -> [B, N, c, ...], filled up at the end."""
    x = jnp.pad(x, [(0, 0), (0, -x.shape[1] % size)] + [(0, 0)] * (x.ndim - 2), constant_values=fill)
    return x.reshape(x.shape[0], -1, size, *x.shape[2:])


def _neighbourhoods(x: Array, size: int, causal: bool, fill: float) -> Float[Array, "B N m ..."]:
    """[B, T, ...] -> [B, N, 2c or 3c, ...]: each block after the one before it, and where not
    causal before the one after it.
    """
    cut = _cut(x, size, fill)
    edge = jnp.full_like(cut[:, :1], fill)
    parts = [jnp.concatenate([edge, cut[:, :-1]], axis=1), cut]
    if not causal:
        parts.append(jnp.concatenate([cut[:, 1:], edge], axis=1))
    return jnp.concatenate(parts, axis=2)


def banded_attention(
    kernel: Kernel,
    size: int,
    q: Float[Array, "B T H K"],
    k: Float[Array, "B T G K"],
    v: Float[Array, "B T G K"],
    context: Context,
    scoring: Scoring,
) -> Float[Array, "B T H K"]:
    """What `kernel` computes for a window, in O(T * size). Tokens must be in order
    (`Context.in_order`).

    Args:
        kernel: the kernel that attends within the blocks.
        size: tokens of a block, from `block_length`.
        q, k, v, context, scoring: as for the kernel. The first `scoring.global_tokens` keys are
            seen by every block; what their own queries see is left to the caller.
    """
    B, T = q.shape[:2]
    first = scoring.global_tokens
    blocks = -(-T // size)

    def rows(x: Array) -> Array:
        """[B or 1, N, ...] -> [B N, ...]."""
        return jnp.broadcast_to(x, (B, *x.shape[1:])).reshape(B * blocks, *x.shape[2:])

    def keys(x: Array, fill: float = 0) -> Array:
        near = _neighbourhoods(x, size, context.causal, fill)
        if not first:
            return rows(near)
        everywhere = jnp.broadcast_to(x[:, None, :first], (x.shape[0], blocks, *x[:, :first].shape[1:]))
        return rows(jnp.concatenate([everywhere, near], axis=2))

    places = jnp.arange(T)[None]
    key_positions = keys(context.positions, -1)
    if first:
        # A global token that is also near must not be counted twice.
        near_again = jnp.arange(key_positions.shape[1]) >= first
        key_positions = jnp.where(near_again & (keys(places, T) < first), -1, key_positions)
    folded = replace(
        context, positions=rows(_cut(context.positions, size, -1)), key_positions=key_positions, in_order=False,
        documents=None if context.documents is None else rows(_cut(context.documents, size, -1)),
        key_documents=None if context.documents is None else keys(context.documents, -1),
    )  # fmt: skip
    shared = scoring.shared
    if shared is not None:
        shared = rows(_shared_blocks(shared, size, context.causal, first))
    attended = kernel(rows(_cut(q, size, 0)), keys(k), keys(v), folded, replace(scoring, shared=shared))
    return attended.reshape(B, blocks * size, *attended.shape[2:])[:, :T]


def _shared_blocks(shared: Float[Array, "B H T S"], size: int, causal: bool, first: int) -> Float[Array, "B N H c m"]:
    """The part of a T x S array of scores that each block needs."""
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
