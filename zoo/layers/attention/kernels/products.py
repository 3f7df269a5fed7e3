"""Implementations of the attention product, all with one signature, chosen by name.

`zoo.config.ATTENTION_SUPPORT` lists what each supports; a config that needs more is refused before
anything is built. The others are tested against the einsum one.
"""

import math
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.layers.attention.kernels.fused import cudnn_attention
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context


def _visible(context: Context, scoring: Scoring, key_heads: int):
    """Returns the visible keys: [B, T, S], or if heads differ [B, G, R, T, S]."""
    if not scoring.dilations:
        return context.visible(scoring.window, global_tokens=scoring.global_tokens)
    seen = {
        dilation: context.visible(scoring.window, global_tokens=scoring.global_tokens, dilation=dilation)
        for dilation in dict.fromkeys(scoring.dilations)
    }
    by_head = jnp.stack([seen[dilation] for dilation in scoring.dilations], axis=1)
    return by_head.reshape(by_head.shape[0], key_heads, -1, *by_head.shape[2:])


def visible_keys(context: Context, scoring: Scoring) -> Float[Array, "#B #T #H"]:
    """Returns the number of keys that each query sees, by head where heads differ, in float32."""
    count = _visible(context, scoring, 1).sum(axis=-1, dtype=jnp.float32)
    return count[..., None] if count.ndim == 2 else jnp.moveaxis(count[:, 0], 1, 2)


def _probabilities(scores, visible, scoring: Scoring):
    """Returns the weights of scores [B, G, R, T, S] in float32: a softmax over the visible keys, or
    what `Scoring.weigh` makes of it.
    """
    if scoring.softcap:
        scores = scoring.softcap * jnp.tanh(scores / scoring.softcap)
    visible = visible if visible.ndim == scores.ndim else visible[:, None, None]
    softmax = partial(_softmax, visible=visible, sinks=scoring.sinks)
    return softmax(scores) if scoring.weigh is None else scoring.weigh(scores, visible, softmax)


def _softmax(scores, visible, sinks):
    """Returns the softmax over the visible keys. A sink takes part in it; its column is then dropped,
    so rows may sum to less than 1.
    """
    scores = jnp.where(visible, scores, jnp.finfo(jnp.float32).min)
    if sinks is None:
        return jax.nn.softmax(scores, axis=-1)
    sinks = jnp.broadcast_to(
        sinks.astype(jnp.float32).reshape(scores.shape[1:3])[None, :, :, None, None], (*scores.shape[:-1], 1)
    )
    return jax.nn.softmax(jnp.concatenate([scores, sinks], axis=-1), axis=-1)[..., :-1]


def _plus(scores, added):
    """Adds the result of `Scoring.total_bias` to scores [B, G, R, T, S]."""
    return scores if added is None else scores + added.reshape(added.shape[0], *scores.shape[1:])


def _scores(q, k, added):
    """Returns q k^T + added in float32, from scaled q [B, G, R, T, K] and k [B, G, S, K].

    With heads before tokens these are plain batched matrix products, which XLA's CPU backend runs
    faster than the other order.
    """
    return _plus(jnp.einsum("bgrtk,bgsk->bgrts", q, k, preferred_element_type=jnp.float32), added)


def _attend(q, k, v, visible, added, scoring, drop):
    """Returns p v and p, from scaled q [B, G, R, T, K], k [B, G, S, K] and v [B, G, S, V]; p v of
    pairs of heads as in `_paired`.
    """
    probabilities = drop(_probabilities(_scores(q, k, added), visible, scoring).astype(v.dtype))
    if scoring.subtracted is not None:
        return _paired(probabilities, v, scoring), probabilities
    return jnp.einsum("bgrts,bgsv->bgrtv", probabilities, v), probabilities


def _paired(probabilities, v, scoring):
    """Returns (p_1 - lambda p_2) [v_1, v_2], [B, G / 2, R, T, 2 V], from p [B, G, R, T, S] and
    v [B, G, S, V], 1 and 2 the halves of G.
    """
    first, second = jnp.split(probabilities.astype(jnp.float32), 2, axis=1)
    weights = (first - scoring.subtracted * second).astype(v.dtype)
    return jnp.concatenate(
        [jnp.einsum("bgrts,bgsv->bgrtv", weights, half) for half in jnp.split(v, 2, axis=1)], axis=-1
    )


