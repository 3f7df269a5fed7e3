"""Cross-entropy of a linear head, a chunk of tokens at a time, with its gradient made on the way
forward; and beside a teacher's head.

The logits of a whole batch are the largest array of a small language model. Here those of one chunk
exist at a time, and their gradient is turned into that of the hidden states and of the head at
once, so that no logits are kept or computed again.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.models.head import Prediction, logits


def number_of_chunks(batch: int, length: int, chunk_tokens: int) -> int:
    """How many parts to cut the sequences into, so that a part of all of them is about
    `chunk_tokens` tokens; 1 for 0.
    """
    return min(length, -(-batch * length // chunk_tokens)) if chunk_tokens else 1


Number = float | Float[Array, ""]


class Terms(NamedTuple):
    """What is summed over the tokens, and with which weights; None for what is left out.

    Attributes:
        z_loss, smoothing: as `cross_entropy`.
        hard, kl, temperature: as `distilled_cross_entropy`.
    """

    z_loss: Number | None = None
    smoothing: Number | None = None
    hard: Number | None = None
    kl: Number | None = None
    temperature: Number | None = None


def unless_zero(number: Number) -> Number | None:
    """None for 0, where it is known; an argument of a program is not."""
    return None if isinstance(number, int | float) and number == 0 else number


def cross_entropy(
    prediction: Prediction,
    targets: Int[Array, "B T"],
    weights: Float[Array, "B T"],
    chunk_tokens: int,
    z_loss: Number = 0.0,
    smoothing: Number = 0.0,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Sums over tokens of weight * (-sum_v q_v log softmax(logits)_v + z_loss * log(sum exp
    logits)^2), in nats and float32.

    q_v = (1 - smoothing) [v = target] + smoothing / V: without smoothing the first term is -log
    softmax(logits)[target], with it the labels are smoothed (Szegedy et al. 2016, section 7;
    Vaswani et al. 2017, section 5.4, with 0.1). The second term keeps the normaliser near 1 (PaLM,
    Chowdhery et al. 2022, section 5, with 1e-4).

    Args:
        prediction: hidden states in the compute type, and the head; its matrix is used in their
            type.
        targets: token ids; where the weight is 0, any valid id.
        weights: weight of each token.
        chunk_tokens: about how many tokens' logits exist at once; 0 for all of them.
        z_loss: weight of the second term.
        smoothing: share of a target's probability that is spread over all V ids.

    Returns:
        (the sum, the sum of -log softmax(logits)[target] alone). The first is differentiable once,
        in the prediction's arrays. The second is what compares between models trained with and
        without the others; it is a report and has no gradient.
    """
    hidden, head, bias, softcap = prediction
    terms = Terms(unless_zero(z_loss), unless_zero(smoothing))
    total, entropy, _ = _sums(hidden, head, bias, None, targets, weights, terms, (softcap, 0.0), chunk_tokens)
    return total, jax.lax.stop_gradient(entropy)


