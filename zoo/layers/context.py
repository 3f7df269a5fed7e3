"""What a forward pass hands to every layer: where the tokens stand, what they may see, and the
dropout key.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from zoo.config.parts import KINDS, values_in

if TYPE_CHECKING:
    from zoo.layers.cache import Cache


def path_hash(path: str) -> int:
    """The number that a path folds into a random key: its crc32."""
    return zlib.crc32(path.encode())


class DropoutKey(NamedTuple):
    """What decides what is dropped.

    Attributes:
        key: random key.
        rates: dropout rates that are arguments of a program, by the path of their field; a rate
            that is missing here is the config's.
    """

    key: Key[Array, ""]
    rates: Mapping[str, Float[Array, ""]] = {}

    def folded(self, number: int | Int[Array, ""]) -> "DropoutKey":
        """Returns the same rates with a key of its own."""
        return self._replace(key=jax.random.fold_in(self.key, number))

    def within(self, scope: str) -> "DropoutKey":
        """Returns the same key with the rates that hold inside a scope (`zoo.config.parts`)."""
        return self._replace(rates=values_in(scope, self.rates)) if self.rates else self


@dataclass(frozen=True)
class Memory:
    """Another sequence that a decoder reads by cross-attention.

    Attributes:
        hidden: [B, S, D], the encoder's output.
        positions: [B or 1, S]; -1 marks an empty slot, which is not read.
    """

    hidden: Float[Array, "B S D"]
    positions: Int[Array, "B S"]


@dataclass(frozen=True)
class Context:
    """Structure of the sequence, as a description rather than as an S x S array, so that fused
    kernels can use it.

    Attributes:
        positions: [B or 1, T] position of each token within its document; -1 marks an empty slot.
        documents: [B, T] number of the document that each token belongs to, when documents are
            isolated; else None.
        causal: a query sees no key at a later position, but for those of the prefix.
        in_order: known beforehand: token t of a row stands at position t or is an empty slot (in a
            causal row: one after all tokens), or, with `documents`, these stand one after another
            and each counts from 0. It lets kernels skip keys by their place in the row; the default
            assumes nothing.
        dropout_key: key of this forward pass, or None when nothing is dropped.
        training: statistics are those of the batch and are updated; else the running ones are used.
        memory: what cross-attention reads, in a decoder that has an encoder.
        key_positions, key_documents: as `positions` and `documents`, for keys that are not the
            queries' own sequence.
        prefix: where causal, keys at positions below this are seen by all queries (prefix language
            modelling); 0 for none.
        cache: where a decoder keeps keys and values for the tokens to come. Where it has some
            already, `positions` [B, 1] are those of one further token of each row.
        record: where the layers leave what `zoo.layers.activation_record` sums up; None, as nearly
            always, for nowhere.
        whole: the record holds states and attention maps beside their sums, of a batch that is
            small enough (`zoo.analysis.activations`).
    """

    positions: Int[Array, "B T"]
    documents: Int[Array, "B T"] | None = None
    causal: bool = True
    in_order: bool = False
    dropout_key: DropoutKey | None = None
    training: bool = False
    memory: Memory | None = None
    key_positions: Int[Array, "B S"] | None = None
    key_documents: Int[Array, "B S"] | None = None
    prefix: int = 0
    cache: "Cache | None" = None
    record: dict[str, Any] | None = None
    whole: bool = False

    def layer(self, index: int | Int[Array, ""]) -> "Context":
        """The context of one layer: its own cache, and its own dropout key, the same whether layers
        are scanned or unrolled.
        """
        if self.cache is not None:
            return replace(self, cache=self.cache.layer(index))
        if self.dropout_key is None:
            return self
        return replace(self, dropout_key=self.dropout_key.folded(index))

    def kind(self, name: str) -> "Context":
        """The context of layers of the kind `name`: their dropout rates; "" where all are alike."""
        if self.dropout_key is None or not name:
            return self
        return replace(self, dropout_key=self.dropout_key.within(f"{KINDS}.{name}"))

    def side(self, path: str) -> "Context":
        """The context of one of several stacks: its own dropout key and rates, and its own place in
        the record.
        """
        own = self
        if self.dropout_key is not None:
            own = self.layer(path_hash(path) % 2**31)
            own = replace(own, dropout_key=own.dropout_key.within(f"model.{path}"))
        return own if self.record is None else replace(own, record=self.record.setdefault(path, {}))

    def across(self) -> "Context":
        """The context of cross-attention: every query sees every filled slot of the memory."""
        return replace(self, documents=None, causal=False, in_order=False, key_positions=self.memory.positions)

    def dropout(
        self, x: Float[Array, "..."], rate: float, place: str, field: str = "model.dropout"
    ) -> Float[Array, "..."]:
        """Zeroes elements of `x` with probability `rate` and scales the rest by 1 / (1 - rate)
        (Srivastava et al. 2014).

        Args:
            x: activations.
            rate: value of the field in the config. With 0 nothing is dropped; any other value gives
                way to `DropoutKey.rates`, where the program takes the rate as an argument.
            place: where in the layer this happens; every place has random numbers of its own.
            field: path of the field that sets the rate, as the whole model names it.
        """
        if rate == 0 or self.dropout_key is None:
            return x
        kept = 1 - self.dropout_key.rates.get(field, rate)
        keep = jax.random.bernoulli(self.dropout_key.folded(path_hash(place)).key, kept, x.shape)
        return jnp.where(keep, x / jnp.asarray(kept, x.dtype), 0).astype(x.dtype)

    @property
    def keys_at(self) -> Int[Array, "B S"]:
        """Positions of the keys."""
        return self.positions if self.key_positions is None else self.key_positions

    def visible(
        self,
        window: int,
        queries: slice = slice(None),
        keys: slice = slice(None),
        global_tokens: int = 0,
        dilation: int = 1,
    ) -> Bool[Array, "B T S"]:
        """Which keys each query sees: True at [b, t, s] where token t sees token s.

        Args:
            window: number of visible keys, the query's own included, before it where causal and on
                both sides where not; 0 for no limit.
            queries, keys: the part of the matrix that is wanted.
            global_tokens: tokens at positions below this see all filled slots and are seen by all,
                whatever the window.
            dilation: d, the window is of the keys at distances 0, d, 2 d, ...
        """
        query, key = self.positions[:, queries, None], self.keys_at[:, None, keys]
        visible = jnp.broadcast_to(key >= 0, jnp.broadcast_shapes(query.shape, key.shape))
        if self.causal:
            visible &= (key <= query) | (key < self.prefix) if self.prefix else key <= query
        if window:
            reach = window * dilation if self.causal else (window - 1) // 2 * dilation
            near = query - key < reach if self.causal else jnp.abs(query - key) <= reach
            if dilation > 1:
                near &= (query - key) % dilation == 0
            if global_tokens:
                near |= (key < global_tokens) | ((query >= 0) & (query < global_tokens))
            visible &= near
        if self.documents is not None:
            key_documents = self.documents if self.key_documents is None else self.key_documents
            visible &= self.documents[:, queries, None] == key_documents[:, None, keys]
        return visible
