"""cuDNN's fused attention: which masks are arguments of its kernel, and which are arrays.

A causal mask, a window before the query and the length of rows that end in padding are arguments, and
memory is linear in T. Every other mask is an array [B or 1, 1, T, S] of the activations' type, which
all heads share; a bias is one of [1, H, T, S] that all rows share. cuDNN adds them to the scores, and
holds neither scores nor probabilities.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float, Int

from zoo.layers.activation_sharding import ActivationSharding
from zoo.layers.attention.kernels.kernel_choice import Mask, fused_mask
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context

FUSED_OUTPUT = "fused attention"
"""Name of the output in `jax.checkpoint` policies, where an array takes part."""


class _Static(NamedTuple):
    """The part of a call that is known at compile time: `masked` builds a mask from the structure of
    the rows by `Context.visible`; `skips_later_keys` tells cuDNN that it masks every later key.
    """

    scale: float
    masked: bool
    skips_later_keys: bool
    causal: bool
    prefix: int
    window: int
    global_tokens: int


def cudnn_attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G K"],
    context: Context,
    scoring: Scoring,
) -> Float[Array, "B T H K"]:
    """Computes cuDNN's fused attention on NVIDIA GPUs.

    A bias is rounded to the type of the activations. Where an array takes part, the backward pass
    runs the forward kernel once more, so that no array of T x S is kept for it.
    """
    mask, sharding = fused_mask(context, scoring.window, scoring.global_tokens), context.sharding
    bias = scoring.total_bias(q * scoring.scale, context.positions, context.effective_key_positions)
    if mask != Mask.ARRAY and bias is None:
        return _attend_without_arrays(q, k, v, mask, context, scoring)
    static = _Static(
        scoring.scale,
        masked=mask in (Mask.ARRAY, Mask.LENGTHS) or scoring.window > 0,
        skips_later_keys=context.causal and context.in_order and not context.prefix,
        causal=context.causal,
        prefix=context.prefix,
        window=scoring.window,
        global_tokens=scoring.global_tokens,
    )
    structure = {
        "positions": context.positions,
        "documents": context.documents,
        "key_positions": context.key_positions,
        "key_documents": context.key_documents,
    }
    if bias is not None:
        bias = jnp.broadcast_to(bias, (*bias.shape[:2], q.shape[1], k.shape[1])).astype(q.dtype)
    if sharding is not None:
        q, k, v, bias, structure = _sharded(sharding, q, k, v, bias, structure)
    return checkpoint_name(_with_arrays(static, q, k, v, bias, structure), FUSED_OUTPUT)


def library_attention(q: Array, k: Array, v: Array, **options: Any) -> Float[Array, "B T H K"]:
    """Calls jax's function with cuDNN; a plan of memory replaces it."""
    return jax.nn.dot_product_attention(q, k, v, implementation="cudnn", **options)


def _attend_without_arrays(q, k, v, mask: Mask, context: Context, scoring: Scoring):
    T, extra = q.shape[1], (q.shape[1] % 2, k.shape[1] % 2)
    options: dict[str, Any] = {"scale": scoring.scale, "is_causal": mask == Mask.CAUSAL}
    if scoring.window:
        options["local_window_size"] = (scoring.window - 1, 0)
    # A causal mask hides an appended key from all queries of the row; elsewhere its length does.
    if mask == Mask.LENGTHS or (mask == Mask.NONE and extra[1]):
        options |= _lengths(context, *q.shape[:2])
    if any(extra):
        return library_attention(*_padded_heads(q, k, v, extra), **options)[:, :T]
    return library_attention(q, k, v, **options)


def _lengths(context: Context, rows: int, queries: int) -> dict[str, Int[Array, " B"]]:
    """Returns the lengths of rows that end in padding. All queries count, as in other kernels; those
    of a row of padding see one key, so their softmax is defined.
    """
    keys = (context.effective_key_positions >= 0).sum(axis=1, dtype=jnp.int32)
    keys = jnp.broadcast_to(jnp.maximum(keys, 1), rows)
    # Derived from the other argument, so `vmap` maps both or neither, as jax's rule for cuDNN expects.
    lengths = {"query_seq_lengths": 0 * keys + queries, "key_value_seq_lengths": keys}
    return lengths if context.sharding is None else jax.tree.map(context.sharding.shard_rows, lengths)


def _sharded(sharding: ActivationSharding, q, k, v, bias, structure):
    """Shards all arrays over the same devices: cuDNN computes the rows and heads of a device, and
    jax does not check that a bias is that of these.
    """
    B, H = q.shape[0], q.shape[2]
    heads = sharding.divides_heads(H, k.shape[2])
    q, k, v = (sharding.heads(x, 2, heads) for x in (q, k, v))
    if bias is not None:
        bias = sharding.heads(bias, 1, heads and bias.shape[1] == H, bias.shape[0] == B > 1)
    return q, k, v, bias, jax.tree.map(lambda x: sharding.shard_rows(x) if x.shape[0] == B > 1 else x, structure)


