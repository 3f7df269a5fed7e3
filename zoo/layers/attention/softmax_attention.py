"""Attention by softmax, over all keys or a window, with global tokens."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention.attention_record import attention_entropy, attention_maps
from zoo.layers.attention.head_options import LengthFactor, without_own_value
from zoo.layers.attention.kernels.banded import banded_attention
from zoo.layers.attention.kernels.kernel_choice import (
    KernelChoice,
    Mask,
    RowSize,
    choose_kernel,
    fused_mask,
    places_are_positions,
    row_shape,
    window_block,
)
from zoo.layers.attention.kernels.products import KERNELS, cached_attention, visible_keys
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.attention.key_values import KeyValues, window_span
from zoo.layers.attention.projections import Attention, Projected
from zoo.layers.attention.token_mixer import SharedScores
from zoo.layers.context import Context
from zoo.layers.parameter import normal, parameter
from zoo.layers.platform import Platform


class SoftmaxAttention(Attention):
    """Attention(x, y) = concat_h(softmax(scale * q_h k_g^T) v_g) W_o; q = x W_q, k = y W_k,
    v = y W_v (Vaswani et al. 2017, section 3.2).

    y is x itself, or in cross-attention the encoder's output. H query heads share G key/value heads
    in groups of H / G (Ainslie et al. 2023): G = H is multi-head, G = 1 multi-query (Shazeer 2019).
    With Q < H query projections, H / Q neighbouring heads use the same query. A window can be
    dilated: it holds every d-th key, and d may differ between heads (Beltagy et al. 2020, section
    3.1, Dilated Sliding Window). Global tokens attend to, and are attended by, all tokens, whatever
    the window; with `global_projections` they have separate q/k/v projections (same section).
    """

    weighting: str = ""
    """Description of weights other than the softmax of one head's scores; "" for the softmax. Kernels
    must support the feature "weights"."""

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        attention = config.attention
        H = attention.num_heads
        sinks = (H,), ("heads",), normal(config.init.embedding_std), "scalar"
        self.sinks = parameter(*sinks) if attention.sinks else None
        self.length_factor = LengthFactor(config) if attention.ssmax else None
        self.exclusive = attention.exclusive and not cross
        # Windows and global tokens belong to one sequence; all of a memory is visible.
        self.window, self.global_tokens = (0, 0) if cross else (attention.window, attention.global_tokens)
        dilations = () if cross else attention.dilations
        self.dilations = tuple(dilations[head % len(dilations)] for head in range(H)) if dilations else ()
        # Number of tokens that a window spans.
        self.window_span = window_span(self.window, self.dilations)
        if attention.global_projections and not cross:
            self.global_query, self.global_key, self.global_value = self.make_projections(
                config, attention.num_query_heads, attention.num_kv_heads, gain
            )

    @property
    def sink_scores(self) -> Float[Array, " H"] | None:
        """Returns the score of each head that takes weight and has no value, or None."""
        return None if self.sinks is None else self.sinks[...]

    def attend(
        self, x: Float[Array, "B T D"], projected: Projected, context: Context, shared: Float[Array, "#B H T S"] | None
    ) -> Float[Array, "B T H V"]:
        """See `Attention.attend`."""
        attended, (_, k, v) = self.weighted(x, projected, context, shared), projected
        if (cache := context.cache) is not None:
            cache.entries[self.part] = (
                KeyValues.of(k, v) if self.cross else KeyValues.newest_of(k, v, cache, self.window_span)
            )
        return attended

    def weighted(
        self, x: Float[Array, "B T D"], projected: Projected, context: Context, shared: Float[Array, "#B H T S"] | None
    ) -> Float[Array, "B T H V"]:
        """Returns what all tokens read, without a change of the cache; the arguments are those of
        `attend`.
        """
        q, k, v = projected
        scoring = self._scoring(context, shared)
        scaled = self._scaled(q, context, scoring)
        self._record(scaled, k, context, scoring)
        attended = self._softmax(scaled, k, v, context, scoring)
        if self.global_tokens:
            attended = self._with_global(attended, x, q, k, v, context, shared)
        return without_own_value(attended, v) if self.exclusive else attended

    def attend_next(
        self,
        q: Float[Array, "B 1 H K"],
        k: Float[Array, "B 1 G K"],
        v: Float[Array, "B 1 G V"],
        context: Context,
        shared: SharedScores | None,
    ) -> Float[Array, "B 1 H V"]:
        """See `Attention.attend_next`.

        `attention.implementation` is ignored here: all kernels compute the same function, and with
        one query per row a fused one is no faster.
        """
        kept, query_context, scoring = self.with_next(k, v, context, shared)
        return self._attend_kept(q, v, kept, query_context, scoring)

    def attend_earlier(
        self,
        x: Float[Array, "B T D"],
        q: Float[Array, "B T H K"],
        context: Context,
        shared: Float[Array, "#B H T S"] | SharedScores | None,
    ) -> Float[Array, "B T H V"]:
        """See `Attention.attend_earlier`."""
        earlier = context.key_values
        if earlier.kept is None:
            return self.weighted(x, (q, earlier.keys, earlier.values), context, shared)
        return self._attend_kept(q, earlier.values, earlier.kept, *self._reading(earlier.kept, context, shared))

    def _attend_kept(
        self,
        q: Float[Array, "B 1 H K"],
        v: Float[Array, "B 1 G V"],
        kept: KeyValues,
        context: Context,
        scoring: Scoring,
    ) -> Float[Array, "B 1 H V"]:
        """Attends from the next token, whose value is v, to all keys in a cache."""
        q = self._scaled(q, context, scoring)
        attended = cached_attention(q, kept.keys, kept.values, context, scoring)
        return without_own_value(attended, v) if self.exclusive else attended

    def with_next(
        self, k: Float[Array, "B 1 G K"], v: Float[Array, "B 1 G V"], context: Context, shared: SharedScores | None
    ) -> tuple[KeyValues, Context, Scoring]:
        """Adds the key and value of the next token to the cache; returns all keys and values, and
        the context and parameters of the scores with which that token reads them.
        """
        cache = context.cache
        kept = cache.entries[self.part] = cache.entries[self.part].with_next(k, v, cache)
        return kept, *self._reading(kept, context, shared)

    def _reading(self, kept: KeyValues, context: Context, shared: SharedScores | None) -> tuple[Context, Scoring]:
        """Returns the context and the scores' parameters with which the next token reads a cache."""
        query_context = replace(context, key_positions=context.cache.positions(kept.slots), in_order=False)
        of_keys = None if shared is None else shared(query_context.key_positions)
        return query_context, self._scoring(query_context, of_keys)

    def attend_memory(self, q: Float[Array, "M R H K"], context: Context) -> Float[Array, "M R H V"]:
        """See `Attention.attend_memory`."""
        kept = context.cache.entries[self.part]
        query_context = replace(
            context, positions=jnp.zeros((1, 1), jnp.int32), causal=False, key_positions=context.cache.memory_positions
        )
        scoring = self._scoring(query_context, None)
        q = self._scaled(q, query_context, scoring)
        return cached_attention(q, kept.keys, kept.values, query_context, scoring)

    @staticmethod
    def product_flops(layer: ResolvedConfig, queries: float, keys: float) -> float:
        """Returns the operations of q k^T and p v, 2 H K each for a query and a key that it sees
        (Kaplan et al. 2020, section 2.1).
        """
        return 4 * layer.attention.num_heads * layer.attention.head_dim * keys * queries

    @staticmethod
    def cached_numbers(layer: ResolvedConfig) -> int:
        """Returns 2 G K, of keys and values; 0 with those of an earlier layer."""
        return 0 if layer.attention.keys_from else 2 * layer.attention.num_kv_heads * layer.attention.head_dim

    @staticmethod
    def key_value_source(layer: ResolvedConfig) -> str:
        """Returns the kind of layers that the keys and values are of, where they are not its own."""
        return f"layers of kind {layer.attention.keys_from}" if layer.attention.keys_from else ""

    def _record(self, q, k, context: Context, scoring: Scoring) -> None:
        if context.record is None:
            return
        context.record[self.part] = attention_entropy(q, k, context, scoring)
        if context.record_arrays:
            context.record[f"{self.part} maps"] = attention_maps(q, k, context, scoring, self.config.global_projections)

    def _scaled(self, q: Float[Array, "B T H K"], context: Context, scoring: Scoring) -> Float[Array, "B T H K"]:
        if self.length_factor is None:
            return q
        return self.length_factor(q, visible_keys(context, scoring))

    def _scoring(self, context: Context, shared: Array | None) -> Scoring:
        return Scoring(
            scale=self.config.scale, window=self.window, global_tokens=self.global_tokens, dilations=self.dilations,
            score_bias=self.position.score_bias if self.position.has_score_bias else None,
            reads_query=self.position.reads_query, shared=shared,
            softcap=self.config.softcap, sinks=self.sink_scores,
            value_bias=self.position.value_bias if self.position.has_value_bias else None,
            dropout=self.config.dropout if context.dropout_key is not None else 0.0,
        )  # fmt: skip

    def choose_kernel(
        self, context: Context, platform: Platform, scoring: Scoring, bias_rows: int, value_dim: int
    ) -> KernelChoice:
        """Returns what computes the product of all tokens on a platform.

        Args:
            context: the rows; of its arrays only the shapes are read.
            platform: the devices.
            scoring: parameters of the scores.
            bias_rows: rows of what is added to the scores, 1 if all rows share it, 0 for nothing.
            value_dim: width of the values.
        """
        config, position = self.config, self.position
        biased = bias_rows > 0
        block = window_block(context, self.window_span)
        cudnn_block = block if fused_mask(context, self.window, self.global_tokens) == Mask.ARRAY else 0
        tokens = min(context.positions.shape[1], context.effective_key_positions.shape[1])
        asked = {
            "score": "a bias on the scores" * biased,
            "query_score": "a bias on the scores that depends on the queries" * position.reads_query,
            "row_score": "a bias on the scores that differs between rows or blocks"
            * (not position.reads_query and (bias_rows > 1 or (biased and block > 0))),
            "documents": "packed documents kept apart" * (context.documents is not None),
            "dropout": "dropout on the probabilities" * (config.dropout > 0 and context.dropout_key is not None),
            "softcap": "a soft-cap on the scores" * (config.softcap > 0),
            "sinks": "sinks" * (scoring.sinks is not None),
            "weights": self.weighting
            or "weights of its own" * (scoring.weigh is not None or scoring.subtracted is not None),
            "value": "a bias on the values" * position.has_value_bias,
            "padding": "rows that may have padding" * (not context.causal and not context.no_padding),
            "prefix": "a prefix that all tokens see" * (context.causal and context.prefix > 0),
            "dilations": "dilated windows" * bool(self.dilations),
            "centred_window": "a window on both sides" * (self.window > 0 and not context.causal),
            "any_order": "tokens that are not in the order of their positions"
            * (not places_are_positions(context, self.window)),
            "value_width": "values of another width than keys" * (value_dim != self.key_dim),
        }
        scores = config.num_heads * math.prod(row_shape(context, block, self.global_tokens))
        rows = RowSize(tokens, scores, block, cudnn_block)
        return choose_kernel(config.implementation, platform, self.dtype, self.key_dim, asked, rows)

    def _softmax(self, q, k, v, context: Context, scoring: Scoring) -> Float[Array, "B T H V"]:
        bias = jax.eval_shape(scoring.total_bias, q, context.positions, context.effective_key_positions)
        bias_rows = 0 if bias is None else bias.shape[0]
        choice = self.choose_kernel(context, context.platform or Platform.here(), scoring, bias_rows, v.shape[-1])
        if context.kernels is not None:
            context.kernels.append(choice)
            # Where only the choice is wanted, the kernel's platform need not be here.
            choice = KernelChoice("einsum")
        kernel = KERNELS[choice.kernel]
        if choice.block:
            return banded_attention(kernel, choice.block, q, k, v, context, scoring)
        return kernel(q, k, v, context, scoring)

    def _with_global(self, attended, x, q, k, v, context: Context, shared: Array | None) -> Float[Array, "B T H V"]:
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
            q, k = self.queries(self.global_query(pick(x))), self.keys(self.global_key(x))
            q, k = self.rotated(q, k, first, context.positions)
            v = self.values(self.global_value(x))
        else:
            q = pick(q)
        query_context = replace(context, positions=first, key_positions=context.positions, in_order=False)
        of_first = None if shared is None else pick(jnp.broadcast_to(shared, (B, *shared.shape[1:])), axis=2)
        scoring = replace(self._scoring(context, of_first), window=0, global_tokens=0, dilations=())
        q = self._scaled(q, query_context, scoring)
        return attended.at[jnp.arange(B)[:, None], places].set(
            KERNELS["einsum"](q, k, v, query_context, scoring), mode="drop"
        )
