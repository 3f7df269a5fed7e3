"""SOAP: Adam in the eigenvectors of Shampoo's preconditioners (Vyas et al. 2024)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import KeyPath, tree_map_with_path
from jaxtyping import Array, Float, Int

from zoo.layers.decompositions import eigenvectors, qr
from zoo.models.functional import ParameterTraits, Params
from zoo.training.optimization.per_parameter import layer_axes, split_leaves
from zoo.training.optimization.schedules import Values


class SoapState(NamedTuple):
    """State of SOAP, by parameter; an array that a parameter does not need has the shape (1,).

    Attributes:
        count: number of updates.
        first, second: averages of the gradient, and of the square of the rotated gradient.
        left, right: averages of G G^T and G^T G.
        left_basis, right_basis: their eigenvectors, as columns.
    """

    count: Int[Array, ""]
    first: Params
    second: Params
    left: Params
    right: Params
    left_basis: Params
    right_basis: Params


class _Leaf(NamedTuple):
    direction: Array
    first: Array
    second: Array
    left: Array
    right: Array
    left_basis: Array
    right_basis: Array


class _Settings(NamedTuple):
    beta1: float | Float[Array, ""]
    beta2: float | Float[Array, ""]
    epsilon: float | Float[Array, ""]
    beta: float | Float[Array, ""]
    refresh: int


def soap(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns SOAP (Vyas et al. 2024, algorithm 3). With the gradient G of a matrix, b = `soap_beta`:

        G' = Q_L^T G Q_R
        M <- beta1 M + (1 - beta1) G,  V <- beta2 V + (1 - beta2) G'^2
        direction = Q_L (Q_L^T M Q_R / (sqrt(V) + epsilon)) Q_R^T sqrt(1 - beta2^t) / (1 - beta1^t)
        L <- b L + (1 - b) G G^T,  R <- b R + (1 - b) G^T G

    M is kept as it is and rotated when it is used, so that it follows a change of the basis. Every
    `soap_refresh` updates Q becomes the Q of a QR decomposition of L Q, with columns in the order of
    falling Q^T L Q, and V is put into the same order. The first gradient only makes L, R and, by an
    eigendecomposition, the first Q: nothing moves, not even by weight decay. t counts the updates
    after it. A side longer than `soap_max_dim` is not rotated, and vectors have no sides: they follow
    Adam. Each layer of a stack is a matrix of its own.
    """
    settings = _Settings(
        *(values[f"optimizer.{name}"] for name in ("beta1", "beta2", "epsilon", "soap_beta", "soap_refresh"))
    )
    axes_of, longest = layer_axes(traits), values["optimizer.soap_max_dim"]

    def rotates(path: KeyPath, side: int) -> bool:
        return len(axes_of(path)) == 2 and side <= longest

    def init(params: Params) -> SoapState:
        def square(axis: int) -> Callable[[KeyPath, Array], Array]:
            def zeros_of_side(path: KeyPath, leaf: Array) -> Array:
                if leaf.ndim < 2 or not rotates(path, leaf.shape[axis]):
                    return jnp.zeros(1, leaf.dtype)
                return jnp.zeros((*leaf.shape[:-2], leaf.shape[axis], leaf.shape[axis]), leaf.dtype)

            return zeros_of_side

        zeros = jax.tree.map(jnp.zeros_like, params)
        left, right = (tree_map_with_path(square(axis), params) for axis in (-2, -1))
        return SoapState(jnp.zeros((), jnp.int32), zeros, zeros, left, right, left, right)

    def update(gradient: Params, state: SoapState, params: Params | None = None) -> tuple[Params, SoapState]:
        del params
        count, *averages = state

        def update_leaf(path: KeyPath, g: Array, *own: Array) -> _Leaf:
            sides = tuple(g.ndim >= 2 and rotates(path, g.shape[axis]) for axis in (-2, -1))
            leaf = _Leaf(jnp.zeros_like(g), *own)
            return jax.lax.cond(
                count == 0,
                lambda leaf: _first(leaf, g, sides, settings),
                lambda leaf: _later(leaf, g, sides, settings, count),
                leaf,
            )

        direction, *new = split_leaves(tree_map_with_path(update_leaf, gradient, *averages), _Leaf)
        return direction, SoapState(count + 1, *new)

    return optax.GradientTransformation(init, update)


def _averaged(leaf: _Leaf, g: Array, sides: tuple[bool, bool], settings: _Settings) -> _Leaf:
    """Returns a leaf with the averages of G G^T and G^T G after a gradient."""
    b = settings.beta
    left = b * leaf.left + (1 - b) * g @ g.mT if sides[0] else leaf.left
    right = b * leaf.right + (1 - b) * g.mT @ g if sides[1] else leaf.right
    return leaf._replace(left=left, right=right)


def _first(leaf: _Leaf, g: Array, sides: tuple[bool, bool], settings: _Settings) -> _Leaf:
    """Returns a leaf after the first gradient: no direction, and the eigenvectors of the averages."""
    leaf = _averaged(leaf, g, sides, settings)
    left_basis, right_basis = (
        eigenvectors(average)[..., ::-1] if side else basis
        for side, average, basis in zip(sides, leaf[3:5], leaf[5:], strict=True)
    )
    return leaf._replace(left_basis=left_basis, right_basis=right_basis)


def _later(leaf: _Leaf, g: Array, sides: tuple[bool, bool], settings: _Settings, count: Array) -> _Leaf:
    """Returns a leaf after a later gradient."""
    beta1, beta2 = settings.beta1, settings.beta2

    def rotated(matrix: Array, back: bool = False) -> Array:
        if sides[0]:
            matrix = (leaf.left_basis if back else leaf.left_basis.mT) @ matrix
        if sides[1]:
            matrix = matrix @ (leaf.right_basis.mT if back else leaf.right_basis)
        return matrix

    first = beta1 * leaf.first + (1 - beta1) * g
    second = beta2 * leaf.second + (1 - beta2) * jnp.square(rotated(g))
    correction = jnp.sqrt(1 - beta2**count) / (1 - beta1**count)
    direction = rotated(rotated(first) / (jnp.sqrt(second) + settings.epsilon), back=True) * correction
    leaf = _averaged(leaf._replace(direction=direction, first=first, second=second), g, sides, settings)
    if not any(sides):
        return leaf
    return jax.lax.cond(count % settings.refresh == 0, lambda leaf: _refreshed(leaf, sides), lambda leaf: leaf, leaf)


def _refreshed(leaf: _Leaf, sides: tuple[bool, bool]) -> _Leaf:
    """Returns a leaf whose bases are nearer to the eigenvectors, by one step of power iteration."""
    second, bases = leaf.second, list(leaf[5:])
    for side, axis in enumerate((-2, -1)):
        if sides[side]:
            product = leaf[3 + side] @ bases[side]
            order = jnp.argsort(-(bases[side] * product).sum(-2), axis=-1)
            along_rows = order[..., None] if axis == -2 else order[..., None, :]
            second = jnp.take_along_axis(second, along_rows, axis=axis)
            bases[side] = qr(jnp.take_along_axis(product, order[..., None, :], axis=-1))[0]
    return leaf._replace(second=second, left_basis=bases[0], right_basis=bases[1])
