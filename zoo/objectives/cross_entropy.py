"""Cross-entropy of a linear head, a chunk of tokens at a time, with its gradient computed in the
forward pass; also with a teacher's predictions.

The logits of a whole batch are the largest array of a small language model. Here the logits of only
one chunk exist at a time, and their gradient is turned directly into that of the hidden states and
of the head, so no logits are kept or recomputed.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.layers.activation_sharding import ActivationSharding, merge_rows
from zoo.models.head import NEVER, LogitFactors, logits
from zoo.objectives.token_chunks import in_chunks, number_of_chunks

Scalar = float | Float[Array, ""]
"""A number of the config, or an argument of the program."""


class LossTerms(NamedTuple):
    """The terms of a loss over tokens, by their weights; None leaves a term out.

    Attributes:
        z_loss, smoothing: see `cross_entropy`.
        hard: weight of the cross-entropy with the targets, if there is a teacher.
        kl: weight of the divergence from the teacher.
        temperature: T of that divergence.
    """

    z_loss: Scalar | None = None
    smoothing: Scalar | None = None
    hard: Scalar = 1.0
    kl: Scalar = 0.0
    temperature: Scalar = 1.0


def cross_entropy(
    prediction: LogitFactors,
    targets: Int[Array, "B T"],
    weights: Float[Array, "B T"],
    chunk_tokens: int,
    z_loss: Scalar = 0.0,
    smoothing: Scalar = 0.0,
    sharding: ActivationSharding | None = None,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Sums over tokens of weight * (-sum_v q_v log softmax(logits)_v + z_loss * log(sum exp
    logits)^2), in nats and float32.

    q_v = (1 - smoothing) [v = target] + smoothing / V: without smoothing the first term is -log
    softmax(logits)[target], with it the labels are smoothed (Szegedy et al. 2016, section 7;
    Vaswani et al. 2017, section 5.4, with 0.1). The second term keeps the normaliser near 1 (PaLM,
    Chowdhery et al. 2022, section 5, with 1e-4).

    Args:
        prediction: hidden states in the compute type, and the head; its matrix is cast to their
            type.
        targets: token ids; where the weight is 0, any valid id.
        weights: weight of each token.
        chunk_tokens: about how many tokens' logits exist at once on a device; 0 for all of them.
        z_loss: weight of the second term.
        smoothing: share of a target's probability that is spread over all V ids.
        sharding: how the rows are divided over devices; None on a single one. Every device sums the
            head's gradient over its own rows, and the sums are added once, after the last chunk.

    Returns:
        (the sum, the sum of -log softmax(logits)[target] alone). The first is differentiable once,
        in the prediction's arrays. The second has no gradient; it compares models that are trained
        with and without the other terms.
    """
    terms = LossTerms(_unless_zero(z_loss), _unless_zero(smoothing))
    static = _Static(prediction.softcap, 0.0, chunk_tokens, sharding, prediction.ids)
    total, cross_entropy_sum, _ = _sums(_Student(*prediction[:3]), None, (targets, weights), terms, static)
    return total, jax.lax.stop_gradient(cross_entropy_sum)


