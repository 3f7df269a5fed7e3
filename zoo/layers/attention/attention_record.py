"""Statistics of attention weights that a forward pass records (see `zoo.layers.activation_record`)."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax.scipy.special import entr
from jaxtyping import Array, Float

from zoo.layers.activation_record import SumAndCount, evenly_spaced
from zoo.layers.attention.kernels.products import attention_probabilities, attention_scores
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context

# Enough for a mean, and few enough that the scores of a long row never exist all at once.
ROWS, QUERIES = 4, 32


def attention_entropy(
    q: Float[Array, "B T H K"], k: Float[Array, "B S G K"], context: Context, scoring: Scoring
) -> SumAndCount:
    """Returns {"total": the entropy of the attention weights of a query, -sum_s p_s log p_s in
    nats, summed for each head [H], "count": number of queries}.

    Takes `QUERIES` queries, evenly spread, in each of the first `ROWS` rows: O(S) memory. A sink
    counts as one more key. Weights that need not be positive or add up to 1 (`Scoring.weigh`) are
    replaced by |p_s| / sum_r |p_r|. Queries of global
    tokens see other keys and are left out.
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
    if scoring.weigh is not None:
        probabilities = jnp.abs(probabilities)
        probabilities = probabilities / jnp.maximum(probabilities.sum(axis=-1, keepdims=True), 1e-30)
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
