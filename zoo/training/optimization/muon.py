"""Muon and what is built on it: the momentum of every hidden matrix, orthogonalised."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import KeyPath, tree_map_with_path
from jaxtyping import Array, Float, Int

from zoo.models.functional import ParameterTraits, Params
from zoo.nested import flatten
from zoo.training.optimization.momentum import momentum_decay
from zoo.training.optimization.per_parameter import path_name
from zoo.training.optimization.schedules import Values

# The quintic whose iteration drives all singular values near 1 (Jordan 2024).
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
SMALLEST_NORM = 1e-7
# Added to the root of NorMuon's second moment (Li et al. 2025, algorithm 1).
SMALLEST_MOMENT = 1e-10
MATRICES, OTHERS = "matrices", "others"


class MuonState(NamedTuple):
    """The number of updates and the momentum of every matrix."""

    count: Int[Array, ""]
    momentum: Params


class OutputMomentState(NamedTuple):
    """NorMuon's average square of the directions of every matrix, [..., O] by output."""

    second: Params


def muon(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns Muon for the matrices of hidden layers, and Adam for all other parameters.

    With the gradient G of a kernel of I inputs and O outputs and the momentum mu:

        M <- mu M + (1 - mu) G
        direction = s NS((1 - mu) G + mu M)

    NS is `orthogonalise`. The scale s is sqrt(max(1, O / I)) for "spectral" (Jordan 2024) and
    0.2 sqrt(max(I, O)) for "rms" (Liu et al. 2025, section 2.2), which makes the root mean square
    of the direction about that of Adam, so a learning rate of AdamW can be kept. mu is
    `muon_momentum`, or follows its schedule (`zoo.training.optimization.momentum`).

    Stacked layers are separate matrices. The projections to queries, keys and values are one matrix
    each, over all heads; with `muon_heads` "split" the I x K part of each head is a separate matrix,
    also for the scale s (Muon Split of GLM-5, arXiv 2602.15763). The output projection is always one
    matrix. Adam, with `beta1`, `beta2` and `epsilon`, updates embeddings, heads, convolutions, vectors
    and scalars; a group of parameters gives them a rate and a decay of their own.
    """
    kind, map_matrices = values["optimizer.muon_scale"], _matrix_map(values, traits)
    scaled = optax.stateless(
        lambda directions, params: map_matrices(lambda u: _scale(kind, *u.shape[-2:]) * u, directions)
    )
    return _for_matrices(values, traits, scaled)


def normuon(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns NorMuon (Li et al. 2025, algorithm 1): Muon with directions of equal size per output.

    With U = NS((1 - mu) G + mu M) of Muon and b = `normuon_beta2`, for every output j:

        v_j <- b v_j + (1 - b) mean_i(U_ij^2),  N_ij = U_ij / (sqrt(v_j) + 1e-10)
        direction = N c / |N|

    The norm c of the direction is 0.2 sqrt(I O) for "rms" (line 9 there), and for "spectral" that of
    Muon's, sqrt(max(1, O / I)) |U|, as in the published code.
    """
    scale, decay = values["optimizer.muon_scale"], values["optimizer.normuon_beta2"]
    map_matrices = _matrix_map(values, traits)

    def init(params: Params) -> OutputMomentState:
        return OutputMomentState(jax.tree.map(lambda leaf: jnp.zeros((*leaf.shape[:-2], leaf.shape[-1])), params))

    def update(
        directions: Params, state: OutputMomentState, params: Params | None = None
    ) -> tuple[Params, OutputMomentState]:
        del params

        def normalised(u: Array, second: Array) -> Array:
            n = u / (jnp.sqrt(second) + SMALLEST_MOMENT)
            inputs, outputs = u.shape[-2:]
            size = 0.2 * (inputs * outputs) ** 0.5 if scale == "rms" else _scale(scale, inputs, outputs) * _norm(u)
            return n * (size / jnp.maximum(_norm(n), SMALLEST_MOMENT))

        second = jax.tree.map(lambda u, v: decay * v + (1 - decay) * jnp.square(u).mean(-2), directions, state.second)
        rows = jax.tree.map(lambda v: v[..., None, :], second)
        return map_matrices(normalised, directions, rows), OutputMomentState(second)

    return _for_matrices(values, traits, optax.GradientTransformation(init, update))


def muonh(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns Muon on a sphere (Wen et al. 2025, "hyperball"), to be followed by `on_spheres`.

    With U = NS((1 - mu) G + mu M) of Muon, a matrix W and R = |W|, the direction is R U / |U|, so
    the rate r is the angle of a step: W <- R (W - r R U / |U|) / |W - r R U / |U||.
    """

    def scaled(direction: Array, matrix: Array) -> Array:
        return direction * (_norm(matrix) / jnp.maximum(_norm(direction), SMALLEST_NORM))

    return _for_matrices(values, traits, optax.stateless(partial(_matrix_map(values, traits), scaled)))


def on_spheres(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns the last stage of `muonh`: the step of each hidden matrix, which ends where the matrix
    has the norm that it had before.
    """

    def project(step: Array, matrix: Array) -> Array:
        moved = matrix + step
        return moved * (_norm(matrix) / jnp.maximum(_norm(moved), SMALLEST_NORM)) - matrix

    map_matrices = _matrix_map(values, traits)
    return optax.masked(optax.stateless(partial(map_matrices, project)), traits.is_hidden_matrix)


def _norm(matrices: Float[Array, "... I O"]) -> Float[Array, "... 1 1"]:
    return jnp.linalg.norm(matrices, axis=(-2, -1), keepdims=True)


def _matrix_map(values: Values, traits: ParameterTraits) -> Callable[..., Params]:
    """Returns a function of (function, trees) that maps a function over the matrices of trees; with
    `muon_heads` "split" the part of each head is one, and the trees keep their shapes.
    """
    heads: Mapping[str, int] = traits.heads if values["optimizer.muon_heads"] == "split" else {}

    def mapped(function: Callable[..., Array], *trees: Params) -> Params:
        def apply(path: KeyPath, *leaves: Array) -> Array:
            number = heads.get(path_name(path), 1)
            if number == 1:
                return function(*leaves)
            parts = (jnp.moveaxis(leaf.reshape(*leaf.shape[:-1], number, -1), -2, -3) for leaf in leaves)
            return jnp.moveaxis(function(*parts), -3, -2).reshape(leaves[0].shape)

        return tree_map_with_path(apply, *trees)

    return mapped


def _for_matrices(
    values: Values, traits: ParameterTraits, then: optax.GradientTransformation
) -> optax.GradientTransformation:
    """Returns orthogonalised momentum and `then` for hidden matrices, and Adam for the others."""
    matrices = flatten(traits.is_hidden_matrix, "/")

    def labels(params: Params) -> Params:
        return tree_map_with_path(lambda path, _: MATRICES if matrices[path_name(path)] else OTHERS, params)

    adam = optax.scale_by_adam(*(values[f"optimizer.{name}"] for name in ("beta1", "beta2", "epsilon")))
    momentum = _orthogonal_momentum(values, _matrix_map(values, traits))
    return optax.partition({MATRICES: optax.chain(momentum, then), OTHERS: adam}, labels)


def _orthogonal_momentum(values: Values, map_matrices: Callable[..., Params]) -> optax.GradientTransformation:
    decay = momentum_decay(values, "optimizer.muon_momentum")

    def init(params: Params) -> MuonState:
        return MuonState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params))

    def update(gradient: Params, state: MuonState, params: Params | None = None) -> tuple[Params, MuonState]:
        del params
        current = jnp.asarray(values["optimizer.muon_momentum"]) if decay is None else decay(state.count)

        def averaged(average: Array, new: Array) -> Array:
            return current * average + (1 - current) * new

        momentum = jax.tree.map(averaged, state.momentum, gradient)
        nesterov = jax.tree.map(averaged, momentum, gradient)
        return map_matrices(orthogonalise, nesterov), MuonState(state.count + 1, momentum)

    return optax.GradientTransformation(init, update)


def _scale(kind: str, inputs: int, outputs: int) -> float:
    return max(1.0, outputs / inputs) ** 0.5 if kind == "spectral" else 0.2 * max(inputs, outputs) ** 0.5


def orthogonalise(matrices: Float[Array, "... I O"]) -> Float[Array, "... I O"]:
    """Returns U S V^T with all singular values S of about 1 (0.7 to 1.2), for each matrix U S' V^T.

    Newton-Schulz iterations from X = M / |M|_F: X <- a X + (b A + c A^2) X with A = X X^T, on the side
    of the smaller dimension. Matrices are float32; an accelerator multiplies them at JAX's default
    precision, in bfloat16 on a TPU and in TF32 on an NVIDIA GPU.
    """
    a, b, c = COEFFICIENTS
    x = matrices.astype(jnp.float32)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / jnp.maximum(jnp.linalg.norm(x, axis=(-2, -1), keepdims=True), SMALLEST_NORM)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).astype(matrices.dtype)
