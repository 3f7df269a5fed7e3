"""Prefix language modelling against the reference's scores of each row alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.objectives.making import OTHER, TOKEN_BYTES, Made, squared_normalizers, surprisal
from tests.support.building import call
from tests.support.comparisons import compared

PREFIX = {
    "model.architecture": "encoder_decoder",
    "objective.kind": "prefix",
    "objective.prefix_length": 3,
    "model.num_layers": 1,
}
ROWS = np.array(
    [
        [9, 1, 2, 3, 9, 5, 6, 0, 4],
        [4, 5, 8, 1, 2, 3, 4, 5, 6],
        [2, 9, 9, 3, 7, -1, -1, -1, -1],
        [2, 3] + [-1] * 7,
        [-1] * 9,
    ]
)


def expected(made, rows, prefix=3):
    """Surprisal of the tokens after the prefix, row by row, padding taken away; and the sum of
    squared normalisers.
    """
    total, squares = 0.0, 0.0
    for row in rows:
        row = row[row >= 0]
        if len(row) > prefix:
            logits = made.decoder_logits_alone(row[:prefix], row[prefix - 1 : -1])
            total += surprisal(logits, row[prefix:]).sum()
            squares += squared_normalizers(logits, row[prefix:])
    return total, squares


@pytest.mark.parametrize("overrides", [
    {}, *(pytest.param(changes, marks=OTHER) for changes in (
        {"objective.chunk_tokens": 4}, {"model.position.kind": "relative_bias", "model.norm.kind": "rmsnorm"},
        {"model.decoder.num_layers": 2, "model.tie_embeddings": False})),
], ids=["plain", "chunked", "relative", "two sides"])  # fmt: skip
def test_the_loss_is_that_of_every_row_alone(overrides):
    made = Made(PREFIX | overrides)
    loss, sums = made.sums(ROWS)
    compared(loss, expected(made, ROWS)[0], config=made.config, parts="objective")
    assert loss == sums["loss"]
    assert sums["weight"] == 6 + 6 + 2
    assert sums["bytes"] == TOKEN_BYTES[np.concatenate([ROWS[:2, 3:].ravel(), ROWS[2, 3:5]])].sum()
    assert sums["tokens"] == 8 + 8 + 4 + 1


@pytest.mark.parametrize("prefix", [1, pytest.param(7, marks=OTHER)])
def test_loss_matches_the_reference_for_any_prefix_length(prefix):
    made = Made(PREFIX | {"objective.prefix_length": prefix})
    loss, sums = made.sums(ROWS[:2])
    np.testing.assert_allclose(loss, expected(made, ROWS[:2], prefix)[0], rtol=1e-5)
    assert sums["weight"] == 2 * (9 - prefix)


def test_training_scores_the_same_and_adds_the_z_loss():
    made = Made(PREFIX | {"objective.z_loss": 0.1})
    total, squares = expected(made, ROWS[:2])
    loss, sums = made.sums(ROWS[:2], training=True)
    np.testing.assert_allclose(sums["loss"], total, rtol=1e-5)
    np.testing.assert_allclose(loss, total + 0.1 * squares, rtol=1e-5)


def test_the_last_token_changes_only_its_own_score():
    """A change of the last token changes its own surprisal alone: no other token reads its embedding,
    which gets no gradient.
    """
    made = Made(PREFIX | {"model.tie_embeddings": False})
    row = np.array([[1, 2, 3, 4, 5, 6, 7, 8, 10]])
    program = jax.grad(
        lambda values: made.objective.sums(made.graph, values, {}, {"tokens": jnp.asarray(row)}, made.constants)[0][
            "loss"
        ]
    )
    gradient = np.abs(call(program, made.values)["embedding"]).max(axis=1)
    assert (gradient[[1, 2, 3, 4, 5, 6, 7, 8]] > 0).all()
    assert (gradient[[0, 9, 10, 11, 12]] == 0).all()


def test_dropout_needs_a_key():
    dropping = Made(PREFIX | {"model.dropout": 0.5})
    assert dropping.sums(ROWS)[0] == Made(PREFIX).sums(ROWS)[0]
    first, again, other = (dropping.sums(ROWS, jax.random.key(seed))[0] for seed in (1, 1, 2))
    assert first == again != other


def test_lengths_that_cannot_be_evaluated_are_reported():
    made = Made(PREFIX | {"model.position.max_length": 10, "data.sequence_length": 8})
    assert made.why_too_long(3) == "objective.prefix_length=3 leaves nothing of it to predict"
    assert made.why_too_long(4) is None
    # The decoder reads length + 1 - prefix tokens.
    assert made.why_too_long(12) is None
    assert made.why_too_long(13) == "the decoder's learned positions end at 10"
    assert Made(PREFIX | {"model.position.kind": "rope"}).why_too_long(10**6) is None
    other = Made(
        PREFIX
        | {
            "model.position.kind": "rope",
            "model.decoder.position.kind": "learned",
            "model.decoder.position.max_length": 7,
        }
    )
    assert other.why_too_long(9) is None
    assert other.why_too_long(10) == "the decoder's learned positions end at 7"


def test_the_longest_row_that_is_allowed_can_be_scored():
    made = Made(PREFIX | {"model.position.max_length": 10})
    rows = np.resize(np.arange(9), (1, 13))
    assert np.isfinite(made.sums(rows)[0])
    with pytest.raises(ValueError, match="learned positions have 10 rows"):
        made.sums(np.resize(np.arange(9), (1, 14)))
