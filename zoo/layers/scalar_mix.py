"""A task's own mixture of a model's layers (Peters et al. 2018, eq. 1)."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from zoo.layers.parameter import ones, parameter, zeros

# Added to the variance, as in the published model.
EPSILON = 1e-12


def normalise_layers(layers: Float[Array, "L B T D"], filled: Bool[Array, "B T"]) -> Float[Array, "L B T D"]:
    """(h_j - mean_j) / sqrt(variance_j + 1e-12), the moments of each layer over all dimensions of all filled tokens of the batch.

    So does the published model where it normalises; nothing is learned. Empty slots become zero.
    """
    kept = filled[None, :, :, None]
    axes = (1, 2, 3)
    x = layers.astype(jnp.float32)
    mean = x.mean(axes, keepdims=True, where=kept)
    variance = jnp.square(x - mean).mean(axes, keepdims=True, where=kept)
    return jnp.where(kept, (x - mean) * jax.lax.rsqrt(variance + EPSILON), 0).astype(layers.dtype)


def scalar_mix(layers: Float[Array, "L B T D"], weights: Float[Array, " L"], gamma: Float[Array, ""]) -> Float[Array, "B T D"]:
    """gamma * sum_j softmax(weights)_j h_j (Peters et al. 2018, eq. 1)."""
    shares = gamma * jax.nn.softmax(weights)
    return jnp.einsum("l,lbtd->btd", shares.astype(layers.dtype), layers)


class ScalarMix(nnx.Module):
    """Learned `weights` (from 0: the mean) and `gamma` (from 1) of `scalar_mix`.

    Args:
        num_layers: L, how many layers are mixed; for ELMo one more than its LSTM layers.
        normalise: normalise each layer first, see `normalise_layers`.
    """

    def __init__(self, num_layers: int, normalise: bool = False):
        self.weights = parameter((num_layers,), (None,), zeros)
        self.gamma = parameter((), (), ones)
        self.normalise = normalise

    def __call__(self, layers: Float[Array, "L B T D"], filled: Bool[Array, "B T"] | None = None) -> Float[Array, "B T D"]:
        """Mixes the layers.

        Args:
            layers: e.g. what `ELMo.representations` gives.
            filled: False for empty slots; only a mixture that normalises needs it.

        Raises:
            ValueError: if there are more or fewer layers than weights, or normalising is asked for without `filled`.
        """
        if layers.shape[0] != self.weights.shape[0]:
            raise ValueError(f"{layers.shape[0]} layers for a mixture of {self.weights.shape[0]}")
        if self.normalise:
            if filled is None:
                raise ValueError("normalising layers needs to know which tokens are filled")
            layers = normalise_layers(layers, filled)
        return scalar_mix(layers, self.weights[...], self.gamma[...])