def distilled_cross_entropy(
    prediction: LogitFactors,
    teacher: LogitFactors,
    targets: Int[Array, "B T"],
    weights: Float[Array, "B T"],
    chunk_tokens: int,
    terms: LossTerms,
    sharding: ActivationSharding | None = None,
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """Sums over tokens of weight * (hard * H + kl * T^2 KL(p || q)), in nats and float32.

    H is the sum of `cross_entropy` with its other terms; p = softmax(teacher's logits / T), q =
    softmax(logits / T), KL(p || q) = sum_v p_v log (p_v / q_v). The gradient of T^2 KL in the
    logits is T (q - p): for large T about (logits - teacher's) / V, independent of T, so the
    weights keep their meaning when T changes (Hinton et al. 2015, section 2 and eq. 4). Of both
    models the logits of one chunk exist at a time.

    Args:
        prediction, targets, weights, chunk_tokens, sharding: see `cross_entropy`.
        teacher: the teacher's prediction of the same targets; its width may differ, V is the same.
            It gets no gradient.
        terms: weights of the terms. A z-loss or a smoothing of 0 is left out.

    Returns:
        (the sum, the sum of -log softmax(logits)[target] alone, that of T^2 KL alone). Only the
        first has a gradient.
    """
    terms = terms._replace(z_loss=_unless_zero(terms.z_loss), smoothing=_unless_zero(terms.smoothing))
    ids = prediction.ids or prediction.weights.shape[0]
    static = _Static(prediction.softcap, teacher.softcap, chunk_tokens, sharding, ids)
    total, *reports = _sums(_Student(*prediction[:3]), tuple(teacher[:3]), (targets, weights), terms, static)
    return total, *jax.lax.stop_gradient(reports)


class _Student(NamedTuple):
    """The arrays of `LogitFactors`, which get the gradient."""

    hidden: Float[Array, "B T D"]
    head: Float[Array, "V D"]
    bias: Float[Array, " V"] | None


class _Static(NamedTuple):
    softcap: float
    teacher_softcap: float
    chunk_tokens: int
    sharding: ActivationSharding | None
    ids: int


class _Heads(NamedTuple):
    """The student's head in the compute type, and the teacher's (matrix, bias) in its own."""

    matrix: Array
    bias: Array | None
    teacher: tuple[Array, Array | None] | None


def _unless_zero(number: Scalar | None) -> Scalar | None:
    """Returns None for a 0 that is known beforehand; an argument of a program is not."""
    return None if isinstance(number, int | float) and number == 0 else number


class _Rows(NamedTuple):
    """Arrays with a leading batch dimension: states of student and teacher, targets, weights."""

    hidden: Array
    teacher_hidden: Array | None
    targets: Array
    weights: Array


def _heads(student, teacher, sharding) -> _Heads:
    def cast(matrix, hidden):
        matrix = matrix.astype(hidden.dtype)
        return matrix if sharding is None else sharding.head(matrix)

    own = None if teacher is None else (cast(teacher[1], teacher[0]), teacher[2])
    return _Heads(cast(student.head, student.hidden), student.bias, own)


def _rows(student, teacher, scored) -> _Rows:
    return _Rows(student.hidden, None if teacher is None else teacher[0], *scored)


def _flattened(rows: _Rows) -> _Rows:
    return _Rows(*(None if x is None else x.reshape(-1, *x.shape[2:]) for x in rows))


def _in_chunks(rows: _Rows, chunk_tokens: int) -> _Rows:
    parts = number_of_chunks(*rows.targets.shape, chunk_tokens)
    return jax.tree.map(lambda x: in_chunks(x, parts), rows)


def _chunk_loss(chunk: _Rows, heads: _Heads, terms: LossTerms, static: _Static):
    """Returns the three sums of a flat chunk, and what their gradient needs."""
    hidden, teacher_hidden, targets, weights = chunk
    scores = logits(LogitFactors(hidden[None], heads.matrix, heads.bias, static.softcap, static.ids))[0]
    log_normalizer = jax.nn.logsumexp(scores, axis=-1)
    score = jnp.take_along_axis(scores, targets[:, None], axis=-1)[:, 0]
    cross_entropy_sum = jnp.sum((log_normalizer - score) * weights)
    total = cross_entropy_sum
    if terms.z_loss is not None:
        total = total + terms.z_loss * jnp.sum(jnp.square(log_normalizer) * weights)
    if terms.smoothing is not None:
        # -log p(target) becomes log Z - (1 - e) score - e mean(scores); log Z - score is in the
        # total already.
        total = total + terms.smoothing * jnp.sum((score - _mean_score(scores, static.ids)) * weights)
    if heads.teacher is None:
        return (total, cross_entropy_sum, jnp.zeros((), jnp.float32)), scores, log_normalizer, None
    teacher_scores = logits(LogitFactors(teacher_hidden[None], *heads.teacher, static.teacher_softcap))[0]
    if teacher_scores.shape != scores.shape or static.ids < scores.shape[-1]:
        # Both may be padded, to different multiples.
        padding = [(0, 0), (0, scores.shape[-1] - static.ids)]
        teacher_scores = jnp.pad(teacher_scores[:, : static.ids], padding, constant_values=NEVER)
    log_p, log_q = (jax.nn.log_softmax(values / terms.temperature, axis=-1) for values in (teacher_scores, scores))
    p = jnp.exp(log_p)
    divergence = terms.temperature**2 * jnp.sum((p * (log_p - log_q)).sum(axis=-1) * weights)
    return (
        (terms.hard * total + terms.kl * divergence, cross_entropy_sum, divergence),
        scores,
        log_normalizer,
        jnp.exp(log_q) - p,
    )


def _mean_score(scores: Float[Array, "N V"], ids: int) -> Float[Array, " N"]:
    """Returns the mean over the ids that can be predicted."""
    if ids in (0, scores.shape[-1]):
        return scores.mean(axis=-1)
    return jnp.where(jnp.arange(scores.shape[-1]) < ids, scores, 0).sum(axis=-1) / ids


def _sum_over_chunks(rows: _Rows, heads: _Heads, terms: LossTerms, static: _Static):
    """Returns the three sums of rows."""

    def body(totals, chunk):
        sums = _chunk_loss(_flattened(chunk), heads, terms, static)[0]
        return jax.tree.map(jnp.add, totals, sums), None

    return jax.lax.scan(body, (jnp.zeros((), jnp.float32),) * 3, _in_chunks(rows, static.chunk_tokens))[0]


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _sums(student, teacher, scored, terms, static):
    sharding = static.sharding
    rows, heads = _rows(student, teacher, scored), _heads(student, teacher, sharding)
    if sharding is None:
        return _sum_over_chunks(rows, heads, terms, static)
    totals = sharding.per_group(lambda part: _sum_over_chunks(part, heads, terms, static))(sharding.split_rows(rows))
    return jax.tree.map(lambda x: x.sum(axis=0), totals)


def _d_scores(scores, log_normalizer, gap, chunk: _Rows, terms: LossTerms, static: _Static):
    """Returns the gradient of a chunk's sum in its scores before the cap, [N, V]."""
    softcap, ids = static.softcap, static.ids or scores.shape[-1]
    is_target = jnp.arange(scores.shape[-1]) == chunk.targets[:, None]
    probabilities = jnp.exp(scores - log_normalizer[:, None])
    if terms.z_loss is not None:
        probabilities = probabilities * (1 + 2 * terms.z_loss * log_normalizer)[:, None]
    wanted = (1 - terms.smoothing) * is_target + terms.smoothing / ids if terms.smoothing is not None else is_target
    difference = probabilities - wanted
    if gap is not None:
        difference = terms.hard * difference + terms.kl * terms.temperature * gap
    d_scores = difference * chunk.weights[:, None]
    d_scores = d_scores * (1 - jnp.square(scores / softcap)) if softcap else d_scores
    return d_scores if ids == scores.shape[-1] else jnp.where(jnp.arange(scores.shape[-1]) < ids, d_scores, 0)


def _gradient_over_chunks(rows: _Rows, heads: _Heads, terms: LossTerms, static: _Static):
    """Returns (the three sums of rows, the gradient of the first in the hidden states [B, T, D], in
    the transposed head [D, V] and in its bias).
    """

    def body(carry, chunk):
        # d_head is [D, V]: with the narrower matrix on the left its product is faster on a CPU.
        totals, d_head, d_bias = carry
        flat = _flattened(chunk)
        sums, scores, log_normalizer, gap = _chunk_loss(flat, heads, terms, static)
        d_scores = _d_scores(scores, log_normalizer, gap, flat, terms, static)
        if heads.bias is not None:
            d_bias = d_bias + d_scores.sum(axis=0)
        d_scores = d_scores.astype(flat.hidden.dtype)
        d_head = d_head + jnp.einsum("nd,nv->dv", flat.hidden, d_scores, preferred_element_type=jnp.float32)
        if static.sharding is not None:
            d_head = static.sharding.head_gradient(d_head)
        d_hidden = (d_scores @ heads.matrix).reshape(chunk.hidden.shape)
        return (jax.tree.map(jnp.add, totals, sums), d_head, d_bias), d_hidden

    hidden = rows.hidden
    carry = (
        (jnp.zeros((), jnp.float32),) * 3,
        jnp.zeros(heads.matrix.shape[::-1], jnp.float32),
        None if heads.bias is None else jnp.zeros(heads.bias.shape, jnp.float32),
    )
    chunks = _in_chunks(rows, static.chunk_tokens)
    if len(chunks.targets) == 1:
        (totals, *gradient), d_hidden = body(carry, jax.tree.map(lambda x: x[0], chunks))
        return totals, d_hidden, *gradient
    (totals, *gradient), d_chunks = jax.lax.scan(body, carry, chunks)
    d_hidden = jnp.moveaxis(d_chunks, 0, 1).reshape(hidden.shape[0], -1, hidden.shape[2])[:, : hidden.shape[1]]
    return totals, d_hidden, *gradient


def _forward(student, teacher, scored, terms, static):
    sharding = static.sharding
    rows, heads = _rows(student, teacher, scored), _heads(student, teacher, sharding)
    if sharding is None:
        totals, d_hidden, d_head, d_bias = _gradient_over_chunks(rows, heads, terms, static)
        return totals, _Student(d_hidden, d_head.T, d_bias)
    totals, d_hidden, d_head, d_bias = sharding.per_group(
        lambda part: _gradient_over_chunks(part, heads, terms, static)
    )(sharding.split_rows(rows))
    totals, d_head, d_bias = jax.tree.map(lambda x: x.sum(axis=0), (totals, d_head, d_bias))
    return totals, _Student(sharding.shard_rows(merge_rows(d_hidden)), d_head.T, d_bias)


def _backward(static, gradient, cotangents):
    cotangent, *_ = cotangents
    student = _Student(*(None if x is None else (cotangent * x).astype(x.dtype) for x in gradient))
    return student, None, None, None


_sums.defvjp(_forward, _backward)
