"""Importers against the classes themselves: default settings, and the names and shapes of all
tensors.
"""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from zoo.interop import FAMILIES, importer_of, resolve_like
from zoo.interop.weights.mapping import ConstantTensor, TiedTensor, tensor_problems, tensor_shapes
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten, unflatten

pytestmark = pytest.mark.parity
CLASSES = sorted(name for name in FAMILIES if hasattr(transformers, name))
# xIELU reads a number when it is made, which a device without memory does not have.
SMALL = {name: {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 50}
         for name in ("ApertusForCausalLM", "ApertusModel")}  # fmt: skip
# Without these numbers, their defaults, the classes cannot be made.
MORE = (
    SMALL
    | {name: {"head_dim": 128} for name in ("MinistralForCausalLM", "MinistralModel")}
    | {name: {"num_key_value_heads": 8} for name in ("NemotronForCausalLM", "NemotronModel")}
)


# Of the published models; the class has no default for it.
NEEDED = {"DeepseekV2ForCausalLM": {"num_experts_per_tok": 6}}
# One of the first layers is dense and others are not; few experts where one tensor is of all of them.
MORE |= NEEDED | {"DeepseekV3ForCausalLM": {"first_k_dense_replace": 1}, "GptOssForCausalLM": {"num_local_experts": 4}}


@pytest.mark.parametrize("class_name", CLASSES)
def test_defaults_match_the_class(class_name):
    config = getattr(transformers, class_name).config_class(**NEEDED.get(class_name, {}))
    full_settings, sparse_settings = (
        json.loads(config.to_json_string(use_diff=only_changes)) for only_changes in (False, True)
    )
    ours = [
        resolve_like(class_name, settings, {"data.tokenizer.kind": "characters"})
        for settings in (full_settings, sparse_settings, {})
    ]
    assert ours[0] == ours[1] == ours[2]


@pytest.mark.parametrize("class_name", CLASSES)
def test_tensor_names_and_shapes_at_default_size(class_name):
    """The default config is usually that of a published model. It is built without allocating memory,
    and with at most three layers of each kind.
    """
    reference_class = getattr(transformers, class_name)
    layers = {name: 3 for name in ("n_layer", "n_layers", "num_hidden_layers", "num_layers", "num_decoder_layers", "encoder_layers",
                                   "decoder_layers") if name in importer_of(class_name).defaults}  # fmt: skip
    config = reference_class.config_class(**layers, **MORE.get(class_name, {}))
    with torch.device("cpu" if class_name in SMALL else "meta"):
        theirs = reference_class(config).state_dict()
    ours = resolve_like(class_name, json.loads(config.to_json_string()), {"data.tokenizer.kind": "characters"})
    importer = importer_of(class_name)
    rules = [*importer.rules(ours.model), *importer.statistics(ours.model)]
    for rule in rules:
        if isinstance(rule, TiedTensor):
            theirs.pop(rule.name, None)
        if isinstance(rule, ConstantTensor):
            assert all(theirs.pop(name).shape == value.shape for name, value in rule.tensors().items())
    _, params, stats = split(make_model(ours))
    both = unflatten(flatten(params, "/") | flatten(stats, "/"), "/")
    assert tensor_problems(rules, theirs, tensor_shapes(rules, both)) == []
