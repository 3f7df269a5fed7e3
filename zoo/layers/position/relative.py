"""Relative positions in the scores: ALiBi's linear penalty, T5's bias by buckets of distance,
Shaw's vectors by clipped distance.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.layers.parameter import normal, parameter
from zoo.layers.position.base import Position


def alibi_slopes(num_heads: int) -> np.ndarray:
    """Returns the slopes of Press et al. 2021, section 3: 2^(-8/H), 2^(-16/H), ... for H a power of
    two.

    Other H, as in the paper's code, have the slopes of the next lower power of two, then every
    other slope of the next higher one.
    """
    lower = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (i + 1) / lower) for i in range(lower)]
    further = [2 ** (-8 * (i + 1) / (2 * lower)) for i in range(0, 2 * lower, 2)]
    return np.array(slopes + further[: num_heads - lower], np.float32)


class Alibi(Position):
    """score_h(t, s) - slope_h * |t - s|: a penalty linear in distance, with a fixed slope per head
    (Press et al. 2021, section 3).

    No parameters. In a decoder, where only s <= t is visible, this is the paper's slope * (s - t);
    in an encoder it is symmetric. With `position.scaled` the penalty is multiplied by the factor on
    the scores, `attention.scale`, as they are (Penedo et al. 2023, Falcon-RW's code).
    """

    def __init__(self, config: ResolvedConfig):
        self.num_heads = config.attention.num_heads
        self.factor = config.attention.scale if config.position.scaled else 1.0

    def score_bias(
        self, q: Float[Array, "B T H K"], q_positions: Int[Array, "#B T"], k_positions: Int[Array, "#B S"]
    ) -> Float[Array, "#B H T S"]:
        """Returns the penalty."""
        del q
        distance = jnp.abs(q_positions[:, None, :, None] - k_positions[:, None, None, :]).astype(jnp.float32)
        return -(self.factor * alibi_slopes(self.num_heads))[:, None, None] * distance


def bucket(
    distance: Int[Array, "*shape"], buckets: int, max_distance: int, bidirectional: bool
) -> Int[Array, "*shape"]:
    """Returns the bucket of `distance` = position of key - position of query (Raffel et al. 2020,
    section 2.1).

    In one direction half of the buckets hold one distance each, 0, 1, 2, ...; the rest grow
    logarithmically up to `max_distance`, beyond which all share the last. If bidirectional, the
    first half of all buckets is for keys at or before the query, the second for keys after it;
    otherwise keys after the query share bucket 0.
    """
    offset = 0
    if bidirectional:
        buckets //= 2
        offset = jnp.where(distance > 0, buckets, 0)
        distance = jnp.abs(distance)
    else:
        distance = jnp.maximum(-distance, 0)
    exact = buckets // 2
    # A table, because devices round logarithms differently at the border of a bucket.
    near = np.arange(max_distance + 1)
    ratio = np.log(np.maximum(near, 1).astype(np.float32) / np.float32(exact)) / np.float32(
        math.log(max_distance / exact)
    )
    far = np.minimum(exact + (ratio * np.float32(buckets - exact)).astype(np.int32), buckets - 1)
    return offset + jnp.asarray(np.where(near < exact, near, far), jnp.int32)[jnp.minimum(distance, max_distance)]


class RelativeBias(Position):
    """score_h(t, s) + table[bucket(s - t), h] (Raffel et al. 2020, section 2.1).

    One table [buckets, H] for all layers (T5) or, with `position.shared` off, one per layer (umT5).
    In a decoder all buckets are for keys before the query.
    """

    def __init__(self, config: ResolvedConfig):
        position = config.position
        self.buckets, self.max_distance = position.buckets, position.max_distance
        self.bidirectional = config.architecture == "encoder"
        self.table = parameter(
            (self.buckets, config.attention.num_heads), (None, "heads"), normal(config.init.embedding_std), "scalar"
        )

    def score_bias(
        self, q: Float[Array, "B T H K"] | None, q_positions: Int[Array, "#B T"], k_positions: Int[Array, "#B S"]
    ) -> Float[Array, "#B H T S"]:
        """Returns the bias of every head."""
        del q
        number = bucket(
            k_positions[:, None, :] - q_positions[:, :, None], self.buckets, self.max_distance, self.bidirectional
        )
        return jnp.moveaxis(self.table[...][number], -1, 1)


class ShawPosition(Position):
    """score(t, s) = q_t . (k_s + a_d) * scale and output_t = sum_s p(t, s) (v_s + b_d), d = clip(s
    - t, -k, k) (Shaw et al. 2018, eq. 3 to 5).

    a and b are tables [2k + 1, K] per layer that all heads share; with `position.relative_values`
    off there is no b.
    """

    reads_query = True

    @staticmethod
    def query_flops(layer: ResolvedConfig) -> float:
        """Returns 2 H K (2 k + 1) each for q . a and for the sum of the b, by distance; the sums over
        keys of one distance are not counted.
        """
        attention, position = layer.attention, layer.position
        tables = 2 if position.relative_values else 1
        return 2.0 * tables * attention.num_heads * attention.head_dim * (2 * position.clip + 1)

    def __init__(self, config: ResolvedConfig):
        self.clip = config.position.clip
        table = (2 * self.clip + 1, config.attention.head_dim), (None, None), normal(config.init.embedding_std)
        self.keys = parameter(*table, role="embedding")
        self.values = parameter(*table, role="embedding") if config.position.relative_values else None

    @property
    def has_value_bias(self) -> bool:
        """Whether values get vectors too."""
        return self.values is not None

    def _distances(
        self, q_positions: Int[Array, "#B T"], k_positions: Int[Array, "#B S"], dtype: jnp.dtype
    ) -> Float[Array, "#B T S R"]:
        distance = jnp.clip(k_positions[:, None, :] - q_positions[:, :, None], -self.clip, self.clip) + self.clip
        # A product with a one-hot matrix, because the gradient of a look-up is a slow scatter.
        return jax.nn.one_hot(distance, 2 * self.clip + 1, dtype=dtype)

    def score_bias(
        self, q: Float[Array, "B T H K"], q_positions: Int[Array, "#B T"], k_positions: Int[Array, "#B S"]
    ) -> Float[Array, "#B H T S"]:
        """Returns q_t . a_d."""
        by_distance = jnp.einsum("bthk,rk->bthr", q, self.keys[...].astype(q.dtype))
        one_hot = self._distances(q_positions, k_positions, q.dtype)
        one_hot = jnp.broadcast_to(one_hot, (q.shape[0], *one_hot.shape[1:]))
        return jnp.einsum("bthr,btsr->bhts", by_distance, one_hot, preferred_element_type=jnp.float32)

    def value_bias(
        self, probabilities: Float[Array, "B H T S"], q_positions: Int[Array, "#B T"], k_positions: Int[Array, "#B S"]
    ) -> Float[Array, "B T H K"]:
        """Returns sum_s p(t, s) b_d."""
        one_hot = self._distances(q_positions, k_positions, probabilities.dtype)
        one_hot = jnp.broadcast_to(one_hot, (probabilities.shape[0], *one_hot.shape[1:]))
        by_distance = jnp.einsum("bhts,btsr->bthr", probabilities, one_hot)
        return jnp.einsum("bthr,rk->bthk", by_distance, self.values[...].astype(probabilities.dtype))
