"""Classes with a task head, and classes without a head: how their files are read, and which class a
run is exported as.
"""

import json

import numpy as np
import pytest

from tests.parity.harness import random_tensor
from tests.support.checkpoints_of_others import arrays_of, stored_tensors, write_checkpoint, zoo
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.interop import importer_of, resolve_like
from zoo.interop.config_export import choose_class
from zoo.interop.families.task_heads import label_names
from zoo.interop.model_weights import export_weights, import_weights
from zoo.interop.weights.mapping import Rule, ZeroParameters, from_zoo, to_zoo
from zoo.interop.weights.tensor_files import write_tensors
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten, unflatten

SIZES = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 56}
THREE = {"id2label": {"0": "a", "2": "c", "1": "b"}}


def resolved(class_name, **settings):
    return resolve_like(class_name, SIZES | settings, {"data.tokenizer.kind": "characters"})


@pytest.mark.parametrize(("settings", "labels"), [
    ({}, ["LABEL_0", "LABEL_1"]), (THREE, ["a", "b", "c"]), ({"num_labels": 1}, ["LABEL_0"]), ({"_num_labels": 3}, ["LABEL_0", "LABEL_1", "LABEL_2"]),
])  # fmt: skip
def test_labels_are_ordered_by_id(settings, labels):
    assert label_names(settings) == labels


def test_one_label_means_regression():
    three, one = (
        resolved("BertForSequenceClassification", **THREE),
        resolved("BertForSequenceClassification", num_labels=1),
    )
    assert (three.objective.kind, three.model.head.classes, three.data.labels) == ("classification", 3, ("a", "b", "c"))
    assert (one.objective.kind, one.model.head.classes) == ("regression", 1)
    assert resolved("BertForSequenceClassification", num_labels=1, problem_type="regression") == one


@pytest.mark.parametrize(("class_name", "settings", "words"), [
    ("BertForSequenceClassification", {"problem_type": "multi_label_classification"}, "a text has one label here, or a number"),
    ("BertForTokenClassification", {"id2label": {"0": "a", "2": "b"}}, "expected names of the ids 0 to 1"),
    ("BertForQuestionAnswering", THREE, "expected 2, the beginning and the end of an answer"),
])  # fmt: skip
def test_unsupported_labels_are_rejected(class_name, settings, words):
    with pytest.raises(ConfigError, match=words):
        resolved(class_name, **settings)


def test_a_pooler_with_another_activation_has_no_class():
    config = resolved("ElectraForSequenceClassification", embedding_size=32)
    assert config.model.head.pooler_activation == "gelu"
    tanh = configs.resolve(
        configs.override(configs.default(), flatten(config) | {"model.head.pooler_activation": "tanh"})
    )
    with pytest.raises(ConfigError, match=r"cannot express model\.head\.pooler_activation='tanh'; it would be 'gelu'"):
        choose_class(tanh, "ElectraForSequenceClassification", None)


def test_tagger_round_trip(tmp_path):
    head = {
        name: random_tensor(name, shape) for name, shape in (("classifier.weight", (3, 32)), ("classifier.bias", (3,)))
    }
    body = {name: array for name, array in stored_tensors("bert-masked").items() if name.startswith("bert.")}
    source = write_checkpoint(
        tmp_path / "source", "bert-masked", words=60, architectures=["BertForTokenClassification"], **THREE
    )
    pooler = {"bert.pooler.dense.weight": np.zeros((32, 32), np.float32)}
    write_tensors(source / "model.safetensors", body | head | pooler)
    code, out, errors = zoo("import", f"hf:{source}", "--out", tmp_path / "run")
    assert (code, errors) == (0, [])
    assert "eval.py" not in out
    # The labels let a run of the same task that starts from this one keep the head.
    assert json.loads((tmp_path / "run" / "meta.json").read_text())["data"] == {"labels": ["a", "b", "c"]}
    assert zoo("export", tmp_path / "run", "--out", tmp_path / "out")[0] == 0
    written = arrays_of(tmp_path / "out")
    assert set(written) == set(body | head)
    for name, array in (body | head).items():
        np.testing.assert_array_equal(written[name], array)
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    assert settings["architectures"] == ["BertForTokenClassification"]
    assert settings["id2label"] == {"0": "a", "1": "b", "2": "c"}


