"""Causal language modelling: what is read, what is scored, and the sums that come out."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.objectives.making import OPENS, OTHER, TOKEN_BYTES, Made, squared_normalizers
from tests.support.building import by_default, call
from tests.support.comparisons import compared
from zoo.objectives.objective import positions_and_documents

EXPERTS = {
    "model.ffn.kind": "moe",
    "model.ffn.hidden_dim": 8,
    "model.ffn.experts.number": 4,
    "model.ffn.experts.balance_weight": 0.1,
    "model.ffn.experts.sequence_balance_weight": 0.1,
    "model.ffn.experts.z_weight": 0.1,
}
PACKED = np.array([[9, 1, 2, 3, 9, 5, 6, 9, 8], [4, 5, 9, 1, 2, 3, 4, 5, 6]])


def loop_structure(row):
    """Positions and document numbers of one row, token by token."""
    positions, documents, position, document = [], [], -1, 0
    for index, token in enumerate(row):
        position += 1
        if token == OPENS:
            document += 1
            position = 0
        positions.append(position if index or token == OPENS else 0)
        documents.append(document)
    return positions, documents


@pytest.mark.parametrize("rows", [
    PACKED,
    np.array([[9, 9, 9, 1], [1, 2, 3, 4], [1, 2, 3, 9], [1, 9, 9, 2]]),
    np.random.default_rng(0).integers(0, 13, (20, 17)),
], ids=["packed", "edge cases", "random"])  # fmt: skip
def test_structure_is_a_loop_over_tokens(rows):
    positions, documents = call(lambda rows: positions_and_documents(rows, True, OPENS), rows)
    for row, row_positions, row_documents in zip(rows, positions, documents, strict=True):
        expected_positions, expected_documents = loop_structure(row)
        np.testing.assert_array_equal(row_positions, expected_positions)
        np.testing.assert_array_equal(row_documents, expected_documents)


def test_without_isolation_a_row_is_one_sequence():
    shifted, none = positions_and_documents(jnp.asarray(PACKED), False, OPENS, (0, 5))
    assert none is None
    np.testing.assert_array_equal(
        shifted, np.arange(PACKED.shape[1]) + np.where(np.arange(len(PACKED)) % 2, 5, 0)[:, None]
    )
    positions, documents = positions_and_documents(jnp.asarray(PACKED), False, OPENS)
    np.testing.assert_array_equal(positions, [np.arange(9)])
    assert documents is None


def make(overrides=None, isolate=False):
    """An objective with a random model: function of rows to (loss, sums), the config and the values
    as float64.
    """
    made = Made({"data.isolate_documents": isolate} | (overrides or {}))
    return made.sums, made.config, made.exact


def expected_loss(config, values, row, positions, documents=None):
    """-log softmax of every target of a row, [T]; 0 where the target is padding."""
    inputs = np.maximum(row[:-1], 0)
    logits = reference.logits(config.model, values, inputs, positions, documents)
    shifted = logits - logits.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return np.array([-logs[t, target] if target >= 0 else 0.0 for t, target in enumerate(row[1:])])


@pytest.mark.parametrize(
    ("chunk", "isolate"), by_default([(4, False), (0, True)], [*itertools.product((0, 4), (False, True))], OTHER)
)
def test_the_loss_is_the_reference_s(isolate, chunk):
    sums, config, values = make({"objective.chunk_tokens": chunk}, isolate)
    loss, extra = sums(PACKED)
    structures = [loop_structure(row[:-1]) if isolate else (np.arange(8), None) for row in PACKED]
    expected = sum(
        expected_loss(config, values, row, *parts).sum() for row, parts in zip(PACKED, structures, strict=True)
    )
    compared(loss, expected, config=config, parts="objective")
    assert extra["weight"] == 16
    assert extra["bytes"] == (PACKED[:, 1:] + 1).sum()


@pytest.mark.parametrize("position", ["learned", "alibi"])
def test_rows_begin_at_their_offsets_in_turn(position):
    sums, config, values = make({"data.position_offsets": (0, 5), "model.position.kind": position})
    loss, _ = sums(PACKED)
    expected = sum(
        expected_loss(config, values, row, np.arange(8) + offset).sum()
        for row, offset in zip(PACKED, (0, 5), strict=True)
    )
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    here = sum(expected_loss(config, values, row, np.arange(8)).sum() for row in PACKED)
    assert (abs(expected - here) > 1e-3) == (position == "learned")


def test_a_table_ends_where_the_last_row_does():
    made = Made({"data.position_offsets": (0, 5)})
    assert made.config.model.position.max_length == 13
    assert made.why_too_long(8) is None
    assert made.why_too_long(9) == "learned positions end at 13"


def test_padding_is_not_scored():
    sums, config, values = make()
    padded = PACKED.copy()
    padded[0, 5:] = -1
    loss, extra = sums(padded)
    expected = sum(expected_loss(config, values, row, np.arange(8)).sum() for row in padded)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert extra["weight"] == 4 + 8
    assert extra["bytes"] == (padded[0, 1:5] + 1).sum() + (padded[1, 1:] + 1).sum()


def test_evaluation_leaves_out_what_would_be_a_prefix():
    sums, config, values = make({"training.eval_context": 3})
    loss, extra = sums(PACKED)
    # The third token is the last one of the context: what is scored begins with the fourth, the
    # third target.
    expected = sum(expected_loss(config, values, row, np.arange(8))[2:].sum() for row in PACKED)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert (extra["weight"], extra["bytes"]) == (12, (PACKED[:, 3:] + 1).sum())
    trained, trained_extra = sums(PACKED, training=True)
    np.testing.assert_allclose(trained, make()[0](PACKED, training=True)[0], rtol=1e-6)
    assert trained_extra["weight"] == 16


def test_a_context_that_is_the_whole_row_cannot_be_evaluated():
    made = Made({"training.eval_context": 3, "model.position.kind": "rope"})
    assert made.why_too_long(3) == "training.eval_context=3 leaves nothing of it to score"
    assert made.why_too_long(4) is None


def test_a_batch_of_padding_is_worth_nothing():
    loss, extra = make()[0](np.full((2, 9), -1))
    assert (loss, extra["weight"], extra["bytes"]) == (0, 0, 0)


def test_a_loss_is_the_sum_over_its_rows():
    sums = make()[0]
    nothing = np.full((2, 9), -1)
    rows = [sums(np.where(np.arange(2)[:, None] == index, PACKED, nothing)) for index in range(2)]
    loss, extra = sums(PACKED)
    np.testing.assert_allclose(loss, sum(row[0] for row in rows), rtol=1e-5)
    assert extra["bytes"] == sum(row[1]["bytes"] for row in rows)


@pytest.mark.parametrize(
    "kind",
    by_default(
        ["learned", "alibi"],
        ["learned", "sinusoidal", "rope", "alibi", "none"],
        pytest.mark.promise(reason="other position schemes"),
    ),
)
def test_isolated_documents_score_as_if_they_were_alone(kind):
    sums = make({"model.position.kind": kind}, isolate=True)[0]
    packed, alone = np.full((3, 9), -1), np.full((3, 9), -1)
    packed[0] = PACKED[0]
    alone[0, :5], alone[1, :4], alone[2, :2] = (
        PACKED[0, :5],
        PACKED[0, 4:8],
        PACKED[0, 7:],
    )  # with the token that opens the next
    loss, extra = sums(alone)
    packed_loss, packed_extra = sums(packed)
    np.testing.assert_allclose(packed_loss, loss, rtol=1e-5)
    assert packed_extra["weight"] == extra["weight"] == 8


def test_isolation_changes_the_loss():
    assert abs(make(isolate=True)[0](PACKED)[0] - make(isolate=False)[0](PACKED)[0]) > 1e-2


def test_dropout_needs_a_key():
    sums, plain = make({"model.dropout": 0.5})[0], make()[0]
    assert sums(PACKED)[0] == plain(PACKED)[0]
    first, again, other = (sums(PACKED, jax.random.key(seed))[0] for seed in (1, 1, 2))
    assert first == again != other


def test_training_adds_the_z_loss_and_reports_without_it():
    sums, config, values = make({"objective.z_loss": 0.1})
    loss, extra = sums(PACKED, training=True)
    logits = [reference.logits(config.model, values, row[:-1], np.arange(8)) for row in PACKED]
    added = sum(squared_normalizers(*row) for row in zip(logits, PACKED[:, 1:], strict=True))
    assert added > 1
    compared(loss, extra["loss"] + 0.1 * added, config=config, parts="objective.z_loss")
    evaluated, evaluated_extra = sums(PACKED)
    np.testing.assert_allclose([evaluated, evaluated_extra["loss"], extra["loss"]], make()[0](PACKED)[0], rtol=1e-6)


def test_tokens_that_were_read_are_those_that_are_scored():
    padded = PACKED.copy()
    padded[0, 5:] = -1
    extra = make()[0](padded)[1]
    assert extra["tokens"] == extra["weight"] == 12


def test_ids_beyond_the_tokenizer_s_stand_for_no_text():
    made = Made({"model.vocab_size": 20})
    np.testing.assert_array_equal(made.objective.constants["token_bytes"], [*TOKEN_BYTES, *[0] * 7])


def test_lengths_past_the_learned_table_are_reported():
    made = Made({"model.position.max_length": 10})
    assert made.why_too_long(10) is None
    assert made.why_too_long(11) == "learned positions end at 10"
    assert Made({"model.position.kind": "rope"}).why_too_long(10**6) is None


@pytest.mark.parametrize("own", [{}, {"data.isolate_documents": True}], ids=["one", "documents"])
def test_terms_of_layers_are_of_tokens_alone(own):
    """The last batch of an evaluation is filled up with rows of padding, and its last row too."""
    made, padding = Made(EXPERTS | own), np.full_like(PACKED, -1)
    # A token is read where the one after it is padding, too.
    short = np.concatenate([PACKED[1:, :6], padding[:1, :3]], axis=1)
    for padded, alone in ((np.concatenate([PACKED, padding]), PACKED), (short, PACKED[1:, :7])):
        found, expected = (made.terms({"tokens": tokens})[1] for tokens in (padded, alone))
        assert found["rows"] == len(alone)
        for name in ("expert_balance", "sequence_balance", "router_z"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
