"""The bidirectional objective against the model's scores of each row alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.objectives.making import OTHER, TOKEN_BYTES, FewTokens, Made, squared_normalizers, surprisal
from tests.support.building import TINY_ELMO
from tests.support.comparisons import compared

ROWS = np.array(
    [
        [9, 1, 2, 3, 9, 5, 6, 0, 4],
        [4, 5, 8, 1, 2, 3, 4, 5, 6],
        [2, 9, 9, 3, 7, -1, -1, -1, -1],
        [2] + [-1] * 8,
        [-1] * 9,
    ]
)


def scores(model, characters):
    return [model.logits(hidden)[0] for hidden in model(characters[None], jnp.ones((1, len(characters)), bool))]


def logits_of(made, row):
    """Returns the forward and backward scores [T, V] of one row, read alone without padding."""
    return made.apply(scores, FewTokens().token_characters(8)[row])


def expected(made, rows):
    """Mean surprisal of both directions, row by row, padding taken away; and the mean of squared
    normalisers.
    """
    total, squares = 0.0, 0.0
    for row in rows:
        row = row[row >= 0]
        if len(row) > 1:
            forward, backward = logits_of(made, row)
            for logits, targets in ((forward[:-1], row[1:]), (backward[1:], row[:-1])):
                total += surprisal(logits, targets).sum() / 2
                squares += squared_normalizers(logits, targets) / 2
    return total, squares


@pytest.mark.parametrize("chunk", [0, pytest.param(5, marks=OTHER)])
def test_loss_equals_that_of_each_row_alone(chunk):
    made = Made(TINY_ELMO | {"objective.chunk_tokens": chunk})
    loss, sums = made.sums(ROWS)
    compared(loss, expected(made, ROWS)[0], config=made.config, parts="objective")
    assert loss == sums["loss"]
    # Tokens are counted as in a unidirectional model; bytes are the mean over both directions'
    # targets.
    assert sums["weight"] == sums["tokens"] == 8 + 8 + 4
    scored = [TOKEN_BYTES[row[row >= 0]] for row in ROWS[:3]]
    assert sums["bytes"] == sum(bytes[1:].sum() + bytes[:-1].sum() for bytes in scored) / 2


def test_training_adds_only_the_z_loss():
    made = Made(TINY_ELMO | {"objective.z_loss": 0.1})
    total, squares = expected(made, ROWS[:2])
    loss, sums = made.sums(ROWS[:2], training=True)
    np.testing.assert_allclose(sums["loss"], total, rtol=1e-5)
    np.testing.assert_allclose(loss, total + 0.1 * squares, rtol=1e-5)


def test_neither_direction_sees_its_target():
    """A score depends only on the tokens on its side, and no other token changes it."""
    made = Made(TINY_ELMO)
    row = np.array([1, 2, 3, 4, 5, 6])
    forward, backward = logits_of(made, row)
    for place in range(6):
        changed = np.where(np.arange(6) == place, 10, row)
        moved = [
            (abs(after - before) > 1e-6).any(axis=-1).tolist()
            for after, before in zip(logits_of(made, changed), (forward, backward), strict=True)
        ]
        assert moved == [[t >= place for t in range(6)], [t <= place for t in range(6)]]


def test_tokens_are_read_by_their_bytes():
    made = Made(TINY_ELMO | {"model.vocab_size": 15})
    table = made.objective.constants["token_characters"]
    assert table.shape == (15, 8)
    np.testing.assert_array_equal(table[:13], FewTokens().token_characters(8))
    assert (table[13:] == 0).all()
    assert table[2].tolist() == [259, 3, 4, 5, 260, 261, 261, 261]


def test_dropout_needs_a_key():
    dropping = Made(TINY_ELMO | {"model.dropout": 0.5})
    assert dropping.sums(ROWS)[0] == Made(TINY_ELMO).sums(ROWS)[0]
    first, again, other = (dropping.sums(ROWS, jax.random.key(seed))[0] for seed in (1, 1, 2))
    assert first == again != other


def test_rows_may_have_any_length():
    made = Made(TINY_ELMO)
    assert made.why_too_long(10**6) is None
    assert np.isfinite(made.sums(np.resize(np.arange(13), (1, 40)))[0])
