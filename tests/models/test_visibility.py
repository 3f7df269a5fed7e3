"""Which inputs can influence an output, read off gradients through whole models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.building import call, random_values, tiny, with_values
from zoo.layers.context import Context
from zoo.layers.kernels import KERNELS
from zoo.layers.position import POSITIONS
from zoo.models.architectures import make_model
from zoo.objectives.causal import structure

ON_ANY_DEVICE = [name for name in KERNELS if name != "cudnn"]
DOCUMENT = 0
T = 8
# Three documents; the end of one and a second; and a row that starts in the middle of a document and stays in it.
PACKED = np.array([[0, 5, 5, 0, 5, 0, 5, 5], [5, 5, 5, 5, 5, 0, 5, 5], [5, 5, 5, 5, 5, 5, 5, 5]])
NUMBERS = np.array([[1, 1, 1, 2, 2, 3, 3, 3], [0, 0, 0, 0, 0, 1, 1, 1], [0] * 8])
WITHIN = np.array([[0, 1, 2, 0, 1, 0, 1, 2], [0, 1, 2, 3, 4, 0, 1, 2], [*range(8)]])


def scheme(kind, kernel):
    """A position scheme on a kernel; Shaw's values need the probabilities, which only einsum hands out."""
    return {"model.position.kind": kind, "model.attention.kernel": kernel} | (
        {"model.position.values": False} if kind == "shaw" and kernel != "einsum" else {})


def influences(overrides, positions, documents, rows):
    """[B, T, B, T]: can token s of row c change output t of row b? Every token has an embedding of its own."""
    model = make_model(tiny({"model.vocab_size": rows * T, "model.dim": 8} | overrides))
    values, tokens = random_values(model, 1), jnp.arange(rows * T).reshape(rows, T)
    direction = jnp.float32(np.random.default_rng(2).standard_normal(8))

    numbers = None if documents is None else jnp.asarray(documents)
    context = Context(jnp.asarray(positions), numbers, in_order=bool((positions >= 0).all()))

    def outputs(embedding):
        return with_values(model, values | {"embedding": embedding})(tokens, context) @ direction

    found = call(jax.jacrev(outputs), values["embedding"])
    assert np.isfinite(found).all()
    return (found != 0).any(axis=-1).reshape(rows, T, rows, T)


def through(layers, seen):
    """What L layers see of which each sees `seen`: [T, T]."""
    return np.linalg.matrix_power(seen.astype(int), layers) > 0


def check(found, layers, positions, documents=None, window=0):
    """Compares with the sets made by a loop, for every row and every token that is not an empty slot."""
    rows = len(found)
    for b in range(rows):
        row_positions = positions[b if len(positions) > 1 else 0]
        expected = through(layers, reference.visible(row_positions, None if documents is None else documents[b], window))
        filled = row_positions >= 0
        np.testing.assert_array_equal(found[b, :, b][filled], expected[filled])
        for other in set(range(rows)) - {b}:
            assert not found[b, :, other].any()


@pytest.mark.parametrize(("kernel", "scan"), [("einsum", False), ("rows", False), ("xla", False), ("rows", True)])
@pytest.mark.parametrize("kind", list(POSITIONS))
def test_a_window_limits_a_causal_model(kind, kernel, scan):
    overrides = scheme(kind, kernel) | {"model.scan_layers": scan}
    positions = np.arange(T)[None]
    check(influences(overrides | {"model.attention.window": 3}, positions, None, 1), 2, positions, window=3)


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
@pytest.mark.parametrize("kind", list(POSITIONS))
def test_packed_documents_and_empty_slots_are_isolated(kind, kernel):
    positions, documents = (np.array(x) for x in structure(jnp.asarray(PACKED), True, DOCUMENT))
    expected_positions = WITHIN.copy()
    for array in (positions, expected_positions):
        array[1, 6:] = -1
        array[2, :3], array[2, 3:] = -1, np.arange(5)
    overrides = scheme(kind, kernel) | {"model.scan_layers": kernel == "xla"}
    check(influences(overrides, positions, documents, 3), 2, expected_positions, NUMBERS)


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
@pytest.mark.parametrize("window", [0, 2])
def test_packed_documents_that_are_in_order_are_isolated(kernel, window):
    positions, documents = (np.array(x) for x in structure(jnp.asarray(PACKED), True, DOCUMENT))
    found = influences({"model.attention.kernel": kernel, "model.attention.window": window}, positions, documents, 3)
    check(found, 2, WITHIN, NUMBERS, window)


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
@pytest.mark.parametrize("overrides", [
    {"model.position.kind": "learned"},
    {"model.position.kind": "rope", "model.attention.num_kv_heads": 2, "model.norm.placement": "post", "model.num_layers": 1},
], ids=["learned", "rope"])  # fmt: skip
def test_a_model_is_causal(overrides, kernel):
    positions = np.arange(T)[None]
    found = influences(overrides | {"model.attention.kernel": kernel}, positions, None, 2)
    check(found, 2, positions)
    np.testing.assert_array_equal(found[0, :, 0], np.tri(T, dtype=bool))


@pytest.mark.parametrize(("layers", "window"), [(1, 3), (3, 2), (2, 3)])
def test_the_receptive_field_of_windowed_layers(layers, window):
    found = influences({"model.num_layers": layers, "model.attention.window": window}, np.arange(T)[None], None, 1)
    assert found[0, -1].sum() == layers * (window - 1) + 1
    assert found[0, -1, 0, -layers * (window - 1) - 1 :].all()


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
def test_a_window_and_documents_and_padding_together(kernel):
    positions, documents = WITHIN.copy(), NUMBERS.copy()
    positions[0, 5:] = -1
    positions[2, :3], positions[2, 3:] = -1, np.arange(5)
    found = influences({"model.attention.kernel": kernel, "model.attention.window": 2}, positions, documents, 3)
    check(found, 2, positions, documents, 2)


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
def test_empty_slots_are_not_read(kernel):
    positions = np.array([[-1, -1, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, -1, -1, -1]])
    check(influences({"model.attention.kernel": kernel}, positions, None, 2), 2, positions)


def test_documents_see_each_other_unless_isolated():
    positions, documents = structure(jnp.asarray(PACKED), False, DOCUMENT)
    assert documents is None
    np.testing.assert_array_equal(influences({}, positions, None, 1)[0, :, 0], np.tri(T, dtype=bool))
