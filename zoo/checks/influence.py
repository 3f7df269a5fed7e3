"""Finds which inputs influence an output, by runs and by gradients."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from zoo.checks.small_models import compiled, with_values
from zoo.layers.context import Context
from zoo.models.functional import Params, Stats

Outputs = Callable[[Float[Array, "B T D"]], Float[Array, "B T D"]]


def by_runs(outputs: Outputs, x: Any) -> Bool[np.ndarray, "..."]:
    """Returns [*tokens, *places]: whether a vector of `outputs(x)` [*tokens, D] changes when a vector
    of `x` [*places, D] is replaced, in runs of the same program.
    """
    program, changed = compiled(outputs), []
    before = program(x)
    require_finite(before)
    for place in np.ndindex(x.shape[:-1]):
        other = np.array(x)
        other[place] = -1.5 * other[place][::-1]
        changed.append((program(other) != before).any(axis=-1))
    return np.stack(changed, axis=-1).reshape(before.shape[:-1] + x.shape[:-1])


def by_gradients(outputs: Outputs, x: Any) -> Bool[np.ndarray, "..."]:
    """Returns the same from the nonzero gradients of a random projection of the outputs."""
    direction = np.random.default_rng(4).standard_normal(x.shape[-1]).astype(np.float32)
    jacobian = compiled(jax.jacrev(lambda x: outputs(x) @ direction))(x)
    require_finite(jacobian)
    return (jacobian != 0).any(axis=-1)


def require_finite(values: Any) -> None:
    """Refuses values with which nothing can be compared.

    Raises:
        AssertionError: one is not finite.
    """
    assert np.isfinite(values).all(), "there are outputs or gradients that are not finite"


def of_tokens(model: nnx.Module, values: Params, stats: Stats, context: Context, rows: int) -> tuple[Outputs, Any]:
    """Returns a model of one stack as a function of the embeddings of its tokens, and such embeddings.

    Args:
        model: abstract, with at least `rows` x T ids.
        values, stats: its parameters and statistics.
        context: positions [rows or 1, T] and documents of the tokens.
        rows: number of rows; every token has an embedding of its own.
    """
    length, width = context.positions.shape[1], values["embedding"].shape[-1]
    tokens = jnp.arange(rows * length).reshape(rows, length)
    own, others = np.split(np.asarray(values["embedding"]), [rows * length])

    def outputs(own):
        embedding = jnp.concatenate([own.reshape(-1, width), others])
        return with_values(model, values | {"embedding": embedding}, stats)(tokens, context)

    return outputs, own.reshape(rows, length, width)
