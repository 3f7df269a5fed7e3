"""The training state: what an update reads and writes, and how it is laid out on the devices."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Int

from zoo.config import AUTO, ResolvedConfig
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.models.functional import Params, initialise, initialise_statistics, logical_axes, parameter_traits, split
from zoo.training.accumulation import accumulation_parts
from zoo.training.mesh import data_parallel_size, parameter_shardings, replicated_sharding
from zoo.training.optimization.constraint import UNIT_NORM, on_unit_spheres

State = dict[str, Any]
"""{step, params, stats, optimizer}: everything that an update reads and writes."""


def constrained(config: ResolvedConfig, model: nnx.Module, params: Params) -> Params:
    """Returns parameters as `optimizer.constraint` has them before the first update."""
    return on_unit_spheres(params, parameter_traits(model)) if config.optimizer.constraint == UNIT_NORM else params


def initial_state(
    config: ResolvedConfig, model: nnx.Module, optimizer: optax.GradientTransformation, seed: Int[Array, ""]
) -> State:
    """Returns the state before the first update; a pure function of the seed."""
    params, stats = constrained(config, model, initialise(model, seed)), initialise_statistics(model, seed)
    return {"step": jnp.zeros((), jnp.int32), "params": params, "stats": stats, "optimizer": optimizer.init(params)}


def abstract_state(
    config: ResolvedConfig, model: nnx.Module, optimizer: optax.GradientTransformation, mesh: Mesh
) -> State:
    """Returns shapes, types and shardings of the state; no array is made.

    Parameters and their optimizer state are sharded by their logical axes, everything else is
    replicated.
    """
    shapes = jax.eval_shape(
        lambda seed: initial_state(config, model, optimizer, seed), jax.ShapeDtypeStruct((), jnp.uint32)
    )
    replicated = replicated_sharding(mesh)
    of_params = parameter_shardings(mesh, logical_axes(model), split(model)[1])
    shardings = {
        "step": replicated,
        "params": of_params,
        "stats": jax.tree.map(lambda _: replicated, shapes["stats"]),
        "optimizer": optax.tree_utils.tree_map_params(
            optimizer,
            _sharding_of_state,
            shapes["optimizer"],
            of_params,
            shapes["params"],
            transform_non_params=lambda _: replicated,
            # In the state of a group of parameters, the place of another group's.
            is_leaf=lambda node: isinstance(node, optax.MaskedNode),
        ),
    }
    return jax.tree.map(_with_sharding, shapes, shardings)


def _sharding_of_state(leaf: Any, sharding: NamedSharding, parameter: jax.ShapeDtypeStruct) -> Any:
    """Returns the sharding of an optimizer's state of a parameter. What has another shape than the
    parameter is small, such as averages by row, and is replicated.
    """
    if isinstance(leaf, optax.MaskedNode):
        return leaf
    return sharding if leaf.shape == parameter.shape else replicated_sharding(sharding.mesh)


def abstract_weights(model: nnx.Module, mesh: Mesh) -> dict[str, Any]:
    """Returns shapes, types and shardings of a model that is not trained, {"params", "stats"}."""
    _, params, stats = split(model)
    replicated = replicated_sharding(mesh)
    return {
        "params": jax.tree.map(_with_sharding, params, parameter_shardings(mesh, logical_axes(model), params)),
        "stats": jax.tree.map(lambda leaf: _with_sharding(leaf, replicated), stats),
    }


def bytes_on_a_device(abstract: Any) -> int:
    """Returns how many bytes of a tree of abstract arrays each device holds."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(abstract)
    )


def least_memory(config: ResolvedConfig, abstract: State, mesh: Mesh) -> dict[str, int]:
    """Returns the bytes that training needs at least on each device, by what they are for.

    The state is exact. Gradients of all parameters exist together, because their norm is recorded.
    For the backward pass of a stack over rows of one length, each block keeps at least one array of
    the size of its input.

    Args:
        config: the resolved config.
        abstract: from `abstract_state`.
        mesh: the devices.
    """
    needed = {"parameters and optimizer": bytes_on_a_device(abstract)}
    if config.training.trained_layers != AUTO or config.optimizer.groups:
        return needed
    needed["gradients"] = bytes_on_a_device(abstract["params"])
    architecture, objective = config.model.architecture, config.objective.kind
    if architecture in ("decoder", "encoder") and objective in OBJECTIVE_KINDS.having("text"):
        groups, width = data_parallel_size(mesh), 2 if config.model.dtype == "bfloat16" else 4
        rows = config.data.batch_size // groups // accumulation_parts(config, groups)
        needed["activations"] = rows * config.data.sequence_length * config.model.dim * config.model.num_layers * width
    return needed


def shardings_of(abstract: Any) -> Any:
    """Returns the shardings of a tree of abstract arrays."""
    return jax.tree.map(lambda leaf: leaf.sharding, abstract)


def _with_sharding(leaf: jax.ShapeDtypeStruct, sharding: jax.sharding.Sharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
