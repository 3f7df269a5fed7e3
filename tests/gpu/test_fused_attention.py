"""Fused attention against the einsum reference: with cuDNN on a GPU (`pytest -m gpu`), and on every
machine with XLA, which gets the same calls of jax's function.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import by_default, call
from zoo.layers.attention.kernels.banded import banded_attention
from zoo.layers.attention.kernels.products import KERNELS
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context, Memory
from zoo.layers.platform import Platform
from zoo.layers.position import alibi_slopes

LENGTH, HEADS, WIDTH = 128, 8, 64


class Calls(list):
    """The arguments of calls of jax's function; `exact` tells that XLA computes them."""

    exact = True


@pytest.fixture(params=[pytest.param("cudnn", marks=pytest.mark.gpu), "xla"])
def cudnn_calls(request, monkeypatch):
    """Records the calls of jax's function, which run on cuDNN or on XLA."""
    if request.param == "cudnn" and jax.default_backend() != "gpu":
        pytest.skip("no GPU")
    calls, original = Calls(), jax.nn.dot_product_attention

    def attend(*heads, implementation, bias=None, mask=None, **options):
        calls.append({**options, "implementation": implementation, "bias": bias, "mask": mask})
        check_cudnn_constraints(*heads, bias, mask, options)
        return original(*heads, implementation=request.param, bias=bias, mask=mask, **options)

    monkeypatch.setattr(jax.nn, "dot_product_attention", attend)
    calls.exact = request.param == "xla"
    return calls


def check_cudnn_constraints(q, k, v, bias, mask, options):
    """Checks the constraints of jax and cuDNN, which XLA does not have."""
    (B, T, H, _), S = q.shape, k.shape[1]
    # jax refuses to differentiate odd rows, even where nothing is added to the scores.
    assert T % 2 == S % 2 == 0
    for array in (bias, mask):
        if array is not None:
            assert array.shape[0] in (1, B)
            assert array.shape[1] in (1, H)
            assert array.shape[2:] == (T, S)
            assert options.get("local_window_size") is None
    assert bias is None or bias.dtype == q.dtype
    assert not (options.get("local_window_size") and not options["is_causal"])
    assert ("query_seq_lengths" in options) == ("key_value_seq_lengths" in options)
    assert not options.get("is_causal") or T == S


def run(kernel, context, scoring, *heads):
    """Returns the output of a kernel, and its gradients for a given cotangent."""
    *heads, cotangent = heads
    output, pull = jax.vjp(lambda *x: kernel(*x, context, scoring), *heads)
    return output, *pull(cotangent.astype(output.dtype))


def max_head_dim():
    """Returns the largest head dimension that the device supports."""
    capability = Platform.here().capability
    return 256 if capability is None or capability[0] == 9 else 128


# Rows without padding: causal ones, and bidirectional ones.
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
def test_outputs_and_gradients(cudnn_calls, kv_heads, rows, window):
    call_options = compare_with_reference(cudnn_calls, CONTEXTS[rows], Scoring(0.2, window), kv_heads, WIDTH)
    # These cases need neither a mask nor a bias, which would be arrays of T x T.
    assert call_options["mask"] is call_options["bias"] is None
    assert call_options["is_causal"] == CONTEXTS[rows].causal
    assert "query_seq_lengths" not in call_options


@pytest.mark.parametrize("rows", ["causal", "full"])
@pytest.mark.parametrize("width", [136, 256])
def test_wide_heads(cudnn_calls, rows, width):
    if width > max_head_dim():
        pytest.skip("no such heads on this GPU")
    compare_with_reference(cudnn_calls, CONTEXTS[rows], Scoring(0.1), 2, width)


def compare_with_reference(cudnn_calls, context, scoring, kv_heads, width):
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
    (call_options,) = cudnn_calls
    assert call_options["implementation"] == "cudnn"
    return call_options


# Short rows for cases that need lengths, a mask or a bias.
SHORT, B, H, K = 16, 3, 4, 8
POSITIONS = jnp.arange(SHORT)[None]
LENGTHS = jnp.array([SHORT, 5, 0])
PADDED = jnp.where(LENGTHS[:, None] > POSITIONS, POSITIONS, -1)
SCATTERED_PADDING = jnp.where((POSITIONS + jnp.arange(B)[:, None]) % 4 == 0, -1, POSITIONS)
DOCUMENTS = (jnp.array([[4], [9], [30]]) <= POSITIONS).astype(jnp.int32)
WITHIN = jnp.where(DOCUMENTS == 1, POSITIONS - jnp.array([[4], [9], [30]]), POSITIONS)
SLOPES = jnp.asarray(alibi_slopes(H))