@pytest.mark.parametrize(("imported_as", "changes", "class_name"), [
    ("BertModel", {"objective.kind": "classification", "model.head.classes": 3, "model.head.pooler": True}, "BertForSequenceClassification"),
    ("BertModel", {"objective.kind": "regression", "model.head.pooler": True}, "BertForSequenceClassification"),
    ("BertForMaskedLM", {"objective.kind": "tagging", "model.head.classes": 2}, "BertForTokenClassification"),
    ("BertForMaskedLM", {"objective.kind": "extraction"}, "BertForQuestionAnswering"),
    ("CamembertModel", {"objective.kind": "tagging", "model.head.classes": 4}, "CamembertForTokenClassification"),
    ("RobertaForMaskedLM", {"objective.kind": "classification", "model.head.classes": 2, "model.head.pooler": True},
     "RobertaForSequenceClassification"),
    ("AlbertModel", {"objective.kind": "classification", "model.head.classes": 3, "model.head.pooler": True}, "AlbertForSequenceClassification"),
    ("AlbertForMaskedLM", {"objective.kind": "tagging", "model.head.classes": 2}, "AlbertForTokenClassification"),
    ("AlbertForPreTraining", {"objective.kind": "extraction"}, "AlbertForQuestionAnswering"),
    ("DistilBertModel", {"objective.kind": "classification", "model.head.classes": 2, "model.head.pooler": True,
                         "model.head.pooler_activation": "relu"}, "DistilBertForSequenceClassification"),
    ("ElectraModel", {"objective.kind": "classification", "model.head.classes": 2, "model.head.pooler": True,
                      "model.head.pooler_activation": "gelu"}, "ElectraForSequenceClassification"),
    ("ElectraModel", {"objective.kind": "tagging", "model.head.classes": 4}, "ElectraForTokenClassification"),
    ("ElectraForPreTraining", {"objective.kind": "extraction"}, "ElectraForQuestionAnswering"),
])  # fmt: skip
def test_fine_tuned_runs_are_exported_as_their_task_class(imported_as, changes, class_name):
    settings = SIZES | ({"type_vocab_size": 1} if imported_as != "BertModel" else {})
    if imported_as == "DistilBertModel":
        settings = {"vocab_size": 60, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 56}
    fields = importer_of(imported_as).read_config(settings)
    body = {
        path: value
        for path, value in fields.items()
        if not path.startswith(("model.head", "model.tie", "model.generator", "objective"))
    }
    config = configs.resolve(
        configs.override(configs.default(), {**body, **changes, "data.tokenizer.kind": "characters"})
    )
    assert choose_class(config, None, imported_as, settings).class_name == class_name
    wrong = "BertForQuestionAnswering" if changes["objective.kind"] != "extraction" else "BertForTokenClassification"
    with pytest.raises(ConfigError, match=r"cannot express objective\.kind="):
        choose_class(config, wrong, None)


@pytest.mark.parametrize(("name", "class_name", "prefix"), [
    ("albert", "AlbertModel", "albert."), ("electra-wide", "ElectraModel", "electra."), ("electra", "ElectraModel", "electra."),
])  # fmt: skip
def test_a_body_is_read_and_written_without_a_head(name, class_name, prefix, tmp_path):
    body = {
        tensor.removeprefix(prefix): array
        for tensor, array in stored_tensors(name).items()
        if tensor.startswith(prefix)
    }
    source = write_checkpoint(tmp_path / "source", name, words=99, architectures=[class_name])
    write_tensors(source / "model.safetensors", body)
    assert zoo("import", f"hf:{source}", "--out", tmp_path / "run")[0] == 0
    assert zoo("export", tmp_path / "run", "--out", tmp_path / "out")[0] == 0
    written = arrays_of(tmp_path / "out")
    assert set(written) == set(body)
    for tensor, array in body.items():
        np.testing.assert_array_equal(written[tensor], array)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == [class_name]


@pytest.mark.parametrize("class_name", ["AlbertModel", "ElectraModel"])
def test_a_head_that_was_trained_is_not_left_out(class_name):
    """Hidden states of another width than the embeddings have a head of their own, of zeros."""
    config = resolved(class_name, embedding_size=8)
    shapes = split(make_model(config))[1]
    params = unflatten({path: np.ones(leaf.shape, np.float32) for path, leaf in flatten(shapes, "/").items()}, "/")
    read = import_weights(
        class_name, config, export_weights(class_name, config, params | {"head": {"weights": np.zeros((60, 32))}}, {})
    )[0]
    assert not read["head"]["weights"].any()
    with pytest.raises(ConfigError, match="parameter head/weights is not 0, and the class has no such parameter"):
        export_weights(class_name, config, params, {})


def test_a_classifier_without_a_pooler_has_no_class():
    fields = importer_of("BertForMaskedLM").read_config(SIZES)
    body = {path: value for path, value in fields.items() if not path.startswith(("model.head", "model.tie"))}
    changes = {"objective.kind": "classification", "model.head.classes": 2, "data.tokenizer.kind": "characters"}
    config = configs.resolve(configs.override(configs.default(), body | changes))
    with pytest.raises(ConfigError) as refused:
        choose_class(config, None, "BertForMaskedLM", SIZES)
    assert refused.value.problems == [
        "no class can express this config; BertForSequenceClassification, which comes closest, cannot express "
        "model.head.pooler=False; it would be True"
    ]


def test_missing_parameters_must_be_zero():
    rules = [Rule("w", ("kernel",)), ZeroParameters(("bias",))]
    shapes = {"kernel": np.empty((2, 3)), "bias": np.empty(3)}
    read = to_zoo(rules, {"w": np.ones((2, 3), np.float32)}, shapes)
    assert not read["bias"].any()
    assert set(from_zoo(rules, read)) == {"w"}
    with pytest.raises(ConfigError, match="parameter bias is not 0, and the class has no such parameter"):
        from_zoo(rules, read | {"bias": np.ones(3, np.float32)})