def group_heads(q, G):
    """Turns [B, T, H, K] into [B, G, R, T, K]: query head h reads key head h G / H."""
    B, T, H, K = q.shape
    return q.reshape(B, T, G, H // G, K).transpose(0, 2, 3, 1, 4)


def _heads_first(q, k, v):
    """Turns [B, T, H, K], [B, S, G, K] and [B, S, G, V] into the arguments of `_attend`."""
    return group_heads(q, k.shape[2]), k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)


def tokens_first(attended):
    """Turns [B, G, R, T, V] into [B, T, H, V]."""
    B, G, R, T, V = attended.shape
    return attended.transpose(0, 3, 1, 2, 4).reshape(B, T, G * R, V)


def attention_scores(
    q: Float[Array, "B T H K"], k: Float[Array, "B S G K"], context: Context, scoring: Scoring
) -> Float[Array, "B G R T S"]:
    """Returns scale * q k^T + bias of all keys, visible or not, before a cap, in float32.

    R = H / G.
    """
    q = q * scoring.scale
    return _scores(
        group_heads(q, k.shape[2]),
        k.transpose(0, 2, 1, 3),
        scoring.total_bias(q, context.positions, context.effective_key_positions),
    )


def attention_probabilities(
    q: Float[Array, "B T H K"], k: Float[Array, "B S G K"], context: Context, scoring: Scoring
) -> Float[Array, "B G R T S"]:
    """Returns the weights of the values in `einsum_attention`, before dropout, in float32.

    R = H / G.
    """
    return _probabilities(attention_scores(q, k, context, scoring), _visible(context, scoring, k.shape[2]), scoring)


def einsum_attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G V"],
    context: Context,
    scoring: Scoring,
) -> Float[Array, "B T H V"]:
    """Computes softmax(scale * q k^T + bias, over the visible keys) v, the softmax in float32;
    query head h reads key head h G / H.
    """

    def drop(probabilities):
        return context.dropout(probabilities, scoring.dropout, "attention/probabilities", "model.attention.dropout")

    q = q * scoring.scale
    added = scoring.total_bias(q, context.positions, context.effective_key_positions)
    return _with_values(
        *_attend(*_heads_first(q, k, v), _visible(context, scoring, k.shape[2]), added, scoring, drop), context, scoring
    )


def cached_attention(
    q: Float[Array, "B T H K"],
    keys: Float[Array, "*N S K"],
    values: Float[Array, "*N S V"],
    context: Context,
    scoring: Scoring,
) -> Float[Array, "B T H V"]:
    """Computes `einsum_attention` for keys and values in the layout of
    `zoo.layers.attention.key_values.KeyValues`.

    For few queries per row, where fused kernels gain nothing; without dropout.
    """
    B, T = q.shape[:2]
    *N, S, K = keys.shape
    G = math.prod(N) // B
    q = q * scoring.scale
    scores = jnp.einsum(
        "...tk,...sk->...ts", group_heads(q, G).reshape(*N, -1, K), keys, preferred_element_type=jnp.float32
    )
    scores = _plus(
        scores.reshape(B, G, -1, T, S), scoring.total_bias(q, context.positions, context.effective_key_positions)
    )
    probabilities = _probabilities(scores, _visible(context, scoring, G), scoring).astype(values.dtype)
    if scoring.subtracted is not None:
        return tokens_first(_paired(probabilities, values.reshape(B, G, S, -1), scoring))
    attended = jnp.einsum("...ts,...sv->...tv", probabilities.reshape(*N, -1, S), values)
    return _with_values(attended.reshape(B, G, -1, T, values.shape[-1]), probabilities, context, scoring)


def _with_values(attended, probabilities, context: Context, scoring: Scoring):
    """Returns the output [B, T, H, V] from p v, with the term of `Scoring.value_bias`."""
    attended = tokens_first(attended)
    if scoring.value_bias is None:
        return attended
    B, G, R, T, S = probabilities.shape
    return attended + scoring.value_bias(
        probabilities.reshape(B, G * R, T, S), context.positions, context.effective_key_positions
    )


QUERY_BLOCKS = 4


