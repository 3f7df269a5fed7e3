"""Initialises a model from selected layers of another run, in any order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx

from zoo import config as configs
from zoo.config import ResolvedConfig
from zoo.errors import ConfigError
from zoo.layers.parameter import Statistic
from zoo.models.architectures import make_model
from zoo.models.functional import split, unrolled_paths
from zoo.nested import unflatten
from zoo.training.checkpoints.tree_differences import (
    NOTHING_REPLACEABLE,
    ReplaceableParts,
    tree_differences,
    without_replaceable,
)
from zoo.training.checkpoints.warm_start import WEIGHTS, read_weights

VariablePath = tuple[str, ...]
# (path of a variable, index into its stacked layers or None for a variable outside the layers).
Place = tuple[VariablePath, int | None]
KINDS = dict(zip(WEIGHTS, (nnx.Param, Statistic), strict=True))


def read_layers(
    config: ResolvedConfig, abstract: dict[str, Any], replaceable: ReplaceableParts = NOTHING_REPLACEABLE
) -> tuple[dict[str, Any], int]:
    """Reads weights of the run that a config starts from, layer i from `training.start_layers[i]`.

    This is the student initialisation of Sanh et al. 2019, section 3. Variables outside the layers
    are taken as they are. A layer may be taken more than once, and is taken bit for bit.

    Args:
        config: the resolved config.
        abstract: {"step", "params", "stats"} of this run: shapes, types and shardings.
        replaceable: parts of the model that need not be found in the other run.

    Returns:
        ({"params", "stats"}, the step of the checkpoint that they come from).

    Raises:
        ConfigError: for every array that is missing, unexpected or of another shape.
        DataError: the checkpoint is damaged.
    """
    folder, layers = Path(config.training.start_from), tuple(config.training.start_layers)
    source, target = make_model(configs.resolve(configs.load(str(folder)))), make_model(config)
    places = {name: dict(_source_places(source, target, kind, layers)) for name, kind in KINDS.items()}
    shapes = dict(zip(WEIGHTS, split(source)[1:], strict=True))
    saved = {}
    for name, kind in KINDS.items():
        unused = _unused_paths(source, kind, places[name], layers)
        leaves = {path: _shape(shapes[name], found) for path, found in places[name].items()}
        leaves |= {path: _at(shapes[name], path) for path in unused}
        saved[name] = unflatten({"/".join(path): leaf for path, leaf in leaves.items()}, "/")
    saved, wanted = without_replaceable(saved, {name: abstract[name] for name in WEIGHTS}, replaceable)
    if problems := tree_differences(saved, wanted):
        raise ConfigError([f"{folder}: {problem}" for problem in problems])
    replicated = abstract["step"].sharding
    weights, step = read_weights(
        folder, jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=replicated), shapes)
    )

    def value(path: Any, leaf: jax.ShapeDtypeStruct) -> jax.Array:
        name, *inside = (key.key for key in path)
        found = places[name][tuple(inside)]
        arrays = [np.asarray(_at(weights[name], source_path)) for source_path, _ in found]
        if found[0][1] is not None:
            return jax.device_put(
                np.stack([array[index] for array, (_, index) in zip(arrays, found, strict=True)]), leaf.sharding
            )
        return jax.device_put(arrays[0], leaf.sharding)

    return jax.tree_util.tree_map_with_path(value, wanted), step


def _variables(module: nnx.Module, kind: type) -> Iterator[tuple[VariablePath, nnx.Variable, bool]]:
    """Yields (path, variable, whether it is stacked over layers)."""
    for path, variable in nnx.state(module, kind).flat_state():
        yield tuple(map(str, path)), variable, variable.get_metadata("axes")[:1] == ("layers",)


def _places_by_unrolled_path(module: nnx.Module, kind: type) -> dict[str, Place]:
    """Returns where every array is, by its path in a model whose layers are not stacked."""
    found: dict[str, Place] = {}
    for path, variable, stacked in _variables(module, kind):
        names = unrolled_paths(path, variable) if stacked else ["/".join(path)]
        found |= {name: (path, index if stacked else None) for index, name in enumerate(names)}
    return found


def _source_places(
    source: nnx.Module, target: nnx.Module, kind: type, layers: tuple[int, ...]
) -> Iterator[tuple[VariablePath, list[Place]]]:
    """Yields, for every variable of `target` that `source` has, its path and its layers' places."""
    found = _places_by_unrolled_path(source, kind)
    for path, variable, stacked in _variables(target, kind):
        chosen = [layers[layer] for layer in variable.get_metadata("layers")] if stacked else []
        names = unrolled_paths(path, variable, chosen) if stacked else ["/".join(path)]
        if all(name in found for name in names):
            yield path, [found[name] for name in names]


def _unused_paths(
    source: nnx.Module, kind: type, places: dict[VariablePath, list[Place]], layers: tuple[int, ...]
) -> Iterator[VariablePath]:
    """Yields variables of `source`, in chosen layers or outside all layers, that nothing uses."""
    used = {path for found in places.values() for path, _ in found}
    for path, variable, stacked in _variables(source, kind):
        if path not in used and (not stacked or set(variable.get_metadata("layers")) & set(layers)):
            yield path


def _at(tree: Any, path: VariablePath) -> Any:
    for name in path:
        tree = tree[name]
    return tree


def _shape(shapes: Any, places: list[Place]) -> jax.ShapeDtypeStruct:
    """Returns the shape of the arrays at `places`; arrays of layers are stacked."""
    path, index = places[0]
    leaf = _at(shapes, path)
    return leaf if index is None else jax.ShapeDtypeStruct((len(places), *leaf.shape[1:]), leaf.dtype)
