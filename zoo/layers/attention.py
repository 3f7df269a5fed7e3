"""Attention: multi-head, grouped-query and multi-query; self- and cross-attention; over all keys or
a window.
"""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import AUTO, ResolvedConfig
from zoo.layers.activation_record import attention_entropy, attention_maps
from zoo.layers.banded import banded_attention, block_length
from zoo.layers.context import Context
from zoo.layers.kernels import KERNELS, cached_attention, choose_implementation
from zoo.layers.norm import rms_norm
from zoo.layers.parameter import Initializer, Linear, kernel_initializer, normal, ones, parameter, statistic, zeros
from zoo.layers.performer import performer_read, performer_sums, random_features
from zoo.layers.position import Position, make_attention_position
from zoo.layers.scoring import Scoring

SharedScores = Callable[[Array], Array]
"""Function of the key positions [B, S] that returns the score term common to all layers,
`[B, H, T, S]`.
"""


class HeadNorm(nnx.Module):
    """q = q / sqrt(mean(q^2) + epsilon) * scale, and the same for k, before rotation (Henry et al.
    2020; Dehghani et al. 2023).

    "head" takes the mean over the K values of each head, with one scale [K] for all heads; "full"
    over the values of all heads, with a scale [H K]. It is an RMSNorm whatever `norm.kind` is.
    """

    def __init__(self, config: ResolvedConfig, heads: int):
        K = config.attention.head_dim
        self.full, self.epsilon, self.unit_offset = (
            config.attention.qk_norm == "full",
            config.norm.epsilon,
            config.norm.unit_offset,
        )
        self.scale = parameter((heads * K if self.full else K,), (None,), zeros if self.unit_offset else ones)

    def __call__(self, x: Float[Array, "B T H K"]) -> Float[Array, "B T H K"]:
        """Normalises queries or keys."""
        scale = 1 + self.scale[...] if self.unit_offset else self.scale[...]
        if not self.full:
            return rms_norm(x, scale, self.epsilon)
        return rms_norm(x.reshape(*x.shape[:2], -1), scale, self.epsilon).reshape(x.shape)


