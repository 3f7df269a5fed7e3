"""Fused attention against the reference: cuDNN's where there is a GPU (`pytest -m gpu`), and
everywhere what would be asked of cuDNN, asked of XLA by the same function of jax, so that these
tests run on every machine.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import call, slow_but
from zoo.layers.attention.banded import banded_attention
from zoo.layers.attention.kernel_choice import Platform
from zoo.layers.attention.kernels import KERNELS
from zoo.layers.attention.scoring import Scoring
from zoo.layers.context import Context, Memory
from zoo.layers.position import alibi_slopes

LENGTH, HEADS, WIDTH = 128, 8, 64


class Calls(list):
    """The arguments of the calls of jax's function; `exact` where XLA computes them."""

    exact = True


@pytest.fixture(params=[pytest.param("cudnn", marks=pytest.mark.gpu), "xla"])
def asked(request, monkeypatch):
    """The calls of jax's function; XLA may take the place of cuDNN in them."""
    if request.param == "cudnn" and jax.default_backend() != "gpu":
        pytest.skip("no GPU")
    calls, original = Calls(), jax.nn.dot_product_attention

    def attend(*heads, implementation, bias=None, mask=None, **options):
        calls.append({**options, "implementation": implementation, "bias": bias, "mask": mask})
        is_what_cudnn_takes(*heads, bias, mask, options)
        return original(*heads, implementation=request.param, bias=bias, mask=mask, **options)

    monkeypatch.setattr(jax.nn, "dot_product_attention", attend)
    calls.exact = request.param == "xla"
    return calls


def is_what_cudnn_takes(q, k, v, bias, mask, options):
    """What jax and cuDNN check, of a call that may go to neither."""
    (B, T, H, _), S = q.shape, k.shape[1]
    for array in (bias, mask):
        if array is not None:
            assert array.shape[0] in (1, B)
            assert array.shape[1] in (1, H)
            assert array.shape[2:] == (T, S)
            assert T % 2 == S % 2 == 0
            assert options.get("local_window_size") is None
    assert bias is None or bias.dtype == q.dtype
    assert not (options.get("local_window_size") and not options["is_causal"])
    assert ("query_seq_lengths" in options) == ("key_value_seq_lengths" in options)
    assert not options.get("is_causal") or T == S


def run(kernel, context, scoring, *heads):
    """The output of a kernel, and its gradients for the same cotangent."""
    *heads, cotangent = heads
    output, pull = jax.vjp(lambda *x: kernel(*x, context, scoring), *heads)
    return output, *pull(cotangent.astype(output.dtype))


def widest():
    """The widest heads that a test can have here."""
    capability = Platform.here().capability
    return 256 if capability is None or capability[0] == 9 else 128


# Causal rows in order, rows that end in padding that no token sees, and full rows seen as a whole.
INDEX = jnp.arange(LENGTH)[None]
CONTEXTS = {
    "causal": Context(INDEX, in_order=True),
    "full": Context(INDEX, causal=False, in_order=True, no_padding=True),
    "full, shifted": Context(INDEX + 7, causal=False, no_padding=True),
}


@pytest.mark.parametrize(
    ("rows", "window"), [("causal", 0), ("causal", 15), ("causal", LENGTH), ("full", 0), ("full, shifted", 0)]
)  # fmt: skip
@pytest.mark.parametrize("kv_heads", [8, 2, 1])
def test_output_and_gradients_are_the_reference_s(asked, kv_heads, rows, window):
    made = is_the_reference_s(asked, CONTEXTS[rows], Scoring(0.2, window), kv_heads, WIDTH)
    # A mask or a bias would be an array of T x T, and a window without a causal mask is refused.
    assert made["mask"] is made["bias"] is None
    assert made["is_causal"] == CONTEXTS[rows].causal
    assert "query_seq_lengths" not in made


@pytest.mark.parametrize("rows", ["causal", "full"])
@pytest.mark.parametrize("width", [136, 256])
def test_wide_heads_are_the_reference_s(asked, rows, width):
    if width > widest():
        pytest.skip("no such heads on this GPU")
    is_the_reference_s(asked, CONTEXTS[rows], Scoring(0.1), 2, width)


def is_the_reference_s(asked, context, scoring, kv_heads, width):
    """Compares outputs and gradients in bfloat16; returns the call of jax's function."""
    keys = jax.random.split(jax.random.key(0), 4)
    q, cotangent = (jax.random.normal(key, (2, LENGTH, HEADS, width), jnp.bfloat16) for key in keys[:2])
    k, v = (jax.random.normal(key, (2, LENGTH, kv_heads, width), jnp.bfloat16) for key in keys[2:])
    heads = q, k, v, cotangent
    found = call(
        lambda *heads: (
            run(KERNELS["cudnn"], context, scoring, *heads),
            run(KERNELS["einsum"], context, scoring, *(x.astype(jnp.float32) for x in heads)),
        ),
        *heads,
    )
    for fused, exact in zip(*found, strict=True):
        fused, exact = np.asarray(fused, np.float32), np.asarray(exact)
        assert np.linalg.norm(fused - exact) < 1e-2 * np.linalg.norm(exact)
    (made,) = asked
    assert made["implementation"] == "cudnn"
    return made


