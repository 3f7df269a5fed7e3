"""The number of loops of an update, where it is drawn (`model.layers.loop_draws`)."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from zoo.config import ResolvedConfig, loop_of

SIGMA = 0.5
"""Standard deviation of the logarithm of the Poisson rate (Geiping et al. 2025, section 3.3)."""
LARGEST_MULTIPLE = 3
"""Poisson draws are at most so many times the mean."""


def largest_loops(model: ResolvedConfig) -> int:
    """Returns the largest number of loops that can be drawn for a model whose mean is r: 2 r - 1 where
    numbers are uniform, 3 r where they are Poisson.

    Args:
        model: the config below `model`.
    """
    mean = loop_of(model).loops
    return {"none": mean, "uniform": 2 * mean - 1, "poisson": LARGEST_MULTIPLE * mean}[model.layers.loop_draws]


def draw_loops(model: ResolvedConfig, key: Key[Array, ""]) -> Int[Array, ""] | None:
    """Returns the number of loops of an update, or None where it is not drawn.

    `uniform` is uniform over 1, ..., 2 r - 1. `poisson` is 1 + Poisson(e^t) with t ~ N(log(r - 1) -
    s^2 / 2, s) and s = 1/2, so the mean is r (Geiping et al. 2025, arXiv:2502.05171, section 3.3,
    whose mean is r + 1 because e^t has the mean r there). Numbers above 3 r, 0.4 to 0.8 % of them,
    become 3 r, which lowers the mean by less than 0.5 %.

    Args:
        model: the config below `model`.
        key: random key of the update.
    """
    draws = model.layers.loop_draws
    if draws == "none":
        return None
    largest = largest_loops(model)
    if draws == "uniform":
        return jax.random.randint(key, (), 1, largest + 1)
    normal, poisson = jax.random.split(key)
    rate = jnp.exp(math.log(loop_of(model).loops - 1) - SIGMA**2 / 2 + SIGMA * jax.random.normal(normal))
    return jnp.minimum(1 + jax.random.poisson(poisson, rate, dtype=jnp.int32), largest)
