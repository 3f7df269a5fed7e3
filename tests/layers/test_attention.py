"""Attention against a loop over heads, queries and keys; the kernels against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.building import as_float64, call, close, counting, random_values, tiny, with_values
from zoo.config import ATTENTION_KERNELS
from zoo.layers.attention import Attention
from zoo.layers.context import Context
from zoo.layers.kernels import KERNELS, choose_kernel
from zoo.layers.position import make_position

B, T, H, K = 2, 8, 4, 6
ON_ANY_DEVICE = [name for name in KERNELS if name != "cudnn"]
FEATURES = ("plain", "padding", "score", "documents and score")


def heads(seed, kv_heads, dtype=np.float32, length=T):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((B, length, n, K)).astype(dtype) for n in (H, kv_heads, kv_heads)]


def situation(feature):
    """Context, score, and for the reference positions and documents per row."""
    positions, documents, score = np.tile(np.arange(T), (B, 1)), None, None
    if "documents" in feature:
        positions = np.array([[0, 1, 2, 0, 1, 2, 0, 1], [0, 1, 2, 3, 4, 5, 6, 0]])
        documents = np.array([[0, 0, 0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0, 0, 1]])
    if feature == "padding":
        positions = np.array([[-1, -1, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, -1, -1, -1]])
    if "score" in feature:
        score = np.random.default_rng(9).standard_normal((B, H, T, T)).astype(np.float32)
    shared = positions[:1] if feature in ("plain", "score") else positions
    numbers = None if documents is None else jnp.asarray(documents)
    return Context(jnp.asarray(shared), numbers, in_order=feature != "padding"), score, positions, documents


def expected_output(q, k, v, window, scale, score, positions, documents):
    rows = []
    for b in range(len(q)):
        seen = reference.visible(positions[b], None if documents is None else documents[b], window)
        wide = (np.asarray(x[b], np.float64) for x in (q, k, v))
        rows.append(reference.attention(*wide, seen, scale, None if score is None else score[b]))
    return np.stack(rows)


def check(kernel, kv_heads, window, scale, dtype, tolerance):
    """Compares a kernel with the loop in every situation; what an empty slot reads is nobody's business."""
    q, k, v = heads(0, kv_heads, dtype)
    situations = [situation(feature) for feature in FEATURES]
    outputs = call(lambda *x: [KERNELS[kernel](*x, given[0], window, scale, given[1], 0.0) for given in situations], q, k, v)
    for actual, (_, score, positions, documents) in zip(outputs, situations, strict=True):
        expected = expected_output(q, k, v, window, scale, score, positions, documents)
        assert actual.dtype == dtype
        close(actual[positions >= 0], expected[positions >= 0], tolerance)


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
@pytest.mark.parametrize("window", [0, 1, 3, T])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_a_kernel_is_the_loop(kernel, kv_heads, window):
    check(kernel, kv_heads, window, 0.3, np.float32, 1e-5)


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
def test_a_kernel_is_the_loop_in_bfloat16(kernel):
    check(kernel, 2, 3, 0.25, jnp.bfloat16, 2e-2)


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
def test_any_length_will_do(kernel):
    for length, window in ((1, 0), (6, 2), (12, 5), (12, 40)):
        q, k, v = heads(1, 2, length=length)
        actual = call(lambda *x, window=window: KERNELS[kernel](*x, counting(x[0].shape[1]), window, 0.3, None, 0.0), q, k, v)
        close(actual, expected_output(q, k, v, window, 0.3, None, np.tile(np.arange(length), (B, 1)), None))


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
def test_a_single_row_of_any_positions_is_masked_too(kernel, window):
    # One row looks like positions shared by all rows, and must not be taken for a plain sequence: a token's place in the
    # row says nothing about its distance to others when there are empty slots between them or a ring buffer has turned.
    q, k, v = (x[:1] for x in heads(2, 2))
    for positions in ([-1, -1, 0, 1, 2, 3, 4, 5], [0, -1, 1, -1, -1, 2, 3, 4], [5, 6, 7, 0, 1, 2, 3, 4]):
        positions = np.array([positions])
        attend = lambda *x, given=positions: KERNELS[kernel](*x, Context(jnp.asarray(given)), window, 0.3, None, 0.0)  # noqa: E731
        filled = positions[0] >= 0
        close(call(attend, q, k, v)[0, filled], expected_output(q, k, v, window, 0.3, None, positions, None)[0, filled])


