"""`optimizer.constraint`: what parameters are brought back to after every update."""

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import KeyPath, tree_map_with_path
from jaxtyping import Array, Float

from zoo.layers.norm import unit_vectors
from zoo.models.functional import ParameterTraits, Params
from zoo.training.optimization.per_parameter import path_name

UNIT_NORM = "unit_norm"


def on_unit_spheres(params: Params, traits: ParameterTraits) -> Params:
    """Returns the parameters with vectors of length 1 along the model's width (Loshchilov et al. 2024,
    arXiv:2410.01131, section 2.6, step 2): W <- W / |W|, for each input of a matrix that writes to the
    residual stream, each output of one that reads it, and each token of a table.

    Parameters that `ParameterTraits.model_axis` does not list stay as they are, and so do vectors of
    zeros, such as the rows that pad a vocabulary.
    """

    def projected(path: KeyPath, leaf: Float[Array, "..."]) -> Float[Array, "..."]:
        axis = traits.model_axis.get(path_name(path))
        return leaf if axis is None else unit_vectors(leaf, axis).astype(leaf.dtype)

    return tree_map_with_path(projected, params)


def unit_norm(traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns a last stage of the optimizer: steps that end on the unit spheres of `on_unit_spheres`.

    With the step d of the stages before it, d becomes (W + d) / |W + d| - W. A parameter whose step is
    0 everywhere stays as it is, bit for bit.
    """

    def update(steps: Params, params: Params) -> Params:
        ends = on_unit_spheres(jax.tree.map(lambda step, leaf: leaf + step, steps, params), traits)

        def moved(path: KeyPath, step: Array, end: Array, leaf: Array) -> Array:
            if path_name(path) not in traits.model_axis:
                return step
            return jnp.where((step != 0).any(), end - leaf, step)

        return tree_map_with_path(moved, steps, ends, params)

    return optax.stateless(update)
