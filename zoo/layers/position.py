"""Position schemes behind one interface of hooks, of which each scheme implements what it needs.

`embed` adds vectors to the token embeddings, `rotate` turns queries and keys, `score` adds to the attention scores. Positions always
come as arrays in which -1 marks an empty slot, so that packing, padding and caches need no special case.
"""

import math

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.layers.parameter import normal, parameter


class Position(nnx.Module):
    """No position information, and the interface: every hook leaves things as they are."""

    max_length: int | None = None
    """Longest sequence the scheme can express, or None if there is no limit."""

    def __init__(self, config: ResolvedConfig):
        del config

    def embed(self, x: Float[Array, "B T D"], positions: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        """Adds position vectors to embeddings."""
        del positions
        return x

    def rotate(
        self, q: Float[Array, "B T H K"], k: Float[Array, "B S G K"], q_positions: Int[Array, "B T"], k_positions: Int[Array, "B S"]
    ) -> tuple[Float[Array, "B T H K"], Float[Array, "B S G K"]]:
        """Turns queries and keys by their positions."""
        del q_positions, k_positions
        return q, k

    def score(self, q_positions: Int[Array, "B T"], k_positions: Int[Array, "B S"]) -> Float[Array, "B H T S"] | None:
        """Returns what is added to the scaled scores, or None."""
        del q_positions, k_positions
        return None


class Learned(Position):
    """A learned vector per position: x_t + P[t] (Gehring et al. 2017). Cannot go past `position.max_length` rows."""

    def __init__(self, config: ResolvedConfig):
        self.max_length = config.position.max_length
        self.table = parameter((self.max_length, config.dim), (None, "embed"), normal(config.init.embedding_std))

    def embed(self, x: Float[Array, "B T D"], positions: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        """Adds row `position` of the table."""
        if x.shape[1] > self.max_length:
            raise ValueError(f"learned positions have {self.max_length} rows, the sequence has {x.shape[1]} tokens")
        # A position past the table must not quietly read another row.
        return x + self.table[...].astype(x.dtype).at[jnp.maximum(positions, 0)].get(mode="fill", fill_value=jnp.nan)


def sinusoid(positions: Int[Array, "*leading"], dim: int) -> Float[Array, "*leading D"]:
    """Vaswani et al. 2017, section 3.5: PE[p, 2i] = sin(p / 10000^(2i/D)), PE[p, 2i+1] = cos(p / 10000^(2i/D))."""
    wavelengths = 10000.0 ** (np.arange(0, dim, 2) / dim)
    angles = positions[..., None] / wavelengths.astype(np.float32)
    return jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1).reshape(*positions.shape, dim)


class Sinusoidal(Position):
    """A fixed vector of sines and cosines per position, added to the embedding."""

    def __init__(self, config: ResolvedConfig):
        del config

    def embed(self, x: Float[Array, "B T D"], positions: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        """Adds the sinusoids."""
        return x + sinusoid(positions, x.shape[-1]).astype(x.dtype)


def rotate_pairs(
    x: Float[Array, "B T H K"], positions: Int[Array, "B T"], theta: float, rotated: int, layout: str
) -> Float[Array, "B T H K"]:
    """RoPE (Su et al. 2021, eq. 34): the pair (a, b) number i of the first `rotated` dimensions turns by the angle
    p * theta^(-2i/rotated): (a cos - b sin, a sin + b cos). The remaining dimensions stay as they are.

    Args:
        layout: "half" pairs dimension i with i + rotated/2, "interleaved" pairs 2i with 2i + 1.
    """
    frequencies = theta ** (-np.arange(0, rotated, 2) / rotated)
    angles = positions[:, :, None, None] * frequencies.astype(np.float32)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    turning, rest = x[..., :rotated].astype(jnp.float32), x[..., rotated:]
    if layout == "half":
        a, b = jnp.split(turning, 2, axis=-1)
        turned = jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    else:
        a, b = turning[..., 0::2], turning[..., 1::2]
        turned = jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(turning.shape)
    turned = turned.astype(x.dtype)
    return turned if rotated == x.shape[-1] else jnp.concatenate([turned, rest], axis=-1)


class Rope(Position):
    """Rotary positions: the score of a query and a key depends on their distance only. Values are not rotated."""

    def __init__(self, config: ResolvedConfig):
        self.theta, self.layout = config.position.theta, config.position.layout
        self.rotated = round(config.attention.head_dim * config.position.fraction)

    def rotate(
        self, q: Float[Array, "B T H K"], k: Float[Array, "B S G K"], q_positions: Int[Array, "B T"], k_positions: Int[Array, "B S"]
    ) -> tuple[Float[Array, "B T H K"], Float[Array, "B S G K"]]:
        """Turns the pairs of each query and key by their position's angles."""
        return (
            rotate_pairs(q, q_positions, self.theta, self.rotated, self.layout),
            rotate_pairs(k, k_positions, self.theta, self.rotated, self.layout),
        )


def alibi_slopes(num_heads: int) -> np.ndarray:
    """Slopes of Press et al. 2021, section 3: 2^(-8/H), 2^(-16/H), ... for H a power of two.

    For other H, as in the paper's code: those of the next lower power of two, then every other one of the next higher.
    """
    lower = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (i + 1) / lower) for i in range(lower)]
    further = [2 ** (-8 * (i + 1) / (2 * lower)) for i in range(0, 2 * lower, 2)]
    return np.array(slopes + further[: num_heads - lower], np.float32)


class Alibi(Position):
    """ALiBi: score - slope_h * (position of query - position of key). No parameters."""

    def __init__(self, config: ResolvedConfig):
        self.num_heads = config.attention.num_heads

    def score(self, q_positions: Int[Array, "B T"], k_positions: Int[Array, "B S"]) -> Float[Array, "B H T S"]:
        """Returns the penalty, linear in distance."""
        distance = (q_positions[:, None, :, None] - k_positions[:, None, None, :]).astype(jnp.float32)
        return -alibi_slopes(self.num_heads)[:, None, None] * distance


POSITIONS = {"none": Position, "learned": Learned, "sinusoidal": Sinusoidal, "rope": Rope, "alibi": Alibi}


def make_position(config: ResolvedConfig) -> Position:
    """Builds the scheme that `position.kind` names, from the `model` part of a config."""
    return POSITIONS[config.position.kind](config)
