"""The cache of a decoder, so that decoding the next token processes only that token.

Each token mixer stores an entry of its own (`CacheEntry`): attention the keys and values of the
last C tokens (`zoo.layers.attention.key_values`), FAVOR+ its sums (`zoo.layers.attention.favor`).
Rows of unequal length are aligned at their ends, so all rows write the same slot of a ring at
the same time. Which slot holds which position follows from the newest one, so positions are
not stored.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int


@runtime_checkable
class CacheEntry(Protocol):
    """One layer's cache of B rows: any pytree of arrays, with a method that selects rows."""

    def take(self, rows: Int[Array, " R"]) -> "CacheEntry":
        """Returns R rows, by number."""


Entries = dict[str, CacheEntry]


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
        max_slots: slots of a ring without a window.
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

        layers = [
            {part: entry if part == "cross_attention" else entry.take(rows) for part, entry in entries.items()}
            for entries in self.layers
        ]
        return replace(self, layers=layers, newest=self.newest[rows])

    def positions(self, slots: int) -> Int[Array, "B C"]:
        """Returns the position in each slot of a ring of C = `slots`, -1 in empty slots.

        The slot written n tokens ago holds position newest - n.
        """
        positions = self.newest[:, None] - (self.newest_index - jnp.arange(slots)) % slots
        return jnp.maximum(positions, -1)
