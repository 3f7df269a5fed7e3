"""Span corruption against the reference's scores of each row alone."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.objectives.making import OPENS, OTHER, TOKEN_BYTES, Made, squared_normalizers, surprisal
from tests.support.comparisons import compared
from zoo import config as configs
from zoo.data.rows.spans import SpanCorruption
from zoo.errors import ConfigError
from zoo.layers.context import Context

SPAN = {
    "model.architecture": "encoder_decoder",
    "objective.kind": "span",
    "objective.sentinels": 4,
    "objective.noise_density": 0.4,
    "objective.mean_span_length": 2.0,
    "model.num_layers": 1,
    "model.vocab_size": 17,
    "data.sequence_length": 8,
}
ROWS = np.array(
    [[9, 1, 2, 3, 0, 5, 6, 0], [4, 5, 8, 1, 2, 3, 4, 5], [2, 9, 9, 3, 7, -1, -1, -1], [2] + [-1] * 7, [-1] * 8]
)


def corrupted(rows=ROWS):
    return SpanCorruption(0.4, 2.0, 13, 4, OPENS).evaluation_batch({"tokens": rows}, np.arange(len(rows)))


def scores(model, source, inputs):
    contexts = [
        Context(jnp.arange(len(part))[None], causal=causal) for part, causal in ((source, False), (inputs, True))
    ]
    return model.logits(model(source[None], inputs[None], *contexts), contexts[1])[0]


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
def test_the_loss_is_that_of_every_row_alone(overrides):
    made, batch = Made(SPAN | overrides), corrupted()
    loss, sums = made.sums(batch)
    compared(loss, expected(made, batch)[0], config=made.config, parts="objective")
    assert loss == sums["loss"]
    assert sums["weight"] == (batch["targets"] >= 0).sum()
    text = batch["targets"][(batch["targets"] >= 0) & (batch["targets"] < 13)]
    assert sums["bytes"] == TOKEN_BYTES[text].sum()
    assert sums["tokens"] == 8 + 8 + 5


def test_training_scores_the_same_and_adds_the_z_loss():
    made, batch = Made(SPAN | {"objective.z_loss": 0.1}), corrupted(ROWS[:2])  # In training rows are full.
    total, squares = expected(made, batch)
    loss, sums = made.sums(batch, training=True)
    np.testing.assert_allclose(sums["loss"], total, rtol=1e-5)
    np.testing.assert_allclose(loss, total + 0.1 * squares, rtol=1e-5)


def test_no_target_is_visible_before_it_is_predicted():
    made, batch = Made(SPAN), corrupted(ROWS[:1])
    inputs = np.array([OPENS, *batch["targets"][0, :-1]])
    before = made.apply(scores, batch["source"][0], inputs)
    for place in range(len(inputs)):
        changed = inputs.copy()
        changed[place] = (changed[place] + 1) % 13
        after = made.apply(scores, batch["source"][0], changed)
        np.testing.assert_allclose(after[:place], before[:place], atol=1e-6)
        assert np.abs(after[place] - before[place]).max() > 1e-4


@pytest.mark.parametrize(("changes", "problem"), [
    ({"data.sequence_length": 1}, "leaves nothing to cut out"),
    ({"objective.sentinels": 1, "data.sequence_length": 64}, "fewer than the"),
    ({"data.isolate_documents": True}, "isolate_documents"),
    ({"model.decoder.position.kind": "learned", "model.decoder.position.max_length": 3, "data.sequence_length": 64}, "of the decoder"),
    ({"model.architecture": "decoder"}, "trains model.architecture=encoder_decoder"),
])  # fmt: skip
def test_unsupported_configs_are_refused(changes, problem):
    config = {"model.architecture": "encoder_decoder", "objective.kind": "span", "data.sequence_length": 32} | changes
    with pytest.raises(ConfigError, match=problem):
        configs.resolve(configs.override(configs.default(), config))


def test_lengths_that_cannot_be_evaluated_are_reported():
    made = Made(SPAN)
    assert made.why_too_long(8) is None
    assert "two tokens" in made.why_too_long(1)
    assert "too few for" in made.why_too_long(200)
    short = Made(SPAN | {"model.position.kind": "learned", "model.position.max_length": 8})
    assert short.why_too_long(8) is None
    assert "encoder's learned positions end at 8" in short.why_too_long(14)