def blocks(length: int, window: int, prefix: int = 0) -> list[tuple[slice, slice]]:
    """Cuts the queries of a causal row whose tokens are in order into blocks, each with the range
    of keys that it can see.

    A query sees no later token except those of the prefix, and none that is `window` or more tokens
    before it; packed documents only see less.
    """
    size = length // QUERY_BLOCKS if length % QUERY_BLOCKS == 0 else length
    return [
        (
            slice(start, start + size),
            slice(max(0, start - window + 1) if window else 0, min(max(start + size, prefix), length)),
        )
        for start in range(0, length, size)
    ]


def rows_attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G V"],
    context: Context,
    scoring: Scoring,
) -> Float[Array, "B T H V"]:
    """Computes `einsum_attention` one row of the batch at a time, in blocks of queries that skip
    the keys they cannot see.

    The backward pass recomputes the probabilities, so only the scores of one block of one row
    exist at a time. They fit a CPU's cache: forward + backward takes 0.64 of the time of
    `einsum_attention` on the whole batch (H=4, K=64, T=256, B=16, two CPU cores).
    """
    q = q * scoring.scale
    shared = scoring.shared
    if (
        scoring.score_bias is not None
        and not scoring.reads_query
        and context.positions.shape[0] == context.effective_key_positions.shape[0] == 1
    ):
        shared, scoring = (
            scoring.total_bias(q, context.positions, context.effective_key_positions),
            replace(scoring, score_bias=None),
        )
    structure = {
        "positions": context.positions,
        "documents": context.documents,
        "key_positions": context.key_positions,
        "key_documents": context.key_documents,
        "shared": shared,
    }
    same = {name: x for name, x in structure.items() if x is None or x.shape[0] == 1}
    mapped = {name: x[:, None] for name, x in structure.items() if name not in same}

    everything = [(slice(None), slice(None))]
    in_order = context.causal and context.in_order and context.key_positions is None
    ranges = blocks(q.shape[1], scoring.window, context.prefix) if in_order else everything

    def row(inputs):
        q, k, v, own = inputs
        own = same | own
        shared = own.pop("shared")
        row_context = Context(**own, causal=context.causal, prefix=context.prefix)
        added = replace(scoring, shared=shared).total_bias(
            q[None], row_context.positions, row_context.effective_key_positions
        )
        q, k, v = _heads_first(q[None], k[None], v[None])
        parts = [
            _attend(
                q[..., queries, :],
                k[..., keys, :],
                v[..., keys, :],
                row_context.visible(scoring.window, queries, keys, scoring.global_tokens),
                None if added is None else added[..., queries, keys],
                scoring,
                lambda probabilities: probabilities,
            )[0]
            for queries, keys in ranges
        ]
        return tokens_first(jnp.concatenate(parts, axis=3))[0]

    return jax.lax.map(jax.checkpoint(row, prevent_cse=False), (q, k, v, mapped))


def xla_attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G V"],
    context: Context,
    scoring: Scoring,
) -> Float[Array, "B T H V"]:
    """Computes `jax.nn.dot_product_attention` as compiled by XLA, on any device: with the structure
    of the mask if possible, otherwise with a mask array.
    """
    # The function's own causal mask and window assume positions 0, 1, 2, ...
    structured = (
        context.causal
        and context.in_order
        and context.documents is None
        and not (scoring.global_tokens or context.prefix)
    )
    added = scoring.total_bias(q * scoring.scale, context.positions, context.effective_key_positions)
    return jax.nn.dot_product_attention(
        q, k, v,
        bias=None if added is None else added.astype(q.dtype),
        mask=None if structured else context.visible(scoring.window, global_tokens=scoring.global_tokens)[:, None],
        scale=scoring.scale,
        is_causal=structured,
        local_window_size=(scoring.window - 1, 0) if structured and scoring.window else None,
        implementation="xla",
    )  # fmt: skip


def splash_attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G V"],
    context: Context,
    scoring: Scoring,
) -> Float[Array, "B T H V"]:
    """Computes `zoo.layers.attention.kernels.splash.splash_attention`."""
    # Pallas takes time to import, and other devices than TPUs do without it.
    from zoo.layers.attention.kernels import splash

    return splash.splash_attention(q, k, v, context, scoring)


KERNELS = {
    "einsum": einsum_attention,
    "rows": rows_attention,
    "xla": xla_attention,
    "cudnn": cudnn_attention,
    "splash": splash_attention,
}
