"""The training state: what an update reads and writes, and how it is laid out on the devices."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array, Int

from zoo.models.functional import initialise, initialise_statistics, logical_axes, split
from zoo.training.mesh import parameter_shardings, replicated_sharding

State = dict[str, Any]
"""{step, params, stats, optimizer}: everything that an update reads and writes."""


def initial_state(model: nnx.Module, optimizer: optax.GradientTransformation, seed: Int[Array, ""]) -> State:
    """Returns the state before the first update; a pure function of the seed."""
    params, stats = initialise(model, seed), initialise_statistics(model, seed)
    return {"step": jnp.zeros((), jnp.int32), "params": params, "stats": stats, "optimizer": optimizer.init(params)}


def abstract_state(model: nnx.Module, optimizer: optax.GradientTransformation, mesh: Mesh) -> State:
    """Returns shapes, types and shardings of the state; no array is made.

    Parameters and their optimizer state are sharded by their logical axes, everything else is
    replicated.
    """
    shapes = jax.eval_shape(lambda seed: initial_state(model, optimizer, seed), jax.ShapeDtypeStruct((), jnp.uint32))
    replicated = replicated_sharding(mesh)
    of_params = parameter_shardings(mesh, logical_axes(model), split(model)[1])
    shardings = {
        "step": replicated,
        "params": of_params,
        "stats": jax.tree.map(lambda _: replicated, shapes["stats"]),
        "optimizer": optax.tree_utils.tree_map_params(
            optimizer,
            lambda leaf, sharding: leaf if isinstance(leaf, optax.MaskedNode) else sharding,
            shapes["optimizer"],
            of_params,
            transform_non_params=lambda _: replicated,
            # In the state of a group of parameters, the place of another group's.
            is_leaf=lambda node: isinstance(node, optax.MaskedNode),
        ),
    }
    return jax.tree.map(_with_sharding, shapes, shardings)


def abstract_weights(model: nnx.Module, mesh: Mesh) -> dict[str, Any]:
    """Returns shapes, types and shardings of a model that is not trained, {"params", "stats"}."""
    _, params, stats = split(model)
    replicated = replicated_sharding(mesh)
    return {
        "params": jax.tree.map(_with_sharding, params, parameter_shardings(mesh, logical_axes(model), params)),
        "stats": jax.tree.map(lambda leaf: _with_sharding(leaf, replicated), stats),
    }


def shardings_of(abstract: Any) -> Any:
    """Returns the shardings of a tree of abstract arrays."""
    return jax.tree.map(lambda leaf: leaf.sharding, abstract)


def _with_sharding(leaf: jax.ShapeDtypeStruct, sharding: jax.sharding.Sharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
