"""The cache of a decoder, so that decoding the next token processes only that token.

Attention keeps keys and values in a ring of C slots: C is the maximum number of tokens, or the
window if that is smaller. All rows write the same slot at the same time, so that a write is one
slice; rows of unequal length are aligned at their ends. Which slot holds which position follows
from the newest one, so that positions are not stored. FAVOR+ keeps its sums
(`zoo.layers.performer`).
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class KeyValues(NamedTuple):
    """Keys, already rotated, and values, in the layout of the matrix products.

    Rows and heads are one dimension, N = B G, which is left out if it is 1: XLA's CPU backend
    copies a cache with a dimension of 1 several times for every token (5 x slower at B 1, H 12,
    K 64, C 1024; 2 x with one key head).

    Attributes:
        keys, values: [N, C, K], or [C, K].
    """

    keys: Float[Array, "*N C K"]
    values: Float[Array, "*N C K"]

    @classmethod
    def of(cls, k: Float[Array, "B C G K"], v: Float[Array, "B C G K"]) -> "KeyValues":
        """Returns keys and values of attention in this layout."""
        return cls(_joined(k), _joined(v))

    @property
    def slots(self) -> int:
        """Returns C."""
        return self.keys.shape[-2]

    def take(self, rows: Int[Array, " R"], batch: int) -> "KeyValues":
        """Returns R rows, by number, of B = `batch`."""

        def of_rows(x: Array) -> Array:
            x = x.reshape(batch, -1, *x.shape[-2:])[rows]
            return _without_one(x.reshape(-1, *x.shape[-2:]))

        return KeyValues(of_rows(self.keys), of_rows(self.values))


class FeatureSums(NamedTuple):
    """Sums over keys of FAVOR+, all that further queries need.

    Attributes:
        largest: m, the largest w_j . k.
        scaled: sum_s exp(w_j . k_s - |k_s|^2 / 2 - m) (v_s, 1), of U = K + 1 columns.
        plain: sum_s (v_s, 1), the factor of EPSILON.
    """

    largest: Float[Array, "B G"]
    scaled: Float[Array, "B G M U"]
    plain: Float[Array, "B G U"]


Entries = dict[str, KeyValues | FeatureSums]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cache:
    """The cache of B rows of tokens, for all layers or, within a layer, for that one.

    A forward pass updates `layers` in place; modules do not own the cache.

    Attributes:
        layers: entries of each layer by sublayer, "attention" or "cross_attention"; empty before
            the prompt is read.
        newest: position of each row's newest token.
        newest_index: index of the newest token among all tokens written; token n is stored in slot
            n mod C.
        max_slots: slots of a layer without a window.
        memory_positions: [M, S], positions of the memory of cross-attention; B may be a multiple of
            M, and each of its rows then serves B / M neighbouring rows.
    """

    layers: list[Entries]
    newest: Int[Array, " B"]
    newest_index: Int[Array, ""]
    max_slots: int = field(metadata={"static": True})
    memory_positions: Int[Array, "M S"] | None = None

    def layer(self, index: int) -> "Cache":
        """Returns the cache of one layer, which shares its entries with this one."""
        return replace(self, layers=[self.layers[index]])

    @property
    def entries(self) -> Entries:
        """Returns the entries of the only layer."""
        (entries,) = self.layers
        return entries

    @property
    def filled(self) -> bool:
        """Returns whether the prompt has been read."""
        return any(self.layers)

    def following(self) -> "Cache":
        """Returns the cache for the next token of every row."""
        return replace(
            self,
            layers=[dict(entries) for entries in self.layers],
            newest=self.newest + 1,
            newest_index=self.newest_index + 1,
        )

    def take(self, rows: Int[Array, " R"]) -> "Cache":
        """Returns the cache of R rows, by number; the memory of cross-attention stays unchanged."""

        def taken(part: str, entry: KeyValues | FeatureSums) -> KeyValues | FeatureSums:
            if part == "cross_attention":
                return entry
            return (
                entry.take(rows, len(self.newest))
                if isinstance(entry, KeyValues)
                else jax.tree.map(lambda x: x[rows], entry)
            )

        layers = [{part: taken(part, entry) for part, entry in entries.items()} for entries in self.layers]
        return replace(self, layers=layers, newest=self.newest[rows])

    def positions(self, slots: int) -> Int[Array, "B C"]:
        """Returns the position in each slot of a ring of C = `slots`, -1 in empty slots.

        The slot written n tokens ago holds position newest - n.
        """
        positions = self.newest[:, None] - (self.newest_index - jnp.arange(slots)) % slots
        return jnp.maximum(positions, -1)

    def fill(self, part: str, k: Float[Array, "B T G K"], v: Float[Array, "B T G K"], window: int) -> None:
        """Stores the last C keys and values of each row; requires token t to have position t.

        Args:
            part: sublayer.
            k, v: keys and values of the rows.
            window: see `Context.visible`.
        """
        source = self.positions(min(window or self.max_slots, self.max_slots))
        source = jnp.clip(source, 0, k.shape[1] - 1)[:, :, None, None]
        self.keep(part, *(jnp.take_along_axis(x, source, axis=1) for x in (k, v)))

    def keep(self, part: str, k: Float[Array, "M S G K"], v: Float[Array, "M S G K"]) -> None:
        """Stores the keys and values of the cross-attention memory, which does not grow."""
        self.entries[part] = KeyValues.of(k, v)

    def extend(self, part: str, k: Float[Array, "B 1 G K"], v: Float[Array, "B 1 G K"]) -> KeyValues:
        """Replaces the oldest key and value by those of one token, and returns all."""
        kept = self.entries[part]
        place = self.newest_index % kept.slots
        written = (
            jax.lax.dynamic_update_slice_in_dim(old, new, place, axis=-2)
            for old, new in zip(kept, KeyValues.of(k, v), strict=True)
        )
        self.entries[part] = KeyValues(*written)
        return self.entries[part]


def _joined(x: Float[Array, "B S G K"]) -> Float[Array, "*N S K"]:
    return _without_one(x.transpose(0, 2, 1, 3).reshape(-1, x.shape[1], x.shape[3]))


def _without_one(x: Float[Array, "N S K"]) -> Float[Array, "*N S K"]:
    return x[0] if x.shape[0] == 1 else x