def alibi(q, q_positions, k_positions):
    return -SLOPES[:, None, None] * jnp.abs(q_positions[:, None, :, None] - k_positions[:, None, None, :]).astype(
        jnp.float32
    )


def memory(keys, **promises):
    positions = jnp.where(jnp.arange(keys)[None] < jnp.array([[keys], [4], [0]]), jnp.arange(keys)[None], -1)
    context = Context(POSITIONS, in_order=True, memory=Memory(jnp.ones((B, keys, 4)), positions, **promises))
    return context.for_cross_attention()


BIDIRECTIONAL = Context(PADDED, causal=False, in_order=True)
CAUSAL = Context(POSITIONS, in_order=True)
FULL = Context(POSITIONS, causal=False, in_order=True, no_padding=True)
PACKED = Context(WITHIN, DOCUMENTS, in_order=True)
FULL_MEMORY = replace(memory(10, no_padding=True), key_positions=jnp.arange(10)[None])
# Each case has a context, options of the scores, and the expected arguments of the call.
CASES = {
    "padded": (BIDIRECTIONAL, {}, "lengths"),
    "scattered padding": (replace(BIDIRECTIONAL, positions=SCATTERED_PADDING, in_order=False), {}, "mask"),
    "cross-attention": (FULL_MEMORY, {}, ""),
    "cross-attention, odd": (replace(FULL_MEMORY, key_positions=jnp.arange(7)[None]), {}, "lengths"),
    "cross-attention, padded": (memory(10, padding_last=True), {}, "lengths"),
    "cross-attention, odd and padded": (memory(7, padding_last=True), {}, "lengths"),
    "cross-attention, scattered padding": (memory(7), {}, "mask"),
    "documents": (PACKED, {}, "mask"),
    "documents, window": (PACKED, {"window": 3}, "mask"),
    "documents, bidirectional": (replace(PACKED, causal=False), {}, "mask"),
    "prefix": (replace(CAUSAL, prefix=5), {}, "mask"),
    "shifted": (Context(POSITIONS + jnp.arange(B)[:, None]), {}, "mask"),
    "centred window": (FULL, {"window": 5}, "mask"),
    "centred window, padded": (BIDIRECTIONAL, {"window": 5}, "mask"),
    "global tokens": (BIDIRECTIONAL, {"window": 3, "global_tokens": 2}, "mask"),
    "ALiBi": (CAUSAL, {"score_bias": alibi}, "bias"),
    "ALiBi, window": (CAUSAL, {"score_bias": alibi, "window": 4}, "bias, mask"),
    "ALiBi, bidirectional": (FULL, {"score_bias": alibi}, "bias"),
    "ALiBi, padded": (replace(BIDIRECTIONAL, positions=PADDED[:1]), {"score_bias": alibi}, "bias, mask"),
}  # fmt: skip


def heads_of(keys, queries=SHORT, dtype=jnp.float32):
    names = jax.random.split(jax.random.key(1), 4)
    shapes = (queries, H), (keys, 2), (keys, 2), (queries, H)
    return [jax.random.normal(name, (B, *shape, K), dtype) for name, shape in zip(names, shapes, strict=True)]


def run_both(cudnn_calls, function, *arguments):
    """Runs a function of (kernel, arrays) with the fused kernel and with the reference. The fused
    kernel is in float32 if XLA computes it, and in bfloat16 otherwise.
    """
    dtype_of_fused = jnp.float32 if cudnn_calls.exact else jnp.bfloat16

    def both(*arguments):
        cast = jax.tree.map(lambda x: x.astype(dtype_of_fused), arguments)
        return function(KERNELS["cudnn"], *cast), function(KERNELS["einsum"], *arguments)

    return [jax.tree.leaves(results) for results in call(both, *arguments)]


def assert_close(cudnn_calls, fused, exact):
    for one, other in zip(fused, exact, strict=True):
        one, other = np.asarray(one, np.float32), np.asarray(other)
        assert np.isfinite(one).all()
        assert np.abs(one - other).max() <= (2e-6 if cudnn_calls.exact else 3e-2) * max(1, np.abs(other).max())


