"""LAMB: Adam with steps of a size relative to the norm of each matrix (You et al. 2020)."""

import jax.numpy as jnp
import optax
from jax.tree_util import KeyPath, tree_map_with_path
from jaxtyping import Array, Float

from zoo.models.functional import ParameterTraits, Params
from zoo.training.optimization.momentum import adam
from zoo.training.optimization.per_parameter import layer_axes
from zoo.training.optimization.schedules import Values


def lamb(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns the first half of LAMB (You et al. 2020, algorithm 2), Adam, to be followed by the decay
    and by `trust_ratio`.

    With the direction u of Adam, the rate r and the decay d, a matrix W of one layer is updated by

        W <- W - r |W| (u + d W) / |u + d W|

    so r is the relative size of a step. Where a norm is 0, the quotient of both is left out.
    Norms and biases follow Adam, as in the authors' code, which leaves out what is not decayed.
    """
    del traits
    return adam(values)


def trust_ratio(traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns the second half of `lamb`: scales each direction, with the decay in it, to the norm of
    its parameter, where this has two or more dimensions. Each layer of a stack is a parameter of its
    own.
    """
    axes_of = layer_axes(traits)

    def update(directions: Params, params: Params) -> Params:
        def scaled(path: KeyPath, direction: Array, parameter: Array) -> Array:
            axes = axes_of(path)
            if len(axes) < 2:
                return direction
            current, wanted = _norm(direction, axes), _norm(parameter, axes)
            ratio = jnp.where((current > 0) & (wanted > 0), wanted / jnp.where(current > 0, current, 1), 1)
            return direction * ratio

        return tree_map_with_path(scaled, directions, params)

    return optax.stateless(update)


def _norm(values: Float[Array, "..."], axes: tuple[int, ...]) -> Float[Array, "..."]:
    return jnp.sqrt(jnp.square(values).sum(axes, keepdims=True))
