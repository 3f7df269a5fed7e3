"""FAVOR+: softmax attention through positive orthogonal random features, in time and memory linear in T (Choromanski et al. 2021)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from zoo.layers.context import Context

EPSILON = 1e-4


def random_features(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "M K"]:
    """Rows that are orthogonal in blocks of K, each as long as a normal vector (Choromanski et al. 2021, section 3.2)."""
    M, K = shape
    directions, lengths = jax.random.split(key)
    blocks = jax.random.normal(directions, (-(-M // K), K, K))
    orthogonal = jnp.linalg.qr(blocks)[0].transpose(0, 2, 1).reshape(-1, K)[:M]
    return orthogonal * jnp.linalg.norm(jax.random.normal(lengths, (M, K)), axis=1, keepdims=True)


def performer_attention(
    q: Float[Array, "B T H K"], k: Float[Array, "B S G K"], v: Float[Array, "B S G K"], features: Float[Array, "M K"], context: Context
) -> Float[Array, "B T H K"]:
    """phi(q_t)^T sum_s phi(k_s) v_s^T / (phi(q_t)^T sum_s phi(k_s))."""
    raise NotImplementedError
