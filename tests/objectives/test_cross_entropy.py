"""The chunked cross-entropy and its own gradient against the plain one differentiated in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.building import call, close, programs_inside
from zoo.objectives.cross_entropy import cross_entropy, number_of_chunks

B, T, D, V = 3, 12, 5, 11


@pytest.fixture(scope="module")
def inputs():
    """Hidden states, head, targets, and weights of which some are 0 and some are neither 0 nor 1."""
    generator = np.random.default_rng(0)
    weights = generator.uniform(0.2, 2, (B, T)) * (generator.random((B, T)) > 0.3)
    return (generator.standard_normal((B, T, D)).astype(np.float32), generator.standard_normal((V, D)).astype(np.float32),
            generator.integers(0, V, (B, T)), weights.astype(np.float32))


def plain(hidden, head, targets, weights):
    """Sum of weight * -log softmax(h W^T)[target]: (value, gradients in `hidden` and `head`), in float64."""

    def loss(hidden, head):
        logs = jax.nn.log_softmax(hidden @ head.T)
        return -(jnp.take_along_axis(logs, targets[..., None], axis=-1)[..., 0] * weights).sum()

    with jax.enable_x64(True):
        return call(jax.value_and_grad(loss, (0, 1)), *(np.asarray(x, np.float64) for x in (hidden, head)))


def ours(hidden, head, targets, weights, chunk, cotangent=1.0):
    return call(jax.value_and_grad(lambda h, w: cotangent * cross_entropy(h, w, targets, weights, chunk), (0, 1)), hidden, head)


# All at once, one column at a time, chunks that divide T, and sizes that neither T nor B T divides by.
@pytest.mark.parametrize("chunk", [0, 1, 6, 7, 18, 20, 1000])
def test_value_and_gradients_are_the_plain_ones(inputs, chunk):
    value, gradients = ours(*inputs, chunk)
    expected, expected_gradients = plain(*inputs)
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    for one, other in zip(gradients, expected_gradients, strict=True):
        close(one, other, 2e-6)


@pytest.mark.parametrize("chunk", [0, 6])
def test_the_value_is_the_same_with_and_without_a_gradient(inputs, chunk):
    alone = call(lambda h, w: cross_entropy(h, w, *inputs[2:], chunk), *inputs[:2])
    np.testing.assert_allclose(alone, ours(*inputs, chunk)[0], rtol=1e-6)


@pytest.mark.parametrize("chunk", [0, 6])
def test_the_gradient_is_multiplied_by_what_comes_after(inputs, chunk):
    _, gradients = ours(*inputs, chunk)
    _, scaled = ours(*inputs, chunk, cotangent=-0.25)
    for one, other in zip(scaled, gradients, strict=True):
        close(one, -0.25 * other)


def test_tokens_of_no_weight_count_for_nothing(inputs):
    hidden, head, targets, weights = inputs
    _, (gradient, _) = ours(*inputs, 6)
    assert (gradient[weights == 0] == 0).all()
    assert (abs(gradient[weights > 0]).max(axis=-1) > 0).all()
    moved = np.where(weights[..., None] == 0, hidden + 100, hidden)
    retargeted = np.where(weights == 0, 0, targets)
    np.testing.assert_allclose(ours(moved, head, retargeted, weights, 6)[0], ours(*inputs, 6)[0], rtol=1e-6)
    nothing, gradients = ours(hidden, head, targets, 0 * weights, 6)
    assert nothing == 0
    assert all((gradient == 0).all() for gradient in gradients)


def test_large_scores_do_not_overflow(inputs):
    hidden, head, targets, weights = inputs
    value, gradients = ours(1000 * hidden, head, targets, weights, 6)
    expected, expected_gradients = plain(1000 * hidden, head, targets, weights)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    for one, other in zip(gradients, expected_gradients, strict=True):
        close(one, other, 1e-4)


@pytest.mark.parametrize("chunk", [0, 6])
def test_bfloat16_states_keep_their_type_and_the_sum_is_float32(inputs, chunk):
    hidden, head, targets, weights = inputs
    narrow = hidden.astype(jnp.bfloat16)
    value, (d_hidden, d_head) = ours(narrow, head, targets, weights, chunk)
    assert (value.dtype, d_hidden.dtype, d_head.dtype) == (np.float32, jnp.bfloat16, np.float32)
    # Against the plain one on the same rounded numbers: only the gradient's own rounding is left.
    expected, (expected_hidden, expected_head) = plain(narrow, head.astype(jnp.bfloat16), targets, weights)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    close(d_hidden, expected_hidden, 1e-2)
    close(d_head, expected_head, 1e-2)


def test_the_sum_is_float32_over_many_tokens():
    # Log 2 a token: a bfloat16 sum would stop growing at 256.
    value = call(lambda h, w: cross_entropy(h, w, np.zeros((4, 1024), int), np.ones((4, 1024), np.float32), 64),
                 np.zeros((4, 1024, 2), jnp.bfloat16), np.ones((2, 2), np.float32))
    assert value == pytest.approx(4096 * np.log(2), rel=1e-5)


@pytest.mark.parametrize(("batch", "length", "chunk", "parts"), [
    (4, 8, 0, 1), (4, 8, 32, 1), (4, 8, 31, 2), (4, 8, 16, 2), (4, 8, 15, 3), (4, 8, 4, 8), (4, 8, 1, 8), (2, 7, 6, 3),
    (2, 7, 14, 1),
])  # fmt: skip
def test_as_few_chunks_as_hold_about_that_many_tokens(batch, length, chunk, parts):
    assert number_of_chunks(batch, length, chunk) == parts


def test_no_array_holds_the_scores_of_all_tokens(inputs):
    def sizes(jaxpr):
        for equation in jaxpr.eqns:
            yield from (variable.aval.shape for variable in equation.outvars)
            for sub in programs_inside(equation):
                yield from sizes(sub)

    def largest_with_vocabulary(chunk):
        jaxpr = jax.make_jaxpr(jax.grad(lambda h, w: cross_entropy(h, w, *inputs[2:], chunk), (0, 1)))(*inputs[:2])
        return max(np.prod(shape) for shape in sizes(jaxpr.jaxpr) if V in shape)

    assert largest_with_vocabulary(0) == B * T * V
    assert largest_with_vocabulary(12) == 12 * V
