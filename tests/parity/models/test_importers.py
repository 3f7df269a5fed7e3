"""Importers against the classes themselves: what a class takes for granted, and the names and
shapes of all its tensors.
"""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from zoo.interop import FAMILIES, importer_of, resolve_like
from zoo.interop.weights.mapping import TiedTensor, tensor_problems, tensor_shapes
from zoo.models.architectures import make_model
from zoo.models.functional import split

pytestmark = pytest.mark.parity
CLASSES = sorted(name for name in FAMILIES if hasattr(transformers, name))


@pytest.mark.parametrize("class_name", CLASSES)
def test_what_a_config_does_not_say_is_what_the_class_takes_for_granted(class_name):
    config = getattr(transformers, class_name).config_class()
    all_said, little_said = (json.loads(config.to_json_string(use_diff=less)) for less in (False, True))
    ours = [
        resolve_like(class_name, said, {"data.tokenizer.kind": "characters"}) for said in (all_said, little_said, {})
    ]
    assert ours[0] == ours[1] == ours[2]


@pytest.mark.parametrize("class_name", CLASSES)
def test_names_and_shapes_at_the_class_s_own_size(class_name):
    """A class's default config is mostly a published model; it is built without memory and cut to
    three layers of each kind.
    """
    kind = getattr(transformers, class_name)
    layers = {name: 3 for name in ("n_layer", "n_layers", "num_hidden_layers", "num_layers", "num_decoder_layers", "encoder_layers",
                                   "decoder_layers") if name in importer_of(class_name).defaults}  # fmt: skip
    config = kind.config_class(**layers)
    with torch.device("meta"):
        theirs = kind(config).state_dict()
    ours = resolve_like(class_name, json.loads(config.to_json_string()), {"data.tokenizer.kind": "characters"})
    rules = importer_of(class_name).rules(ours.model)
    for rule in rules:
        if isinstance(rule, TiedTensor):
            theirs.pop(rule.name, None)
    assert tensor_problems(rules, theirs, tensor_shapes(rules, split(make_model(ours))[1])) == []
