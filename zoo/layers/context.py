"""The context of a forward pass: positions of the tokens, visible keys, and the dropout key."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from zoo.config import LOSS_TERMS
from zoo.config.scopes import KINDS, values_in
from zoo.layers.activation_sharding import ActivationSharding
from zoo.layers.cache import Cache
from zoo.layers.platform import Platform


def path_hash(path: str) -> int:
    """Returns the integer that is folded into a random key to make it specific to a path: the path's
    crc32.
    """
    return zlib.crc32(path.encode())


class DropoutKey(NamedTuple):
    """Random key and rates of dropout.

    Attributes:
        key: random key.
        rates: dropout rates that are arguments of a program, by the path of their field; a rate
            that is missing here is the config's.
        rows: numbers of the rows of this pass in the whole batch, of which each has masks of its own;
            None where the masks are drawn for all rows at once.
    """

    key: Key[Array, ""]
    rates: Mapping[str, Float[Array, ""]] = {}
    rows: Int[Array, " B"] | None = None

    def folded(self, number: int | Int[Array, ""]) -> "DropoutKey":
        """Returns a copy with `number` folded into the key."""
        return self._replace(key=jax.random.fold_in(self.key, number))

    def kept(self, share: float | Float[Array, ""], shape: tuple[int, ...]) -> Bool[Array, "..."]:
        """Returns which elements of activations stay, each with probability `share`.

        With `rows`, the mask of a row is a function of the key and the row's number, so that it is
        the same in whichever part of the batch, and on whichever device, the row is. Activations may
        have several leading entries for each row, such as windows. What has no rows, because its first
        dimension is no multiple of theirs, has one mask for the whole batch.

        Args:
            share: probability of an element to stay.
            shape: that of the activations, rows first.
        """
        if self.rows is None or not shape or shape[0] % len(self.rows):
            return jax.random.bernoulli(self.key, share, shape)
        entries = shape[0] // len(self.rows)
        numbers = (self.rows[:, None] * entries + jnp.arange(entries)).reshape(-1)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(self.key, numbers)
        return jax.vmap(lambda key: jax.random.bernoulli(key, share, shape[1:]))(keys)

    def uniform(self, place: str, shape: tuple[int, ...], low: float, high: float) -> Float[Array, "..."]:
        """Returns numbers between `low` and `high` for a place in the layer, by row as in `kept`."""
        return self._drawn(place, shape, lambda key, shape: jax.random.uniform(key, shape, minval=low, maxval=high))

    def normal(self, place: str, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Returns standard normal numbers likewise."""
        return self._drawn(place, shape, jax.random.normal)

    def _drawn(self, place: str, shape: tuple[int, ...], draw: Callable[..., Array]) -> Array:
        key = self.folded(path_hash(place)).key
        if self.rows is None:
            return draw(key, shape)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, self.rows)
        return jax.vmap(lambda own: draw(own, shape[1:]))(keys)

    def within(self, scope: str) -> "DropoutKey":
        """Returns the same key with the rates that hold inside a scope (`zoo.config.scopes`)."""
        return self._replace(rates=values_in(scope, self.rates)) if self.rates else self


@dataclass(frozen=True)
class Memory:
    """Another sequence that a decoder reads by cross-attention.

    Attributes:
        hidden: [B, S, D], the encoder's output.
        positions: [B or 1, S]; -1 marks padding, which is not read.
        padding_last: static. True promises that padding comes last.
        no_padding: static. True promises that there is none.
    """

    hidden: Float[Array, "B S D"]
    positions: Int[Array, "#B S"]
    padding_last: bool = False
    no_padding: bool = False


@dataclass(frozen=True, kw_only=True)
class ForwardMode:
    """Settings of a forward pass, before its rows are known.

    Attributes:
        dropout_key: key of this forward pass, or None when nothing is dropped.
        training: norms use and update the statistics of the batch; otherwise the running ones.
        loops: number of loops over the layers, where it is drawn for this update
            (`zoo.models.loop_draws`); None where it is that of the config. Read in training alone.
        no_padding: static. True promises that no key of any row is padding, so that positions need
            not be computed per row. False promises nothing.
        record: dict that collects the sums of `zoo.layers.activation_record`; None (the default)
            disables it.
        losses: dict that collects what `Context.add_loss` adds, by scope and name of the term; None
            (the default) disables it.
        sharding: static; how the rows are divided over devices, or None on a single one.
        platform: static; the devices that the program is compiled for, or None for those of the
            process.
        rows: numbers of the rows of this pass in the whole batch; None for all of them, in order.
    """

    dropout_key: DropoutKey | None = None
    training: bool = False
    loops: Int[Array, ""] | None = None
    no_padding: bool = False
    record: dict[str, Any] | None = None
    losses: dict[tuple[str, str], Float[Array, ""]] | None = None
    sharding: ActivationSharding | None = None
    platform: Platform | None = None
    rows: Int[Array, " rows"] | None = None