# What needs lengths or an array, on short rows.
SHORT, B, H, K = 16, 3, 4, 8
PLACES = jnp.arange(SHORT)[None]
LENGTHS = jnp.array([SHORT, 5, 0])
PADDED = jnp.where(LENGTHS[:, None] > PLACES, PLACES, -1)
ANYWHERE = jnp.where((PLACES + jnp.arange(B)[:, None]) % 4 == 0, -1, PLACES)
DOCUMENTS = (jnp.array([[4], [9], [30]]) <= PLACES).astype(jnp.int32)
WITHIN = jnp.where(DOCUMENTS == 1, PLACES - jnp.array([[4], [9], [30]]), PLACES)
SLOPES = jnp.asarray(alibi_slopes(H))


def alibi(q, at, keys_at):
    return -SLOPES[:, None, None] * jnp.abs(at[:, None, :, None] - keys_at[:, None, None, :]).astype(jnp.float32)


def memory(keys, **promises):
    positions = jnp.where(jnp.arange(keys)[None] < jnp.array([[keys], [4], [0]]), jnp.arange(keys)[None], -1)
    context = Context(PLACES, in_order=True, memory=Memory(jnp.ones((B, keys, 4)), positions, **promises))
    return context.for_cross_attention()


BOTH_WAYS = Context(PADDED, causal=False, in_order=True)
CAUSAL = Context(PLACES, in_order=True)
FULL = Context(PLACES, causal=False, in_order=True, no_padding=True)
PACKED = Context(WITHIN, DOCUMENTS, in_order=True)
FULL_MEMORY = replace(memory(10, no_padding=True), key_positions=jnp.arange(10)[None])
# Context, options of the scores, and what of (mask, bias, lengths) the call has.
CASES = {
    "padded": (BOTH_WAYS, {}, "lengths"),
    "padding anywhere": (replace(BOTH_WAYS, positions=ANYWHERE, in_order=False), {}, "mask"),
    "cross-attention": (FULL_MEMORY, {}, ""),
    "cross-attention, odd": (replace(FULL_MEMORY, key_positions=jnp.arange(7)[None]), {}, ""),
    "cross-attention, padded": (memory(10, padding_last=True), {}, "lengths"),
    "cross-attention, odd and padded": (memory(7, padding_last=True), {}, "lengths"),
    "cross-attention, padding anywhere": (memory(7), {}, "mask"),
    "documents": (PACKED, {}, "mask"),
    "documents, window": (PACKED, {"window": 3}, "mask"),
    "documents, both ways": (replace(PACKED, causal=False), {}, "mask"),
    "prefix": (replace(CAUSAL, prefix=5), {}, "mask"),
    "shifted": (Context(PLACES + jnp.arange(B)[:, None]), {}, "mask"),
    "centred window": (FULL, {"window": 5}, "mask"),
    "centred window, padded": (BOTH_WAYS, {"window": 5}, "mask"),
    "global tokens": (BOTH_WAYS, {"window": 3, "global_tokens": 2}, "mask"),
    "ALiBi": (CAUSAL, {"score_bias": alibi}, "bias"),
    "ALiBi, window": (CAUSAL, {"score_bias": alibi, "window": 4}, "bias, mask"),
    "ALiBi, both ways": (FULL, {"score_bias": alibi}, "bias"),
    "ALiBi, padded": (replace(BOTH_WAYS, positions=PADDED[:1]), {"score_bias": alibi}, "bias, mask"),
}  # fmt: skip


def heads_of(keys, queries=SHORT, dtype=jnp.float32):
    names = jax.random.split(jax.random.key(1), 4)
    shapes = (queries, H), (keys, 2), (keys, 2), (queries, H)
    return [jax.random.normal(name, (B, *shape, K), dtype) for name, shape in zip(names, shapes, strict=True)]


def on_both(asked, function, *arguments):
    """The results of a function of a kernel and arrays, of the fused kernel and of the reference: in
    float32 where XLA computes both.
    """
    narrow = jnp.float32 if asked.exact else jnp.bfloat16

    def both(*arguments):
        cast = jax.tree.map(lambda x: x.astype(narrow), arguments)
        return function(KERNELS["cudnn"], *cast), function(KERNELS["einsum"], *arguments)

    return [jax.tree.leaves(results) for results in call(both, *arguments)]