SLOW = (
    "cross-attention, odd", "cross-attention, scattered padding", "documents, bidirectional", "documents, window",
    "centred window, padded", "ALiBi, bidirectional", "scattered padding", "shifted",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    by_default(
        [name for name in CASES if name not in SLOW], CASES, pytest.mark.slow(reason="more masks of the same kinds")
    ),
)
def test_lengths_masks_and_biases(cudnn_calls, name):
    context, options, expected_arguments = CASES[name]
    keys = context.effective_key_positions
    counted = jnp.broadcast_to(context.positions >= 0, (B, SHORT)) & (keys >= 0).any(axis=1, keepdims=True)

    def kernel_run(kernel, *heads):
        # Outputs of padding, and of queries without any key, are arbitrary.
        output, *gradients = run(
            kernel, context, Scoring(0.3, **options), *heads[:3], heads[3] * counted[..., None, None]
        )
        return jnp.where(counted[..., None, None], output, 0), gradients

    assert_close(cudnn_calls, *run_both(cudnn_calls, kernel_run, *heads_of(keys.shape[1])))
    found = [name for name in ("bias", "mask") if cudnn_calls[0][name] is not None]
    found += ["lengths"] * ("key_value_seq_lengths" in cudnn_calls[0])
    assert ", ".join(found) == expected_arguments
    assert all(call_options["implementation"] == "cudnn" for call_options in cudnn_calls)
    # The causal flag lets the kernel skip later keys even if there is a mask, too.
    assert cudnn_calls[0]["is_causal"] == (context.causal and context.in_order and not context.prefix)


@pytest.mark.parametrize(("causal", "window"), [(True, 0), (True, 5), (False, 0)])
def test_odd_rows(cudnn_calls, causal, window):
    length = SHORT - 1
    context = Context(jnp.arange(length)[None], causal=causal, in_order=True, no_padding=True)

    def kernel_run(kernel, *heads):
        return run(kernel, context, Scoring(0.3, window), *heads)

    assert_close(cudnn_calls, *run_both(cudnn_calls, kernel_run, *heads_of(length, length)))
    (call_options,) = cudnn_calls
    # Memory stays linear in T.
    assert call_options["mask"] is call_options["bias"] is None
    assert ("key_value_seq_lengths" in call_options) != causal


@pytest.mark.parametrize(("causal", "length"), [(True, SHORT), (False, SHORT - 1)])
def test_gradient_of_a_learned_bias(cudnn_calls, causal, length):
    context = Context(jnp.arange(length)[None], causal=causal, in_order=True, no_padding=True)
    bias = jax.random.normal(jax.random.key(3), (1, H, length, length))

    def gradients(kernel, bias, *heads):
        def loss(bias, q, k, v):
            return (kernel(q, k, v, context, Scoring(0.3, shared=bias)) * heads[3]).sum()

        return jax.grad(loss, argnums=(0, 1, 2, 3))(bias, *heads[:3])

    assert_close(cudnn_calls, *run_both(cudnn_calls, gradients, bias, *heads_of(length, length)))


def test_banded_attention(cudnn_calls):
    length, size = 48, 12
    context = Context(jnp.arange(length)[None], (jnp.arange(length)[None] + jnp.arange(B)[:, None]) // 9, in_order=True)

    def blocks(kernel, *heads):
        if kernel is KERNELS["einsum"]:
            return run(kernel, context, Scoring(0.3, 9), *heads)
        return run(lambda *x: banded_attention(kernel, size, *x), context, Scoring(0.3, 9), *heads)

    assert_close(cudnn_calls, *run_both(cudnn_calls, blocks, *heads_of(length, length)))


@pytest.mark.parametrize("learned", [True, False])
def test_vmap_over_groups(cudnn_calls, learned):
    """Every group has its own rows; the bias is shared by all groups."""
    bias = jax.random.normal(jax.random.key(3), (1, H, SHORT, SHORT))

    def by_group(kernel, bias, *heads):
        def loss(bias, q, k, v, cotangent, positions, documents):
            scoring = Scoring(0.3, shared=bias if learned else jax.lax.stop_gradient(bias))
            context = Context(positions, documents, in_order=True)
            one = kernel(q, k, v, context, replace(scoring, shared=None))
            other = kernel(q, k, v, replace(CONTEXTS["causal"], positions=POSITIONS), scoring)
            return ((one + other) * cotangent).sum()

        rows = [jnp.stack([x, x[::-1] * 2]) for x in heads]
        where = jnp.stack([WITHIN, WITHIN[::-1]]), jnp.stack([DOCUMENTS, DOCUMENTS[::-1]])
        return jax.vmap(jax.grad(loss, argnums=(0, 1, 2, 3)), (None, *(0,) * 6))(bias, *rows, *where)

    assert_close(cudnn_calls, *run_both(cudnn_calls, by_group, bias, *heads_of(SHORT)))


def test_no_quadratic_array_is_kept_for_the_backward_pass(cudnn_calls):
    heads = heads_of(SHORT, dtype=jnp.bfloat16)[:3]

    def quadratic_residuals(kernel):
        residuals = jax.vjp(lambda *x: kernel(*x, PACKED, Scoring(0.3)), *heads)[1]
        return [x.shape for x in jax.tree.leaves(residuals) if x.shape[-2:] == (SHORT, SHORT)]

    assert quadratic_residuals(KERNELS["einsum"])
    assert not quadratic_residuals(KERNELS["cudnn"])
