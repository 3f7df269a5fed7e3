"""Arrays that the layers of a stack leave for later ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import jax
from jaxtyping import Array

from zoo.layers.attention.key_values import EarlierKeys
from zoo.layers.context import Context


class Left(NamedTuple):
    """Arrays that one layer leaves for later ones.

    Attributes:
        published: those of the first layer, by name (`Context.publish`); None of other layers.
        key_values: its keys and values if later layers read them (`attention.keys_from`), else None.
    """

    published: Mapping[str, Array] | None
    key_values: EarlierKeys | None

    @classmethod
    def by_layer(cls, context: Context, first: bool) -> "Left":
        """Returns what a layer has left in its context.

        Args:
            context: that of the layer, after it.
            first: it is the first layer of a stack whose layers publish something.
        """
        taken = context.key_values
        return cls(context.published if first else None, taken[0] if isinstance(taken, list) else None)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Earlier:
    """Arrays that the layers so far have left.

    Attributes:
        published: those of the first layer; None before it, and where layers publish nothing.
        key_values: by kind of layers, those of the last layer of it.
    """

    published: Mapping[str, Array] | None = None
    key_values: Mapping[str, EarlierKeys] = field(default_factory=dict)

    def readable(self) -> Mapping[str, Array] | None:
        """Returns `Context.published` for a layer after the first."""
        return None if self.published is None else MappingProxyType(self.published)

    def for_layer(self, kind: str, keys_from: Mapping[str, str]) -> EarlierKeys | list[EarlierKeys] | None:
        """Returns `Context.key_values` for a layer.

        Args:
            kind: its kind.
            keys_from: for each kind of layers the one whose keys and values it reads, or "".
        """
        if source := keys_from.get(kind):
            return self.key_values[source]
        return [] if kind and kind in keys_from.values() else None

    def following(self, left: Left, kind: str) -> "Earlier":
        """Returns what there is after a layer of some kind that has left something."""
        return Earlier(
            self.published if left.published is None else left.published,
            self.key_values if left.key_values is None else {**self.key_values, kind: left.key_values},
        )
