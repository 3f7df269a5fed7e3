"""Classification and regression of rows: for every pooling the loss equals that of each row alone
without padding.
"""

import math

import jax
import numpy as np
import pytest

from tests.objectives.making import OTHER, Made, surprisal
from tests.support.building import call, with_values
from tests.support.comparisons import compared
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.layers.context import Context, DropoutKey

ENCODER = {"model.architecture": "encoder", "model.embedding.segments": 2}
CLASSES = {"objective.kind": "classification", "model.head.classes": 3}
# Rows of different lengths, and a row that only pads the batch.
ROWS = {
    "tokens": np.array(
        [[9, 1, 2, 3, 0, 5, 6, 0], [9, 4, 0, 8, 0, -1, -1, -1], [9, 7, 0, -1, -1, -1, -1, -1], [-1] * 8], np.int32
    ),
    "segments": np.array([[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0], [0] * 8, [0] * 8], np.int32),
}
LABELS = {
    "classification": np.array([2, 0, 0, -1], np.int32),
    "regression": np.array([1.5, -2.0, 0.25, -1.0], np.float32),
}


ACTIVATIONS = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / 2**0.5)),
}


def row_scores(made, kind, pooler):
    """Returns the scores [3, C] of the first three rows, each read alone without padding, in
    float64.
    """

    found = []
    for tokens, segments in zip(ROWS["tokens"][:3], ROWS["segments"][:3], strict=True):
        states = made.hidden_alone(tokens[tokens >= 0], segments[tokens >= 0])
        vector = {"first": states[0], "last": states[-1], "mean": states.mean(axis=0)}[kind]
        if pooler:
            vector = ACTIVATIONS[pooler](vector @ made.exact["pooler"]["kernel"] + made.exact["pooler"]["bias"])
        found.append(vector @ made.exact["classifier"]["kernel"] + made.exact["classifier"]["bias"])
    return np.array(found)


def test_the_vector_of_a_row_is_dropped_out_before_the_scores():
    made = Made(ENCODER | CLASSES | {"model.dropout": 0.5})
    values, states = made.exact["classifier"], np.random.default_rng(0).normal(size=(3, made.config.model.dim))

    def scores(values, states, key=None):
        drop = key if key is None else DropoutKey(key)
        return with_values(made.model, values).task_scores(states, Context(np.arange(8)[None], dropout_key=drop))

    plain = call(scores, made.values, states)
    np.testing.assert_allclose(plain, states @ values["kernel"] + values["bias"], rtol=1e-4, atol=1e-5)
    dropped = [np.asarray(call(scores, made.values, states, jax.random.key(seed))) for seed in (0, 1)]
    assert not np.allclose(dropped[0], dropped[1])
    assert not np.allclose(dropped[0], plain)


@pytest.mark.parametrize(
    ("overrides", "kind", "pooler"),
    [
        (ENCODER | CLASSES, "first", "tanh"),
        pytest.param(ENCODER | CLASSES, "first", "relu", marks=OTHER),
        pytest.param(ENCODER | CLASSES, "mean", "gelu", marks=OTHER),
        (CLASSES, "last", None),
        (ENCODER | {"objective.kind": "regression"}, "first", None),
    ],
)
def test_loss_equals_that_of_each_row_alone(overrides, kind, pooler):
    pooled = {"model.head.pooler": True, "model.head.pooler_activation": pooler} if pooler else {}
    made = Made(overrides | pooled | {"model.head.pooling": kind})
    task = made.config.objective.kind
    expected, labels = row_scores(made, kind, pooler), LABELS[task]
    about = {"config": made.config, "parts": ("objective", "model.head")}
    loss, sums = made.sums(ROWS | {"labels": labels})
    if task == "classification":
        compared(loss, surprisal(expected, labels[:3]).sum(), **about)
        assert sums["right"] == (expected.argmax(axis=1) == labels[:3]).sum()
        compared(sums["scores"][:3], expected, **about)
    else:
        compared(loss, ((expected[:, 0] - labels[:3]) ** 2).sum(), **about)
        compared(sums["predicted"][:3], expected[:, 0], **about)
    assert sums["weight"] == 3
    assert sums["real"].tolist() == [True, True, True, False]
    assert sums["tokens"] == (ROWS["tokens"] >= 0).sum()
    # Training metrics have no per-row values.
    assert made.sums(ROWS | {"labels": labels}, training=True)[1].keys() == sums.keys() - {
        "real",
        "scores",
        "predicted",
    }


def test_task_model_has_no_token_head():
    made = Made(ENCODER | CLASSES)
    assert set(made.values) == {"embedding", "position", "segments", "stack", "final_norm", "classifier"}
    assert made.values["classifier"]["kernel"].shape == (16, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.head.pooling": "first"}, "in a decoder sees no other token"),
        ({"model.head.bias": True}, "model.head.bias=True has no effect"),
        ({"training.eval_batches": 3}, "scored on every example once"),
        ({"data.source": "text:x"}, "needs labelled examples"),
        ({"data.source": "csv:x", "data.held_out": "tsv:y"}, "must be of the same kind"),
        ({"data.held_out": "stdlib"}, "has its own held-out part"),
        ({"data.validation_fraction": 0.5}, "the held-out examples are given"),
        ({"objective.kind": "regression", "model.head.classes": 2}, "must be 1 for objective.kind=regression"),
        (
            {"objective.kind": "causal", "model.head.classes": "auto", "data.source": "tsv:x"},
            "holds examples, not running text",
        ),
    ],
)
def test_inconsistent_settings_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        configs.resolve(configs.override(configs.default(), CLASSES | changes))
