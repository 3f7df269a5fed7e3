"""Cross-entropy of a linear head, a chunk of tokens at a time, with its gradient made on the way forward.

The logits of a whole batch are the largest array of a small language model. Here those of one chunk exist at a time, and their
gradient is turned into that of the hidden states and of the head at once, so that no logits are kept or computed again.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def number_of_chunks(batch: int, length: int, chunk_tokens: int) -> int:
    """How many parts to cut the sequences into, so that a part of all of them is about `chunk_tokens` tokens; 1 for 0."""
    return min(length, -(-batch * length // chunk_tokens)) if chunk_tokens else 1


def _chunks(x: Array, parts: int) -> Array:
    """[B, T, ...] -> [parts, B, T / parts, ...]: chunks run along the sequence, so that a sharded batch stays in place.

    A length that does not divide is filled up with zeros, which weigh nothing.
    """
    size = -(-x.shape[1] // parts)
    if size * parts != x.shape[1]:
        x = jnp.pad(x, [(0, 0), (0, size * parts - x.shape[1])] + [(0, 0)] * (x.ndim - 2))
    return jnp.moveaxis(x.reshape(x.shape[0], parts, size, *x.shape[2:]), 1, 0)


def _chunk_loss(hidden, head, targets, weights):
    """Loss of one chunk, flattened to 2-D, and what its gradient needs."""
    logits = jnp.einsum("nd,vd->nv", hidden, head, preferred_element_type=jnp.float32)
    log_normalizer = jax.nn.logsumexp(logits, axis=-1)
    score = jnp.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
    return jnp.sum((log_normalizer - score) * weights), logits, log_normalizer


def _flat(x: Array, keep: int) -> Array:
    return x.reshape(-1, *x.shape[x.ndim - keep :])


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def cross_entropy(
    hidden: Float[Array, "B T D"], head: Float[Array, "V D"], targets: Int[Array, "B T"], weights: Float[Array, "B T"], chunk_tokens: int
) -> Float[Array, ""]:
    """Sum over tokens of weight * -log softmax(hidden head^T)[target], in nats and float32.

    Args:
        hidden: hidden states, in the compute type.
        head: output matrix, float32; used in the type of `hidden`.
        targets: token ids; where the weight is 0, any valid id.
        weights: weight of each token.
        chunk_tokens: about how many tokens' logits exist at once; 0 for all of them.

    Differentiable once, in `hidden` and `head`.
    """
    parts = number_of_chunks(*targets.shape, chunk_tokens)
    head = head.astype(hidden.dtype)

    def body(total, chunk):
        h, t, w = chunk
        return total + _chunk_loss(_flat(h, 1), head, t.reshape(-1), w.reshape(-1))[0], None

    chunks = tuple(_chunks(x, parts) for x in (hidden, targets, weights))
    return jax.lax.scan(body, jnp.zeros((), jnp.float32), chunks)[0]


def _forward(hidden, head, targets, weights, chunk_tokens):
    parts = number_of_chunks(*targets.shape, chunk_tokens)
    cast = head.astype(hidden.dtype)

    def body(carry, chunk):
        total, d_head = carry  # d_head is [D, V]: with the narrower matrix on the left its product is faster on a CPU.
        h, t, w = chunk
        h, t, w = _flat(h, 1), t.reshape(-1), w.reshape(-1)
        loss, logits, log_normalizer = _chunk_loss(h, cast, t, w)
        is_target = jnp.arange(logits.shape[-1]) == t[:, None]
        d_logits = ((jnp.exp(logits - log_normalizer[:, None]) - is_target) * w[:, None]).astype(h.dtype)
        d_head = d_head + jnp.einsum("nd,nv->dv", h, d_logits, preferred_element_type=jnp.float32)
        return (total + loss, d_head), (d_logits @ cast).reshape(chunk[0].shape)

    carry = (jnp.zeros((), jnp.float32), jnp.zeros(head.shape[::-1], jnp.float32))
    chunks = tuple(_chunks(x, parts) for x in (hidden, targets, weights))
    if parts == 1:
        (total, d_head), d_hidden = body(carry, tuple(x[0] for x in chunks))
        return total, (d_hidden, d_head.T)
    (total, d_head), d_chunks = jax.lax.scan(body, carry, chunks)
    d_hidden = jnp.moveaxis(d_chunks, 0, 1).reshape(hidden.shape[0], -1, hidden.shape[2])[:, : hidden.shape[1]]
    return total, (d_hidden, d_head.T)


def _backward(chunk_tokens, residuals, cotangent):
    d_hidden, d_head = residuals
    return (cotangent * d_hidden).astype(d_hidden.dtype), cotangent * d_head, None, None


cross_entropy.defvjp(_forward, _backward)
