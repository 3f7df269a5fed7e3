"""Statistics of activations that a forward pass records: sums that add up over the parts of a
batch.

The layers record into `Context.record` if it is a dict; otherwise nothing here is part of a
program. `zoo.training.dynamics` turns the sums into statistics. No gradient flows through them.
With `Context.record_arrays` the layers also record states and attention maps, for
`zoo.analysis.activations`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from zoo.layers.context import Context

# Enough for a mean.
TOKENS = 128

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
