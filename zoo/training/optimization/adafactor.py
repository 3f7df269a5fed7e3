"""Adafactor: second moments of matrices by row and column (Shazeer & Stern 2018)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import KeyPath, tree_map_with_path
from jaxtyping import Array, Float, Int

from zoo.models.functional import ParameterTraits, Params
from zoo.training.optimization.per_parameter import layer_axes, split_leaves
from zoo.training.optimization.schedules import Values

SMALLEST_SQUARE = 1e-30
SMALLEST_SCALE = 1e-3


class AdafactorState(NamedTuple):
    """Averages of the squared gradient. Of a parameter, either the rows and columns or the whole are
    used; what is not used has the shape (1,).

    Attributes:
        count: number of updates.
        rows: averages over the columns, by row.
        columns: averages over the rows, by column.
        whole: averages by element.
    """

    count: Int[Array, ""]
    rows: Params
    columns: Params
    whole: Params


class _Leaf(NamedTuple):
    direction: Array
    rows: Array
    columns: Array
    whole: Array


def adafactor(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns Adafactor (Shazeer & Stern 2018, algorithms 4 and 5), without momentum.

    With the gradient G at update t and the decay b = 1 - t^-`adafactor_decay`:

        V <- b V + (1 - b) (G^2 + 1e-30)
        U = G / sqrt(V)
        direction = max(1e-3, RMS(X)) U / max(1, RMS(U) / `adafactor_clip`)

    Of a matrix, R and C are the averages of V over its columns and rows, and V = R C / mean(R). RMS(X)
    is that of the parameter; without `adafactor_scaled` the factor is left out. Both dimensions of a
    matrix have to be at least `adafactor_min_factored`; other parameters keep the whole V. Each layer
    of a stack is a parameter of its own.
    """
    exponent, threshold = values["optimizer.adafactor_decay"], values["optimizer.adafactor_clip"]
    smallest, scaled = values["optimizer.adafactor_min_factored"], values["optimizer.adafactor_scaled"]
    axes_of = layer_axes(traits)

    def is_factored(path: KeyPath, shape: tuple[int, ...]) -> bool:
        return len(axes_of(path)) >= 2 and min(shape[-2:]) >= smallest

    def init(params: Params) -> AdafactorState:
        def zeros(shape_of: Callable[[tuple[int, ...]], tuple[int, ...]], factored: bool) -> Params:
            def average(path: KeyPath, leaf: Array) -> Array:
                return jnp.zeros(shape_of(leaf.shape) if is_factored(path, leaf.shape) == factored else 1)

            return tree_map_with_path(average, params)

        return AdafactorState(
            jnp.zeros((), jnp.int32),
            rows=zeros(lambda shape: shape[:-1], True),
            columns=zeros(lambda shape: (*shape[:-2], shape[-1]), True),
            whole=zeros(lambda shape: shape, False),
        )

    def update(gradient: Params, state: AdafactorState, params: Params | None = None) -> tuple[Params, AdafactorState]:
        count = state.count + 1
        decay = 1 - count.astype(jnp.float32) ** -exponent

        def update_leaf(path: KeyPath, g: Array, rows: Array, columns: Array, whole: Array, parameter: Array) -> _Leaf:
            square = jnp.square(g) + SMALLEST_SQUARE
            if is_factored(path, g.shape):
                rows = decay * rows + (1 - decay) * square.mean(-1)
                columns = decay * columns + (1 - decay) * square.mean(-2)
                relative = rows / rows.mean(-1, keepdims=True)
                direction = g * jax.lax.rsqrt(relative)[..., None] * jax.lax.rsqrt(columns)[..., None, :]
            else:
                whole = decay * whole + (1 - decay) * square
                direction = g * jax.lax.rsqrt(whole)
            direction = direction / jnp.maximum(1, _root_mean_square(direction, axes_of(path)) / threshold)
            if scaled:
                direction = direction * jnp.maximum(SMALLEST_SCALE, _root_mean_square(parameter, axes_of(path)))
            return _Leaf(direction, rows, columns, whole)

        leaves = tree_map_with_path(update_leaf, gradient, state.rows, state.columns, state.whole, params)
        direction, *averages = split_leaves(leaves, _Leaf)
        return direction, AdafactorState(count, *averages)

    return optax.GradientTransformation(init, update)


def _root_mean_square(values: Float[Array, "..."], axes: tuple[int, ...]) -> Float[Array, "..."]:
    return jnp.sqrt(jnp.square(values).mean(axes, keepdims=True))
