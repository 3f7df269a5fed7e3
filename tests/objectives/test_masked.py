"""Masked language modelling against the reference's scores of each row alone."""

import jax
import numpy as np
import pytest

from tests.objectives.making import OPENS, OTHER, TOKEN_BYTES, FewTokens, Made, squared_normalizers, surprisal
from tests.support.comparisons import compared
from zoo.data.rows.masking import Masking

ENCODER = {
    "model.architecture": "encoder",
    "objective.kind": "masked",
    "model.vocab_size": 14,
    "model.num_layers": 1,
    "objective.select_fraction": 0.4,
}
MASKING = Masking(0.4, 0.6, 0.2, FewTokens.vocab_size, (OPENS,), FewTokens.vocab_size)
ROWS = np.array([[9, 1, 2, 3, 9, 5, 6, 0], [4, 5, 8, 1, 2, 3, 4, 5], [2, 9, 9, 3, 7, -1, -1, -1], [-1] * 8], np.int32)


def corrupted(rows=ROWS):
    return MASKING.evaluation_batch({"tokens": rows}, np.arange(len(rows)))


def expected(made, batch):
    """Surprisal of every predicted token, row by row, padding taken away; and the sum of squared
    normalisers.
    """
    losses, squares = [], 0.0
    for tokens, places, targets in zip(
        *(batch[name] for name in ("tokens", "masked_positions", "targets")), strict=True
    ):
        tokens = tokens[tokens >= 0]
        if len(tokens):
            chosen = made.logits_alone(tokens)[places]
            losses.append(surprisal(chosen, targets))
            squares += squared_normalizers(chosen, targets)
    return losses, squares


@pytest.mark.parametrize("overrides", [
    {}, *(pytest.param(changes, marks=OTHER) for changes in (
        {"objective.chunk_tokens": 2}, {"model.position.kind": "rope", "model.norm.placement": "post"},
        {"model.head.transform": True, "model.head.bias": True, "model.head.softcap": 3.0})),
], ids=["plain", "chunked", "rope", "bert's head"])  # fmt: skip
def test_loss_equals_that_of_each_row_alone(overrides):
    made, batch = Made(ENCODER | overrides), corrupted()
    loss, sums = made.sums(batch)
    losses, _ = expected(made, batch)
    assert [(row > 0).sum() for row in losses] == [2, 3, 1]  # 0.4 of 6, 8 and 3 tokens of text
    compared(loss, np.concatenate(losses).sum(), config=made.config, parts="objective")
    assert loss == sums["loss"]
    assert sums["weight"] == 6
    assert sums["bytes"] == TOKEN_BYTES[batch["targets"][batch["targets"] >= 0]].sum()
    assert sums["tokens"] == 8 + 8 + 5


def test_training_adds_only_the_z_loss():
    made, batch = Made(ENCODER | {"objective.z_loss": 0.1}), corrupted(ROWS[:2])
    losses, squares = expected(made, batch)
    loss, sums = made.sums(batch, training=True)
    np.testing.assert_allclose(sums["loss"], np.concatenate(losses).sum(), rtol=1e-5)
    np.testing.assert_allclose(loss, sums["loss"] + 0.1 * squares, rtol=1e-5)
    assert made.sums(batch)[0] == made.sums(batch)[1]["loss"]


def test_predictions_depend_on_later_tokens_but_not_on_padding():
    made = Made(ENCODER)
    batch = {"tokens": ROWS[2:3].copy(), "masked_positions": np.array([[0]]), "targets": np.array([[2]])}
    loss = made.sums(batch)[0]
    later = batch | {"tokens": np.where(np.arange(8) == 4, 1, batch["tokens"])}
    assert abs(made.sums(later)[0] - loss) > 1e-3
    longer = batch | {"tokens": np.where(batch["tokens"] < 0, 0, batch["tokens"])}
    assert abs(made.sums(longer)[0] - loss) > 1e-3


def test_unused_masked_positions_are_not_scored():
    made, batch = Made(ENCODER), corrupted()
    more = {
        "tokens": batch["tokens"],
        "masked_positions": np.pad(batch["masked_positions"], [(0, 0), (0, 2)], constant_values=3),
        "targets": np.pad(batch["targets"], [(0, 0), (0, 2)], constant_values=-1),
    }
    np.testing.assert_allclose(made.sums(more)[0], made.sums(batch)[0], rtol=1e-6)
    nothing, sums = made.sums(batch | {"targets": np.full_like(batch["targets"], -1)})
    assert (nothing, sums["weight"], sums["bytes"]) == (0, 0, 0)


def test_isolated_documents_do_not_influence_each_other():
    made = Made(ENCODER | {"data.isolate_documents": True})
    row = ROWS[:1]
    batch = {"tokens": row, "masked_positions": np.array([[1, 6]]), "targets": np.array([[1, 6]])}
    first, second = made.logits_alone(row[0, :4])[1], made.logits_alone(row[0, 4:])[2]
    np.testing.assert_allclose(made.sums(batch)[0], surprisal([first, second], [1, 6]).sum(), rtol=1e-5)
    together = Made(ENCODER).sums(batch)[0]
    assert abs(made.sums(batch)[0] - together) > 1e-3


def test_dropout_needs_a_key():
    dropping, plain, batch = Made(ENCODER | {"model.dropout": 0.5}), Made(ENCODER), corrupted()
    assert dropping.sums(batch)[0] == plain.sums(batch)[0]
    first, again, other = (dropping.sums(batch, jax.random.key(seed))[0] for seed in (1, 1, 2))
    assert first == again != other


def test_logits_are_computed_only_for_predicted_tokens():
    made, batch = Made(ENCODER), corrupted()
    text = str(
        jax.make_jaxpr(lambda values: made.objective.sums(made.graph, values, {}, batch, made.constants)[0]["loss"])(
            made.values
        )
    )
    assert "f32[12,14]" in text  # 4 rows of 3 predictions
    assert "f32[32,14]" not in text
    assert "f32[4,8,14]" not in text
