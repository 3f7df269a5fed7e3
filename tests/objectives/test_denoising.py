"""Denoising, which reconstructs a whole row from a corrupted one, against the reference's scores of
each row alone.
"""

import numpy as np
import pytest

from tests.objectives.making import OPENS, OTHER, TOKEN_BYTES, FewTokens, Made, squared_normalizers, surprisal
from tests.objectives.test_spans import scores
from tests.support.comparisons import compared
from zoo import config as configs
from zoo import data
from zoo.data.rows.masking import Masking
from zoo.data.rows.row_denoising import Denoising
from zoo.errors import ConfigError

DENOISING = {
    "model.architecture": "encoder_decoder",
    "objective.kind": "denoising",
    "model.num_layers": 1,
    "model.vocab_size": 14,
    "objective.select_fraction": 0.4,
}
MASK = FewTokens.vocab_size
MASKING = Masking(0.4, 0.6, 0.2, FewTokens.vocab_size, (OPENS,), MASK)
ROWS = np.array([[9, 1, 2, 3, 0, 5, 6, 0], [4, 5, 8, 1, 2, 3, 4, 5], [2, 9, 9, 3, 7, -1, -1, -1], [-1] * 8], np.int32)


def corrupted(rows=ROWS):
    return Denoising(MASKING, OPENS).evaluation_batch({"tokens": rows}, np.arange(len(rows)))


def expected(made, batch):
    """Surprisal of the targets, row by row, padding taken away; and the sum of squared normalisers."""
    total, squares = 0.0, 0.0
    for source, targets in zip(batch["source"], batch["targets"], strict=True):
        source, targets = source[source >= 0], targets[targets >= 0]
        if len(targets):
            logits = made.decoder_logits_alone(source, [OPENS, *targets[:-1]])
            total += surprisal(logits, targets).sum()
            squares += squared_normalizers(logits, targets)
    return total, squares


@pytest.mark.parametrize("overrides", [
    {}, pytest.param({"model.position.kind": "relative_bias", "model.norm.kind": "rmsnorm", "objective.chunk_tokens": 4}, marks=OTHER),
], ids=["plain", "relative, chunked"])  # fmt: skip
def test_loss_equals_that_of_each_row_alone(overrides):
    made, batch = Made(DENOISING | overrides), corrupted()
    loss, sums = made.sums(batch)
    compared(loss, expected(made, batch)[0], config=made.config, parts="objective")
    assert loss == sums["loss"]
    # Every text token, masked or not, and an end token are predicted.
    assert sums["weight"] == 9 + 9 + 6
    assert sums["bytes"] == TOKEN_BYTES[[*ROWS[ROWS >= 0], OPENS, OPENS, OPENS]].sum()
    assert sums["tokens"] == 8 + 8 + 5


def test_training_adds_only_the_z_loss():
    made, batch = Made(DENOISING | {"objective.z_loss": 0.1}), corrupted(ROWS[:2])
    total, squares = expected(made, batch)
    loss, sums = made.sums(batch, training=True)
    np.testing.assert_allclose(sums["loss"], total, rtol=1e-5)
    np.testing.assert_allclose(loss, total + 0.1 * squares, rtol=1e-5)


def test_source_is_the_masked_row_and_target_the_original():
    made = Denoising(MASKING, OPENS)
    indices, epochs = np.array([3, 8, 1, 0]), np.array([0, 1, 2, 0])
    rows = {"tokens": ROWS, "other": np.arange(4)}
    for batch, masked in (
        (made.training_batch(rows, indices, epochs, 5), MASKING.training_batch(rows, indices, epochs, 5)),
        (made.evaluation_batch(rows, indices), MASKING.evaluation_batch(rows, indices)),
    ):
        assert batch.keys() == {"source", "targets", "other"}
        for row, length in enumerate((8, 8, 5)):
            assert batch["source"][row].tolist() == [*masked["tokens"][row, :length], OPENS] + [-1] * (8 - length)
            assert batch["targets"][row].tolist() == [*ROWS[row, :length], OPENS] + [-1] * (8 - length)
        assert (batch["source"][:3] != batch["targets"][:3]).any(axis=1).all()
        assert (batch["source"][3] == -1).all()
        assert (batch["targets"][3] == -1).all()


def test_masked_tokens_are_not_visible_before_they_are_predicted():
    made, batch = Made(DENOISING), corrupted(ROWS[:1])
    inputs = np.array([OPENS, *batch["targets"][0, :-1]])
    before = made.apply(scores, batch["source"][0], inputs)
    for place in range(len(inputs)):
        changed = inputs.copy()
        changed[place] = (changed[place] + 1) % 13
        after = made.apply(scores, batch["source"][0], changed)
        np.testing.assert_allclose(after[:place], before[:place], atol=1e-6)
        assert np.abs(after[place] - before[place]).max() > 1e-4


def test_both_sides_have_one_token_more_than_a_row():
    made = Made(DENOISING | {"model.position.kind": "learned"})
    assert made.config.model.position.max_length == 9
    assert made.why_too_long(8) is None
    assert made.why_too_long(9) == "the encoder's learned positions end at 9"
    assert Made(DENOISING | {"model.position.kind": "rope"}).why_too_long(10**6) is None


@pytest.mark.parametrize(("changes", "problem"), [
    ({"objective.mask_token_fraction": 0.95}, "add up to more than 1"),
    ({"data.isolate_documents": True}, "isolate_documents"),
    ({"model.decoder.position.kind": "learned", "model.decoder.position.max_length": 8}, "than the 9 tokens of the decoder"),
    ({"model.vocab_size": 257, "data.tokenizer.kind": "bytes"}, r"258 ids, \[MASK\] included"),
    ({"model.architecture": "encoder"}, "trains model.architecture=encoder_decoder"),
])  # fmt: skip
def test_unsupported_settings_are_refused(changes, problem):
    with pytest.raises(ConfigError, match=problem):
        Made(DENOISING | {"objective.mask_token_fraction": 0.9} | changes)


def test_batches_of_a_config_are_denoising_batches(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("Sheep and wolves never met. " * 40)
    config = configs.resolve(
        configs.override(
            configs.default(),
            {
                "data.source": f"text:{tmp_path / 'text.txt'}",
                "data.sequence_length": 16,
                "model.architecture": "encoder_decoder",
                "objective.kind": "denoising",
                "objective.mask_token_fraction": 0.9,
                "objective.select_fraction": 0.25,
            },
        )
    )
    assert config.model.vocab_size == 258
    with data.load(config).training_batches() as batches:
        batch = next(batches)
    assert batch["targets"].shape == batch["source"].shape == (16, 17)
    hidden = (batch["source"] == 257).sum(axis=1)
    assert hidden.max() <= 4
    assert hidden.mean() == pytest.approx(3.6, abs=0.5)
    assert batch["targets"].max() == 256
