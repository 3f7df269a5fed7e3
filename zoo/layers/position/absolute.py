"""Positions that are added to the embedding: a learned table, and sinusoids."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.layers.parameter import normal, parameter
from zoo.layers.position.base import Position


class Learned(Position):
    """A learned vector per position: x_t + P[offset + t] (Gehring et al. 2017), for at most
    `position.max_length` tokens.
    """

    def __init__(self, config: ResolvedConfig):
        self.max_length, self.offset = config.position.max_length, config.position.offset
        self.table = parameter(
            (self.offset + self.max_length, config.dim), (None, "embed"), normal(config.init.embedding_std), "embedding"
        )

    def embed(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        """Adds row `offset + position` of the table."""
        if x.shape[1] > self.max_length:
            raise ValueError(f"learned positions have {self.max_length} rows, the sequence has {x.shape[1]} tokens")
        # A position past the table gives NaN rather than another row.
        rows = self.table[...].at[jnp.maximum(positions, 0) + self.offset].get(mode="fill", fill_value=jnp.nan)
        # Added in float32, so that its gradient is summed over the rows of a batch in float32.
        return (x.astype(jnp.float32) + rows).astype(x.dtype)


def sinusoid(
    positions: Int[Array, "*leading"], dim: int, layout: str = "interleaved", endpoint: bool = False
) -> Float[Array, "*leading D"]:
    """Returns the vectors of Vaswani et al. 2017, section 3.5: PE[p, 2i] = sin(p / 10000^(2i/D)),
    PE[p, 2i+1] = cos(p / 10000^(2i/D)).

    With layout "half" the sines are in the first half and the cosines in the second. With
    `endpoint` the powers are i/(D/2 - 1), so the last frequency is 1/10000. The authors' code
    (tensor2tensor) and fairseq have both; Marian has only halves.
    """
    pairs = np.arange(dim // 2)
    wavelengths = 10000.0 ** (pairs / (dim / 2 - 1) if endpoint else 2 * pairs / dim)
    angles = positions[..., None] / wavelengths.astype(np.float32)
    axis = -1 if layout == "interleaved" else -2
    return jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=axis).reshape(*positions.shape, dim)


class Sinusoidal(Position):
    """A fixed vector per position, added to the embedding: PE[p, 2i] = sin(p / 10000^(2i/D)), PE[p,
    2i+1] = cos(p / 10000^(2i/D)) (Vaswani et al. 2017, section 3.5). No parameters; the dot product
    of two vectors depends only on their distance.
    """

    def __init__(self, config: ResolvedConfig):
        self.layout, self.offset, self.endpoint = (
            config.position.layout,
            config.position.offset,
            config.position.endpoint,
        )

    def embed(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        """Adds the sinusoids."""
        return x + sinusoid(positions + self.offset, x.shape[-1], self.layout, self.endpoint).astype(x.dtype)
