"""The fingerprint of an evaluation: no field can change the batches, the model's inputs or the targets
without changing it.
"""

import dataclasses
import functools
import itertools
import json
import re

import jax
import numpy as np
import pytest

from tests.fields.every_field import (
    BASES,
    COMPARED_VALUES,
    ENCODER,
    NEEDS,
    PAIRS,
    SPANS,
    TASK,
    TRANSLATION,
    needed_with,
    other_value,
    resolve,
)
from zoo import config as configs
from zoo import data
from zoo.data.pipeline.evaluation_fingerprint import evaluation_fingerprint
from zoo.errors import ConfigError
from zoo.lab.experiment import Experiment
from zoo.lab.planning.plan import make_plan
from zoo.nested import flatten
from zoo.objectives import make_objective
from zoo.objectives.objective import EVALUATION

# Fields that change where a run computes, records or starts, or that these tests cannot change.
SKIPPED = (
    "plugins",
    "mesh.",
    "data.hub.",
    "data.source",
    "training.start_",
    "training.trackers",
    "training.translate_every",
    "objective.distillation.",
)
# Fields of the data that only training reads.
TRAINING_ONLY = tuple(
    f"data.{name}" for name in ("training_fraction", "examples", "mixture_exponent", "batch_stages", "length_stages")
)
TRANSLATED = ("objective.beams", "objective.length_penalty")
CHANGED = [
    field
    for field in configs.FIELDS
    if not field.path.startswith(SKIPPED) and not (field.choices and len(field.choices) == 1)
]


class ModelCalled(Exception):
    """Carries the arguments of the call."""


class RecordingModel:
    """Replaces any model and raises `ModelCalled` at its first call."""

    def __call__(self, *arguments, **named):
        raise ModelCalled(arguments, named)

    def __getattr__(self, name):
        return self


@functools.lru_cache(maxsize=64)
def load(settings):
    return data.load(configs.from_flat(json.loads(settings)))


def hashable(value):
    if isinstance(value, jax.Array | np.ndarray):
        return value.shape, np.asarray(value).astype(np.int64).tobytes()
    if isinstance(value, tuple | list):
        return tuple(map(hashable, value))
    if dataclasses.is_dataclass(value):
        return tuple((name, hashable(item)) for name, item in vars(value).items() if name != "sharding")
    return repr(value)


def scored(config):
    """Returns (inputs of the model, targets) of the first batches of an evaluation."""
    read = {path: value for path, value in flatten(config).items() if not path.startswith(("optimizer.", "schedule."))}
    dataset = load(json.dumps(read, default=list))
    objective = make_objective(config, dataset.tokenizer)
    given, targets = [], []
    for batch in itertools.islice(dataset.evaluation_batches(), 2):
        try:
            objective.score(RecordingModel(), batch, objective.constants, EVALUATION)
        except ModelCalled as call:
            given.append(hashable(call.args))
        labels = [batch[name] for name in ("labels", "starts", "ends") if name in batch]
        targets.append(hashable(labels or objective.scored_targets(batch, EVALUATION)))
    if config.objective.kind == "translation":
        # The widths of batches may differ, so only the texts are compared.
        rows = itertools.chain.from_iterable(batch["targets"] for batch in dataset.evaluation_batches())
        given, targets = [], sorted(tuple(row[row >= 0].tolist()) for row in rows if row[0] >= 0)
    assert targets
    return given, targets


def config_pair(path):
    field = configs.BY_PATH[path]
    needs = TRANSLATION if path in TRANSLATED else NEEDS.get(path, {})
    changed = resolve({**needs, **needed_with(field), path: other_value(field)})
    kept = {} if path in needs else {path: COMPARED_VALUES.get(path, field.default)}
    return resolve({**needs, **kept}), changed


# What an evaluation's fingerprint does not read: a field of each group stands for the others.
UNREAD = re.compile(r"(optimizer|schedule|model\.(attention|convolution|ffn|init|layers|norm|position))\.")
GROUPS = {found[0]: field.path for field in reversed(CHANGED) if (found := UNREAD.match(field.path))}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            field.path,
            marks=pytest.mark.slow(reason="another field of its group is changed by default")
            if UNREAD.match(field.path) and field.path not in GROUPS.values()
            else (),
        )
        for field in CHANGED
        # The labels of the data allow no other number.
        if field.path != "model.head.classes"
    ],
)
def test_fields_that_change_what_is_scored_change_the_fingerprint(path):
    before, changed = config_pair(path)
    one, other = (evaluation_fingerprint(config) for config in (before, changed))
    (given, targets), (other_given, other_targets) = scored(before), scored(changed)
    # How a model reads examples or the characters of tokens belongs to the model.
    of_the_model = one.per_example or path == "model.elmo.characters"
    differs = targets != other_targets or (given != other_given and not of_the_model)
    found = one.differences(other, per_token=True)
    if differs:
        assert found
    # The generator produces the rows that the model is scored on.
    if path.startswith("model.generator."):
        assert set(found) == {"context"}
    elif path.startswith(("model.", "optimizer.", "schedule.", *TRAINING_ONLY)) and path != "model.architecture":
        assert not found


