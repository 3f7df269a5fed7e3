"""Translation against the reference's scores of each pair alone."""

import numpy as np
import pytest

from tests.objectives.making import OPENS, TOKEN_BYTES, Made, surprisal
from tests.support.comparisons import compared

TRANSLATION = {
    "model.architecture": "encoder_decoder",
    "objective.kind": "translation",
    "model.num_layers": 1,
    "data.sequence_length": 8,
    "data.source": "stdlib:translation",
}
BATCH = {
    "source": np.array([[1, 2, 3, OPENS, -1, -1], [4, OPENS, -1, -1, -1, -1], [0, 1, 2, 3, 4, OPENS], [-1] * 6]),
    "targets": np.array([[5, OPENS, -1, -1, -1, -1], [6, 7, 8, 10, 11, OPENS], [1, 1, OPENS, -1, -1, -1], [-1] * 6]),
}


def each(made):
    """Returns the scores and targets of every pair without padding."""
    for source, targets in zip(BATCH["source"], BATCH["targets"], strict=True):
        source, targets = source[source >= 0], targets[targets >= 0]
        if len(targets):
            yield made.decoder_logits_alone(source, [OPENS, *targets[:-1]]), targets


@pytest.mark.parametrize("training", [False, True])
def test_loss_equals_that_of_each_pair_alone(training):
    made = Made(TRANSLATION | {"objective.chunk_tokens": 4})
    loss, sums = made.sums(BATCH, training=training)
    compared(loss, sum(surprisal(*pair).sum() for pair in each(made)), config=made.config, parts="objective")
    assert loss == sums["loss"]
    written = BATCH["targets"][BATCH["targets"] >= 0]
    assert sums["weight"] == len(written) == 11
    assert sums["bytes"] == TOKEN_BYTES[written].sum()
    # Text on both sides, without the ends.
    assert sums["tokens"] == (3 + 1 + 5) + (1 + 5 + 2)


def test_training_smooths_labels_and_reports_the_plain_loss():
    made = Made(TRANSLATION | {"objective.label_smoothing": 0.2})
    loss, sums = made.sums(BATCH, training=True)
    plain = sum(surprisal(*pair).sum() for pair in each(made))
    smoothed = 0.0
    for logits, targets in each(made):
        logits = np.asarray(logits, np.float64)
        surprise = np.log(np.exp(logits).sum(axis=-1, keepdims=True)) - logits
        smoothed += (0.8 * surprise[np.arange(len(targets)), targets] + 0.2 * surprise.mean(axis=-1)).sum()
    compared(loss, smoothed, config=made.config, parts="objective")
    np.testing.assert_allclose(sums["loss"], plain, rtol=1e-5)
    assert abs(loss - plain) > 0.01
    evaluated, _ = made.sums(BATCH)
    np.testing.assert_allclose(evaluated, plain, rtol=1e-5)


def test_evaluation_at_another_length_is_refused():
    made = Made(TRANSLATION | {"model.position.kind": "learned", "model.position.max_length": 8})
    assert made.why_too_long(8) is None
    assert "lengths of their own" in made.why_too_long(4)
