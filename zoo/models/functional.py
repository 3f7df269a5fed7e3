"""The functional core: a module is split once into a graph definition and nested dicts of arrays;
from there on everything is a pure function.

Loop, optimizer, checkpoints and importers see only nested dicts of arrays. No NNX transform is
used: it would cost several times a small step.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Integer

from zoo.layers.context import path_hash
from zoo.layers.parameter import ByLayer, Statistic
from zoo.nested import flatten, unflatten

Params = dict[str, Any]
Stats = dict[str, Any]


def split(module: nnx.Module) -> tuple[nnx.GraphDef, Params, Stats]:
    """Splits a module into its graph definition and the nested dicts of its parameters and of its
    statistics.
    """
    graph, params, stats = nnx.split(module, nnx.Param, Statistic)
    return graph, nnx.to_pure_dict(params), nnx.to_pure_dict(stats)


def statistics_of(module: nnx.Module) -> Stats:
    """Returns the nested dict of a module's statistics after its last call."""
    return nnx.to_pure_dict(nnx.state(module, Statistic))


def stack(module: nnx.Module, layers: Sequence[int], kind: str | None = None) -> nnx.Module:
    """Adds a leading dimension of layers to all variables of an abstract module, in place.

    Args:
        module: one layer.
        layers: numbers of the layers, counted over the whole depth.
        kind: name of their kind, if layers differ.
    """
    for _, variable in nnx.state(module, (nnx.Param, Statistic)).flat_state():
        shape = variable.get_value().shape
        variable.set_value(jax.ShapeDtypeStruct((len(layers), *shape), jnp.float32))
        variable.set_metadata(axes=("layers", *variable.get_metadata("axes")), layers=tuple(layers), layer_kind=kind)
    return module


def _leaves(module: nnx.Module, kind: type = nnx.Param) -> list[tuple[tuple[str, ...], nnx.Variable]]:
    return sorted((tuple(map(str, path)), variable) for path, variable in nnx.state(module, kind).flat_state())


def logical_axes(module: nnx.Module) -> Params:
    """Returns the logical axis names of every parameter, as a nested dict of tuples."""
    return unflatten({"/".join(path): variable.get_metadata("axes") for path, variable in _leaves(module)}, "/")


class ParameterTraits(NamedTuple):
    """The properties of a parameter, besides its values, on which its update depends.

    Attributes:
        ndim: number of dimensions within one layer, and there within one expert, nested like the
            parameters.
        is_hidden_matrix: whether it is the weight of a linear map between hidden states: its last two
            dimensions are inputs and outputs, and stacked layers and experts come before them. Nested
            likewise.
        heads: number of attention heads side by side among the outputs of a hidden matrix, by path,
            e.g. "stack/layers/attention/query/kernel"; only matrices with several heads are listed.
        model_axis: number of the dimension "embed" of each matrix and table that has one, counted from
            the last, -1, by path; vectors, scalars and convolutions over the tokens are not listed.
        norm_scales: paths of the scales of norms, those of single heads with two dimensions too.
    """

    ndim: Params
    is_hidden_matrix: Params
    heads: Mapping[str, int] = MappingProxyType({})
    model_axis: Mapping[str, int] = MappingProxyType({})
    norm_scales: frozenset[str] = frozenset()

    @property
    def decays(self) -> Params:
        """Whether weight decay applies: to two or more dimensions, and to no scale of norms."""
        flat = {path: ndim >= 2 and path not in self.norm_scales for path, ndim in flatten(self.ndim, "/").items()}
        return unflatten(flat, "/")


def parameter_traits(module: nnx.Module) -> ParameterTraits:
    """Returns the traits of every parameter of a model."""
    ndim, is_hidden_matrix, heads, model_axis, norm_scales = {}, {}, {}, {}, set()
    for path, variable in _leaves(module):
        axes, name = variable.get_metadata("axes"), "/".join(path)
        ndim[name] = len(axes) - (axes[:1] == ("layers",)) - ("expert" in axes)
        is_hidden_matrix[name] = ndim[name] == 2 and variable.get_metadata("role") in ("matrix", "expert")
        if is_hidden_matrix[name] and (number := variable.get_metadata("heads")) > 1:
            heads[name] = number
        if "embed" in axes and variable.get_metadata("role") not in ("vector", "scalar"):
            model_axis[name] = axes.index("embed") - len(axes)
        if path[-1] == "scale" and variable.get_metadata("role") == "vector":
            norm_scales.add(name)
    return ParameterTraits(
        unflatten(ndim, "/"), unflatten(is_hidden_matrix, "/"), heads, model_axis, frozenset(norm_scales)
    )


def unrolled_paths(path: tuple[str, ...], variable: nnx.Variable, layers: Sequence[int] | None = None) -> list[str]:
    """Returns the path of a stacked variable in each of its layers, or in the given ones, e.g.
    "stack/layers/3/attention/query/kernel"; names of kinds are left out.
    """
    place, kind = path.index("layers"), variable.get_metadata("layer_kind")
    after = path[place + 1 :] if kind is None else path[place + 2 :]
    layers = variable.get_metadata("layers") if layers is None else layers
    return ["/".join([*path[:place], "layers", str(layer), *after]) for layer in layers]


