"""The base of all kinds of attention: projections to queries, keys, values and back."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.config import AUTO, ResolvedConfig
from zoo.layers.attention.head_options import DimensionScale, OutputGate, OutputNorm, ValueNorm, make_head_norms
from zoo.layers.attention.key_values import EarlierKeys, KeyValues
from zoo.layers.attention.token_mixer import HeadCounts, SharedScores, TokenMixer
from zoo.layers.context import Context
from zoo.layers.parameter import Linear, kernel_initializer, output_initializer
from zoo.layers.position import Position, make_attention_position
from zoo.layers.short_convolution import make_short_convolution

Projected = tuple[Float[Array, "B T H K"], Float[Array, "B S G K"], Float[Array, "B S G V"]]
"""Queries and keys, rotated, and values."""


class Attention(TokenMixer):
    """Projections of attention; a subclass weighs the values and keeps what decoding needs.

    The first `__call__` projects all tokens (`attend`). With a filled cache, self-attention projects
    the next token (`attend_next`), and cross-attention only its query (`attend_memory`).

    H query heads share G key/value heads in groups of H / G. With Q < H query projections, H / Q
    neighbouring heads use the same query. Keys have width K, values width V.

    With `attention.keys_from` the layer has no keys and values of its own and reads those that an
    earlier layer has left in `Context.key_values` (`attend_earlier`).
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        attention = config.attention
        self.config, self.dtype = attention, config.dtype
        H, Q = attention.num_heads, attention.num_query_heads
        # The field is `auto` in models of one stack.
        G = attention.cross_kv_heads if cross and attention.cross_kv_heads != AUTO else attention.num_kv_heads
        self.reads_earlier = bool(attention.keys_from) and not cross
        self.query, *own = self.make_projections(config, Q, G, gain)
        self.key, self.value = (None, None) if self.reads_earlier else own
        output_bias = attention.bias and attention.output_bias
        self.output = Linear(
            H * self.value_dim, config.dim, ("heads", "embed"), output_bias, output_initializer(config, gain)
        )
        self.query_norm, key_norm = make_head_norms(config, Q, G)
        self.key_norm = None if self.reads_earlier else key_norm
        self.dimension_scale = DimensionScale(config, G) if attention.qk_norm == "unit" else None
        widths = {"query": Q * attention.head_dim, "key": G * attention.head_dim, "value": G * self.value_dim}
        for name, width in {} if cross else widths.items():
            if self.reads_earlier and name != "query":
                continue
            places, axis = ("B", "heads") if name == "query" else ("BK", "kv_heads")
            setattr(self, f"{name}_convolution", make_short_convolution(config, places, width, axis))
        self.value_norm = ValueNorm(config) if attention.value_norm else None
        self.output_norm = OutputNorm(config, self.value_dim) if attention.output_norm else None
        self.output_gate = None if attention.gate == "none" else OutputGate(config, self.value_dim)
        self.position = Position(config) if cross else make_attention_position(config)

    @staticmethod
    def head_counts(layer: ResolvedConfig, cross: bool = False) -> HeadCounts | None:
        """Returns Q queries, and G keys and values."""
        attention = layer.attention
        groups = attention.cross_kv_heads if cross else attention.num_kv_heads
        return HeadCounts(attention.num_query_heads, groups, groups)

    @property
    def key_dim(self) -> int:
        """Returns the width of a head's queries and keys, by default K."""
        return self.config.head_dim

    @property
    def value_dim(self) -> int:
        """Returns V, the width of a head's values."""
        return self.config.head_dim

    def make_projections(self, config: ResolvedConfig, Q: int, G: int, gain: float) -> tuple[Linear, Linear, Linear]:
        """Returns new projections to Q queries, G keys and G values."""
        K, V, bias = config.attention.head_dim, self.value_dim, config.attention.bias
        initializer, value_initializer = kernel_initializer(config), kernel_initializer(config, gain)
        return (
            Linear(config.dim, Q * K, ("embed", "heads"), bias, initializer, heads=Q),
            Linear(config.dim, G * K, ("embed", "kv_heads"), bias, initializer, heads=G),
            Linear(config.dim, G * V, ("embed", "kv_heads"), bias, value_initializer, heads=G),
        )

    def __call__(
        self, x: Float[Array, "B T D"], context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Float[Array, "B T D"]:
        """Attends from every token to the keys that `context` makes visible; see
        `TokenMixer.__call__`.
        """
        if self.reads_earlier:
            q = self.queries(self._projected("query", x, context))
            # The keys were rotated in their own layer.
            q, _ = self.rotated(q, context.key_values.keys, context.positions, context.positions)
            attended = self.attend_earlier(x, q, context, shared)
        elif context.cache is None or self.part not in context.cache.entries:
            attended = self._all_tokens(x, context, shared)
        elif self.cross:
            # Rows that share a memory become several queries of one row.
            q = self._of_scale(self.queries(self.query(x)))
            q = q.reshape(context.cache.memory_positions.shape[0], -1, *q.shape[2:])
            attended = self.attend_memory(q, context)
        else:
            q, k, v = self._heads(x, context)
            q, k = self.rotated(q, k, context.positions, context.positions)
            attended = self.attend_next(q, k, v, context, shared)
            self._leave(k, v, context, context.cache.entries.get(self.part))
        return self.merge(attended.reshape(*x.shape[:2], *attended.shape[2:]), x, context)

    def merge(
        self, attended: Float[Array, "B T H V"], x: Float[Array, "B T D"], context: Context
    ) -> Float[Array, "B T D"]:
        """Returns concat_h(attended) W_o, with the output norm and the output gate before W_o if there
        are any: what the heads have read, in one vector for each token.

        Args:
            attended: what each head has read.
            x: the tokens that read: a whole row, or the next token when decoding from a cache.
            context: structure of the sequence.
        """
        del context
        attended = attended if self.output_norm is None else self.output_norm(attended)
        attended = attended if self.output_gate is None else self.output_gate(attended, x)
        return self.output(attended.reshape(*x.shape[:2], -1))

    def _all_tokens(
        self, x: Float[Array, "B T D"], context: Context, shared: Float[Array, "#B H T S"] | None
    ) -> Float[Array, "B T H V"]:
        if self.cross:
            source = context.memory.hidden.astype(x.dtype)
            context, shared = context.for_cross_attention(), None
            q, k, v = self.queries(self.query(x)), self.keys(self.key(source)), self.values(self.value(source))
        else:
            q, k, v = self._heads(x, context)
        q, k = self.rotated(q, k, context.positions, context.effective_key_positions)
        attended = self.attend(x, (q, k, v), context, shared)
        self._leave(k, v, context)
        return attended

    def _leave(
        self, k: Float[Array, "B T G K"], v: Float[Array, "B T G V"], context: Context, kept: KeyValues | None = None
    ) -> None:
        """Leaves keys and values for the later layers that read them, if there are any."""
        if isinstance(context.key_values, list) and not self.cross:
            context.key_values.append(EarlierKeys(k, v, kept))

    def _projected(self, name: str, x: Float[Array, "B T D"], context: Context) -> Float[Array, "B T I"]:
        y, convolution = getattr(self, name)(x), getattr(self, f"{name}_convolution")
        return y if convolution is None else convolution(y, context, f"{name} convolution", x)

    def _heads(self, x: Float[Array, "B T D"], context: Context) -> Projected:
        """Returns queries, keys and values of self-attention, before rotation."""
        inputs = {"query": x, "key": x, "value": x, **(context.projection_inputs or {})}
        q, k, v = (self._projected(name, each, context) for name, each in inputs.items())
        return self.queries(q), self.keys(k), self.mixed_values(self.values(v), x, context)

    def queries(self, x: Float[Array, "B T QK"]) -> Float[Array, "B T H K"]:
        """Returns the query of every head, before rotation; neighbouring heads may share one."""
        q = self._clipped(x).reshape(*x.shape[:2], -1, self.key_dim)
        q = q if self.query_norm is None else self.query_norm(q)
        return q if q.shape[2] == self.config.num_heads else jnp.repeat(q, self.config.num_heads // q.shape[2], axis=2)

    def keys(self, x: Float[Array, "B S GK"]) -> Float[Array, "B S G K"]:
        """Returns the keys, before rotation."""
        k = self._clipped(x).reshape(*x.shape[:2], -1, self.key_dim)
        return k if self.key_norm is None else self.key_norm(k)

    def rotated(
        self,
        q: Float[Array, "B T H K"],
        k: Float[Array, "B S G K"],
        q_positions: Int[Array, "#B T"],
        k_positions: Int[Array, "#B S"],
    ) -> tuple[Float[Array, "B T H K"], Float[Array, "B S G K"]]:
        """Returns queries and keys after rotation, as their products are taken."""
        q, k = self.position.rotate(q, k, q_positions, k_positions)
        return self._of_scale(q), self._of_scale(k)

    def _of_scale(self, x: Float[Array, "B T N K"]) -> Float[Array, "B T N K"]:
        """Returns rotated queries or keys, times the factors that `attention.qk_norm=unit` learns."""
        return x if self.dimension_scale is None else self.dimension_scale(x)

    def values(self, x: Float[Array, "B S GV"]) -> Float[Array, "B S G V"]:
        """Returns the values."""
        v = self._clipped(x).reshape(*x.shape[:2], -1, self.value_dim)
        return v if self.value_norm is None else self.value_norm(v)

    def _clipped(self, x: Float[Array, "B T I"]) -> Float[Array, "B T I"]:
        """Returns min(max(x, -c), c) with c = `attention.clip`, or x (Groeneveld et al. 2024)."""
        clip = self.config.clip
        return jnp.clip(x, -clip, clip) if clip else x

    def mixed_values(
        self, v: Float[Array, "B T G V"], x: Float[Array, "B T D"], context: Context
    ) -> Float[Array, "B T G V"]:
        """Returns the values that self-attention weighs and keeps; by default `v` itself.

        Args:
            v: projected values.
            x: the tokens: whole rows, or the next token when decoding from a cache.
            context: structure of the sequence.
        """
        del x, context
        return v

    def attend(
        self, x: Float[Array, "B T D"], projected: Projected, context: Context, shared: Float[Array, "#B H T S"] | None
    ) -> Float[Array, "B T H V"]:
        """Attends from all tokens, and stores an entry in `context.cache` if there is one.

        Args:
            x: the tokens.
            projected: their queries, and the keys and values of themselves or of the memory.
            context: structure of the sequence; in cross-attention that of queries and memory.
            shared: see `__call__`.
        """
        raise NotImplementedError

    def attend_next(
        self,
        q: Float[Array, "B 1 H K"],
        k: Float[Array, "B 1 G K"],
        v: Float[Array, "B 1 G V"],
        context: Context,
        shared: SharedScores | None,
    ) -> Float[Array, "B 1 H V"]:
        """Attends from the next token of every row to the tokens in the cache and to itself, and
        adds it to the cache.
        """
        raise NotImplementedError

    def attend_earlier(
        self, x: Float[Array, "B T D"], q: Float[Array, "B T H K"], context: Context, shared: Any
    ) -> Float[Array, "B T H V"]:
        """Attends from all tokens, or from the next token of every row, to the keys and values of an
        earlier layer, `context.key_values`; only of kinds with the trait `shared_keys`.
        """
        raise NotImplementedError

    def attend_memory(self, q: Float[Array, "M R H K"], context: Context) -> Float[Array, "M R H V"]:
        """Attends from R = B / M tokens to each of the M rows of memory in the cache."""
        raise NotImplementedError