def distilled_cross_entropy(
    prediction: Prediction,
    teacher: Prediction,
    targets: Int[Array, "B T"],
    weights: Float[Array, "B T"],
    chunk_tokens: int,
    kl: Number,
    temperature: Number,
    hard: Number = 1.0,
    z_loss: Number = 0.0,
    smoothing: Number = 0.0,
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """Sums over tokens of weight * (hard * H + kl * T^2 KL(p || q)), in nats and float32.

    H is the sum of `cross_entropy`, with what it may add; p = softmax(teacher's logits / T), q =
    softmax(logits / T), KL(p || q) = sum_v p_v log (p_v / q_v). The gradient of T^2 KL in the
    logits is T (q - p): about (logits - teacher's) / V where T is large, whatever it is, so that
    the weights keep their meaning when T changes (Hinton et al. 2015, section 2 and eq. 4). Of both
    models the scores of one chunk exist at a time.

    Args:
        prediction, targets, weights, chunk_tokens, z_loss, smoothing: as `cross_entropy`.
        teacher: what the teacher predicts in the same places; a width of its own, the same V. It
            gets no gradient.
        kl: weight of the divergence.
        temperature: T.
        hard: weight of H.

    Returns:
        (the sum, the sum of -log softmax(logits)[target] alone, that of T^2 KL alone). Only the
        first has a gradient.
    """
    hidden, head, bias, softcap = prediction
    terms = Terms(unless_zero(z_loss), unless_zero(smoothing), hard, kl, temperature)
    total, *reports = _sums(
        hidden, head, bias, tuple(teacher[:3]), targets, weights, terms, (softcap, teacher.softcap), chunk_tokens
    )
    return total, *jax.lax.stop_gradient(reports)


def in_chunks(x: Array, parts: int) -> Array:
    """[B, T, ...] -> [parts, B, T / parts, ...]: chunks run along the sequence, so that a sharded
    batch stays in place.

    A length that does not divide is filled up with zeros, which weigh nothing.
    """
    size = -(-x.shape[1] // parts)
    if size * parts != x.shape[1]:
        x = jnp.pad(x, [(0, 0), (0, size * parts - x.shape[1])] + [(0, 0)] * (x.ndim - 2))
    return jnp.moveaxis(x.reshape(x.shape[0], parts, size, *x.shape[2:]), 1, 0)


def _flat(x: Array, keep: int) -> Array:
    return x.reshape(-1, *x.shape[x.ndim - keep :])


def _cast(matrix, teacher, dtype):
    """The head in the compute type, and the teacher's in its own."""
    return matrix.astype(dtype), None if teacher is None else (teacher[1].astype(teacher[0].dtype), teacher[2])


def _chunk_loss(chunk, head, bias, its_head, terms, softcaps):
    """The three sums of one chunk, flattened to 2-D, and what its gradient needs."""
    hidden, its_hidden, targets, weights = chunk
    scores = logits(Prediction(hidden[None], head, bias, softcaps[0]))[0]
    log_normalizer = jax.nn.logsumexp(scores, axis=-1)
    score = jnp.take_along_axis(scores, targets[:, None], axis=-1)[:, 0]
    entropy = jnp.sum((log_normalizer - score) * weights)
    total = (
        entropy + terms.z_loss * jnp.sum(jnp.square(log_normalizer) * weights) if terms.z_loss is not None else entropy
    )
    if terms.smoothing is not None:
        # -log p(target) becomes log Z - (1 - e) score - e mean(scores), of which log Z - score is
        # there already.
        total = total + terms.smoothing * jnp.sum((score - scores.mean(axis=-1)) * weights)
    if its_head is None:
        return (total, entropy, jnp.zeros((), jnp.float32)), scores, log_normalizer, None
    its_scores = logits(Prediction(its_hidden[None], *its_head, softcaps[1]))[0]
    log_p, log_q = (jax.nn.log_softmax(values / terms.temperature, axis=-1) for values in (its_scores, scores))
    p = jnp.exp(log_p)
    divergence = terms.temperature**2 * jnp.sum((p * (log_p - log_q)).sum(axis=-1) * weights)
    return (terms.hard * total + terms.kl * divergence, entropy, divergence), scores, log_normalizer, jnp.exp(log_q) - p


def _chunks(hidden, teacher, targets, weights, parts):
    """What runs over the tokens, in parts; the teacher's hidden states among it."""
    return tuple(
        None if x is None else in_chunks(x, parts)
        for x in (hidden, None if teacher is None else teacher[0], targets, weights)
    )


def _two_dimensional(chunk):
    hidden, its_hidden, targets, weights = chunk
    return (
        _flat(hidden, 1),
        None if its_hidden is None else _flat(its_hidden, 1),
        targets.reshape(-1),
        weights.reshape(-1),
    )


@partial(jax.custom_vjp, nondiff_argnums=(7, 8))
def _sums(hidden, head, bias, teacher, targets, weights, terms, softcaps, chunk_tokens):
    parts = number_of_chunks(*targets.shape, chunk_tokens)
    head, its_head = _cast(head, teacher, hidden.dtype)

    def body(totals, chunk):
        sums = _chunk_loss(_two_dimensional(chunk), head, bias, its_head, terms, softcaps)[0]
        return jax.tree.map(jnp.add, totals, sums), None

    return jax.lax.scan(body, (jnp.zeros((), jnp.float32),) * 3, _chunks(hidden, teacher, targets, weights, parts))[0]


def _d_scores(scores, log_normalizer, gap, targets, weights, terms, softcap):
    """The gradient of a chunk's sum in its scores before the cap, [N, V]."""
    is_target = jnp.arange(scores.shape[-1]) == targets[:, None]
    probabilities = jnp.exp(scores - log_normalizer[:, None])
    if terms.z_loss is not None:
        probabilities = probabilities * (1 + 2 * terms.z_loss * log_normalizer)[:, None]
    wanted = (
        (1 - terms.smoothing) * is_target + terms.smoothing / scores.shape[-1]
        if terms.smoothing is not None
        else is_target
    )
    difference = probabilities - wanted
    if gap is not None:
        difference = terms.hard * difference + terms.kl * terms.temperature * gap
    d_scores = difference * weights[:, None]
    return d_scores * (1 - jnp.square(scores / softcap)) if softcap else d_scores


def _forward(hidden, head, bias, teacher, targets, weights, terms, softcaps, chunk_tokens):
    parts = number_of_chunks(*targets.shape, chunk_tokens)
    cast, its_head = _cast(head, teacher, hidden.dtype)

    def body(carry, chunk):
        totals, d_head, d_bias = (
            carry  # d_head is [D, V]: with the narrower matrix on the left its product is faster on a CPU.
        )
        flat = h, _, t, w = _two_dimensional(chunk)
        sums, scores, log_normalizer, gap = _chunk_loss(flat, cast, bias, its_head, terms, softcaps)
        d_scores = _d_scores(scores, log_normalizer, gap, t, w, terms, softcaps[0])
        if bias is not None:
            d_bias = d_bias + d_scores.sum(axis=0)
        d_scores = d_scores.astype(h.dtype)
        d_head = d_head + jnp.einsum("nd,nv->dv", h, d_scores, preferred_element_type=jnp.float32)
        return (jax.tree.map(jnp.add, totals, sums), d_head, d_bias), (d_scores @ cast).reshape(chunk[0].shape)

    zeros = (jnp.zeros((), jnp.float32),) * 3
    carry = (
        zeros,
        jnp.zeros(head.shape[::-1], jnp.float32),
        None if bias is None else jnp.zeros(bias.shape, jnp.float32),
    )
    chunks = _chunks(hidden, teacher, targets, weights, parts)
    if parts == 1:
        (totals, d_head, d_bias), d_hidden = body(carry, jax.tree.map(lambda x: x[0], chunks))
        return totals, (d_hidden, d_head.T, d_bias)
    (totals, d_head, d_bias), d_chunks = jax.lax.scan(body, carry, chunks)
    d_hidden = jnp.moveaxis(d_chunks, 0, 1).reshape(hidden.shape[0], -1, hidden.shape[2])[:, : hidden.shape[1]]
    return totals, (d_hidden, d_head.T, d_bias)


def _backward(softcaps, chunk_tokens, residuals, cotangents):
    cotangent, *_ = cotangents
    return *((None if x is None else (cotangent * x).astype(x.dtype)) for x in residuals), None, None, None, None


_sums.defvjp(_forward, _backward)
