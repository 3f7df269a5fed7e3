"""Attention's cache: keys and values of earlier tokens, in a ring of C slots.

C is the maximum number of tokens, or the window if that is smaller. All rows write the same slot at
the same time, so a write is one slice; `Cache.positions` says which slot holds which position.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.layers.cache import Cache


def window_span(window: int, dilations: Sequence[int]) -> int:
    """Returns the number of tokens from the first to the last of a window, the widest of all heads; 0
    without a window.
    """
    return (window - 1) * max(dilations, default=1) + 1 if window else 0


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KeyValues:
    """Keys, already rotated, and values, in the layout of the matrix products.

    Rows and heads are one dimension, N = B G, which is left out if it is 1: XLA's CPU backend
    copies a cache with a dimension of 1 several times for every token (5 x slower at B 1, H 12,
    K 64, C 1024; 2 x with one key head).

    Attributes:
        keys: [N, C, K], or [C, K].
        values: [N, C, V], or [C, V].
        heads: G.
    """

    keys: Float[Array, "*N C K"]
    values: Float[Array, "*N C V"]
    heads: int = field(metadata={"static": True})

    @classmethod
    def of(cls, k: Float[Array, "B C G K"], v: Float[Array, "B C G V"]) -> "KeyValues":
        """Returns keys and values of attention in this layout."""
        return cls(_joined(k), _joined(v), k.shape[2])

    @classmethod
    def newest_of(
        cls, k: Float[Array, "B T G K"], v: Float[Array, "B T G V"], cache: Cache, window: int
    ) -> "KeyValues":
        """Returns a ring with the last C keys and values of each row; requires token t to have
        position t.

        Args:
            k, v: keys and values of the rows.
            cache: the cache of these rows.
            window: number of tokens that a query sees; 0 for all.
        """
        source = cache.positions(min(window or cache.max_slots, cache.max_slots))
        source = jnp.clip(source, 0, k.shape[1] - 1)[:, :, None, None]
        return cls.of(*(jnp.take_along_axis(x, source, axis=1) for x in (k, v)))

    @property
    def slots(self) -> int:
        """Returns C."""
        return self.keys.shape[-2]

    def with_next(self, k: Float[Array, "B 1 G K"], v: Float[Array, "B 1 G V"], cache: Cache) -> "KeyValues":
        """Returns the ring in which the oldest key and value are replaced by those of the newest
        token of `cache`.
        """
        place = cache.newest_index % self.slots
        new = KeyValues.of(k, v)
        return KeyValues(
            *(
                jax.lax.dynamic_update_slice_in_dim(old, token, place, axis=-2)
                for old, token in ((self.keys, new.keys), (self.values, new.values))
            ),
            self.heads,
        )

    def take(self, rows: Int[Array, " R"]) -> "KeyValues":
        """Returns R rows, by number."""

        def of_rows(x: Array) -> Array:
            x = x.reshape(math.prod(x.shape[:-2]) // self.heads, self.heads, *x.shape[-2:])[rows]
            return _without_one(x.reshape(len(rows) * self.heads, *x.shape[-2:]))

        return KeyValues(of_rows(self.keys), of_rows(self.values), self.heads)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EarlierKeys:
    """Keys, already rotated, and values that later layers read (`attention.keys_from`).

    Attributes:
        keys, values: those of the tokens that are read now.
        kept: where the next token is decoded, the cache's entry of the layer that computed them,
            which has those of all tokens; else None.
    """

    keys: Float[Array, "B T G K"]
    values: Float[Array, "B T G V"]
    kept: KeyValues | None = None


def _joined(x: Float[Array, "B S G K"]) -> Float[Array, "*N S K"]:
    # The size is computed, as values may have width 0.
    return _without_one(x.transpose(0, 2, 1, 3).reshape(x.shape[0] * x.shape[2], x.shape[1], x.shape[3]))


def _without_one(x: Float[Array, "N S K"]) -> Float[Array, "*N S K"]:
    return x[0] if x.shape[0] == 1 else x
