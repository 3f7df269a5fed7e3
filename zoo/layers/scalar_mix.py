"""Scalar mix: a task's learned mixture of a model's layers (Peters et al. 2018, eq. 1)."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.layers.parameter import ones, parameter, zeros

# Added to the variance in the published model.
EPSILON = 1e-12


def normalise_layers(layers: Float[Array, "*leading D"]) -> Float[Array, "*leading D"]:
    """Returns (h - mean(h)) / sqrt(variance(h) + 1e-12) for each layer and token, without
    parameters (Ba et al. 2016; Peters et al. 2018, section 3.2).

    AllenNLP's `do_layer_norm` takes both moments over all tokens of the batch, so a score
    would depend on the rest of the batch.
    """
    x = layers.astype(jnp.float32)
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = jnp.square(centred).mean(axis=-1, keepdims=True)
    return (centred * jax.lax.rsqrt(variance + EPSILON)).astype(layers.dtype)


def scalar_mix(
    layers: Float[Array, "*leading L D"], weights: Float[Array, " L"], gamma: Float[Array, ""]
) -> Float[Array, "*leading D"]:
    """Returns gamma * sum_j softmax(weights)_j h_j, h_j a token's state after layer j; gamma and the
    weights are learned (Peters et al. 2018, eq. 1).
    """
    shares = gamma * jax.nn.softmax(weights)
    return jnp.einsum("l,...ld->...d", shares.astype(layers.dtype), layers)


class ScalarMix(nnx.Module):
    """The learned `weights` (initially 0: the mean) and `gamma` (initially 1) of `scalar_mix`.

    Args:
        num_layers: L, number of layers to mix; for ELMo one more than its LSTM layers.
    """

    def __init__(self, num_layers: int):
        self.weights = parameter((num_layers,), (None,), zeros, "scalar")
        self.gamma = parameter((), (), ones, "scalar")

    def __call__(self, layers: Float[Array, "*leading L D"]) -> Float[Array, "*leading D"]:
        """Mixes the layers.

        Raises:
            ValueError: the number of layers differs from that of the weights.
        """
        if layers.shape[-2] != self.weights.shape[0]:
            raise ValueError(f"{layers.shape[-2]} layers for a mixture of {self.weights.shape[0]}")
        return scalar_mix(layers, self.weights[...], self.gamma[...])
