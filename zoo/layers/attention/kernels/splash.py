"""Splash attention on TPUs (`jax.experimental.pallas.ops.tpu.splash_attention`), which never holds
scores of T x S.

The kernel goes through blocks of queries and keys. Hidden blocks are skipped: those after the query in
a causal row, and those outside of a window. They follow from the places of tokens in the row and are
known at compile time. Documents, padding and the tokens that fill the last block are segments; a query
sees keys of its own segment alone.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int

from zoo.layers.activation_sharding import TENSOR_AXIS, ActivationSharding
from zoo.layers.attention.kernels.fused import FUSED_OUTPUT
from zoo.layers.attention.kernels.kernel_choice import places_are_positions
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context
from zoo.layers.platform import Platform

LANES = 128
"""Numbers in a row of a TPU's vector registers; blocks are multiples of it."""
LARGEST_BLOCK = 512
# Segment of padding, and of the tokens that fill the last block; no number of a document.
_NO_TOKEN = -(2**31)


def block_size(length: int, window: int = 0) -> int:
    """Returns the number of tokens in a block of queries or keys: the largest of 128, 256, 384 and 512
    that adds at most an eighth to the row, which is filled up to whole blocks.

    A block of 512 x 512 scores in float32 takes 1 MiB of the vector memory (16 MiB by default on v5e),
    and larger ones have less to skip. With a window they are no larger than it, rounded up: of a block
    in which any key is visible all scores are computed.

    Args:
        length: tokens of the row.
        window: keys that a query sees on one side; 0 for all.
    """
    largest = min(LARGEST_BLOCK, -(-window // LANES) * LANES) if window else LARGEST_BLOCK
    sizes = range(LANES, largest + 1, LANES)
    least = min(_whole(length, size) for size in sizes)
    return max(size for size in sizes if 8 * _whole(length, size) <= 9 * least)


def _whole(length: int, size: int) -> int:
    """Returns the length of a row that is filled up to whole blocks."""
    return -(-length // size) * size


@dataclass(frozen=True)
class _FirstTokens(splash_attention_mask.Mask):
    """A mask in which the first `count` keys are visible to all queries, and to the first `count`
    queries, if `see_all`, all keys.
    """

    size: tuple[int, int]
    count: int
    see_all: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.size

    def __getitem__(self, index: tuple[slice, slice]) -> np.ndarray:
        query, key = (np.arange(length)[part] for length, part in zip(self.size, index, strict=True))
        seen = np.broadcast_to(key < self.count, (len(query), len(key)))
        return seen | (query < self.count)[:, None] if self.see_all else seen


def splash_mask(
    queries: int, keys: int, context: Context, window: int = 0, global_tokens: int = 0
) -> splash_attention_mask.Mask:
    """Returns which keys queries see by their places in the row, which are their positions.

    Args:
        queries, keys: tokens of both, filled up to whole blocks.
        context: the rows.
        window, global_tokens: see `Context.visible`.
    """
    size = queries, keys
    if window:
        reach = (window - 1, 0) if context.causal else ((window - 1) // 2,) * 2
        near = splash_attention_mask.LocalMask(size, reach, 0)
        return near | _FirstTokens(size, global_tokens, True) if global_tokens else near
    if not context.causal:
        return splash_attention_mask.FullMask(size)
    earlier = splash_attention_mask.CausalMask(size)
    return earlier | _FirstTokens(size, context.prefix, False) if context.prefix else earlier


def splash_attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G V"],
    context: Context,
    scoring: Scoring,
) -> Float[Array, "B T H V"]:
    """Computes `einsum_attention` by splash attention; without a TPU, in Pallas' interpreter.

    Keys are not repeated for the query heads that share them. Rows are filled up to whole blocks
    (`block_size`). Every device computes its rows and heads. Only a query that sees no key, because
    another sequence is all padding, reads something else: a mean by the scores, not of all alike.

    Raises:
        ValueError: rows whose mask does not follow from places and segments (`places_are_positions`).
    """
    if not places_are_positions(context, scoring.window):
        raise ValueError("splash attention needs tokens in the order of their positions")
    B, T, S = *q.shape[:2], k.shape[1]
    blocks = block_size(T, scoring.window), block_size(S, scoring.window)
    lengths = _whole(T, blocks[0]), _whole(S, blocks[1])
    mask = splash_mask(*lengths, context, scoring.window, scoring.global_tokens)
    heads = {
        name: jnp.pad(x.transpose(0, 2, 1, 3), [(0, 0), (0, 0), (0, length - x.shape[1]), (0, 0)])
        for name, x, length in (("q", q * scoring.scale, lengths[0]), ("k", k, lengths[1]), ("v", v, lengths[1]))
    }
    attend = partial(
        library_attention,
        mask=mask,
        blocks=blocks,
        softcap=scoring.softcap or None,
        interpret=(context.platform or Platform.here()).name != "tpu",
    )
    sinks = None if scoring.sinks is None else _with_float32_gradient(scoring.sinks)
    arrays = {**heads, **_segments(context, B, lengths), "sinks": sinks}
    arrays = {name: x for name, x in arrays.items() if x is not None}
    if context.sharding is not None:
        attend = _on_each_device(context.sharding, attend, arrays)
    return attend(arrays)[:, :, :T].transpose(0, 2, 1, 3)


def library_attention(
    arrays: dict[str, Array],
    mask: splash_attention_mask.Mask,
    blocks: tuple[int, int],
    softcap: float | None,
    interpret: bool,
) -> Float[Array, "B H T V"]:
    """Calls jax's kernel; a plan of memory replaces it.

    Its two backward kernels need no array of the size of T x T / block, as the fused one does.

    Args:
        arrays: q [B,H,T,K], k [B,G,S,K], v [B,G,S,V], all of whole blocks; of_queries [B,T] and
            of_keys [B,S], numbers of segments, or neither; sinks [H] or none.
        mask: visible keys by place.
        blocks: tokens of a block of queries and of keys.
        softcap: `Scoring.softcap`, or None.
        interpret: run it without a TPU.
    """
    queries, keys = blocks
    kernel = splash_attention_kernel.make_splash_mha(
        splash_attention_mask.MultiHeadMask([mask] * arrays["q"].shape[1]),
        block_sizes=splash_attention_kernel.BlockSizes(
            block_q=queries, block_kv=keys, block_q_dkv=queries, block_kv_dkv=keys, block_q_dq=queries, block_kv_dq=keys
        ),
        attn_logits_soft_cap=softcap,
        head_shards=1,
        q_seq_shards=1,
        residual_checkpoint_name=FUSED_OUTPUT,
        interpret=interpret,
    )
    segments = None
    if "of_queries" in arrays:
        segments = splash_attention_kernel.SegmentIds(arrays["of_queries"], arrays["of_keys"])
    heads = (arrays["q"], arrays["k"], arrays["v"])
    return jax.vmap(kernel, in_axes=(0, 0, 0, None if segments is None else 0, None))(
        *heads, segments, arrays.get("sinks")
    )


@jax.custom_vjp
def _with_float32_gradient(sinks: Float[Array, " H"]) -> Float[Array, " H"]:
    """Returns the sinks. jax's kernel gives their gradient in the type of the outputs."""
    return sinks


_with_float32_gradient.defvjp(lambda sinks: (sinks, None), lambda _, change: (change.astype(jnp.float32),))


def _segments(context: Context, rows: int, lengths: tuple[int, int]) -> dict[str, Int[Array, "B _"]]:
    """Returns the segments of queries and keys, which hide what places do not; nothing if all that is
    hidden comes later in a causal row.
    """
    plain = context.causal and context.documents is None and not context.prefix
    full = not context.causal and context.no_padding and context.documents is None
    own, keys = context.key_positions is None, context.effective_key_positions
    unfilled = (context.positions.shape[1], keys.shape[1]) == lengths
    if plain or (full and unfilled):
        return {}
    key_documents = context.documents if context.key_documents is None else context.key_documents
    real = keys >= 0
    if not own:
        # A row without a key would have no softmax.
        real |= ~real.any(axis=1, keepdims=True)
    sides = (
        (context.documents, context.positions >= 0 if own else jnp.ones_like(context.positions, bool), lengths[0]),
        (key_documents, real, lengths[1]),
    )
    found = []
    for documents, is_token, length in sides:
        segment = jnp.where(is_token, 0 if documents is None else documents, _NO_TOKEN).astype(jnp.int32)
        segment = jnp.pad(segment, [(0, 0), (0, length - segment.shape[1])], constant_values=_NO_TOKEN)
        found.append(jnp.broadcast_to(segment, (rows, length)))
    return dict(zip(("of_queries", "of_keys"), found, strict=True))


def _on_each_device(sharding: ActivationSharding, attend: Any, arrays: dict[str, Array]) -> Any:
    """Returns `attend` for the rows and heads of a device: XLA cannot divide a kernel by itself."""
    divided = sharding.divides_heads(arrays["q"].shape[1], arrays["k"].shape[1])
    rows = sharding.batch_axes if arrays["q"].shape[0] % sharding.groups == 0 else None
    heads = TENSOR_AXIS if divided else None
    specs = {
        name: PartitionSpec(heads) if name == "sinks" else PartitionSpec(rows, heads if x.ndim == 4 else None)
        for name, x in arrays.items()
    }
    # What a kernel varies over is not known to jax.
    return jax.shard_map(
        attend, mesh=sharding.mesh, in_specs=(specs,), out_specs=PartitionSpec(rows, heads), check_vma=False
    )