def is_close(asked, fused, exact):
    for one, other in zip(fused, exact, strict=True):
        one, other = np.asarray(one, np.float32), np.asarray(other)
        assert np.isfinite(one).all()
        assert np.abs(one - other).max() <= (2e-6 if asked.exact else 3e-2) * max(1, np.abs(other).max())


SELDOM = (
    "cross-attention, odd", "cross-attention, padding anywhere", "documents, both ways", "documents, window",
    "centred window, padded", "ALiBi, both ways", "padding anywhere", "shifted",
)  # fmt: skip


@pytest.mark.parametrize("name", slow_but([name for name in CASES if name not in SELDOM], CASES))
def test_what_is_told_by_lengths_or_arrays_is_the_reference_s(asked, name):
    context, options, given = CASES[name]
    keys = context.effective_key_positions
    real = jnp.broadcast_to(context.positions >= 0, (B, SHORT)) & (keys >= 0).any(axis=1, keepdims=True)

    def kernel_run(kernel, *heads):
        # What padding reads, and what reads nothing, does not count.
        output, *gradients = run(kernel, context, Scoring(0.3, **options), *heads[:3], heads[3] * real[..., None, None])
        return jnp.where(real[..., None, None], output, 0), gradients

    is_close(asked, *on_both(asked, kernel_run, *heads_of(keys.shape[1])))
    found = [name for name in ("bias", "mask") if asked[0][name] is not None]
    found += ["lengths"] * ("key_value_seq_lengths" in asked[0])
    assert ", ".join(found) == given
    assert all(made["implementation"] == "cudnn" for made in asked)
    # Later keys are skipped also where an array masks more.
    assert asked[0]["is_causal"] == (context.causal and context.in_order and not context.prefix)


@pytest.mark.parametrize(("causal", "length"), [(True, SHORT), (False, SHORT - 1)])
def test_a_learned_bias_has_the_reference_s_gradient(asked, causal, length):
    context = Context(jnp.arange(length)[None], causal=causal, in_order=True, no_padding=True)
    bias = jax.random.normal(jax.random.key(3), (1, H, length, length))

    def gradients(kernel, bias, *heads):
        def loss(bias, q, k, v):
            return (kernel(q, k, v, context, Scoring(0.3, shared=bias)) * heads[3]).sum()

        return jax.grad(loss, argnums=(0, 1, 2, 3))(bias, *heads[:3])

    is_close(asked, *on_both(asked, gradients, bias, *heads_of(length, length)))


def test_a_mask_of_all_blocks_is_the_reference_s(asked):
    length, size = 48, 12
    context = Context(jnp.arange(length)[None], (jnp.arange(length)[None] + jnp.arange(B)[:, None]) // 9, in_order=True)

    def blocks(kernel, *heads):
        if kernel is KERNELS["einsum"]:
            return run(kernel, context, Scoring(0.3, 9), *heads)
        return run(lambda *x: banded_attention(kernel, size, *x), context, Scoring(0.3, 9), *heads)

    is_close(asked, *on_both(asked, blocks, *heads_of(length, length)))


@pytest.mark.parametrize("learned", [True, False])
def test_arrays_of_a_program_over_groups_are_the_reference_s(asked, learned):
    """Every group has rows of its own; a bias is that of all of them, and so is its gradient."""
    bias = jax.random.normal(jax.random.key(3), (1, H, SHORT, SHORT))

    def by_group(kernel, bias, *heads):
        def loss(bias, q, k, v, cotangent, positions, documents):
            given = Scoring(0.3, shared=bias if learned else jax.lax.stop_gradient(bias))
            context = Context(positions, documents, in_order=True)
            one = kernel(q, k, v, context, replace(given, shared=None))
            other = kernel(q, k, v, replace(CONTEXTS["causal"], positions=PLACES), given)
            return ((one + other) * cotangent).sum()

        rows = [jnp.stack([x, x[::-1] * 2]) for x in heads]
        where = jnp.stack([WITHIN, WITHIN[::-1]]), jnp.stack([DOCUMENTS, DOCUMENTS[::-1]])
        return jax.vmap(jax.grad(loss, argnums=(0, 1, 2, 3)), (None, *(0,) * 6))(bias, *rows, *where)

    is_close(asked, *on_both(asked, by_group, bias, *heads_of(SHORT)))


def test_no_array_of_all_pairs_is_kept_for_the_backward_pass(asked):
    heads = heads_of(SHORT)[:3]

    def kept(kernel):
        residuals = jax.vjp(lambda *x: kernel(*x, PACKED, Scoring(0.3)), *heads)[1]
        return [x.shape for x in jax.tree.leaves(residuals) if x.shape[-2:] == (SHORT, SHORT)]

    assert kept(KERNELS["einsum"])
    assert not kept(KERNELS["cudnn"])
