"""The chunked cross-entropy and its custom gradient against plain cross-entropy differentiated in
float64.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.objectives.making import OTHER
from tests.support.building import by_default, call, close, compiled, programs_inside, tiny
from tests.support.comparisons import compared
from zoo.models.head import LogitFactors
from zoo.objectives.cross_entropy import cross_entropy
from zoo.objectives.token_chunks import number_of_chunks

B, T, D, V = 3, 12, 5, 11
# Bias, softcap, z-loss and label smoothing, on and off. The cap is low enough to bend most scores.
KINDS = {"plain": (False, 0.0, 0.0, 0.0), "bias": (True, 0.0, 0.0, 0.0), "softcap": (False, 2.0, 0.0, 0.0),
         "z_loss": (False, 0.0, 0.3, 0.0), "smoothing": (False, 0.0, 0.0, 0.2), "all": (True, 2.0, 0.3, 0.2)}  # fmt: skip

OPTIONS = ("model.head.bias", "model.head.softcap", "objective.z_loss", "objective.label_smoothing")
PLAIN = "plain cross-entropy in float64, differentiated automatically"


@pytest.fixture(scope="module")
def inputs():
    """Returns hidden states, head, bias, targets and weights, some of which are 0 and some neither
    0 nor 1.
    """
    generator = np.random.default_rng(0)
    weights = generator.uniform(0.2, 2, (B, T)) * (generator.random((B, T)) > 0.3)
    return (
        generator.standard_normal((B, T, D)).astype(np.float32),
        generator.standard_normal((V, D)).astype(np.float32),
        generator.standard_normal(V).astype(np.float32),
        generator.integers(0, V, (B, T)),
        weights.astype(np.float32),
    )


@functools.cache
def plain_program(kind):
    """A program: (hidden, head, bias, targets, weights) -> both sums and the gradients of the first
    in the first three, written out.
    """
    with_bias, softcap, z_loss, smoothing = KINDS[kind]

    def loss(hidden, head, bias, targets, weights):
        scores = hidden @ head.T + (bias if with_bias else 0)
        scores = softcap * jnp.tanh(scores / softcap) if softcap else scores
        largest = scores.max(axis=-1, keepdims=True)
        log_normalizer = jnp.log(jnp.exp(scores - largest).sum(axis=-1)) + largest[..., 0]
        entropy = ((log_normalizer - jnp.take_along_axis(scores, targets[..., None], axis=-1)[..., 0]) * weights).sum()
        wanted = (1 - smoothing) * (jnp.arange(V) == targets[..., None]) + smoothing / V
        smoothed = -(wanted * (scores - log_normalizer[..., None])).sum(axis=-1)
        return (smoothed * weights).sum() + z_loss * (weights * log_normalizer**2).sum(), entropy

    return compiled(jax.value_and_grad(loss, (0, 1, 2), has_aux=True))


def plain(hidden, head, bias, targets, weights, kind="plain"):
    """Returns both sums and the gradients of the first in `hidden`, `head` and `bias`, in float64."""
    with jax.enable_x64(True):
        exact = (np.asarray(x, np.float64) for x in (hidden, head, bias))
        (total, entropy), gradients = plain_program(kind)(*exact, targets, weights)
    return (total, entropy), gradients[: 3 if KINDS[kind][0] else 2]


@functools.cache
def our_program(chunk, kind):
    """A program: (hidden, head, bias or None, targets, weights, cotangent) -> both sums and the
    gradients of the first.
    """
    with_bias, softcap, *more = KINDS[kind]

    def loss(hidden, head, bias, targets, weights, cotangent):
        total, entropy = cross_entropy(LogitFactors(hidden, head, bias, softcap), targets, weights, chunk, *more)
        return cotangent * total, entropy

    return compiled(jax.value_and_grad(loss, (0, 1, 2) if with_bias else (0, 1), has_aux=True))


def ours(hidden, head, bias, targets, weights, chunk, kind="plain", cotangent=1.0):
    bias = bias if KINDS[kind][0] else None
    return our_program(chunk, kind)(hidden, head, bias, targets, weights, np.float32(cotangent))


# No chunks, one column at a time, chunks that divide T, and chunks that divide neither T nor B T.
@pytest.mark.parametrize("chunk", by_default([0, 1, 7, 20], [0, 1, 6, 7, 18, 20, 1000], OTHER))
def test_value_and_gradients_equal_plain_cross_entropy(inputs, chunk):
    (total, entropy), gradients = ours(*inputs, chunk)
    (expected, _), expected_gradients = plain(*inputs)
    assert total.dtype == entropy.dtype == np.float32
    np.testing.assert_allclose(total, expected, rtol=1e-6)
    assert total == entropy
    for one, other in zip(gradients, expected_gradients, strict=True):
        close(one, other, 2e-6)


@pytest.mark.parametrize("chunk", by_default([7], [0, 7, 18], OTHER))
@pytest.mark.parametrize("kind", ["bias", "softcap", "z_loss", "smoothing", "all"])
def test_head_options_equal_plain_cross_entropy(inputs, kind, chunk):
    values, gradients = ours(*inputs, chunk, kind)
    expected, expected_gradients = plain(*inputs, kind)
    about = {"config": tiny(dict(zip(OPTIONS, KINDS[kind], strict=True))), "parts": OPTIONS, "against": PLAIN}
    np.testing.assert_allclose(values, expected, rtol=2e-6)
    for one, other in zip(gradients, expected_gradients, strict=True):
        assert one.dtype == np.float32
        compared(one, other, 3e-6, **about)
    # Each option changes the gradient by far more than the tolerance.
    (_, plain_gradient), without = gradients[:2], plain(*inputs)[1]
    assert abs(plain_gradient - without[1]).max() > 0.01 * abs(without[1]).max()


@pytest.mark.parametrize("chunk", [0, 6])
@pytest.mark.parametrize("kind", ["z_loss", "smoothing"])
def test_reported_cross_entropy_excludes_added_terms(inputs, chunk, kind):
    (total, entropy), _ = ours(*inputs, chunk, kind)
    (alone, _), _ = ours(*inputs, chunk, "plain")
    assert entropy == alone
    assert abs(total - entropy) > 1


def test_reported_cross_entropy_has_no_gradient(inputs):
    hidden, head, _, targets, weights = inputs
    gradient = call(
        jax.grad(lambda h: cross_entropy(LogitFactors(h, head, None, 0.0), targets, weights, 6, 0.3)[1]), hidden
    )
    assert (gradient == 0).all()


@pytest.mark.parametrize("kind", ["plain", "all"])
@pytest.mark.parametrize("chunk", [0, 6])
def test_value_is_equal_with_and_without_a_gradient(inputs, chunk, kind):
    hidden, head, bias, targets, weights = inputs
    with_bias, softcap, *more = KINDS[kind]
    alone = call(
        lambda h, w, b: cross_entropy(
            LogitFactors(h, w, b if with_bias else None, softcap), targets, weights, chunk, *more
        ),
        hidden,
        head,
        bias,
    )
    np.testing.assert_allclose(alone, ours(*inputs, chunk, kind)[0], rtol=1e-6)


@pytest.mark.parametrize("kind", ["plain", "all"])
@pytest.mark.parametrize("chunk", [0, 6])
def test_gradient_is_multiplied_by_the_cotangent(inputs, chunk, kind):
    _, gradients = ours(*inputs, chunk, kind)
    _, scaled = ours(*inputs, chunk, kind, cotangent=-0.25)
    for one, other in zip(scaled, gradients, strict=True):
        close(one, -0.25 * other)


@pytest.mark.parametrize("kind", ["plain", "all"])
def test_tokens_of_weight_0_do_not_count(inputs, kind):
    hidden, head, bias, targets, weights = inputs
    _, (gradient, *_) = ours(*inputs, 6, kind)
    assert (gradient[weights == 0] == 0).all()
    assert (abs(gradient[weights > 0]).max(axis=-1) > 0).all()
    moved = np.where(weights[..., None] == 0, hidden + 100, hidden)
    retargeted = np.where(weights == 0, 0, targets)
    np.testing.assert_allclose(
        ours(moved, head, bias, retargeted, weights, 6, kind)[0], ours(*inputs, 6, kind)[0], rtol=1e-6
    )
    nothing, gradients = ours(hidden, head, bias, targets, 0 * weights, 6, kind)
    assert nothing == (0, 0)
    assert all((gradient == 0).all() for gradient in gradients)


@pytest.mark.parametrize("kind", ["plain", "all"])
def test_large_scores_do_not_overflow(inputs, kind):
    hidden, head, bias, targets, weights = inputs
    values, gradients = ours(1000 * hidden, head, bias, targets, weights, 6, kind)
    expected, expected_gradients = plain(1000 * hidden, head, bias, targets, weights, kind)
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    for one, other in zip(gradients, expected_gradients, strict=True):
        close(one, other, 1e-4)


@pytest.mark.parametrize("kind", ["plain", "all"])
@pytest.mark.parametrize("chunk", [0, 6])
def test_bfloat16_states_have_bfloat16_gradients_and_a_float32_sum(inputs, chunk, kind):
    hidden, head, bias, targets, weights = inputs
    narrow = hidden.astype(jnp.bfloat16)
    values, gradients = ours(narrow, head, bias, targets, weights, chunk, kind)
    assert {value.dtype for value in values} == {np.dtype(np.float32)}
    assert gradients[0].dtype == jnp.bfloat16
    assert {gradient.dtype for gradient in gradients[1:]} == {np.dtype(np.float32)}
    # Compared on the same rounded numbers, so that only the rounding of the gradient remains.
    expected, expected_gradients = plain(narrow, head.astype(jnp.bfloat16), bias, targets, weights, kind)
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    for one, other in zip(gradients, expected_gradients, strict=True):
        close(one, other, 1e-2)


def test_the_sum_is_float32_over_many_tokens():
    # Log 2 per token: a bfloat16 sum would stop growing at 256.
    value = call(
        lambda h, w: cross_entropy(
            LogitFactors(h, w, None, 0.0), np.zeros((4, 1024), int), np.ones((4, 1024), np.float32), 64
        )[0],
        np.zeros((4, 1024, 2), jnp.bfloat16),
        np.ones((2, 2), np.float32),
    )
    assert value == pytest.approx(4096 * np.log(2), rel=1e-5)


@pytest.mark.parametrize(("batch", "length", "chunk", "parts"), [
    (4, 8, 0, 1), (4, 8, 32, 1), (4, 8, 31, 2), (4, 8, 16, 2), (4, 8, 15, 3), (4, 8, 4, 8), (4, 8, 1, 8), (2, 7, 6, 3),
    (2, 7, 14, 1),
])  # fmt: skip
def test_number_of_chunks_follows_from_the_tokens_per_chunk(batch, length, chunk, parts):
    assert number_of_chunks(batch, length, chunk) == parts


def test_no_array_holds_the_scores_of_all_tokens(inputs):
    def sizes(jaxpr):
        for equation in jaxpr.eqns:
            yield from (variable.aval.shape for variable in equation.outvars)
            for sub in programs_inside(equation):
                yield from sizes(sub)

    def largest_with_vocabulary(chunk):
        hidden, head, bias, targets, weights = inputs
        loss = lambda h, w, b: cross_entropy(LogitFactors(h, w, b, 2.0), targets, weights, chunk, 0.3)[0]  # noqa: E731
        jaxpr = jax.make_jaxpr(jax.grad(loss, (0, 1, 2)))(hidden, head, bias)
        return max(np.prod(shape) for shape in sizes(jaxpr.jaxpr) if V in shape)

    assert largest_with_vocabulary(0) == B * T * V
    assert largest_with_vocabulary(12) == 12 * V
