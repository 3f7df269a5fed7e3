"""The recurrence of RWKV-7: both forms, its equation, and easy mistakes in them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import call, close, programs_inside
from zoo.layers.attention.generalized_delta import MIN_LOG_DECAY, RankOneTokens, rank_one_by_chunks, rank_one_by_token

B = 2


def drawn(length, dtype, firsts=((), ()), decay=None):
    """Returns random tokens of 2 rows and 2 heads, with a state before them."""
    generator = np.random.default_rng(3)
    K, V = 5, 3

    def normal(*shape):
        return generator.standard_normal(shape)

    r, erased, k, v = (normal(B, 2, length, size) for size in (K, K, K, V))
    erased /= np.linalg.norm(erased, axis=-1, keepdims=True)
    added = erased / (1 + np.exp(-normal(B, 2, length, K)))
    log_decay = MIN_LOG_DECAY / (1 + np.exp(-3 * normal(B, 2, length, K)))
    first = np.zeros((B, length), bool)
    for row, places in enumerate(firsts):
        first[row, list(places)] = True
    log_decay = log_decay if decay is None else np.full_like(log_decay, decay)
    arrays = [jnp.asarray(array, dtype) for array in (r, erased, added, k, v, log_decay, normal(B, 2, K, V))]
    return RankOneTokens(*arrays[:6], jnp.asarray(first)), arrays[6]


def values_and_gradients(form, tokens, state):
    """Returns (y, the last state) of a form, and the gradients of all arrays."""

    def total(arrays):
        y, last = form(RankOneTokens(*arrays[:6], tokens.first), arrays[6])
        return jnp.square(y + 1).sum() + (last**3).sum(), (y, last)

    (_, results), gradients = call(jax.value_and_grad(total, has_aux=True), (*tokens[:6], state))
    return [*results, *gradients]


@pytest.mark.parametrize(
    ("dtype", "size", "decay"),
    [(np.float32, 64, None), (np.float32, 64, MIN_LOG_DECAY), (np.float64, 64, MIN_LOG_DECAY), (np.float64, 16, None)],
)
def test_both_forms_are_one_function_with_one_gradient(dtype, size, decay):
    with jax.enable_x64(dtype == np.float64):
        # Several chunks; the last one is not full, and documents begin inside of them.
        given = drawn(150, dtype, ((0, 31, 64, 70), (100,)), decay)
        forms = (lambda *given: rank_one_by_chunks(*given, size), rank_one_by_token)
        for found, expected in zip(*(values_and_gradients(form, *given) for form in forms), strict=True):
            assert found.dtype == dtype
            close(found, expected, 1e-5 if dtype == np.float32 else 1e-10)


def test_tokens_do_what_the_paper_says():
    """The paper's transition is a matrix that multiplies the transposed state from the right."""
    with jax.enable_x64(True):
        tokens, state = drawn(6, np.float64)
        y, last = call(rank_one_by_token, tokens, state)
        arrays = [np.asarray(array[1, 0]) for array in tokens[:6]]
        S = np.asarray(state[1, 0]).T
        for t, (r, erased, added, k, v, log_decay) in enumerate(zip(*arrays, strict=True)):
            S = S @ (np.diag(np.exp(log_decay)) - np.outer(erased, added)) + np.outer(v, k)
            close(y[1, 0, t], S @ r, 1e-12)
        close(last[1, 0], S.T, 1e-12)


@pytest.mark.parametrize(
    "form", [rank_one_by_token, lambda *given: rank_one_by_chunks(*given, 4)], ids=["slow", "chunks"]
)
def test_a_dropped_state_leaves_no_trace_to_the_bit(form):
    tokens, state = drawn(16, np.float32, ((8,), (8,)))
    alone = jax.tree.map(lambda a: a[:, 8:] if a.ndim == 2 else a[:, :, 8:], tokens)
    y, last = call(lambda tokens: form(tokens, 1e30 * state), tokens)
    y_alone, last_alone = call(lambda tokens: form(tokens, 0 * state), alone)
    np.testing.assert_array_equal(y[:, :, 8:], y_alone)
    np.testing.assert_array_equal(last, last_alone)


def test_no_bit_and_no_gradient_depends_on_a_later_token_of_a_chunk():
    tokens, state = drawn(16, np.float32)

    def early(tokens):
        return rank_one_by_chunks(tokens, state)[0][:, :, :9]

    def total(arrays):
        return jnp.square(early(RankOneTokens(*arrays, tokens.first))).sum()

    others = RankOneTokens(*(array.at[:, :, 9:].mul(0.5) for array in tokens[:6]), tokens.first)
    np.testing.assert_array_equal(call(early, tokens), call(early, others))
    gradients = call(jax.grad(total), tokens[:6])
    assert not any(gradient[:, :, 9:].any() for gradient in gradients)


def test_state_goes_from_chunk_to_chunk_in_full_precision():
    """An accelerator rounds the factors of a product, and so would the decay of the state be."""
    tokens, state = drawn(64, np.float32)
    program = jax.make_jaxpr(lambda *given: rank_one_by_chunks(*given, 16))(tokens, state).jaxpr
    (loop,) = (equation for equation in program.eqns if equation.primitive.name == "scan")
    (body,) = programs_inside(loop)
    (product,) = (equation for equation in body.eqns if equation.primitive.name == "dot_general")
    assert product.params["precision"] == (jax.lax.Precision.HIGHEST,) * 2


def test_long_chunks_are_refused():
    with pytest.raises(ValueError, match="chunks of 128 tokens are too long"):
        rank_one_by_chunks(*drawn(4, np.float32), 128)


def sizes_of_intermediates(length):
    """Returns the number of elements of the largest array of the gradient of a row."""
    tokens, state = drawn(length, np.float32)

    def total(arrays):
        return rank_one_by_chunks(RankOneTokens(*arrays, tokens.first), state, 16)[0].sum()

    programs, largest, products = [jax.make_jaxpr(jax.grad(total))(tuple(tokens[:6])).jaxpr], 0, []
    while programs:
        for equation in programs.pop().eqns:
            programs += programs_inside(equation)
            largest = max([largest, *(result.aval.size for result in equation.outvars)])
            products += [equation] if equation.primitive.name == "dot_general" else []
    # A gradient of products of six dimensions crashes the process with jaxlib 0.10.2 on a CPU.
    assert max(operand.aval.ndim for product in products for operand in product.invars) <= 5
    return largest


def test_memory_is_linear_in_the_length():
    assert sizes_of_intermediates(512) == 4 * sizes_of_intermediates(128)
