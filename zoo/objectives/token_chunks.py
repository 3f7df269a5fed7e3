"""Chunks of tokens: how many tokens' logits exist at once, on each device."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array

from zoo.config import AUTO

ACCELERATOR_CHUNK_TOKENS = 8192
"""With fewer tokens the products of the head do not fill an accelerator, and its gradient, which has
the size of the head, is read and written more often than it need be."""
CPU_CHUNK_BYTES = 32e6
"""A chunk's logits stay near the size of a CPU's last cache."""


def default_chunk_tokens(vocab_size: int, platform: str) -> int:
    """Returns the number of tokens of a chunk for `objective.chunk_tokens=auto`.

    Args:
        vocab_size: V.
        platform: "cpu", "gpu" or "tpu".
    """
    if platform != "cpu":
        return ACCELERATOR_CHUNK_TOKENS
    return max(1024, 2 ** round(math.log2(CPU_CHUNK_BYTES / (4 * vocab_size))))


def chunk_tokens(setting: int | str, vocab_size: int) -> int:
    """Returns the number of tokens of a chunk for the value of `objective.chunk_tokens`; 0 for all
    tokens of a device.
    """
    return default_chunk_tokens(vocab_size, jax.default_backend()) if setting == AUTO else setting


def number_of_chunks(batch: int, length: int, size: int) -> int:
    """Returns into how many parts to cut the sequences, so that one part of all of them has about
    `size` tokens; 1 for 0.
    """
    return min(length, -(-batch * length // size)) if size else 1


def in_chunks(x: Array, parts: int) -> Array:
    """Cuts [B, T, ...] to [parts, B, T / parts, ...], along the sequence, so that a sharded batch
    stays in place.

    A length that does not divide is padded with zeros, which have no weight.
    """
    size = -(-x.shape[1] // parts)
    if size * parts != x.shape[1]:
        x = jnp.pad(x, [(0, 0), (0, size * parts - x.shape[1])] + [(0, 0)] * (x.ndim - 2))
    return jnp.moveaxis(x.reshape(x.shape[0], parts, size, *x.shape[2:]), 1, 0)
