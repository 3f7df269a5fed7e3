"""Systems whose class only transformers 5 has, against that class: outputs and gradients, default
settings, names and shapes of tensors, exported files, and generation with a cache.

`make test-transformers5` runs these tests; where transformers 4 is installed the systems are compared
with the stored outputs of their classes (`tests/interop/test_stored.py`).
"""

import json

import pytest

pytest.importorskip("transformers", minversion="5")

import numpy as np
import torch
import transformers

from tests.parity.harness import FIRST_TOKEN, make_batch, resolved
from tests.parity.models.test_systems import compare
from tests.parity.references import build
from tests.parity.systems import OF_FIVE
from tests.support.checkpoints_of_others import imported, zoo
from zoo.decoding import Generator
from zoo.interop import importer_of, resolve_like
from zoo.interop.model_weights import import_weights
from zoo.interop.settings.equivalents import ConfigView
from zoo.interop.weights.mapping import tensor_problems, tensor_shapes
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten, unflatten

pytestmark = pytest.mark.transformers5
CHARACTERS = {"data.tokenizer.kind": "characters"}
CLASSES = sorted({system.reference for system in OF_FIVE})
by_name = pytest.mark.parametrize("system", OF_FIVE, ids=lambda system: system.name)
# Layers of each kind, and few experts, which files hold one by one.
FEW = {
    "NanoChatForCausalLM": {"num_hidden_layers": 2},
    "OlmoHybridForCausalLM": {"num_hidden_layers": 4},
    "KimiLinearForCausalLM": {"num_hidden_layers": 5, "num_local_experts": 8},
}
# Published sizes, with the settings that differ from the class's defaults.
LAYERS = [layer for layer in range(1, 28) if layer % 4 == 0 or layer == 27]
PUBLISHED = {
    "nanochat": {
        "vocab_size": 65536,
        "hidden_size": 1280,
        "intermediate_size": 5120,
        "num_hidden_layers": 20,
        "num_attention_heads": 10,
    },
    "olmo-hybrid": {},
    "kimi-linear": {
        "linear_attn_config": {"full_attn_layers": LAYERS, "kda_layers": sorted({*range(1, 28)} - {*LAYERS})}
    },
}


@by_name
def test_outputs_and_gradients_match_the_class(system):
    output, gradient, _ = compare(system)
    assert output <= system.tolerance
    assert gradient <= system.tolerance


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes_have_the_parameters_of_the_class(name):
    system = next(system for system in OF_FIVE if system.name == name)
    kind = getattr(transformers, system.reference)
    with torch.device("meta"):
        module = kind(kind.config_class(**PUBLISHED[name]))
    assert sum(parameter.numel() for parameter in module.parameters()) == system.published[0].count


@pytest.mark.parametrize("class_name", CLASSES)
def test_defaults_match_the_class(class_name):
    config = getattr(transformers, class_name).config_class()
    full, sparse = (json.loads(config.to_json_string(use_diff=only_changes)) for only_changes in (False, True))
    models = [resolve_like(class_name, settings, CHARACTERS) for settings in (full, sparse, {})]
    assert models[0] == models[1] == models[2]


@pytest.mark.parametrize("class_name", CLASSES)
def test_tensor_names_and_shapes_at_default_width(class_name):
    """Those of the files that the class writes, with few layers and experts."""
    kind = getattr(transformers, class_name)
    config = kind.config_class(**FEW[class_name])
    with torch.device("meta"):
        module = kind(config)
    # Tensors of a single number, which have a shape and take no memory.
    numbers = {name: torch.zeros(()).expand(tensor.shape) for name, tensor in module.state_dict().items()}
    written = transformers.core_model_loading.revert_weight_conversion(module, numbers)
    ours, importer = resolve_like(class_name, json.loads(config.to_json_string()), CHARACTERS), importer_of(class_name)
    found = importer.arranged(ConfigView(ours, {}), {name: tensor.numpy() for name, tensor in written.items()})
    rules = [*importer.rules(ours.model), *importer.statistics(ours.model)]
    _, params, stats = split(make_model(ours))
    both = unflatten(flatten(params, "/") | flatten(stats, "/"), "/")
    assert tensor_problems(rules, found, tensor_shapes(rules, both)) == []


@pytest.mark.parametrize("record", [True, False], ids=["imported", "trained here"])
@by_name
def test_the_class_loads_exports_with_identical_outputs(system, record, tmp_path):
    run = imported(tmp_path, system.name)
    if not record:
        meta = json.loads((run / "meta.json").read_text())
        (run / "meta.json").write_text(json.dumps({key: value for key, value in meta.items() if key != "imported"}))
    assert zoo("export", run, "--out", tmp_path / "out", *(() if record else ("--class", system.reference)))[0] == 0
    kind = getattr(transformers, system.reference)
    assert isinstance(transformers.AutoConfig.from_pretrained(tmp_path / "out"), kind.config_class)
    loaded, info = kind.from_pretrained(tmp_path / "out", attn_implementation="eager", output_loading_info=True)
    assert not any(info.values()), info
    reference = build(system)
    config = resolved(system, reference.hf)
    batch = make_batch(system, config, padded=True)
    with torch.no_grad():
        expected = reference.outputs(batch, config)["logits"]
        reference.module = loaded.eval()
        found = reference.outputs(batch, config)["logits"]
    filled = batch["positions"] >= 0
    assert torch.equal(found[filled], expected[filled])


@by_name
def test_greedy_decoding_with_a_cache(system):
    reference = build(system)
    config = resolved(system, reference.hf)
    values, stats = import_weights(system.reference, config, reference.tensors())
    drawn = np.random.default_rng(11)
    prompts = [drawn.integers(FIRST_TOKEN, config.model.vocab_size, length).tolist() for length in (3, 9)]
    found = Generator(make_model(config), values, stats).generate(prompts=prompts, max_new_tokens=15)
    for row, prompt in enumerate(prompts):
        with torch.no_grad():
            expected = reference.module.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                max_new_tokens=15,
                do_sample=False,
                pad_token_id=0,
                eos_token_id=None,
                use_cache=True,
            )
        assert found.tokens[row].tolist() == expected[0, len(prompt) :].tolist()
