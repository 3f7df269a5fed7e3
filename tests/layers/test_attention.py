"""Attention against a loop over heads, queries and keys; the kernels against each other."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from building import as_float64, call, close, counting, random_values, tiny, with_values

from zoo.config import ATTENTION_KERNELS
from zoo.layers.attention import Attention
from zoo.layers.context import Context
from zoo.layers.kernels import KERNELS, choose_kernel
from zoo.layers.position import make_position

B, T, H, K = 2, 7, 4, 6
CPU_KERNELS = ("einsum", "xla")
FEATURES = ("plain", "documents", "padding", "score", "documents and score")


def heads(seed, kv_heads, dtype=jnp.float32):
    generator = np.random.default_rng(seed)
    return [jnp.asarray(generator.standard_normal((B, T, n, K)), dtype) for n in (H, kv_heads, kv_heads)]


def situation(feature):
    """Context, score, and the same two for the reference: positions and documents per row."""
    positions, documents, score = np.tile(np.arange(T), (B, 1)), None, None
    if "documents" in feature:
        positions = np.array([[0, 1, 2, 0, 1, 0, 1], [0, 1, 2, 3, 4, 5, 0]])
        documents = np.array([[0, 0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0, 1]])
    if feature == "padding":
        positions = np.array([[-1, -1, 0, 1, 2, 3, 4], [0, 1, 2, 3, -1, -1, -1]])
    if "score" in feature:
        score = np.random.default_rng(9).standard_normal((B, H, T, T))
    counting_up = feature in ("plain", "score")
    context = Context(jnp.asarray(positions[:1] if counting_up else positions), None if documents is None else jnp.asarray(documents))
    return context, score, positions, documents


def expected_output(q, k, v, window, scale, score, positions, documents):
    rows = []
    for b in range(len(q)):
        seen = reference.visible(positions[b], None if documents is None else documents[b], window)
        wide = (np.asarray(x[b], np.float64) for x in (q, k, v))
        rows.append(reference.attention(*wide, seen, scale, None if score is None else score[b]))
    return np.stack(rows)


@pytest.mark.parametrize("kernel", CPU_KERNELS)
@pytest.mark.parametrize("window", [0, 1, 3, T])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_a_kernel_is_the_loop(kernel, kv_heads, window):
    q, k, v = heads(0, kv_heads)
    for feature in FEATURES:
        context, score, positions, documents = situation(feature)
        actual = KERNELS[kernel](q, k, v, context, window, 0.3, None if score is None else jnp.float32(score), 0.0)
        expected = expected_output(q, k, v, window, 0.3, score, positions, documents)
        # What an empty slot reads is nobody's business.
        scored = positions >= 0
        close(np.asarray(actual)[scored], expected[scored])
        assert scored.all() or feature == "padding"


@pytest.mark.parametrize("feature", FEATURES)
def test_kernels_agree_in_bfloat16(feature):
    q, k, v = heads(1, 2, jnp.bfloat16)
    context, score, positions, documents = situation(feature)
    score = None if score is None else np.asarray(jnp.asarray(score, jnp.bfloat16), np.float64)
    expected = expected_output(q, k, v, 3, 0.25, score, positions, documents)[positions >= 0]
    for kernel in CPU_KERNELS:
        actual = KERNELS[kernel](q, k, v, context, 3, 0.25, None if score is None else jnp.float32(score), 0.0)
        assert actual.dtype == jnp.bfloat16
        close(np.asarray(actual)[positions >= 0], expected, 1e-2)


@pytest.mark.parametrize("kernel", CPU_KERNELS)
def test_a_single_row_with_empty_slots_is_masked_too(kernel):
    # One row looks like positions shared by all rows, and must not be taken for a plain sequence.
    q, k, v = (x[:1] for x in heads(2, 2))
    positions = np.array([[-1, -1, 0, 1, 2, 3, 4]])
    actual = KERNELS[kernel](q, k, v, Context(jnp.asarray(positions)), 0, 0.3, None, 0.0)
    expected = expected_output(q, k, v, 0, 0.3, None, positions, None)
    close(actual[0, 2:], expected[0, 2:])


def test_gradients_of_the_kernels_agree():
    q, k, v = heads(3, 2)
    weights = jnp.float32(np.random.default_rng(4).standard_normal(q.shape))
    for feature in ("plain", "documents and score"):
        context, score, _, _ = situation(feature)
        score = None if score is None else jnp.float32(score)

        def total(kernel, *inputs, context=context, score=score):
            return (KERNELS[kernel](*inputs, context, 3, 0.3, score, 0.0) * weights).sum()

        einsum, xla = (call(jax.grad(partial(total, kernel), (0, 1, 2)), q, k, v) for kernel in CPU_KERNELS)
        for one, other in zip(einsum, xla, strict=True):
            close(one, other)


def test_query_heads_share_neighbouring_key_heads():
    # Group g of key heads serves query heads g H/G ... (g + 1) H/G - 1, in that order.
    q, k, v = heads(5, 2)
    repeated = [np.repeat(x, H // 2, axis=2) for x in (k, v)]
    for kernel in CPU_KERNELS:
        close(KERNELS[kernel](q, k, v, counting(T), 0, 0.3, None, 0.0), KERNELS[kernel](q, *repeated, counting(T), 0, 0.3, None, 0.0))


@pytest.mark.parametrize("kind", ["none", "rope", "alibi"])
@pytest.mark.parametrize(("kernel", "kv_heads", "bias", "fields"), [
    ("einsum", 4, True, {}),
    ("einsum", 2, False, {"model.attention.window": 3}),
    ("xla", 1, True, {"model.attention.scale": 0.7, "model.attention.head_dim": 10}),
    ("xla", 2, False, {"model.attention.window": 2}),
])
def test_a_layer_is_the_equation(kind, kernel, kv_heads, bias, fields):
    config = tiny({"model.position.kind": kind, "model.attention.kernel": kernel, "model.attention.num_kv_heads": kv_heads,
                   "model.attention.bias": bias, **fields}).model
    module, values = Attention(config), random_values(Attention(config), 6)
    assert all(("bias" in part) == bias for part in values.values())
    x = np.random.default_rng(7).standard_normal((B, T, 16))
    attention = with_values(module, values)
    actual = call(lambda x: attention(x, counting(T), make_position(config)), np.float32(x))
    close(actual, [reference.self_attention(config, as_float64(values), row, np.arange(T)) for row in x])


def test_the_default_scale_is_one_over_the_root_of_the_head_dimension():
    assert tiny({"model.attention.head_dim": 9}).model.attention.scale == pytest.approx(1 / 3)
    assert tiny().model.attention.scale == pytest.approx(1 / 2)


def test_dropout_acts_on_probabilities():
    q, k, _ = heads(8, 4)
    ones = jnp.ones((B, T, H, K))
    context = Context(jnp.arange(T)[None], dropout_key=jax.random.key(0))
    kept, all_kept = call(lambda q: tuple(KERNELS["einsum"](q, k, ones, c, 0, 0.3, None, 0.5) for c in (context, counting(T))), q)
    # Values of one: the output is the sum of what is left of a query's probabilities, the same in every dimension.
    np.testing.assert_allclose(kept, np.broadcast_to(kept[..., :1], kept.shape), rtol=1e-6)
    assert set(np.unique(kept[:, 0]).round(6)) == {0.0, 2.0}
    assert 0.7 < float(kept.mean()) < 1.3
    np.testing.assert_allclose(all_kept, 1, rtol=1e-6)


def test_a_layer_drops_only_with_a_key():
    config = tiny({"model.attention.dropout": 0.5}).model
    attention, position = with_values(Attention(config), random_values(Attention(config), 6)), make_position(config)
    plain = with_values(Attention(tiny().model), random_values(Attention(config), 6))
    x = np.float32(np.random.default_rng(7).standard_normal((B, T, 16)))
    with_key = Context(jnp.arange(T)[None], dropout_key=jax.random.key(3))
    dropped, kept = (call(lambda x, context=context: attention(x, context, position), x) for context in (with_key, counting(T)))
    expected = call(lambda x: plain(x, with_key, position), x)
    np.testing.assert_array_equal(kept, expected)
    assert abs(dropped - expected).max() > 0.1


def test_the_capability_table_and_the_kernels_are_the_same():
    assert set(ATTENTION_KERNELS) == set(KERNELS)


@pytest.mark.parametrize(("arguments", "kernel"), [
    (("auto", "gpu", "bfloat16", False, False, False, 64), "cudnn"),
    (("auto", "gpu", "float32", False, False, False, 64), "einsum"),
    (("auto", "gpu", "bfloat16", True, False, False, 64), "einsum"),
    (("auto", "gpu", "bfloat16", False, True, False, 64), "einsum"),
    (("auto", "gpu", "bfloat16", False, False, True, 64), "einsum"),
    (("auto", "gpu", "bfloat16", False, False, False, 256), "einsum"),
    (("auto", "gpu", "bfloat16", False, False, False, 20), "einsum"),
    (("auto", "cpu", "bfloat16", False, False, False, 64), "einsum"),
    (("auto", "tpu", "bfloat16", False, False, False, 64), "einsum"),
    (("xla", "gpu", "bfloat16", False, False, False, 64), "xla"),
])
def test_auto_takes_the_fused_kernel_only_where_it_can_do_what_is_asked(arguments, kernel):
    assert choose_kernel(*arguments) == kernel