@dataclass(frozen=True)
class Context(ForwardMode):
    """A forward pass over given rows: `ForwardMode` and the structure of the sequence, described
    without an S x S array, so that fused kernels can use it.

    Attributes:
        positions: [B or 1, T] position of each token within its document; -1 marks padding.
        documents: [B, T] number of the document that each token belongs to, when documents are
            isolated; else None.
        causal: a query sees no key at a later position, except those of the prefix.
        in_order: static. True promises that token t of every row has position t or is padding, and
            that padding comes last. With `documents`, documents are consecutive, and positions
            restart at 0 in each. Kernels may then skip keys by index. False promises nothing.
        memory: what cross-attention reads, in a decoder that has an encoder.
        key_positions, key_documents: `positions` and `documents` of keys that are not the queries'
            own sequence.
        padding_last: static. True promises that the padding of `key_positions` comes last.
        prefix: where causal, keys at positions below this are seen by all queries (prefix language
            modelling); 0 for none.
        cache: keys and values that a decoder keeps for later tokens. Once it is filled, `positions`
            [B, 1] are those of the next token of every row.
        record_arrays: also record states and attention maps, for small batches
            (`zoo.analysis.activations`).
        layer_index: number of the layer within its stack, from 0; None outside of layers. An int
            where layers are unrolled, a traced int32 where they are scanned or recomputed, so that
            what depends on it is computed by `jax.numpy`.
        depth: number of layers of the stack, on each side of an encoder-decoder its own; static but
            where the number of loops is drawn.
        scope: static; path of the part of the model that the layers belong to, whose overrides of
            fields hold for them (`zoo.config.scopes`).
        embedding: what enters the stack that the layer belongs to, for all of its tokens, also
            where `positions` are those of a part of them; None outside of it.
        tokens: ids of the tokens of the stack, for all of them likewise, for layers that look up
            vectors of their own; None outside of it.
        published: what the stack's first layer published, by name; in that layer a dict that takes
            it. None in stacks without such layers.
        key_values: in a layer whose keys and values later layers read (`attention.keys_from`), a list
            that takes them; in these later layers what it took; None elsewhere.
        projection_inputs: what self-attention projects to its "key" and its "value", where that is not
            its own input; None elsewhere.
        kernels: list that collects which implementation each layer chooses for its scores, of which
            only shapes are computed then; None (the default) disables it.
        group_sizes: inside of experts, whose input is one row for each assignment, in the order of the
            experts: how many rows each has; None elsewhere.
        group_room: number of rows after those of the groups that are of none.
    """

    positions: Int[Array, "#B T"]
    documents: Int[Array, "B T"] | None = None
    causal: bool = True
    in_order: bool = False
    memory: Memory | None = None
    key_positions: Int[Array, "#B S"] | None = None
    key_documents: Int[Array, "B S"] | None = None
    padding_last: bool = False
    prefix: int = 0
    cache: Cache | None = None
    record_arrays: bool = False
    layer_index: int | Int[Array, ""] | None = None
    depth: int | Int[Array, ""] | None = None
    scope: str = "model"
    embedding: Float[Array, "N L D"] | None = None
    tokens: Int[Array, "N L"] | None = None
    published: Mapping[str, Array] | None = None
    key_values: Any = None
    projection_inputs: Mapping[str, Float[Array, "B T D"]] | None = None
    kernels: list[Any] | None = None
    group_sizes: Int[Array, " E"] | None = None
    group_room: int = 0

    def shard_rows(self, x: Float[Array, "B ..."]) -> Float[Array, "B ..."]:
        """Constrains activations so that each row is whole, on the devices that hold that row of the
        batch; returns x itself on a single device.
        """
        return x if self.sharding is None else self.sharding.shard_rows(x)

    def shard_lookup(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """Does the same for vectors that were looked up in a table."""
        return x if self.sharding is None else self.sharding.shard_lookup(x)

    def layer(self, index: int | Int[Array, ""]) -> "Context":
        """Returns the context of one layer, with its index, its own cache and its own dropout key.

        The key is the same whether layers are scanned or unrolled.
        """
        cache, key = self.cache, self.dropout_key
        return replace(
            self,
            layer_index=index,
            cache=None if cache is None else cache.layer(index),
            dropout_key=None if key is None else key.folded(index),
        )

    def kind(self, name: str) -> "Context":
        """Returns the context of a kind of layers, with its scope and dropout rates; "" if all are
        alike.
        """
        return self._within(f"{KINDS}.{name}") if name else self

    def side(self, path: str) -> "Context":
        """Returns the context of one of several stacks, with its scope, its own dropout key and
        rates, and its own part of the record.
        """
        key = self.dropout_key
        own = replace(self, dropout_key=None if key is None else key.folded(path_hash(path) % 2**31))
        own = own._within(f"model.{path}")
        return own if self.record is None else replace(own, record=self.record.setdefault(path, {}))

    def _within(self, scope: str) -> "Context":
        key = self.dropout_key
        return replace(self, scope=scope, dropout_key=None if key is None else key.within(scope))

    def for_cross_attention(self) -> "Context":
        """Returns the context of cross-attention: queries see all of the memory but its padding, and
        dropout has other masks than those of self-attention.
        """
        key = self.dropout_key
        return replace(
            self, documents=None, causal=False, in_order=False, key_positions=self.memory.positions,
            no_padding=self.memory.no_padding, padding_last=self.memory.padding_last,
            dropout_key=key and key.folded(path_hash("cross_attention")),
        )  # fmt: skip

    def dropout(
        self, x: Float[Array, "..."], rate: float, place: str, field: str = "model.dropout"
    ) -> Float[Array, "..."]:
        """Zeroes elements of `x` with probability `rate` and scales the rest by 1 / (1 - rate)
        (Srivastava et al. 2014).

        Args:
            x: activations, rows first; see `DropoutKey.kept`.
            rate: value of the field in the config. With 0 nothing is dropped; a non-zero value is
                overridden by `DropoutKey.rates[field]` if the rate is a traced argument.
            place: where in the layer this happens; every place has random numbers of its own.
            field: full config path of the rate, e.g. "model.attention.dropout".
        """
        if rate == 0 or self.dropout_key is None:
            return x
        kept = 1 - self.dropout_key.rates.get(field, rate)
        keep = self.dropout_key.folded(path_hash(place)).kept(kept, x.shape)
        return jnp.where(keep, x / jnp.asarray(kept, x.dtype), 0).astype(x.dtype)

    def publish(self, name: str, array: Array) -> None:
        """Keeps an array of the stack's first layer, e.g. the values of its attention, for that and
        all later layers, which read `published[name]`; in later layers nothing happens.

        With a cache, the array is that of the tokens that are read now.

        Args:
            name: a name among the class attribute `publishes` of the module that calls this.
            array: the same number of dimensions and the same shape in every layer.

        Raises:
            ValueError: a name that no module declares, or that the first layer does not publish.
        """
        if self.published is None:
            raise ValueError(f"{name!r} is published by a module without a class attribute `publishes`")
        if isinstance(self.published, dict):
            self.published[name] = array
        elif name not in self.published:
            raise ValueError(f"the first layer does not publish {name!r}; it publishes {sorted(self.published)}")

    def add_loss(self, name: str, value: Float[Array, ""]) -> None:
        """Adds a term to the loss that training minimises, e.g. one that balances experts.

        Values of the same name add up over the layers and sides of the model. Training adds their
        sum times the weight of the term to the loss; training and evaluation report the sum as a
        metric of this name, apart from the cross-entropy. In generation, and in training where the
        weight is 0, nothing reads the value, and it is no part of the compiled program.

        Args:
            name: name of the term, whose weight is a field of the config
                (`zoo.config.hyperparameters.LOSS_TERMS`).
            value: a mean over the rows or tokens that the layer sees, which may be a part of the
                batch. Not to be called inside a `jax.lax` loop of the layer's own.

        Raises:
            ValueError: an undeclared name, or a value that is no scalar.
        """
        if name not in LOSS_TERMS:
            raise ValueError(f"LOSS_TERMS declares no weight for the term {name!r}; it has {list(LOSS_TERMS)}")
        if jnp.shape(value):
            raise ValueError(f"the term {name!r} must be a scalar, not of shape {jnp.shape(value)}")
        if self.losses is not None:
            place = self.scope, name
            self.losses[place] = self.losses.get(place, 0.0) + jnp.asarray(value, jnp.float32)

    @property
    def effective_key_positions(self) -> Int[Array, "#B S"]:
        """Returns `key_positions`, or `positions` if keys and queries are the same sequence."""
        return self.positions if self.key_positions is None else self.key_positions

    @property
    def rows_share_positions(self) -> bool:
        """Returns whether queries and keys are one sequence, with the same positions in all rows."""
        return self.key_positions is None and self.positions.shape[0] == 1

    @property
    def keys_end_in_padding(self) -> bool:
        """Returns whether the padding of the keys is known, at compile time, to come last."""
        return self.in_order if self.key_positions is None else self.padding_last

    def visible(
        self,
        window: int,
        queries: slice = slice(None),
        keys: slice = slice(None),
        global_tokens: int = 0,
        dilation: int = 1,
    ) -> Bool[Array, "#B #T S"]:
        """Returns which keys each query sees: True at [b, t, s] where token t sees token s.

        Args:
            window: window size, counting the query's own key: the last `window` keys if causal,
                else `window` keys centred on the query; 0 for no limit.
            queries, keys: the part of the matrix to return.
            global_tokens: tokens at positions below this attend to, and are attended by, all
                tokens, whatever the window.
            dilation: d; the window holds the keys at distances 0, d, 2 d, ...
        """
        query, key = self.positions[:, queries, None], self.effective_key_positions[:, None, keys]
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
