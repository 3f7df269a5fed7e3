"""Sampled softmax, over a few ids instead of all, for training with large vocabularies."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from zoo.layers.activation_sharding import ActivationSharding
from zoo.models.head import LogitFactors
from zoo.objectives.token_chunks import in_chunks, number_of_chunks


class Candidates(NamedTuple):
    """Ids that all tokens of a batch are scored against.

    Attributes:
        ids: [S], all different.
        threshold: the largest perturbed log p that was not sampled; -inf where all ids are.
    """

    ids: Int[Array, " S"]
    threshold: Float[Array, ""]


def log_uniform(ids: Int[Array, "..."], vocab_size: int) -> Float[Array, "..."]:
    """Returns log p(k), p(k) = (log(k + 2) - log(k + 1)) / log(V + 1): Zipf's law where ids are
    sorted by frequency, the most frequent first.
    """
    return jnp.log(jnp.log1p(1 / (ids + 1.0)) / np.log(vocab_size + 1.0))


def draw_candidates(key: Key[Array, ""], size: int, vocab_size: int) -> Candidates:
    """Draws S different ids, distributed like draws from p until S different ones are found.

    They are the ids with the largest log p(k) + Gumbel noise, which has the same distribution (Kool
    et al. 2019, section 2).

    Args:
        key: random key.
        size: S, at most V.
        vocab_size: V.
    """
    perturbed = log_uniform(jnp.arange(vocab_size), vocab_size) + jax.random.gumbel(key, (vocab_size,))
    if size == vocab_size:
        return Candidates(jnp.arange(vocab_size), jnp.full((), -jnp.inf))
    largest, ids = jax.lax.top_k(perturbed, size + 1)
    return Candidates(ids[:size], largest[size])


def log_expected_count(ids: Int[Array, "..."], candidates: Candidates, vocab_size: int) -> Float[Array, "..."]:
    """Returns log q(k), q(k) = 1 - exp(-exp(log p(k) - threshold)): the probability that an id
    passes the threshold.

    The sum of f(k) / q(k) over the candidates has the expectation of the sum of f(k) over all ids
    (Kool et al. 2019, section 4.1). With n = exp(-threshold) q is 1 - exp(-n p(k)), close to 1 - (1
    - p(k))^n of n draws with replacement.
    """
    return jnp.log(-jnp.expm1(-jnp.exp(log_uniform(ids, vocab_size) - candidates.threshold)))


def sampled_cross_entropy(
    prediction: LogitFactors,
    targets: Int[Array, "B T"],
    weights: Float[Array, "B T"],
    candidates: Candidates,
    chunk_tokens: int,
    sharding: ActivationSharding | None = None,
) -> Float[Array, ""]:
    """Sums over tokens of weight * (-log softmax(s)[target]) over the target and the candidates, in
    nats and float32.

    s_k = logit_k - log q(k), for the target too; a candidate that is the target is left out (Jean
    et al. 2015; Jozefowicz et al. 2016, section 3.1; Peters et al. 2018). With all ids as
    candidates this is the full softmax.

    Args:
        prediction: hidden states and the head, which has no cap.
        targets, weights: see `cross_entropy`.
        candidates: shared by all tokens.
        chunk_tokens: about how many tokens' scores exist at once on a device; 0 for all of them.
        sharding: see `cross_entropy`.
    """
    hidden, matrix, bias = prediction[:3]
    rows = hidden, targets, weights
    if sharding is None:
        return _sum_over_chunks(rows, (matrix, bias), candidates, chunk_tokens)
    # Each group of devices gets its own copy, so that gradients are summed there, chunk by chunk.
    head = jax.tree.map(lambda x: jnp.broadcast_to(x, (sharding.groups, *x.shape)), (sharding.head(matrix), bias))
    return sharding.per_group(lambda part, own: _sum_over_chunks(part, own, candidates, chunk_tokens))(
        sharding.split_rows(rows), head
    ).sum()


def _sum_over_chunks(
    rows: tuple[Array, Array, Array], head: tuple[Array, Array | None], candidates: Candidates, chunk_tokens: int
) -> Float[Array, ""]:
    """Returns the sum over rows of hidden states, targets and weights."""
    (hidden, targets, _), (matrix, bias) = rows, head
    V = matrix.shape[0]

    def offsets(ids: Array) -> Array:
        own = 0.0 if bias is None else bias[ids]
        return own - log_expected_count(ids, candidates, V)

    sampled, added = matrix[candidates.ids].astype(hidden.dtype), offsets(candidates.ids)

    def loss_of(h: Float[Array, "B C D"], t: Int[Array, "B C"], w: Float[Array, "B C"]) -> Float[Array, ""]:
        scores = jnp.einsum("bcd,sd->bcs", h, sampled, preferred_element_type=jnp.float32) + added
        scores = jnp.where(candidates.ids == t[..., None], jnp.finfo(jnp.float32).min, scores)
        own = jnp.einsum("bcd,bcd->bc", h, matrix[t].astype(h.dtype), preferred_element_type=jnp.float32) + offsets(t)
        log_normalizer = jnp.logaddexp(jax.nn.logsumexp(scores, axis=-1), own)
        return jnp.sum((log_normalizer - own) * w)

    def body(total: Array, chunk: tuple[Array, Array, Array]) -> tuple[Array, None]:
        return total + jax.checkpoint(loss_of, prevent_cse=False)(*chunk), None

    parts = number_of_chunks(*targets.shape, chunk_tokens)
    return jax.lax.scan(body, jnp.zeros((), jnp.float32), tuple(in_chunks(x, parts) for x in rows))[0]
