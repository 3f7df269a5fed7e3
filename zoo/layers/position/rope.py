"""Rotary positions, and scalings for longer sequences than in training."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.config.kinds.attention_kinds import ROTATED, width_fields
from zoo.layers.position.base import Position


def rotate_pairs(
    x: Float[Array, "B T H K"],
    positions: Int[Array, "#B T"],
    frequencies: Float[Array | np.ndarray, " half"],
    layout: str,
    factor: float = 1.0,
) -> Float[Array, "B T H K"]:
    """Rotates pair i, (a, b), by the angle p * frequency_i: (a cos - b sin, a sin + b cos) (RoPE,
    Su et al. 2021, eq. 34).

    Args:
        x: queries or keys; dimensions beyond twice the number of frequencies are not rotated.
        positions: p.
        frequencies: radians per position, one per pair.
        layout: "half" pairs dimension i with i + (number of pairs), "interleaved" pairs 2i with 2i
            + 1.
        factor: multiplies the rotated pairs.
    """
    rotated = 2 * frequencies.shape[0]
    angles = positions[:, :, None, None] * jnp.asarray(frequencies, jnp.float32)
    cos, sin = jnp.cos(angles) * factor, jnp.sin(angles) * factor
    turning, rest = x[..., :rotated].astype(jnp.float32), x[..., rotated:]
    if layout == "half":
        a, b = jnp.split(turning, 2, axis=-1)
        turned = jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    else:
        a, b = turning[..., 0::2], turning[..., 1::2]
        turned = jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(turning.shape)
    turned = turned.astype(x.dtype)
    return turned if rotated == x.shape[-1] else jnp.concatenate([turned, rest], axis=-1)


def plain_frequencies(theta: float | Float[Array, ""], rotated: int) -> Float[Array | np.ndarray, " half"]:
    """Returns theta^(-2i / rotated) for the pairs i (Su et al. 2021, eq. 15)."""
    return theta ** (-np.arange(0, rotated, 2) / rotated)


def only_highest(frequencies: Float[Array | np.ndarray, " half"], kept: int) -> Float[Array | np.ndarray, " half"]:
    """Returns the frequencies theta^(-2i / K) of pairs i < `kept`, and 0 for the other pairs (p-RoPE,
    Barbero et al. 2024).

    The pairs that turn have the frequencies of whole RoPE: of the spectrum the slow end is cut off.
    Partial RoPE (`position.fraction`) instead spreads the whole spectrum, from 1 to about 1 / theta,
    over fewer pairs, theta^(-2i / (fraction * K)), so it keeps slow pairs.
    """
    return frequencies * (np.arange(frequencies.shape[0]) < kept)


def linear_frequencies(scaling: ResolvedConfig, theta: float, rotated: int) -> Float[np.ndarray, " half"]:
    """Divides all frequencies by `position.scaling.factor`: position interpolation (Chen et al. 2023,
    eq. 4).
    """
    return plain_frequencies(theta, rotated) / scaling.factor


def dynamic_frequencies(
    scaling: ResolvedConfig, theta: float, rotated: int, length: Int[Array, ""]
) -> Float[Array, " half"]:
    """Replaces theta by theta * (factor * T / original - (factor - 1))^(rotated / (rotated - 2)),
    for a row whose length T is beyond the original one. `rotated` is the number of dimensions of a
    head that rotate, factor is `position.scaling.factor`, original `position.scaling.original_length`.

    Dynamic NTK-aware scaling, a community proposal that Peng et al. 2023, section 3.3, describe.
    """
    length = jnp.maximum(length, scaling.original_length).astype(jnp.float32)
    stretched = scaling.factor * length / scaling.original_length - (scaling.factor - 1)
    return plain_frequencies(theta * stretched ** (rotated / (rotated - 2)), rotated)


def yarn_frequencies(scaling: ResolvedConfig, theta: float, rotated: int) -> Float[np.ndarray, " half"]:
    """Keeps the frequency of pairs with more than `high` rotations over `original_length`, divides it
    by `factor` for pairs with fewer than `low`, with a linear ramp over the pair index in between
    (Peng et al. 2023, section 3.2, "NTK-by-parts"). The four names are fields of `position.scaling`.

    With `position.scaling.truncate` the ends of the ramp are whole numbers of pairs, rounded outwards
    as in the authors' code; without it they are not rounded (OpenAI 2025, gpt-oss).
    """

    def pair(rotations: float) -> float:
        return rotated * math.log(scaling.original_length / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    first, last = pair(scaling.high), pair(scaling.low)
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, rotated - 1)
    ramp = np.clip((np.arange(rotated // 2) - first) / max(last - first, 1e-3), 0, 1)
    frequencies = plain_frequencies(theta, rotated)
    return frequencies * (1 - ramp) + frequencies / scaling.factor * ramp


def llama3_frequencies(scaling: ResolvedConfig, theta: float, rotated: int) -> Float[np.ndarray, " half"]:
    """Keeps the frequency of pairs with more than `high` rotations over `original_length`, divides it
    by `factor` for pairs with fewer than `low`, with a linear ramp over the number of rotations in
    between (Grattafiori et al. 2024; LLaMA 3.1). The four names are fields of `position.scaling`.
    """
    frequencies = plain_frequencies(theta, rotated)
    rotations = scaling.original_length * frequencies / (2 * math.pi)
    kept = np.clip((rotations - scaling.low) / (scaling.high - scaling.low), 0, 1)
    return frequencies * kept + frequencies / scaling.factor * (1 - kept)


def longrope_frequencies(
    scaling: ResolvedConfig, theta: float, rotated: int, length: Int[Array, ""]
) -> Float[Array, " half"]:
    """Divides the frequency of pair i by `short_factors`[i] in rows of up to `original_length` tokens,
    and by `long_factors`[i] in longer ones (Ding et al. 2024, LongRoPE, section 3.2; Abdin et al.
    2024, Phi-3). The names are fields of `position.scaling`; the factors are found by a search.
    """
    short, long = (np.asarray(found or (1.0,), np.float32) for found in (scaling.short_factors, scaling.long_factors))
    return plain_frequencies(theta, rotated) / jnp.where(length > scaling.original_length, long, short)


SCALINGS = {
    "linear": linear_frequencies,
    "dynamic": dynamic_frequencies,
    "yarn": yarn_frequencies,
    "llama3": llama3_frequencies,
    "longrope": longrope_frequencies,
}
BY_LENGTH = ("dynamic", "longrope")
"""Scalings whose frequencies depend on the length of the longest row."""


def sharpening(scaling: ResolvedConfig) -> float:
    """Returns the factor on queries and keys: with YaRN `sharpening`, or 0.1 ln(f) + 1 if that is 0
    (Peng et al. 2023, eq. 22), sqrt(1 + ln(f) / ln(L)) with LongRoPE (Abdin et al. 2024, Phi-3), else
    1; f is `factor`, L is `original_length`.
    """
    if scaling.kind == "yarn":
        return scaling.sharpening or 0.1 * math.log(scaling.factor) + 1.0
    if scaling.kind == "longrope":
        return math.sqrt(1 + math.log(scaling.factor) / math.log(scaling.original_length))
    return 1.0


def rotary_width(config: ResolvedConfig) -> int:
    """Returns the number of dimensions of a head that RoPE may rotate: K, or what its kind of
    attention sets apart for it.
    """
    attention = config.attention
    fields = width_fields(attention.kind, ROTATED)
    return sum(attention[path.rpartition(".")[2]] for path in fields)


class Rope(Position):
    """q_t . k_s with pair i of both rotated by position * theta^(-2i/K): the score depends only on
    t - s (Su et al. 2021, eq. 16, 34).

    Values are not rotated; latent attention has queries and keys of its own to rotate, and K is their
    width. With `position.fraction` < 1 the last dimensions of a head are not
    rotated either (partial rotary, GPT-J, GPT-NeoX). With `position.kept_frequencies` p < 1 only the
    first p of the pairs turn, at the frequencies that they have with p = 1 (p-RoPE, Barbero et al.
    2024). YaRN and LongRoPE also multiply queries and keys by a number above 1, which sharpens the
    softmax (`sharpening`; Peng et al. 2023, eq. 22); in latent attention this is the rotated part of
    the score alone.
    """

    def __init__(self, config: ResolvedConfig):
        position = config.position
        self.theta, self.layout, self.scaling = position.theta, position.layout, position.scaling
        self.rotated = round(rotary_width(config) * position.fraction)
        self.kept = round(self.rotated // 2 * position.kept_frequencies)
        self.factor = sharpening(position.scaling)

    def frequencies(self, positions: Int[Array, "#B S"]) -> Float[Array | np.ndarray, " half"]:
        """Returns the radians per position of every pair, for keys at `positions`."""
        frequencies = self._all_frequencies(positions)
        return frequencies if self.kept == self.rotated // 2 else only_highest(frequencies, self.kept)

    def _all_frequencies(self, positions: Int[Array, "#B S"]) -> Float[Array | np.ndarray, " half"]:
        if self.scaling.kind == "none":
            return plain_frequencies(self.theta, self.rotated)
        length = (positions.max() + 1,) if self.scaling.kind in BY_LENGTH else ()
        return SCALINGS[self.scaling.kind](self.scaling, self.theta, self.rotated, *length)

    def rotate(
        self,
        q: Float[Array, "B T H K"],
        k: Float[Array, "B S G K"],
        q_positions: Int[Array, "#B T"],
        k_positions: Int[Array, "#B S"],
    ) -> tuple[Float[Array, "B T H K"], Float[Array, "B S G K"]]:
        """Rotates the pairs of each query and key by the angles of their position."""
        frequencies = self.frequencies(k_positions)
        return (
            rotate_pairs(q, q_positions, frequencies, self.layout, self.factor),
            rotate_pairs(k, k_positions, frequencies, self.layout, self.factor),
        )
