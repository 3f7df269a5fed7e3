"""What an evaluation scores is told right from the config: no field can change the batches, what a
model is given or the targets without changing the fingerprint.
"""

import dataclasses
import functools
import itertools
import json

import jax
import numpy as np
import pytest

from tests.fields.every_field import (
    BASES,
    BEFORE,
    ENCODER,
    NEEDS,
    PAIRS,
    SPANS,
    TASK,
    TRANSLATION,
    beside,
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

# Fields that change where a run computes, records or starts, or that no test here can change.
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


class Given(Exception):
    """What a model was called with."""


class RecordingModel:
    """Stands in for any model, and ends its first call."""

    def __call__(self, *arguments, **named):
        raise Given(arguments, named)

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
    """(what a model is given, targets that count) in the first batches of an evaluation."""
    read = {path: value for path, value in flatten(config).items() if not path.startswith(("optimizer.", "schedule."))}
    dataset = load(json.dumps(read, default=list))
    objective = make_objective(config, dataset.tokenizer)
    given, targets = [], []
    for batch in itertools.islice(dataset.evaluation_batches(), 2):
        try:
            objective.score(RecordingModel(), batch, objective.constants, EVALUATION)
        except Given as call:
            given.append(hashable(call.args))
        labels = [batch[name] for name in ("labels", "starts", "ends") if name in batch]
        targets.append(hashable(labels or objective.scored_targets(batch, EVALUATION)))
    if config.objective.kind == "translation":
        # In batches of other widths, the same texts.
        rows = itertools.chain.from_iterable(batch["targets"] for batch in dataset.evaluation_batches())
        given, targets = [], sorted(tuple(row[row >= 0].tolist()) for row in rows if row[0] >= 0)
    assert targets
    return given, targets


def pair(path):
    field = configs.BY_PATH[path]
    needs = TRANSLATION if path in TRANSLATED else NEEDS.get(path, {})
    changed = resolve({**needs, **beside(field), path: other_value(field)})
    kept = {} if path in needs else {path: BEFORE.get(path, field.default)}
    return resolve({**needs, **kept}), changed


@pytest.mark.parametrize("path", [field.path for field in CHANGED])
def test_no_field_changes_what_is_scored_in_silence(path):
    before, changed = pair(path)
    one, other = (evaluation_fingerprint(config) for config in (before, changed))
    (given, targets), (other_given, other_targets) = scored(before), scored(changed)
    # How an example, or the characters of a token, are read is part of the model.
    of_the_model = one.per_example or path == "model.elmo.characters"
    differs = targets != other_targets or (given != other_given and not of_the_model)
    found = one.differences(other, per_token=True)
    if differs:
        assert found
    # The generator makes the rows that the model is scored on.
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


@pytest.mark.parametrize(("base", "one", "other", "what"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs_is_named(base, one, other, what):
    found = differences(base, one, other)
    assert set(found) >= what
    assert all(left != right for left, right in found.values())


def test_equal_evaluations_of_unlike_models():
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


def test_a_plan_refuses_what_is_not_allowed_by_name():
    factor = {"all": {}, "later": {"training.eval_context": 6}}
    with pytest.raises(ConfigError) as refused:
        make_plan(experiment(factor))
    (line,) = refused.value.problems
    assert "eval/loss: every token (factor=all) | 69 % of the tokens (factor=later)" in line
    assert "--allow targets" in line
    assert len(make_plan(experiment(factor, allow=("targets",))).warnings) == 1


def test_a_length_has_its_own_rows():
    factor = {"short": {"data.sequence_length": 16}, "long": {"data.sequence_length": 32, "data.batch_size": 2}}
    allowed = ("flops", "levels")
    with pytest.raises(ConfigError, match="different rows by eval/loss"):
        make_plan(experiment(factor, allow=allowed))
    longer = make_plan(experiment(factor, metric="eval/loss@8", allow=allowed))
    assert not [line for line in longer.warnings if "eval/loss" in line]