@pytest.mark.parametrize("feature", ["plain", "documents and score"])
def test_gradients_of_the_kernels_agree(feature):
    inputs, weights = heads(3, 2), np.random.default_rng(4).standard_normal((B, T, H, K)).astype(np.float32)
    context, score, _, _ = situation(feature)

    def gradients(kernel):
        return call(jax.grad(lambda *x: (KERNELS[kernel](*x, context, 3, 0.3, score, 0.0) * weights).sum(), (0, 1, 2)), *inputs)

    expected = gradients("einsum")
    for kernel in set(ON_ANY_DEVICE) - {"einsum"}:
        for one, other in zip(gradients(kernel), expected, strict=True):
            close(one, other)


def test_query_heads_share_neighbouring_key_heads():
    # Key head g serves query heads g H/G ... (g + 1) H/G - 1, in that order.
    q, k, v = heads(5, 2)
    repeated = [np.repeat(x, H // 2, axis=2) for x in (k, v)]
    for kernel in ON_ANY_DEVICE:
        attend = lambda *x, kernel=kernel: KERNELS[kernel](*x, counting(T), 0, 0.3, None, 0.0)  # noqa: E731
        close(call(attend, q, k, v), call(attend, q, *repeated))


@pytest.mark.parametrize("kind", ["none", "rope", "alibi"])
@pytest.mark.parametrize(("kernel", "kv_heads", "bias", "fields"), [
    ("einsum", 4, True, {}),
    ("einsum", 2, False, {"model.attention.window": 3}),
    ("xla", 1, True, {"model.attention.scale": 0.7, "model.attention.head_dim": 10}),
    ("rows", 2, False, {"model.attention.window": 2}),
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
    ones = np.ones((B, T, H, K), np.float32)
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
    with_key = Context(jnp.arange(T)[None], in_order=True, dropout_key=jax.random.key(3))
    dropped, kept = (call(lambda x, context=context: attention(x, context, position), x) for context in (with_key, counting(T)))
    expected = call(lambda x: plain(x, with_key, position), x)
    np.testing.assert_array_equal(kept, expected)
    assert abs(dropped - expected).max() > 0.1


def test_the_capability_table_and_the_kernels_are_the_same():
    assert set(ATTENTION_KERNELS) == set(KERNELS)


@pytest.mark.parametrize(("changes", "kernel"), [
    ({}, "cudnn"),
    ({"dtype": "float32"}, "einsum"),
    ({"score": True}, "einsum"),
    ({"documents": True}, "einsum"),
    ({"dropout": True}, "einsum"),
    ({"head_dim": 256}, "einsum"),
    ({"head_dim": 20}, "einsum"),
    ({"devices": 8}, "cudnn"),
    ({"platform": "tpu"}, "einsum"),
    ({"platform": "cpu"}, "rows"),
    ({"platform": "cpu", "score": True, "documents": True, "dtype": "float32", "head_dim": 20}, "rows"),
    ({"platform": "cpu", "dropout": True}, "einsum"),
    ({"platform": "cpu", "devices": 2}, "einsum"),
    ({"kernel": "xla"}, "xla"),
], ids=str)  # fmt: skip
def test_auto_takes_a_faster_kernel_only_where_it_can_do_what_is_asked(changes, kernel):
    asked = {"kernel": "auto", "platform": "gpu", "devices": 1, "dtype": "bfloat16", "score": False, "documents": False,
             "dropout": False, "head_dim": 64}
    assert choose_kernel(**asked | changes) == kernel
