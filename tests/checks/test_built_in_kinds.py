"""What `zoo check` says of zoo's own kinds."""

import pytest

from tests.support.building import by_default
from zoo.checks import Subject
from zoo.checks.check import FAIL, NOT_APPLICABLE, PASS, few_optimisations, outcome_of
from zoo.checks.structure import LAYERS
from zoo.config.kinds import KIND_TABLES

CASES = [(path, name) for path in LAYERS for name in KIND_TABLES[path].by_name]
# These read what a stack gives to its layers.
KEPT = [("model.attention.kind", name) for name in ("value_residual", "value_embedding", "differential")]


def found(path, name, of):
    with few_optimisations():
        return outcome_of(of, Subject.of(KIND_TABLES[path].by_name[name]))


@pytest.mark.parametrize(("path", "name"), by_default(KEPT, CASES, pytest.mark.promise(reason="more kinds are traced")))
def test_layers_run_alone(path, name):
    outcome = found(path, name, "shapes")
    assert outcome.state == PASS, outcome
    assert "in float32 and bfloat16" in outcome.reason


def test_objectives_are_checked_in_the_models_that_they_train():
    objectives = KIND_TABLES["objective.kind"].by_name
    architectures = {
        name: Subject.of(kind).architecture for name, kind in objectives.items() if name != "bidirectional"
    }
    assert architectures["causal"] == architectures["classification"] == "decoder"
    assert architectures["masked"] == architectures["replaced_tokens"] == "encoder"
    assert architectures["span"] == architectures["translation"] == "encoder_decoder"
    labelled = found("objective.kind", "classification", "gradients")
    assert labelled.state == NOT_APPLICABLE
    assert "bytes have no labels" in labelled.reason


def test_a_batch_norm_mixes_tokens_and_rows_in_training():
    with few_optimisations():
        subject = Subject.of(KIND_TABLES["model.norm.kind"].by_name["batchnorm"])
        causality, padding = (outcome_of(name, subject) for name in ("causality", "padding"))
    assert causality.state == padding.state == FAIL
    assert "a later token, slot 1 of row 0: in training the output changes with it" in causality.reason
    assert "another row, slot 0 of row 1: in training the output changes with it" in padding.reason


@pytest.mark.promise(reason="training steps are compiled")
def test_updates_may_differ_by_what_rounding_of_the_parameters_does(monkeypatch):
    monkeypatch.setattr("zoo.checks.training_steps.TOLERANCE", 1e-12)
    outcome = found("model.norm.kind", "none", "accumulation")
    assert outcome.state == PASS, outcome
    monkeypatch.setattr("zoo.checks.training_steps.OF_ROUNDING", 1e-6)
    assert found("model.norm.kind", "none", "accumulation").state == FAIL


@pytest.mark.promise(reason="gradients of several models are compiled")
def test_a_model_that_amplifies_rounding_is_compared_with_its_rounding():
    outcome = found("model.attention.kind", "mamba2", "bfloat16")
    assert outcome.state == PASS, outcome
    assert "in float32 where parameters change by the rounding of bfloat16" in outcome.reason
