"""Initial values of the vectors of RWKV-7's time mixing, as in the authors' code (Peng et al. 2025;
github.com/BlinkDL/RWKV-LM, RWKV-v7/train_temp).

Over I channels, i = 0 .. I - 1, n the channel within its head of K, layer l = 0 .. L - 1:

    linear = i / (I - 1) - 1/2, from -1/2 to 1/2 over all channels
    bent = z |z|, with z = 2 n / (K - 1) - 1, from -1 to 1 over each head
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.layers.parameter import ByLayer, Initializer

MIX_POWERS = {"receptance": 0.2, "decay": 0.9, "key": 0.7, "value": 0.7, "rate": 0.9, "gate": 0.2}
"""The power in `token_mix` of each of the six mixtures."""


def _linear(size: int) -> Float[Array, " I"]:
    return jnp.arange(size) / max(size - 1, 1) - 0.5


def _bent(size: int, head: int) -> Float[Array, " I"]:
    z = 2 * (jnp.arange(size) % head) / max(head - 1, 1) - 1
    return z * jnp.abs(z)


def token_mix(power: float, depth: int) -> ByLayer:
    """Returns the initializer of the share of the token before, 1 - (i / D)^(power (1 - l / L)): 1 for
    the first channels, less for later ones, and less in later layers.
    """

    def make(key: Array, shape: tuple[int, ...], layer: Int[Array, ""]) -> Array:
        del key
        return 1 - (jnp.arange(shape[0]) / shape[0]) ** (power * (1 - layer / depth))

    return ByLayer(make)


def decay_bias(head: int, depth: int) -> ByLayer:
    """Returns the initializer of c_w, -5.5 + 6 (i / (I - 1))^(1 + (l / (L - 1))^0.3) + 2.5 bent: from
    slow to fast decays over the channels.
    """

    def make(key: Array, shape: tuple[int, ...], layer: Int[Array, ""]) -> Array:
        del key
        power = 1 + (layer / max(depth - 1, 1)) ** 0.3
        return -5.5 + 6 * (_linear(shape[0]) + 0.5) ** power + 2.5 * _bent(shape[0], head)

    return ByLayer(make)


def rate_bias(head: int) -> Initializer:
    """Returns the initializer of c_a, -0.19 + 0.3 bent + 0.4 linear."""
    return lambda key, shape: -0.19 + 0.3 * _bent(shape[0], head) + 0.4 * _linear(shape[0])


def value_bias() -> Initializer:
    """Returns the initializer of c_v, 0.73 - 0.4 linear."""
    return lambda key, shape: 0.73 - 0.4 * _linear(shape[0])


def erased_scale() -> Initializer:
    """Returns the initializer of n, 0.71 - 0.1 linear."""
    return lambda key, shape: 0.71 - 0.1 * _linear(shape[0])


def norm_scale(depth: int) -> ByLayer:
    """Returns the initializer of the norm's scale, ((l + 1) / L)^0.7."""

    def make(key: Array, shape: tuple[int, ...], layer: Int[Array, ""]) -> Array:
        del key
        return jnp.full(shape, ((layer + 1) / depth) ** 0.7)

    return ByLayer(make)
