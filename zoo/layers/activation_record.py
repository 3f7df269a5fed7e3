"""Statistics of activations that a forward pass records: sums that add up over the parts of a
batch.

The layers record into `Context.record` if it is a dict; otherwise nothing here is part of a
program. `zoo.training.dynamics` turns the sums into statistics. No gradient flows through them.
With `Context.record_arrays` the layers also record states and attention maps, for
`zoo.analysis.activations`.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr
from jaxtyping import Array, Float, Int

from zoo.layers.context import Context
from zoo.layers.kernels import attention_probabilities, attention_scores
from zoo.layers.scoring import Scoring

# Enough for a mean, and few enough that the scores of a long row never exist all at once.
ROWS, QUERIES, TOKENS = 4, 32, 128

SumAndCount = dict[str, Float[Array, "..."]]


def evenly_spaced(length: int, max_count: int) -> Int[np.ndarray, " n"]:
    """Returns at most `max_count` evenly spaced indices into a row of `length` tokens, including the
    first and the last.
    """
    return np.linspace(0, length - 1, min(length, max_count)).round().astype(np.int32)


def squares(x: Float[Array, "B T D"], context: Context) -> SumAndCount:
    """Returns {"total": the sum of x^2 over the tokens, "count": the number of values}, in float32,
    padding excluded.
    """
    x = jax.lax.stop_gradient(x)
    there = jnp.broadcast_to(context.positions >= 0, x.shape[:2])
    total = jnp.where(there, jnp.square(x.astype(jnp.float32)).sum(axis=-1), 0).sum()
    return {"total": total, "count": there.sum().astype(jnp.float32) * x.shape[-1]}


def fired(x: Float[Array, "B T F"], context: Context) -> Float[Array, " F"]:
    """Returns 1 for hidden units that are above 0 for any token, else 0; padding is excluded."""
    there = (context.positions >= 0)[..., None]
    return ((jax.lax.stop_gradient(x) > 0) & there).any(axis=(0, 1)).astype(jnp.float32)


def attention_entropy(
    q: Float[Array, "B T H K"], k: Float[Array, "B S G K"], context: Context, scoring: Scoring
) -> SumAndCount:
    """Returns {"total": the entropy of the attention weights of a query, -sum_s p_s log p_s in
    nats, summed for each head [H], "count": number of queries}.

    Takes `QUERIES` queries, evenly spread, in each of the first `ROWS` rows: O(S) memory. A sink
    counts as one more key. Queries of global tokens see other keys and are left out.
    """
    q, k = jax.lax.stop_gradient((q, k))
    places = evenly_spaced(q.shape[1], QUERIES)

    def of_queries(x: Array | None) -> Array | None:
        return None if x is None else x[:ROWS, places]

    def of_keys(x: Array | None) -> Array | None:
        return None if x is None else x[:ROWS]

    key_documents = context.documents if context.key_documents is None else context.key_documents
    query_context = replace(
        context,
        positions=of_queries(context.positions),
        documents=of_queries(context.documents),
        in_order=False,
        key_positions=of_keys(context.effective_key_positions),
        key_documents=of_keys(key_documents),
    )
    shared = None if scoring.shared is None else scoring.shared[:ROWS, :, places]
    probabilities = attention_probabilities(of_queries(q), of_keys(k), query_context, replace(scoring, shared=shared))
    entropy = entr(probabilities).sum(axis=-1)
    if scoring.sinks is not None:
        entropy = entropy + entr(jnp.maximum(1 - probabilities.sum(axis=-1), 0))
    counted = jnp.broadcast_to(query_context.positions >= scoring.global_tokens, (entropy.shape[0], len(places)))
    total = jnp.where(counted[:, None, None], entropy, 0).sum(axis=(0, 3)).reshape(-1)
    return {"total": total, "count": counted.sum().astype(jnp.float32)}


def attention_maps(
    q: Float[Array, "B T H K"], k: Float[Array, "B S G K"], context: Context, scoring: Scoring, projected: bool = False
) -> dict[str, Float[Array, "B H T S"]]:
    """Returns {"scores": of all keys, visible or not, before a cap, "probabilities"}, complete and
    in float32: O(T S) memory.

    Args:
        q, k, context, scoring: arguments of a kernel.
        projected: global tokens have queries and keys of their own, not those given here; their
            rows are NaN.
    """

    def by_head(x: Float[Array, "B G R T S"]) -> Float[Array, "B H T S"]:
        x = x.reshape(x.shape[0], -1, *x.shape[3:])
        unknown = projected & (context.positions >= 0) & (context.positions < scoring.global_tokens)
        return jnp.where(unknown[:, None, :, None], jnp.nan, x)

    return {
        "scores": by_head(attention_scores(q, k, context, scoring)),
        "probabilities": by_head(attention_probabilities(q, k, context, scoring)),
    }


def deviations(scores: Float[Array, "*leading V"], counted: Array) -> SumAndCount:
    """Returns {"total": the sum of squared deviations of scores from their mean, "count": the
    number of scores}, in float32.

    Args:
        scores: scores of the classes or token ids.
        counted: bool, which of the leading places count.
    """
    scores = jax.lax.stop_gradient(scores).astype(jnp.float32)
    total = jnp.where(counted, jnp.square(scores - scores.mean(axis=-1, keepdims=True)).sum(axis=-1), 0).sum()
    return {"total": total, "count": counted.sum().astype(jnp.float32) * scores.shape[-1]}
