"""What a forward pass leaves behind for the statistics of training: sums that add up over the parts
of a batch.

A `Context` with a `record`, a dict, asks for them; without one nothing here is part of a program.
What is done with the sums stands in `zoo.training.dynamics`. Gradients are not led through any of
it. A context that is `whole` asks for the states and the attention maps themselves, for
`zoo.analysis.activations`.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr
from jaxtyping import Array, Float, Int

from zoo.layers.context import Context
from zoo.layers.kernels import Scoring, attention_probabilities, attention_scores

# Enough for a mean, and so few that the scores of a long row are never all there.
ROWS, QUERIES, TOKENS = 4, 32, 128

Sums = dict[str, Float[Array, "..."]]


def evenly(length: int, most: int) -> Int[np.ndarray, " n"]:
    """Places of a row, first and last among them: all of `length`, or `most` evenly spread."""
    return np.linspace(0, length - 1, min(length, most)).round().astype(np.int32)


def squares(x: Float[Array, "B T D"], context: Context) -> Sums:
    """{"total": the sum of x^2 over the tokens that are there, "count": the number of values in
    it}, in float32.
    """
    x = jax.lax.stop_gradient(x)
    there = jnp.broadcast_to(context.positions >= 0, x.shape[:2])
    total = jnp.where(there, jnp.square(x.astype(jnp.float32)).sum(axis=-1), 0).sum()
    return {"total": total, "count": there.sum().astype(jnp.float32) * x.shape[-1]}


def fired(x: Float[Array, "B T F"], context: Context) -> Float[Array, " F"]:
    """Which hidden units are above 0 for any token that is there: 1, else 0."""
    there = (context.positions >= 0)[..., None]
    return ((jax.lax.stop_gradient(x) > 0) & there).any(axis=(0, 1)).astype(jnp.float32)


def attention_entropy(
    q: Float[Array, "B T H K"], k: Float[Array, "B S G K"], context: Context, scoring: Scoring
) -> Sums:
    """{"total": the entropy of what a query attends to, -sum_s p_s log p_s in nats, summed for each
    head [H], "count": queries in it}.

    Of `QUERIES` queries, evenly spread, in each of the first `ROWS` rows: O(S) memory. A sink is
    one more thing to attend to. Queries of global tokens see by rules of their own and are left
    out.
    """
    q, k = jax.lax.stop_gradient((q, k))
    places = evenly(q.shape[1], QUERIES)

    def of_queries(x: Array | None) -> Array | None:
        return None if x is None else x[:ROWS, places]

    def of_keys(x: Array | None) -> Array | None:
        return None if x is None else x[:ROWS]

    key_documents = context.documents if context.key_documents is None else context.key_documents
    alone = replace(
        context,
        positions=of_queries(context.positions),
        documents=of_queries(context.documents),
        in_order=False,
        key_positions=of_keys(context.keys_at),
        key_documents=of_keys(key_documents),
    )
    shared = None if scoring.shared is None else scoring.shared[:ROWS, :, places]
    probabilities = attention_probabilities(of_queries(q), of_keys(k), alone, replace(scoring, shared=shared))
    entropy = entr(probabilities).sum(axis=-1)
    if scoring.sinks is not None:
        entropy = entropy + entr(jnp.maximum(1 - probabilities.sum(axis=-1), 0))
    counted = jnp.broadcast_to(alone.positions >= scoring.global_tokens, (entropy.shape[0], len(places)))
    total = jnp.where(counted[:, None, None], entropy, 0).sum(axis=(0, 3)).reshape(-1)
    return {"total": total, "count": counted.sum().astype(jnp.float32)}


def attention_maps(
    q: Float[Array, "B T H K"], k: Float[Array, "B S G K"], context: Context, scoring: Scoring, projected: bool = False
) -> dict[str, Float[Array, "B H T S"]]:
    """{"scores": of all keys, visible or not, before anything caps them, "probabilities"}, whole,
    in float32: O(T S) memory.

    Args:
        q, k, context, scoring: as for a kernel.
        projected: global tokens have queries and keys of their own, which are not those given here:
            their rows are NaN.
    """

    def by_head(x: Float[Array, "B G R T S"]) -> Float[Array, "B H T S"]:
        x = x.reshape(x.shape[0], -1, *x.shape[3:])
        unknown = projected & (context.positions >= 0) & (context.positions < scoring.global_tokens)
        return jnp.where(unknown[:, None, :, None], jnp.nan, x)

    return {
        "scores": by_head(attention_scores(q, k, context, scoring)),
        "probabilities": by_head(attention_probabilities(q, k, context, scoring)),
    }


def deviations(scores: Float[Array, "*leading V"], counted: Array) -> Sums:
    """{"total": the squares of the scores' distances from their own mean, summed, "count": the
    number of them}, in float32.

    Args:
        scores: of the classes or token ids.
        counted: bool, which of the leading places count.
    """
    scores = jax.lax.stop_gradient(scores).astype(jnp.float32)
    total = jnp.where(counted, jnp.square(scores - scores.mean(axis=-1, keepdims=True)).sum(axis=-1), 0).sum()
    return {"total": total, "count": counted.sum().astype(jnp.float32) * scores.shape[-1]}
