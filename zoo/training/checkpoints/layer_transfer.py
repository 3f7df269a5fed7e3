"""A model that starts from some layers of another run: every other one of a teacher, the first, the
last, any in any order.
"""

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
from zoo.training.checkpoints.checkpoint import differences, without_own
from zoo.training.checkpoints.warm_start import NONE, WEIGHTS, Heads, read_weights

Names = tuple[str, ...]
# Where a layer's array, or an array outside the layers (None), is found in what was stored
# together.
Place = tuple[Names, int | None]
KINDS = dict(zip(WEIGHTS, (nnx.Param, Statistic), strict=True))


def read_layers(config: ResolvedConfig, abstract: dict[str, Any], own: Heads = NONE) -> tuple[dict[str, Any], int]:
    """Parameters and statistics of the run that a config starts from, the layer i those of that
    run's layer `training.start_layers[i]` (Sanh et al. 2019, section 3, "Student initialization").

    What is outside the layers is taken as it is. A layer may be taken more than once, and is taken
    bit for bit.

    Args:
        config: resolved.
        abstract: {"step", "params", "stats"} as they are wanted: shapes, types and shardings.
        own: parts of the model that need not be there.

    Returns:
        ({"params", "stats"}, the step that they are of).

    Raises:
        ConfigError: for every array that is there and not wanted, wanted and not there, or of
            another shape.
        DataError: the checkpoint is damaged.
    """
    folder = Path(config.training.start_from)
    there, here = make_model(configs.resolve(configs.load(str(folder)))), make_model(config)
    places = {
        name: dict(_chosen(there, here, kind, tuple(config.training.start_layers))) for name, kind in KINDS.items()
    }
    shapes = dict(zip(WEIGHTS, split(there)[1:], strict=True))
    saved = {}
    for name, kind in KINDS.items():
        left_over = _left_over(there, kind, places[name], tuple(config.training.start_layers))
        leaves = {path: _shape(shapes[name], found) for path, found in places[name].items()} | {
            path: _at(shapes[name], path) for path in left_over
        }
        saved[name] = unflatten({"/".join(path): leaf for path, leaf in leaves.items()}, "/")
    saved, wanted = without_own(saved, {name: abstract[name] for name in WEIGHTS}, *own)
    if problems := differences(saved, wanted):
        raise ConfigError([f"{folder}: {problem}" for problem in problems])
    whole = abstract["step"].sharding
    weights, step = read_weights(
        folder, jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=whole), shapes)
    )

    def value(path: Any, leaf: jax.ShapeDtypeStruct) -> jax.Array:
        name, *inside = (key.key for key in path)
        found = places[name][tuple(inside)]
        pieces = [np.asarray(_at(weights[name], source)) for source, _ in found]
        if found[0][1] is not None:
            return jax.device_put(
                np.stack([piece[index] for piece, (_, index) in zip(pieces, found, strict=True)]), leaf.sharding
            )
        return jax.device_put(pieces[0], leaf.sharding)

    return jax.tree_util.tree_map_with_path(value, wanted), step


def _variables(module: nnx.Module, kind: type) -> Iterator[tuple[Names, nnx.Variable, bool]]:
    """(path, variable, whether it is stored for several layers together)."""
    for path, variable in nnx.state(module, kind).flat_state():
        yield tuple(map(str, path)), variable, variable.get_metadata("axes")[:1] == ("layers",)


def _by_layer(module: nnx.Module, kind: type) -> dict[str, Place]:
    """Where the array of each layer is, by its path in a model whose layers are stored one by one."""
    found: dict[str, Place] = {}
    for path, variable, stacked in _variables(module, kind):
        names = unrolled_paths(path, variable) if stacked else ["/".join(path)]
        found |= {name: (path, index if stacked else None) for index, name in enumerate(names)}
    return found


def _chosen(
    there: nnx.Module, here: nnx.Module, kind: type, layers: tuple[int, ...]
) -> Iterator[tuple[Names, list[Place]]]:
    """For every variable of `here` that `there` has: where its layers are."""
    found = _by_layer(there, kind)
    for path, variable, stacked in _variables(here, kind):
        mine = [layers[layer] for layer in variable.get_metadata("layers")] if stacked else []
        names = unrolled_paths(path, variable, mine) if stacked else ["/".join(path)]
        if all(name in found for name in names):
            yield path, [found[name] for name in names]


def _left_over(
    there: nnx.Module, kind: type, chosen: dict[Names, list[Place]], layers: tuple[int, ...]
) -> Iterator[Names]:
    """Variables of `there`, of a layer that is taken or outside the layers, that no variable is
    made of.
    """
    used = {source for places in chosen.values() for source, _ in places}
    for path, variable, stacked in _variables(there, kind):
        if path not in used and (not stacked or set(variable.get_metadata("layers")) & set(layers)):
            yield path


def _at(tree: Any, path: Names) -> Any:
    for name in path:
        tree = tree[name]
    return tree


def _shape(shapes: Any, places: list[Place]) -> jax.ShapeDtypeStruct:
    """What comes of the arrays at these places: [layers, ...] of a layer's."""
    path, index = places[0]
    leaf = _at(shapes, path)
    return leaf if index is None else jax.ShapeDtypeStruct((len(places), *leaf.shape[1:]), leaf.dtype)