DIFFERENT = {
    "packed or sentences": (ENCODER, {"data.row_format": "packed"}, {"data.row_format": "full_sentences"}, {"rows"}),
    "kinds of pairs": (PAIRS, {}, {"data.row_format": "sentence_pairs"}, {"rows"}),
    "causal or masked": ({}, {}, ENCODER, {"rows", "targets", "context"}),
    "more hidden tokens": (ENCODER, {}, {"objective.select_fraction": 0.4}, {"rows", "targets"}),
    "another recipe": (ENCODER, {}, {"objective.mask_token_fraction": 1.0, "objective.random_token_fraction": 0.0},
                       {"rows"}),
    "rows of other length": ({}, {}, {"data.sequence_length": 8}, {"rows", "context"}),
    "isolated documents": ({}, {}, {"data.isolate_documents": True}, {"context"}),
    "a prefix": ({}, {"training.eval_context": 5}, {"training.eval_context": 6}, {"targets"}),
    "another text": ({}, {}, {"data.validation_fraction": 0.3}, {"text"}),
    "spans": (SPANS, {}, {"objective.mean_span_length": 1.0}, {"rows", "targets"}),
    "tokens": ({}, {}, {"data.tokenizer.kind": "characters"}, {"tokenizer"}),
    "labels": (TASK, {}, {"data.label_column": "other"}, {"targets"}),
}  # fmt: skip


def differences(base, one, other, per_token=True):
    prints = [evaluation_fingerprint(resolve(base | changes)) for changes in (one, other)]
    return prints[0].differences(prints[1], per_token)


@pytest.mark.parametrize(("base", "one", "other", "parts"), DIFFERENT.values(), ids=DIFFERENT)
def test_differences_are_named(base, one, other, parts):
    found = differences(base, one, other)
    assert set(found) >= parts
    assert all(left != right for left, right in found.values())


def test_different_models_can_have_equal_evaluations():
    prefix = BASES["encoder_decoder"] | {"objective.prefix_length": 8}
    decoder = {"training.eval_context": 8}
    assert not differences({"training.eval_batches": 0}, prefix, decoder)
    shown = ENCODER | {"training.eval_masks": "all"}
    assert not differences(shown, {}, {"objective.mask_token_fraction": 1.0, "objective.random_token_fraction": 0.0})
    words = {"data.tokenizer.kind": "characters", "training.eval_batches": 0}
    assert not differences({"training.eval_batches": 0}, {}, words, per_token=False)
    # Ten rows of characters are another text than ten rows of bytes.
    assert set(differences({"training.eval_batches": 1}, {}, words | {"training.eval_batches": 1}, False)) == {"rows"}


def experiment(factor, **changes):
    base = resolve({"training.eval_batches": 1, "training.eval_lengths": (8,), "model.position.kind": "rope"})
    return Experiment("scored", "?", base, {"factor": factor}, **changes)


def test_a_plan_refuses_different_targets_unless_they_are_allowed():
    factor = {"all": {}, "later": {"training.eval_context": 6}}
    with pytest.raises(ConfigError) as refused:
        make_plan(experiment(factor))
    (line,) = refused.value.problems
    assert "eval/loss: every token (factor=all) | 69 % of the tokens (factor=later)" in line
    assert "--allow targets" in line
    assert len(make_plan(experiment(factor, allow=("targets",))).warnings) == 1


def test_metrics_at_one_length_are_computed_on_equal_rows():
    factor = {"short": {"data.sequence_length": 16}, "long": {"data.sequence_length": 32, "data.batch_size": 2}}
    allowed = ("flops", "levels")
    with pytest.raises(ConfigError, match="different rows by eval/loss"):
        make_plan(experiment(factor, allow=allowed))
    longer = make_plan(experiment(factor, metric="eval/loss@8", allow=allowed))
    assert not [line for line in longer.warnings if "eval/loss" in line]