def _initial(module: nnx.Module, kind: type, root: Array) -> Params:
    """Returns the initial values of all variables of a type."""
    leaves = list(_leaves(module, kind))
    if not leaves:
        return {}
    stacked = [variable.get_metadata("axes")[:1] == ("layers",) for _, variable in leaves]
    names = [
        unrolled_paths(path, variable) if layers else ["/".join(path)]
        for (path, variable), layers in zip(leaves, stacked, strict=True)
    ]
    # One vectorised computation of all keys compiles faster than one for each variable.
    hashes = jnp.array([path_hash(name) for own in names for name in own], jnp.uint32)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(root, hashes)
    values: dict[str, Array] = {}
    end = 0
    for (path, variable), layers, own in zip(leaves, stacked, names, strict=True):
        start, end = end, end + len(own)
        shape, initializer = variable.get_value().shape, variable.get_metadata("initializer")
        if not layers:
            values["/".join(path)] = initializer(keys[start], shape)
        elif isinstance(initializer, ByLayer):
            numbers = jnp.array(variable.get_metadata("layers"), jnp.int32)
            make = jax.vmap(lambda key, layer, of=initializer, size=shape[1:]: of.make(key, size, layer))
            values["/".join(path)] = make(keys[start:end], numbers)
        else:
            make = jax.vmap(lambda key, make=initializer, size=shape[1:]: make(key, size))
            values["/".join(path)] = make(keys[start:end])
    return unflatten(values, "/")


def initialise(module: nnx.Module, seed: int | Integer[Array, ""]) -> Params:
    """Makes the initial values of an abstract module.

    A value is `initializer(fold_in(seed, crc32(path)))` with the path of the unrolled layer, and
    depends on nothing else in the model, but with `ByLayer` on the number of the layer: two arms of a
    comparison share the values of every parameter with the same path and shape.
    """
    return _initial(module, nnx.Param, jax.random.key(seed))


def initialise_statistics(module: nnx.Module, seed: int | Integer[Array, ""]) -> Stats:
    """Makes the initial statistics of an abstract module like `initialise`."""
    return _initial(module, Statistic, jax.random.key(seed))


def adds(module: nnx.Module) -> Stats:
    """Returns which statistics are counts that every forward pass adds to, as a nested dict of
    bools.
    """
    return unflatten(
        {"/".join(path): variable.get_metadata("adds") for path, variable in _leaves(module, Statistic)}, "/"
    )


def balanced(module: nnx.Module, stats: Stats, trained: Params | None = None) -> Stats:
    """Returns statistics after an update: biases that balance experts have moved by their rate, to the
    sign of the mean number of assignments minus that of each expert, and the counts are 0 again.

    Args:
        module: the abstract model.
        stats: statistics after the forward passes of the whole batch.
        trained: which parameters are trained, as of `trainable_mask`; biases of layers that are not
            stay.
    """
    values, mask = flatten(stats, "/"), None if trained is None else flatten(trained, "/")
    for path, variable in _leaves(module, Statistic):
        if variable.get_metadata("balances") is None:
            continue
        name, rate = variable.get_metadata("balances")
        sent, bias = "/".join(path), "/".join((*path[:-1], name))
        step = rate * _below_mean(values[sent])
        if mask is not None:
            layers = jnp.asarray(mask["/".join((*path[:-1], "router", "kernel"))])
            step = step * layers[..., None]
        values |= {bias: values[bias] + step, sent: jnp.zeros_like(values[sent])}
    return unflatten(values, "/")


def _below_mean(counts: Array) -> Array:
    """Returns sign(mean_j n_j - n_i) of whole numbers. A mean in float32 is not exact, so that equal
    numbers would seem to differ from it.
    """
    n = counts.astype(jnp.int32)
    total = n.sum(axis=-1, keepdims=True)
    whole, rest = total // n.shape[-1], total % n.shape[-1]
    return jnp.where(n > whole, -1.0, jnp.where((n == whole) & (rest == 0), 0.0, 1.0))


def refresh(module: nnx.Module, stats: Stats, seed: int | Integer[Array, ""], step: int | Integer[Array, ""]) -> Stats:
    """Redraws statistics at every multiple of their `redraw_every`, as a function of (seed, step).

    Args:
        module: the abstract module.
        stats: statistics before the step.
        seed, step: seed and step of the run; at step 0 the initial values stay.
    """
    every = {"/".join(path): variable.get_metadata("redraw_every") for path, variable in _leaves(module, Statistic)}
    if not any(every.values()):
        return stats
    current = flatten(stats, "/")

    def redrawn(period: int) -> dict[str, Array]:
        leaves = flatten(_initial(module, Statistic, jax.random.fold_in(jax.random.key(seed), step // period)), "/")
        return {path: leaves[path] for path in every if every[path] == period}

    for period in sorted({period for period in every.values() if period}):
        mine = {path: current[path] for path in every if every[path] == period}
        current |= jax.lax.cond(
            (step % period == 0) & (step > 0), lambda _, period=period: redrawn(period), lambda mine: mine, mine
        )
    return unflatten(current, "/")
