"""Initialises a model from layers of another run: in any order, or with experts from dense ones."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx

from zoo import config as configs
from zoo.config import ResolvedConfig
from zoo.errors import ConfigError
from zoo.layers.parameter import Statistic
from zoo.models.architectures import make_model
from zoo.models.functional import split, unrolled_paths
from zoo.nested import flatten, unflatten
from zoo.training.checkpoints.tree_differences import (
    NOTHING_REPLACEABLE,
    ReplaceableParts,
    tree_differences,
    without_replaceable,
)
from zoo.training.checkpoints.upcycling import before_feed_forward, dense_name, is_fresh
from zoo.training.checkpoints.warm_start import WEIGHTS, read_weights

VariablePath = tuple[str, ...]


class Place(NamedTuple):
    """A place of an array in a model.

    Attributes:
        path: of the variable.
        index: of its layer among those that are stacked; None for a variable outside the layers.
        copies: number of experts that each begin with it; None for an array that is taken as it is.
    """

    path: VariablePath
    index: int | None
    copies: int | None = None


KINDS = dict(zip(WEIGHTS, (nnx.Param, Statistic), strict=True))


def read_layers(
    config: ResolvedConfig, abstract: dict[str, Any], replaceable: ReplaceableParts = NOTHING_REPLACEABLE
) -> tuple[dict[str, Any], int]:
    """Reads weights of the run that a config starts from, layer i from `training.start_layers[i]` or,
    if that is empty, from layer i.

    This is the student initialisation of Sanh et al. 2019, section 3. Variables outside the layers
    are taken as they are. A layer may be taken more than once, and is taken bit for bit. Where a
    layer of this model has experts and that of the other run has none, every expert is a copy of its
    feed-forward layer (Komatsuzaki et al. 2022, section 3), and the router is missing in the result.

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
    folder, layers = Path(config.training.start_from), tuple(config.training.start_layers) or None
    source, target = make_model(configs.resolve(configs.load(str(folder)))), make_model(config)
    places = {name: dict(_source_places(source, target, kind, layers)) for name, kind in KINDS.items()}
    shapes = dict(zip(WEIGHTS, split(source)[1:], strict=True))
    saved = {}
    for name, kind in KINDS.items():
        unused = _unused_paths(source, kind, places[name], layers)
        leaves = {path: _shape(shapes[name], found) for path, found in places[name].items()}
        leaves |= {path: _at(shapes[name], path) for path in unused}
        saved[name] = unflatten({"/".join(path): leaf for path, leaf in leaves.items()}, "/")
    upcycled = _upcycled(places)
    wanted = {name: _without_fresh(abstract[name], places[name], upcycled) for name in WEIGHTS}
    saved, wanted = without_replaceable(saved, wanted, replaceable)
    if problems := tree_differences(saved, wanted):
        raise ConfigError([f"{folder}: {problem}" for problem in problems])
    replicated = abstract["step"].sharding
    weights, step = read_weights(
        folder, jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=replicated), shapes)
    )

    def value(path: Any, leaf: jax.ShapeDtypeStruct) -> jax.Array:
        name, *inside = (key.key for key in path)
        found = places[name][tuple(inside)]
        arrays = [_taken(weights[name], place) for place in found]
        return jax.device_put(arrays[0] if found[0].index is None else np.stack(arrays), leaf.sharding)

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
        found |= {name: Place(path, index if stacked else None) for index, name in enumerate(names)}
    return found


def _source_places(
    source: nnx.Module, target: nnx.Module, kind: type, layers: tuple[int, ...] | None
) -> Iterator[tuple[VariablePath, list[Place]]]:
    """Yields, for every variable of `target` that `source` has, its path and its layers' places."""
    found = _places_by_unrolled_path(source, kind)
    for path, variable, stacked in _variables(target, kind):
        own = variable.get_metadata("layers") if stacked else ()
        chosen = own if layers is None else [layers[layer] for layer in own]
        names = unrolled_paths(path, variable, chosen) if stacked else ["/".join(path)]
        if all(name in found for name in names):
            yield path, [found[name] for name in names]
        elif all(dense_name(name) in found for name in names):
            axes = variable.get_metadata("axes")
            # What is shared by the experts of a layer has no dimension of them.
            copies = variable.get_value().shape[axes.index("expert")] if "expert" in axes else None
            yield path, [found[dense_name(name)]._replace(copies=copies) for name in names]


def _unused_paths(
    source: nnx.Module, kind: type, places: dict[VariablePath, list[Place]], layers: tuple[int, ...] | None
) -> Iterator[VariablePath]:
    """Yields variables of `source`, in chosen layers or outside all layers, that nothing uses."""
    used = {place.path for found in places.values() for place in found}
    for path, variable, stacked in _variables(source, kind):
        chosen = not stacked or layers is None or set(variable.get_metadata("layers")) & set(layers)
        if path not in used and chosen:
            yield path


def _at(tree: Any, path: VariablePath) -> Any:
    for name in path:
        tree = tree[name]
    return tree


def _shape(shapes: Any, places: list[Place]) -> jax.ShapeDtypeStruct:
    """Returns the shape of the arrays at `places`; arrays of layers are stacked."""
    path, index, copies = places[0]
    leaf, of_experts = _at(shapes, path), () if copies is None else (copies,)
    if index is None:
        return jax.ShapeDtypeStruct((*of_experts, *leaf.shape), leaf.dtype)
    return jax.ShapeDtypeStruct((len(places), *of_experts, *leaf.shape[1:]), leaf.dtype)


def _taken(weights: Any, place: Place) -> np.ndarray:
    array = np.asarray(_at(weights, place.path))
    array = array if place.index is None else array[place.index]
    return array if place.copies is None else np.broadcast_to(array, (place.copies, *array.shape))


def _upcycled(places: Mapping[str, dict[VariablePath, list[Place]]]) -> set[str]:
    """Returns the layers, by the path before their feed-forward layer, whose experts are copies of a
    dense one.
    """
    copied = (path for found in places.values() for path, each in found.items() if each[0].copies is not None)
    return {before_feed_forward("/".join(path)) for path in copied}


def _without_fresh(wanted: Any, places: dict[VariablePath, list[Place]], upcycled: set[str]) -> dict[str, Any]:
    """Returns what is wanted but for the routers, and what else of a mixture no dense layer has, where
    the experts are copies of one.
    """
    found = {"/".join(path) for path in places}
    leaves = flatten(wanted, "/")
    fresh = {name for name in leaves if name not in found and is_fresh(name) and before_feed_forward(name) in upcycled}
    return unflatten({name: leaf for name, leaf in leaves.items() if name not in fresh}, "/")
