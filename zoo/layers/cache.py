"""What a decoder keeps of the tokens so far, so that a further token costs the work of one token.

Attention keeps keys and values in a ring of C slots: C is the most tokens there can be, or the
window where that is smaller. All rows write the same slot at the same time, so that a write is one
slice; rows of unequal length stand with their ends side by side, and which slot holds which
position follows from the newest one: nothing else has to be remembered. FAVOR+ keeps its sums
(`zoo.layers.performer`).
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

if TYPE_CHECKING:
    from zoo.layers.performer import Sums


class KeyValues(NamedTuple):
    """Keys, rotated already, and values: as the products want them.

    Rows and heads are one dimension, N = B G, which is left out where it is 1: XLA's CPU backend
    copies a cache that has a dimension of 1 several times for every token (attention of B 1, H 12,
    K 64, C 1024 then takes 5 x the time, with one key head twice the time).

    Attributes:
        keys, values: [N, C, K], or [C, K].
    """

    keys: Float[Array, "*N C K"]
    values: Float[Array, "*N C K"]

    @classmethod
    def of(cls, k: Float[Array, "B C G K"], v: Float[Array, "B C G K"]) -> "KeyValues":
        """What attention computes, in this form."""
        return cls(_joined(k), _joined(v))

    @property
    def slots(self) -> int:
        """C."""
        return self.keys.shape[-2]

    def take(self, rows: Int[Array, " R"], batch: int) -> "KeyValues":
        """Those of R rows, by number, of B = `batch`."""

        def of_rows(x: Array) -> Array:
            x = x.reshape(batch, -1, *x.shape[-2:])[rows]
            return _without_one(x.reshape(-1, *x.shape[-2:]))

        return KeyValues(of_rows(self.keys), of_rows(self.values))


Entries = dict[str, "KeyValues | Sums"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cache:
    """What is kept of B rows of tokens, by all layers or, within a layer, by that one.

    A call of a model writes into `layers`, as it writes statistics into its modules; no module
    holds any of it.

    Attributes:
        layers: of each layer, by sublayer: "attention", "cross_attention"; empty before the prompt
            is read.
        newest: position of each row's newest token.
        slot: the number of the slot where it stands, counted on without end: slot n is n mod C of a
            ring.
        most: slots of a layer that sees all.
        memory_positions: [M, S] of what cross-attention reads; B may be a multiple of M, whose rows
            then serve neighbours.
    """

    layers: list[Entries]
    newest: Int[Array, " B"]
    slot: Int[Array, ""]
    most: int = field(metadata={"static": True})
    memory_positions: Int[Array, "M S"] | None = None

    def layer(self, index: int) -> "Cache":
        """What one layer keeps; it is the same object, to be written into."""
        return replace(self, layers=[self.layers[index]])

    @property
    def entries(self) -> Entries:
        """Of the layer."""
        (entries,) = self.layers
        return entries

    @property
    def filled(self) -> bool:
        """Whether the prompt has been read."""
        return any(self.layers)

    def following(self) -> "Cache":
        """The cache that the next token of every row is written into."""
        return replace(
            self, layers=[dict(entries) for entries in self.layers], newest=self.newest + 1, slot=self.slot + 1
        )

    def take(self, rows: Int[Array, " R"]) -> "Cache":
        """That of R rows, by number. What cross-attention reads stays as it is."""

        def taken(part: str, entry: "KeyValues | Sums") -> "KeyValues | Sums":
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
        """Which position stands in each slot of a ring of C = `slots`, -1 where none does.

        A slot that was written n tokens before the newest holds the position n before it.
        """
        positions = self.newest[:, None] - (self.slot - jnp.arange(slots)) % slots
        return jnp.maximum(positions, -1)

    def fill(self, part: str, k: Float[Array, "B T G K"], v: Float[Array, "B T G K"], window: int) -> None:
        """Keeps the ends of rows whose token t stands at position t; `window` as in
        `Context.visible`.
        """
        source = self.positions(min(window or self.most, self.most))
        source = jnp.clip(source, 0, k.shape[1] - 1)[:, :, None, None]
        self.keep(part, *(jnp.take_along_axis(x, source, axis=1) for x in (k, v)))

    def keep(self, part: str, k: Float[Array, "M S G K"], v: Float[Array, "M S G K"]) -> None:
        """Keeps keys and values as they are: of another sequence, which grows no longer."""
        self.entries[part] = KeyValues.of(k, v)

    def extend(self, part: str, k: Float[Array, "B 1 G K"], v: Float[Array, "B 1 G K"]) -> KeyValues:
        """Writes one token's key and value in the place of the oldest, and returns all there are."""
        kept = self.entries[part]
        place = self.slot % kept.slots
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
