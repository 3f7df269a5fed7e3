"""Muon: the momentum of every hidden matrix, orthogonalised (Jordan 2024; Liu et al. 2025)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from zoo.models.functional import ParameterTraits, Params
from zoo.nested import flatten
from zoo.training.optimization.schedules import Values

# The quintic whose iteration drives all singular values near 1 (Jordan 2024).
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
SMALLEST_NORM = 1e-7
MATRICES, OTHERS = "matrices", "others"


class MuonState(NamedTuple):
    """The momentum of every matrix."""

    momentum: Params


def muon(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns Muon for the matrices of hidden layers, and Adam for all other parameters.

    With the gradient G of a kernel of I inputs and O outputs and the momentum mu:

        M <- mu M + (1 - mu) G
        direction = s NS((1 - mu) G + mu M)

    NS is `orthogonalise`. The scale s is sqrt(max(1, O / I)) for "spectral" (Jordan 2024) and
    0.2 sqrt(max(I, O)) for "rms" (Liu et al. 2025, section 2.2), which makes the root mean square
    of the direction about that of Adam, so that a learning rate of AdamW can be kept. Query, key and
    value projections are one matrix each, over all heads; stacked layers are separate matrices.
    Embeddings, heads, convolutions, vectors and scalars are left to Adam with `beta1`, `beta2` and
    `epsilon`; a group of parameters gives them a rate and a decay of their own.
    """
    matrices = flatten(traits.is_hidden_matrix, "/")

    def labels(params: Params) -> Params:
        return jax.tree_util.tree_map_with_path(
            lambda path, _: MATRICES if matrices["/".join(str(key.key) for key in path)] else OTHERS, params
        )

    adam = optax.scale_by_adam(*(values[f"optimizer.{name}"] for name in ("beta1", "beta2", "epsilon")))
    rule = _scale_by_muon(values["optimizer.muon_momentum"], values["optimizer.muon_scale"])
    return optax.partition({MATRICES: rule, OTHERS: adam}, labels)


def _scale_by_muon(decay: float | Float[Array, ""], scale: str) -> optax.GradientTransformation:
    def init(params: Params) -> MuonState:
        return MuonState(jax.tree.map(jnp.zeros_like, params))

    def update(gradient: Params, state: MuonState, params: Params | None = None) -> tuple[Params, MuonState]:
        del params

        def averaged(average: Array, new: Array) -> Array:
            return decay * average + (1 - decay) * new

        momentum = jax.tree.map(averaged, state.momentum, gradient)
        nesterov = jax.tree.map(averaged, momentum, gradient)
        return jax.tree.map(lambda matrix: _scale(scale, *matrix.shape[-2:]) * orthogonalise(matrix), nesterov), (
            MuonState(momentum)
        )

    return optax.GradientTransformation(init, update)


def _scale(kind: str, inputs: int, outputs: int) -> float:
    return max(1.0, outputs / inputs) ** 0.5 if kind == "spectral" else 0.2 * max(inputs, outputs) ** 0.5


def orthogonalise(matrices: Float[Array, "... I O"]) -> Float[Array, "... I O"]:
    """Returns U S V^T with all singular values S of about 1 (0.7 to 1.2), for each matrix U S' V^T.

    Newton-Schulz iterations in float32, from X = M / |M|_F: X <- a X + (b A + c A^2) X with
    A = X X^T, on the side of the smaller dimension.
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
