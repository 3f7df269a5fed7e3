"""Cross-entropy of a linear head, a chunk of tokens at a time, with its gradient made on the way forward.

The logits of a whole batch are the largest array of a small language model. Here those of one chunk exist at a time, and their
gradient is turned into that of the hidden states and of the head at once, so that no logits are kept or computed again.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.models.head import Prediction, logits


def number_of_chunks(batch: int, length: int, chunk_tokens: int) -> int:
    """How many parts to cut the sequences into, so that a part of all of them is about `chunk_tokens` tokens; 1 for 0."""
    return min(length, -(-batch * length // chunk_tokens)) if chunk_tokens else 1


def cross_entropy(
    prediction: Prediction, targets: Int[Array, "B T"], weights: Float[Array, "B T"], chunk_tokens: int, z_loss: float = 0.0,
    smoothing: float = 0.0,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Sums over tokens of weight * (-sum_v q_v log softmax(logits)_v + z_loss * log(sum exp logits)^2), in nats and float32.

    q_v = (1 - smoothing) [v = target] + smoothing / V: without smoothing the first term is -log softmax(logits)[target], with it the labels
    are smoothed (Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4, with 0.1). The second term keeps the normaliser near 1
    (PaLM, Chowdhery et al. 2022, section 5, with 1e-4).

    Args:
        prediction: hidden states in the compute type, and the head; its matrix is used in their type.
        targets: token ids; where the weight is 0, any valid id.
        weights: weight of each token.
        chunk_tokens: about how many tokens' logits exist at once; 0 for all of them.
        z_loss: weight of the second term.
        smoothing: share of a target's probability that is spread over all V ids.

    Returns:
        (the sum, the sum of -log softmax(logits)[target] alone). The first is differentiable once, in the prediction's arrays. The second
        is what compares between models trained with and without the others; it is a report and has no gradient.
    """
    hidden, head, bias, softcap = prediction
    total, entropy = _sums(hidden, head, bias, targets, weights, softcap, chunk_tokens, z_loss, smoothing)
    return total, jax.lax.stop_gradient(entropy)


def in_chunks(x: Array, parts: int) -> Array:
    """[B, T, ...] -> [parts, B, T / parts, ...]: chunks run along the sequence, so that a sharded batch stays in place.

    A length that does not divide is filled up with zeros, which weigh nothing.
    """
    size = -(-x.shape[1] // parts)
    if size * parts != x.shape[1]:
        x = jnp.pad(x, [(0, 0), (0, size * parts - x.shape[1])] + [(0, 0)] * (x.ndim - 2))
    return jnp.moveaxis(x.reshape(x.shape[0], parts, size, *x.shape[2:]), 1, 0)


def _chunk_loss(hidden, head, bias, targets, weights, softcap, z_loss, smoothing):
    """Both sums of one chunk, flattened to 2-D, and what its gradient needs."""
    scores = logits(Prediction(hidden[None], head, bias, softcap))[0]
    log_normalizer = jax.nn.logsumexp(scores, axis=-1)
    score = jnp.take_along_axis(scores, targets[:, None], axis=-1)[:, 0]
    entropy = jnp.sum((log_normalizer - score) * weights)
    total = entropy + z_loss * jnp.sum(jnp.square(log_normalizer) * weights) if z_loss else entropy
    if smoothing:
        # -log p(target) becomes log Z - (1 - e) score - e mean(scores), of which log Z - score is there already.
        total = total + smoothing * jnp.sum((score - scores.mean(axis=-1)) * weights)
    return (total, entropy), scores, log_normalizer


def _flat(x: Array, keep: int) -> Array:
    return x.reshape(-1, *x.shape[x.ndim - keep :])


@partial(jax.custom_vjp, nondiff_argnums=(5, 6, 7, 8))
def _sums(hidden, head, bias, targets, weights, softcap, chunk_tokens, z_loss, smoothing):
    parts = number_of_chunks(*targets.shape, chunk_tokens)
    head = head.astype(hidden.dtype)

    def body(totals, chunk):
        h, t, w = chunk
        sums = _chunk_loss(_flat(h, 1), head, bias, t.reshape(-1), w.reshape(-1), softcap, z_loss, smoothing)[0]
        return jax.tree.map(jnp.add, totals, sums), None

    chunks = tuple(in_chunks(x, parts) for x in (hidden, targets, weights))
    return jax.lax.scan(body, (jnp.zeros((), jnp.float32),) * 2, chunks)[0]


def _forward(hidden, head, bias, targets, weights, softcap, chunk_tokens, z_loss, smoothing):
    parts = number_of_chunks(*targets.shape, chunk_tokens)
    cast = head.astype(hidden.dtype)

    def body(carry, chunk):
        totals, d_head, d_bias = carry  # d_head is [D, V]: with the narrower matrix on the left its product is faster on a CPU.
        h, t, w = chunk
        h, t, w = _flat(h, 1), t.reshape(-1), w.reshape(-1)
        sums, scores, log_normalizer = _chunk_loss(h, cast, bias, t, w, softcap, z_loss, smoothing)
        is_target = jnp.arange(scores.shape[-1]) == t[:, None]
        probabilities = jnp.exp(scores - log_normalizer[:, None])
        if z_loss:
            probabilities = probabilities * (1 + 2 * z_loss * log_normalizer)[:, None]
        wanted = (1 - smoothing) * is_target + smoothing / scores.shape[-1] if smoothing else is_target
        d_scores = (probabilities - wanted) * w[:, None]
        if softcap:
            d_scores = d_scores * (1 - jnp.square(scores / softcap))
        if bias is not None:
            d_bias = d_bias + d_scores.sum(axis=0)
        d_scores = d_scores.astype(h.dtype)
        d_head = d_head + jnp.einsum("nd,nv->dv", h, d_scores, preferred_element_type=jnp.float32)
        return (jax.tree.map(jnp.add, totals, sums), d_head, d_bias), (d_scores @ cast).reshape(chunk[0].shape)

    zero = jnp.zeros((), jnp.float32)
    carry = ((zero, zero), jnp.zeros(head.shape[::-1], jnp.float32), None if bias is None else jnp.zeros(bias.shape, jnp.float32))
    chunks = tuple(in_chunks(x, parts) for x in (hidden, targets, weights))
    if parts == 1:
        (totals, d_head, d_bias), d_hidden = body(carry, tuple(x[0] for x in chunks))
        return totals, (d_hidden, d_head.T, d_bias)
    (totals, d_head, d_bias), d_chunks = jax.lax.scan(body, carry, chunks)
    d_hidden = jnp.moveaxis(d_chunks, 0, 1).reshape(hidden.shape[0], -1, hidden.shape[2])[:, : hidden.shape[1]]
    return totals, (d_hidden, d_head.T, d_bias)


def _backward(softcap, chunk_tokens, z_loss, smoothing, residuals, cotangents):
    cotangent, _ = cotangents
    return *((None if x is None else (cotangent * x).astype(x.dtype)) for x in residuals), None, None


_sums.defvjp(_forward, _backward)