def _attend(static: _Static, q, k, v, bias, structure):
    mask = None
    if static.masked:
        rows = Context(**structure, causal=static.causal, prefix=static.prefix)
        mask = rows.visible(static.window, global_tokens=static.global_tokens)[:, None]
    T, extra = q.shape[1], (q.shape[1] % 2, k.shape[1] % 2)
    if any(extra):
        q, k, v, bias, mask = _padded_to_even(q, k, v, bias, mask, extra)
    options = {"scale": static.scale, "is_causal": static.skips_later_keys}
    return library_attention(q, k, v, bias=bias, mask=mask, **options)[:, :T]


def _padded_to_even(q, k, v, bias, mask, extra: tuple[int, int]):
    """Appends queries and keys as `_padded_heads` does, which the mask hides."""
    if mask is None:
        mask = jnp.ones((1, 1, q.shape[1], k.shape[1]), bool)
    ends = [(0, 0), (0, 0), (0, extra[0]), (0, extra[1])]
    return *_padded_heads(q, k, v, extra), None if bias is None else jnp.pad(bias, ends), jnp.pad(mask, ends)


def _padded_heads(q, k, v, extra: tuple[int, int]):
    """Appends `extra` queries and keys of zeros, 0 or 1 of each: jax differentiates cuDNN's attention
    for even numbers of both alone.
    """
    counts = ((q, extra[0]), (k, extra[1]), (v, extra[1]))
    return tuple(jnp.pad(x, [(0, 0), (0, n), (0, 0), (0, 0)]) for x, n in counts)


def _over_rows(function, arrays: int, sums_bias: bool = False):
    """Returns a function of [B, ...] that `jax.vmap` maps by calling it once with all rows.

    jax's own rule for cuDNN can only map a bias of all rows and heads, and returns the sum of the
    gradients of all members for a bias that they share.

    Args:
        function: (q, k, v, bias, structure, ...) -> `arrays` arrays.
        arrays: number of arrays with rows in the result.
        sums_bias: the last of them is the gradient of the bias.
    """
    mapped = jax.custom_batching.custom_vmap(function)

    @mapped.def_vmap
    def rule(size, batched, q, k, v, bias, structure, *more):
        B = q.shape[1] if batched[0] else q.shape[0]

        def all_rows(x, is_mapped, whole=False):
            if not is_mapped and x.shape[0] == 1 and not whole:
                return x
            x = x if is_mapped else jnp.broadcast_to(x, (size, *x.shape))
            return jnp.broadcast_to(x, (size, B, *x.shape[2:])).reshape(size * B, *x.shape[2:])

        whole = partial(all_rows, whole=True)
        bias_rows = None if bias is None else bias.shape[1 if batched[3] else 0]
        results = _over_rows(function, arrays, sums_bias)(
            *(whole(x, is_mapped) for x, is_mapped in zip((q, k, v), batched, strict=False)),
            jax.tree.map(whole if sums_bias else all_rows, bias, batched[3]),
            jax.tree.map(all_rows, structure, batched[4]),
            *(whole(x, is_mapped) for x, is_mapped in zip(more, batched[5:], strict=True)),
        )
        results = [x.reshape(size, B, *x.shape[1:]) for x in results]
        if sums_bias and bias_rows == 1:
            results[-1] = results[-1].sum(axis=1, keepdims=True, dtype=jnp.float32).astype(results[-1].dtype)
        return tuple(results), (True,) * arrays

    return mapped


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _with_arrays(static: _Static, q, k, v, bias, structure):
    return _over_rows(lambda *inputs: (_attend(static, *inputs),), 1)(q, k, v, bias, structure)[0]


def _forward(static, *primals):
    inputs = jax.tree.map(lambda x: x.value, primals)
    learned = any(x.perturbed for x in jax.tree.leaves(primals[3]))
    # A residual without arrays tells the backward pass whether the bias has a gradient.
    return _with_arrays(static, *inputs), (inputs, () if learned else None)


def _backward(static, residuals, gradient):
    (q, k, v, bias, structure), learned = residuals
    if isinstance(gradient, SymbolicZero):
        return (None,) * 5
    learned = learned is not None

    def gradients(q, k, v, bias, structure, gradient):
        if learned:
            return jax.vjp(lambda *x: _attend(static, *x, structure), q, k, v, bias)[1](gradient)
        return jax.vjp(lambda *x: _attend(static, *x, bias, structure), q, k, v)[1](gradient)

    found = _over_rows(gradients, 3 + learned, learned)(q, k, v, bias, structure, gradient)
    return (*found, *(None,) * (5 - len(found)))


_with_arrays.defvjp(_forward, _backward, symbolic_zeros=True)
