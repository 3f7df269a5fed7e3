"""LAMB: Adam whose steps are as large as a share of each matrix (You et al. 2020)."""

import jax.numpy as jnp
import optax
from jax.tree_util import KeyPath, keystr, tree_map_with_path
from jaxtyping import Array, Float

from zoo.models.functional import ParameterTraits, Params
from zoo.nested import flatten
from zoo.training.optimization.momentum import adam
from zoo.training.optimization.schedules import Values


def lamb(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns the first half of LAMB (You et al. 2020, algorithm 2), Adam, to be followed by the decay
    and by `trust_ratio`.

    With the direction u of Adam, the rate r and the decay d, a matrix W of one layer is updated by

        W <- W - r |W| (u + d W) / |u + d W|

    so that r is the relative size of a step. Where a norm is 0, the quotient of both is left out.
    Norms and biases follow Adam, as in the authors' code, which leaves out what is not decayed.
    """
    del traits
    return adam(values)


def trust_ratio(traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns the second half of `lamb`: directions with decay as long as their parameters, where
    these have two or more dimensions. Each layer of a stack is a parameter of its own.
    """
    dimensions = flatten(traits.ndim, "/")

    def update(directions: Params, params: Params) -> Params:
        def sized(path: KeyPath, direction: Array, parameter: Array) -> Array:
            number = dimensions[keystr(path, simple=True, separator="/")]
            if number < 2:
                return direction
            axes = tuple(range(-number, 0))
            ours, its = _norm(direction, axes), _norm(parameter, axes)
            ratio = jnp.where((ours > 0) & (its > 0), its / jnp.where(ours > 0, ours, 1), 1)
            return direction * ratio

        return tree_map_with_path(sized, directions, params)

    return optax.stateless(update)


def _norm(values: Float[Array, "..."], axes: tuple[int, ...]) -> Float[Array, "..."]:
    return jnp.sqrt(jnp.square(values).sum(axes, keepdims=True))
