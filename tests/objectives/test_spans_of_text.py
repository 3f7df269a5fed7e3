"""Word tagging and span extraction: the loss equals that of each row alone without padding."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.objectives.making import OTHER, Made, surprisal
from tests.support.comparisons import compared
from zoo import config as configs
from zoo.errors import ConfigError

ENCODER = {"model.architecture": "encoder", "model.embedding.segments": 2}
TOKENS = np.array([[9, 1, 2, 0, 3, 5, 6, 0], [9, 4, 0, 8, 0, -1, -1, -1], [-1] * 8], np.int32)
SEGMENTS = np.array([[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0], [0] * 8], np.int32)
# Rows with words that start at some of the tokens, with a span, and without one.
TAGS = np.array([[-1, 2, -1, -1, 0, 1, -1, -1], [-1, 0, -1, 1, -1, -1, -1, -1], [-1] * 8], np.int32)
SPANS = {
    "context": np.array([[4, 7], [3, 4], [-1, -1]], np.int32),
    "starts": np.array([4, 0, -1], np.int32),
    "ends": np.array([5, 0, -1], np.int32),
}


def scores(made, row):
    """Scores of every token of a row that is read alone and without padding, float64 [tokens, C]."""
    real = TOKENS[row] >= 0
    states = made.hidden_alone(TOKENS[row][real], SEGMENTS[row][real])
    return states @ made.exact["classifier"]["kernel"] + made.exact["classifier"]["bias"]


def tagged(made):
    per_row = [scores(made, row) for row in range(2)]
    loss = sum(surprisal(one, TAGS[row][: len(one)]).sum() for row, one in enumerate(per_row))
    right = sum((one.argmax(axis=1) == TAGS[row][: len(one)]).sum() for row, one in enumerate(per_row))
    return loss, 5, right


def extracted(made):
    loss = 0.0
    for row, allowed in ((0, [0, 4, 5, 6]), (1, [0, 3])):
        both = scores(made, row)[allowed]
        for side, name in enumerate(("starts", "ends")):
            loss += surprisal(both[None, :, side], [allowed.index(SPANS[name][row])])[0] / 2
    return loss, 2, None


@pytest.mark.parametrize(
    ("overrides", "labels", "expected"),
    [
        (ENCODER | {"objective.kind": "tagging", "model.head.classes": 3}, {"labels": TAGS}, tagged),
        pytest.param({"objective.kind": "tagging", "model.head.classes": 3}, {"labels": TAGS}, tagged, marks=OTHER),
        (ENCODER | {"objective.kind": "extraction"}, SPANS, extracted),
    ],
)
def test_loss_equals_that_of_each_row_alone(overrides, labels, expected):
    made = Made(overrides)
    loss, sums = made.sums({"tokens": TOKENS, "segments": SEGMENTS} | labels)
    total, weight, right = expected(made)
    compared(loss, total, config=made.config, parts=("objective", "model.head.classes"))
    assert sums["weight"] == weight
    assert right is None or sums["right"] == right
    assert sums["real"].tolist() == [True, True, False]
    weights = made.objective.normalizers({"tokens": jnp.asarray(TOKENS)} | labels)
    assert weights["loss"] == weight


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"objective.kind": "tagging", "model.architecture": "encoder", "model.head.pooler": True},
            "reads no single vector",
        ),
        ({"objective.kind": "extraction", "data.source": "jsonl:x"}, "data.second_column must name the question"),
        ({"objective.kind": "extraction", "data.stride": 200}, "leaves out tokens between rows"),
        ({"objective.kind": "tagging", "data.source": "conll:x", "data.conll.words": -1}, "is the column of the tags"),
        ({"objective.kind": "tagging", "data.source": "csv:x"}, "needs labelled examples"),
    ],
)
def test_inconsistent_settings_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        configs.resolve(configs.override(configs.default(), changes))
