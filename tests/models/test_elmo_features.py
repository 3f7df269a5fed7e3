"""An ELMo below the head of a task: the mixture of its layers computed by hand, from zero states,
without influence of padding.
"""

import numpy as np
import pytest

from tests.objectives.making import FewTokens, Made, surprisal
from tests.reference import elmo as reference
from tests.support.building import TINY_ELMO, close
from tests.support.comparisons import compared
from zoo import config as configs
from zoo.errors import ConfigError

TOKENS = np.array([[9, 1, 2, 3, 0, 5, 6, 9], [9, 4, 7, 9, -1, -1, -1, -1], [-1] * 8], np.int32)
PARTS = ("objective.kind", "model.head.classes", "model.elmo.layer_norm")
LABELS = {
    "classification": np.array([2, 0, -1], np.int32),
    "tagging": np.array([[-1, 0, 1, -1, 2, 2, 0, -1], [-1, 1, 1, -1, -1, -1, -1, -1], [-1] * 8], np.int32),
}


def made(kind, **more):
    return Made(
        TINY_ELMO
        | {"model.num_layers": 2}
        | {"objective.kind": kind, "model.head.classes": 3}
        | {name.replace("__", "."): more[name] for name in more}
    )


def expected_scores(task, normalise):
    """The class scores of both rows, each read alone, in float64: for every token or their mean."""
    params, settings = task.exact, task.config.model
    shares = params["mix"]["gamma"] * np.exp(params["mix"]["weights"]) / np.exp(params["mix"]["weights"]).sum()
    table = FewTokens().token_characters(8)
    found = []
    for row in TOKENS[:2]:
        row = row[row >= 0]
        layers, _, _ = reference.elmo(
            settings, params, table[row], np.ones(len(row), bool), np.zeros((2, 2, 16)), np.zeros((2, 2, 24))
        )
        layers = layers.reshape(3, len(row), 32)
        if normalise:
            layers = (layers - layers.mean(axis=-1, keepdims=True)) / layers.std(axis=-1, keepdims=True)
        mixed = sum(share * layer for share, layer in zip(shares, layers, strict=True))
        found.append(mixed @ params["classifier"]["kernel"] + params["classifier"]["bias"])
    return found


@pytest.mark.parametrize(
    ("kind", "normalise"), [("classification", False), ("classification", True), ("tagging", False)]
)
def test_scores_equal_the_mixture_computed_by_hand(kind, normalise):
    task = made(kind, model__elmo__layer_norm=normalise)
    assert set(task.values) == {"characters", "forward", "backward", "mix", "classifier"}
    scores, labels = expected_scores(task, normalise), LABELS[kind]
    loss, sums = task.sums({"tokens": TOKENS, "labels": labels})
    about = {"config": task.config, "parts": PARTS, "variants": ("scalar-mix",)}
    if kind == "classification":
        means = np.array([row.mean(axis=0) for row in scores])
        compared(loss, surprisal(means, labels[:2]).sum(), **about)
        compared(sums["scores"][:2], means, **about)
    else:
        expected = sum(surprisal(row, label).sum() for row, label in zip(scores, labels, strict=False))
        compared(loss, expected, **about)
    assert sums["weight"] == (labels >= 0).sum()


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_padding_does_not_change_the_scores(kind):
    """In particular the backward direction starts at a row's last token and not in the padding
    after it.
    """
    task, labels = made(kind), LABELS[kind]
    loss, sums = task.sums({"tokens": TOKENS, "labels": labels})
    wide = np.pad(TOKENS, [(0, 0), (0, 5)], constant_values=-1)
    more = np.pad(labels, [(0, 0), (0, 5)], constant_values=-1) if labels.ndim == 2 else labels
    again, other = made(kind).sums({"tokens": wide, "labels": more})
    close(again, loss, 1e-6)
    name = "predicted" if kind == "tagging" else "scores"
    np.testing.assert_allclose(np.asarray(other[name])[:2, :4], np.asarray(sums[name])[:2, :4], rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model.head.pooling": "last"},
            "model.head.pooling=last selects a token that one direction of an ELMo reads without any context",
        ),
        ({"model.head.pooler": True}, "model.head.pooler=True has no effect"),
        (
            {"objective.kind": "bidirectional", "model.head.classes": "auto", "model.elmo.layer_norm": True},
            "model.elmo.layer_norm=True has no effect: objective.kind=bidirectional",
        ),
    ],
)
def test_inconsistent_settings_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        configs.resolve(
            configs.override(
                configs.default(),
                {"model.architecture": "elmo", "objective.kind": "classification", "model.head.classes": 3} | changes,
            )
        )
