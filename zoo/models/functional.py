"""The functional core: a module is split once into a graph definition and a nested dict, and everything after is a pure function.

Loop, optimizer, checkpoints and importers see only nested dicts of arrays. No NNX transform is used: it would cost several times a
small step.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Int

from zoo.layers.context import path_hash

Params = dict[str, Any]


def split(module: nnx.Module) -> tuple[nnx.GraphDef, Params]:
    """Splits a module into its graph definition and the nested dict of its parameters."""
    graph, state = nnx.split(module, nnx.Param)
    return graph, nnx.to_pure_dict(state)


def stack(module: nnx.Module, count: int) -> nnx.Module:
    """Gives every parameter of an abstract module a leading dimension of `count` layers, in place."""
    for _, variable in nnx.state(module, nnx.Param).flat_state():
        shape = variable.get_value().shape
        variable.set_value(jax.ShapeDtypeStruct((count, *shape), jnp.float32))
        variable.set_metadata(axes=("layers", *variable.get_metadata("axes")))
    return module


def _leaves(module: nnx.Module) -> list[tuple[tuple[str, ...], nnx.Variable]]:
    return sorted((tuple(map(str, path)), variable) for path, variable in nnx.state(module, nnx.Param).flat_state())


def _nested(leaves: dict[tuple[str, ...], Any]) -> Params:
    nested: Params = {}
    for (*parents, name), value in leaves.items():
        node = nested
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = value
    return nested


def logical_axes(module: nnx.Module) -> Params:
    """Returns the logical axis names of every parameter, as a nested dict of tuples."""
    return _nested({path: variable.get_metadata("axes") for path, variable in _leaves(module)})


def unrolled_ndim(module: nnx.Module) -> Params:
    """Returns each parameter's number of dimensions within one layer."""
    return jax.tree.map(
        lambda axes: len(axes) - (axes[:1] == ("layers",)), logical_axes(module), is_leaf=lambda node: isinstance(node, tuple))


def unrolled_path(path: tuple[str, ...], layer: int) -> str:
    """The path of one layer's parameter, e.g. "layers/3/attention/query/kernel"."""
    return "/".join(f"layers/{layer}" if part == "layers" else part for part in path)


def initialise(module: nnx.Module, seed: int | Int[Array, ""]) -> Params:
    """Makes the initial values of an abstract module.

    A value is `initializer(fold_in(seed, crc32(path)))` with the path of the unrolled layer, so that it depends on nothing else
    in the model: two arms of a comparison share the values of every parameter whose path and shape they share.
    """
    root = jax.random.key(seed)
    values = {}
    for path, variable in _leaves(module):
        shape, initializer = variable.get_value().shape, variable.get_metadata("initializer")
        if variable.get_metadata("axes")[:1] == ("layers",):
            hashes = jnp.array([path_hash(unrolled_path(path, layer)) for layer in range(shape[0])], jnp.uint32)
            keys = jax.vmap(lambda folded: jax.random.fold_in(root, folded))(hashes)
            values[path] = jax.vmap(lambda key, make=initializer, size=shape[1:]: make(key, size))(keys)
        else:
            values[path] = initializer(jax.random.fold_in(root, path_hash("/".join(path))), shape)
    return _nested(values)