class Attention(nnx.Module):
    """Attention(x, y) = concat_h(softmax(scale * q_h k_g^T) v_g) W_o; q = x W_q, k = y W_k,
    v = y W_v (Vaswani et al. 2017, section 3.2).

    y is x itself, or in cross-attention the encoder's output. H query heads share G key/value heads
    in groups of H / G (Ainslie et al. 2023): G = H is multi-head, G = 1 multi-query (Shazeer 2019).
    With Q < H query projections, H / Q neighbouring heads use the same query. A window can be
    dilated: it holds every d-th key, and d may differ between heads (Beltagy et al. 2020, section
    3.1, Dilated Sliding Window). Global tokens attend to, and are attended by, all tokens, whatever
    the window; with `global_projections` they have separate q/k/v projections (same section).
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, value_gain: float = 1.0):
        attention = config.attention
        H, Q, K = attention.num_heads, attention.num_query_heads, attention.head_dim
        # The field is `auto` in models of one stack.
        G = attention.cross_kv_heads if cross and attention.cross_kv_heads != AUTO else attention.num_kv_heads
        output_initializer = kernel_initializer(
            config, value_gain * ((2 * config.num_layers) ** -0.5 if config.init.scale_residual else 1.0)
        )

        def project(heads: int, axis: str, initializer: Initializer) -> Linear:
            return Linear(config.dim, heads * K, ("embed", axis), attention.bias, initializer)

        initializer, value_initializer = kernel_initializer(config), kernel_initializer(config, value_gain)
        self.query, self.key = project(Q, "heads", initializer), project(G, "kv_heads", initializer)
        self.value = project(G, "kv_heads", value_initializer)
        self.output = Linear(H * K, config.dim, ("heads", "embed"), attention.bias, output_initializer)
        normed = attention.qk_norm != "none"
        self.query_norm, self.key_norm = (HeadNorm(config, Q), HeadNorm(config, G)) if normed else (None, None)
        sinks = (H,), ("heads",), normal(config.init.embedding_std), "scalar"
        self.sinks = parameter(*sinks) if attention.sinks else None
        is_performer = attention.kind == "performer"
        self.features = (
            statistic((attention.features, K), random_features, attention.redraw_every) if is_performer else None
        )
        self.position = Position(config) if cross else make_attention_position(config)
        # Windows and global tokens belong to one sequence; all of a memory is visible.
        self.window, self.global_tokens = (0, 0) if cross else (attention.window, attention.global_tokens)
        dilations = () if cross else attention.dilations
        self.dilations = tuple(dilations[head % len(dilations)] for head in range(H)) if dilations else ()
        # Number of tokens that a window spans.
        self.window_span = (self.window - 1) * max(self.dilations, default=1) + 1 if self.window else 0
        if attention.global_projections and not cross:
            self.global_query, self.global_key = project(Q, "heads", initializer), project(G, "kv_heads", initializer)
            self.global_value = project(G, "kv_heads", value_initializer)
        self.config, self.dtype, self.cross = attention, config.dtype, cross

    def __call__(
        self, x: Float[Array, "B T D"], context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Float[Array, "B T D"]:
        """Attends from every token to the keys that `context` makes visible.

        Args:
            x: the tokens.
            context: structure of the sequence, and for cross-attention the memory.
            shared: position bias that all layers share (e.g. T5). An array, or, when decoding from
                a cache, a function key positions -> array, since cache sizes differ by layer.
        """
        cache, part = context.cache, "cross_attention" if self.cross else "attention"
        if cache is not None and part in cache.entries:
            attended = self._from_cache(x, context, shared, part)
            return self.output(attended.reshape(*x.shape[:2], -1))
        source = context.memory.hidden.astype(x.dtype) if self.cross else x
        if self.cross:
            context, shared = context.for_cross_attention(), None
        q, k = self._queries(self.query(x)), self._heads(self.key(source), self.key_norm)
        q, k = self.position.rotate(q, k, context.positions, context.effective_key_positions)
        v = self._heads(self.value(source))
        if self.features is not None:
            attended, sums = performer_sums(q, k, v, self.features[...], context, self.config.scale)
            if cache is not None:
                cache.entries[part] = sums
        else:
            if context.record is not None:
                scoring = self._scoring(context, shared)
                context.record[part] = attention_entropy(q, k, context, scoring)
                if context.record_arrays:
                    context.record[f"{part} maps"] = attention_maps(
                        q, k, context, scoring, self.config.global_projections
                    )
            attended = self._softmax(q, k, v, context, shared)
            if self.global_tokens:
                attended = self._with_global(attended, x, q, k, v, context, shared)
            if cache is not None:
                cache.keep(part, k, v) if self.cross else cache.fill(part, k, v, self.window_span)
        return self.output(attended.reshape(*x.shape[:2], -1))

    def _from_cache(
        self, x: Float[Array, "B 1 D"], context: Context, shared: SharedScores | None, part: str
    ) -> Float[Array, "M R H K"]:
        """Attends from the next token of every row to the cache and to itself.

        `attention.implementation` is ignored here: all kernels compute the same function, and with
        one query per row a fused one is no faster.

        Returns [B, 1, H, K], or in cross-attention [M, B / M, H, K] for M rows of memory.
        """
        cache, q = context.cache, self._queries(self.query(x))
        if self.cross:
            # Rows that share a memory become several queries of one row.
            q = q.reshape(cache.memory_positions.shape[0], -1, *q.shape[2:])
            if self.features is not None:
                return performer_read(q, self.features[...], self.config.scale, cache.entries[part])
            query_context = replace(
                context, positions=jnp.zeros((1, 1), jnp.int32), causal=False, key_positions=cache.memory_positions
            )
            return cached_attention(q, *cache.entries[part], query_context, self._scoring(query_context, None))
        k, v = self._heads(self.key(x), self.key_norm), self._heads(self.value(x))
        q, k = self.position.rotate(q, k, context.positions, context.positions)
        if self.features is not None:
            attended, cache.entries[part] = performer_sums(
                q, k, v, self.features[...], context, self.config.scale, cache.entries[part]
            )
            return attended
        kept = cache.extend(part, k, v)
        query_context = replace(context, key_positions=cache.positions(kept.slots), in_order=False)
        return cached_attention(
            q,
            *kept,
            query_context,
            self._scoring(query_context, None if shared is None else shared(query_context.key_positions)),
        )

    def _heads(self, x: Float[Array, "B T HK"], norm: HeadNorm | None = None) -> Float[Array, "B T H K"]:
        x = x.reshape(*x.shape[:2], -1, self.config.head_dim)
        return x if norm is None else norm(x)

    def _queries(self, x: Float[Array, "B T QK"]) -> Float[Array, "B T H K"]:
        """Returns the query of every head; neighbouring heads may share one."""
        q = self._heads(x, self.query_norm)
        return q if q.shape[2] == self.config.num_heads else jnp.repeat(q, self.config.num_heads // q.shape[2], axis=2)

    def _scoring(self, context: Context, shared: Array | None) -> Scoring:
        return Scoring(
            scale=self.config.scale, window=self.window, global_tokens=self.global_tokens, dilations=self.dilations,
            score_bias=self.position.score_bias if self.position.has_score_bias else None,
            reads_query=self.position.reads_query, shared=shared,
            softcap=self.config.softcap, sinks=None if self.sinks is None else self.sinks[...],
            value_bias=self.position.value_bias if self.position.has_value_bias else None,
            dropout=self.config.dropout if context.dropout_key is not None else 0.0,
        )  # fmt: skip

    def _softmax(self, q, k, v, context: Context, shared: Array | None) -> Float[Array, "B T H K"]:
        scoring = self._scoring(context, shared)
        name = choose_implementation(
            self.config.implementation,
            jax.default_backend(),
            jax.device_count(),
            self.dtype,
            self.config.head_dim,
            {
                "score": scoring.score_bias is not None or shared is not None,
                "documents": context.documents is not None,
                "dropout": scoring.dropout > 0,
                "softcap": scoring.softcap > 0,
                "sinks": scoring.sinks is not None,
                "value": scoring.value_bias is not None,
                "padding": not (context.causal and context.in_order),
                "prefix": context.causal and context.prefix > 0,
                "dilations": bool(self.dilations),
            },
        )
        size = (
            block_length(q.shape[1], self.window_span, context.causal) if context.in_order and not context.prefix else 0
        )
        if size and name != "cudnn":
            return banded_attention(KERNELS[name], size, q, k, v, context, scoring)
        return KERNELS[name](q, k, v, context, scoring)

    def _with_global(self, attended, x, q, k, v, context: Context, shared: Array | None) -> Float[Array, "B T H K"]:
        """Replaces the rows of `attended` that belong to global tokens by attention over all
        tokens.
        """
        B, T = x.shape[:2]
        positions = jnp.broadcast_to(context.positions, (B, T))
        there = positions[:, None, :] == jnp.arange(self.global_tokens)[:, None]
        # Rows without that global token get index T, which `mode="drop"` discards.
        places = jnp.where(there.any(axis=2), jnp.argmax(there, axis=2), T)

        def pick(y: Array, axis: int = 1) -> Array:
            index = places.reshape(B, *(-1 if n == axis else 1 for n in range(1, y.ndim)))
            return jnp.take_along_axis(y, index, axis=axis, mode="clip")

        first = pick(positions)
        if self.config.global_projections:
            q, k = self._queries(self.global_query(pick(x))), self._heads(self.global_key(x), self.key_norm)
            q, k = self.position.rotate(q, k, first, context.positions)
            v = self._heads(self.global_value(x))
        else:
            q = pick(q)
        query_context = replace(context, positions=first, key_positions=context.positions, in_order=False)
        of_first = None if shared is None else pick(jnp.broadcast_to(shared, (B, *shared.shape[1:])), axis=2)
        scoring = replace(self._scoring(context, of_first), window=0, global_tokens=0, dilations=())
        return attended.at[jnp.arange(B)[:, None], places].set(
            KERNELS["einsum"](q, k, v, query_context, scoring), mode="drop"
        )


def shared_scores(position: Position, context: Context) -> Float[Array, "#B H T S"] | SharedScores | None:
    """Returns the term that a scheme shared by all layers adds to their scores: computed once per
    forward pass, or with a filled cache as a function of the keys.
    """
    if not position.has_score_bias:
        return None
    if context.cache is not None and context.cache.filled:
        return lambda key_positions: position.score_bias(None, context.positions, key_positions)
    return position.score_bias(None, context.positions, context.positions)
