"""`zoo export` writes imported weights bit for bit, and names what a class cannot express."""

import json

import numpy as np
import pytest

from tests.parity.harness import resolved
from tests.parity.systems import FIVE
from tests.support.checkpoints_of_others import (
    EXPRESSED,
    NO_SETTINGS,
    OF_CLASSES,
    arrays_of,
    imported,
    stored_tensors,
    zoo,
)
from tests.support.small_runs import small
from tests.support.stored_outputs import read
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.interop import resolve_like
from zoo.interop.config_export import choose_class, export_config, export_settings, model_differences
from zoo.nested import flatten

# One system of each kind, and those with unusual settings.
REPRESENTATIVE = {
    "gpt2",
    "llama-yarn",
    "gemma3",
    "bert",
    "bart",
    "t5",
    "mt5",
    "longformer",
    "performer-causal",
    "transformer",
    "elmo",
}
REPRESENTATIVE &= set(EXPRESSED)


def test_no_settings_names_existing_systems():
    assert set(NO_SETTINGS) < set(OF_CLASSES)


LOADED_ELSEWHERE = pytest.mark.slow(
    reason="CI loads their exports in the library (tests/parity/models/test_interchange.py); tests/interop/test_stored.py "
    "writes their tensors"
)


@pytest.mark.parametrize("name", EXPRESSED)
def test_settings_derived_from_a_config_give_the_config(name):
    """As for a run that was not imported."""
    system = OF_CLASSES[name]
    config = resolved(system, read(name)[0]["config"])
    settings = json.loads(json.dumps(export_settings(system.reference, config)))
    again = resolve_like(system.reference, settings, {"data.tokenizer.kind": "characters"})
    one, other = (
        {path: value for path, value in flatten(made.model).items() if not path.startswith("init.")}
        for made in (again, config)
    )
    assert one == other


@pytest.mark.parametrize(
    "name", [name if name in REPRESENTATIVE else pytest.param(name, marks=LOADED_ELSEWHERE) for name in EXPRESSED]
)
def test_import_and_export_are_bit_identical(name, tmp_path):
    run, system = imported(tmp_path, name), OF_CLASSES[name]
    code, out, errors = zoo("export", run, "--out", tmp_path / "out")
    assert (code, errors) == (0, [])
    assert out.startswith(f"{tmp_path / 'out'}: {system.reference}, ")
    expected, found = stored_tensors(name), arrays_of(tmp_path / "out")
    assert set(found) == set(expected)
    for tensor, array in expected.items():
        np.testing.assert_array_equal(found[tensor], array, strict=True)
    # Other settings of the imported file are kept.
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    original = json.loads((tmp_path / "source" / "config.json").read_text())
    assert written["architectures"] == [system.reference]
    assert {key: written.get(key) for key in ("eos_token_id", "pad_token_id")} == {
        key: original.get(key) for key in ("eos_token_id", "pad_token_id")
    }
    if system.library in ("transformers", FIVE):
        assert (written["model_type"], written["torch_dtype"]) == (original["model_type"], "float32")


@pytest.mark.parametrize("name", NO_SETTINGS)
def test_models_without_a_matching_setting_cannot_be_exported(name, tmp_path):
    code, _, errors = zoo("export", imported(tmp_path, name), "--out", tmp_path / "out")
    assert code == 2
    assert any(line.endswith(f"as which it was imported, cannot express {NO_SETTINGS[name]}") for line in errors), (
        errors
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "source"]


# Choosing a class


def model(**changes):
    return configs.resolve(small(**{"model__num_layers": 2} | changes))


LLAMA = {"model__norm__kind": "rmsnorm", "model__position__kind": "rope", "model__ffn__kind": "swiglu", "model__ffn__bias": False,
         "model__attention__bias": False, "model__tie_embeddings": False}  # fmt: skip
GPT2 = {"model__ffn__gelu_approximation": "tanh"}
BERT = {"model__architecture": "encoder", "objective__kind": "masked", "model__norm__placement": "post", "model__embedding__norm": True,
        "model__embedding__segments": 2, "model__head__transform": True, "model__head__bias": True}  # fmt: skip


@pytest.mark.parametrize(("changes", "class_name"), [
    (LLAMA, "LlamaForCausalLM"),
    (LLAMA | {"model__attention__window": 4}, "MistralForCausalLM"),
    (LLAMA | {"model__attention__qk_norm": "head"}, "Qwen3ForCausalLM"),
    (LLAMA | {"model__ffn__match_parameters": True, "model__ffn__hidden_dim": 96}, "LlamaForCausalLM"),
    (LLAMA | {"model__ffn__match_parameters": True, "model__ffn__dim_multiplier": 1.3, "model__ffn__multiple_of": 40},
     "LlamaForCausalLM"),
    (GPT2, "GPT2LMHeadModel"),
    (GPT2 | {"model__norm__placement": "post"}, "OpenAIGPTLMHeadModel"),
    (BERT, "BertForMaskedLM"),
    (BERT | {"model__head__pooler": True, "model__head__next_sentence": True}, "BertForPreTraining"),
    (BERT | {"model__head__pooler": True, "model__head__transform": False, "model__head__bias": False}, "BertModel"),
    (BERT | {"model__embedding__segments": 0, "model__norm__epsilon": 1e-12}, "DistilBertForMaskedLM"),
    (BERT | {"model__embedding__dim": 8}, "AlbertForMaskedLM"),
    (GPT2 | {"model__layers__distinct": 2}, "GPT2LMHeadModel"),
    # Names and order of layer kinds are arbitrary.
    (LLAMA | {"model__layers__pattern": ("a", "b"), "model__layers__kinds__a__attention__window": 4,
              "model__layers__kinds__b__position__kind": "none"}, "SmolLM3ForCausalLM"),
    (LLAMA | {"model__layers__pattern": ("same",), "model__layers__kinds__same__attention__window": 0}, "LlamaForCausalLM"),
    # Initialization and execution settings do not affect the class.
    (LLAMA | {"model__init__kernel": "xavier_uniform", "model__scan_layers": True, "model__remat": "full", "model__dtype": "bfloat16",
              "model__attention__implementation": "einsum"}, "LlamaForCausalLM"),
])  # fmt: skip
def test_the_first_class_that_expresses_the_config_is_chosen(changes, class_name):
    assert choose_class(model(**changes), None, None).class_name == class_name


@pytest.mark.parametrize(
    ("config", "class_name"),
    [
        (f"{name}:{size}", class_name)
        for name, class_name in {
            "deepseek_v3": "DeepseekV3ForCausalLM",
            "kimi_linear": "KimiLinearForCausalLM",
            "nanochat": "NanoChatForCausalLM",
            "olmo_hybrid": "OlmoHybridForCausalLM",
            "qwen3_next": "Qwen3NextForCausalLM",
        }.items()
        for size in ("smoke", "tiny")
    ],
)
def test_small_presets_can_be_exported(config, class_name):
    """A shared expert is as wide as some of the others, also in a preset that is made smaller."""
    assert choose_class(configs.resolve(configs.load(config), 300), class_name, None).class_name == class_name


def test_the_written_width_is_the_one_that_is_built():
    adjusted = {"model__ffn__match_parameters": True, "model__ffn__dim_multiplier": 1.3, "model__ffn__multiple_of": 40}
    # int(1.3 int(2 x 128 / 3)) = 110.
    assert choose_class(model(**LLAMA | adjusted), None, None).settings["intermediate_size"] == 120
    falcon = configs.resolve(configs.override(configs.load("falcon:tiny"), {"model.ffn.multiple_of": 100}), 300)
    found = choose_class(falcon, "FalconForCausalLM", None).settings["ffn_hidden_size"]
    assert (falcon.model.ffn.hidden_dim, found) == (256, 300)


@pytest.mark.parametrize(("class_name", "changes", "problems"), [
    ("LlamaForCausalLM", LLAMA | {"model__attention__sinks": True}, ["model.attention.sinks=True; it would be False"]),
    ("LlamaForCausalLM", LLAMA | {"model__dropout": 0.1}, ["model.dropout=0.1; it would be 0.0"]),
    ("LlamaForCausalLM", LLAMA | {"model__norm__kind": "batchnorm"},
     ["model.norm.kind='batchnorm'; it would be 'rmsnorm'"]),
    ("LlamaForCausalLM", LLAMA | {"model__attention__window": 4}, ["model.attention.window=4; it would be 0"]),
    ("LlamaForCausalLM", LLAMA | {"model__attention__scale": 0.3}, [f"model.attention.scale=0.3; it would be {8**-0.5!r}"]),
    ("LlamaForCausalLM", LLAMA | {"model__position__layout": "interleaved"}, ["model.position.layout='interleaved'; it would be 'half'"]),
    ("LlamaForCausalLM", LLAMA | {"model__layers__pattern": ("a", "b"), "model__layers__kinds__a__residual": False,
                                  "model__layers__kinds__b__ffn__hidden_dim": 40},
     ["model.ffn.hidden_dim (layer 1)=40; it would be 128", "model.residual (layer 0)=False; it would be True"]),
    ("GPT2LMHeadModel", {"model__ffn__bias": False}, ["model.ffn.bias=False; it would be True"]),
    ("GPT2LMHeadModel", GPT2 | {"model__layers__distinct": 1}, ["model.layers.distinct=1; it would be 0"]),
    ("AlbertForMaskedLM", BERT | {"model__layers__distinct": 1, "model__layers__sharing": "cycle", "model__embedding__dim": 8},
     ["model.layers.sharing='cycle'; it would be 'sequence'"]),
    ("OpenAIGPTLMHeadModel", {"model__norm__placement": "post"}, ["model.ffn.gelu_approximation='none'; it would be 'tanh'"]),
    ("RobertaForMaskedLM", BERT | {"model__embedding__segments": 1},
     ["pad_token_id=-1: expected the id of a token: positions count from the number after it"]),
    ("Gemma2ForCausalLM", LLAMA, ["model.embedding.scale='none'; it would be 'sqrt_dim'",
                                  "model.norm.placement='pre'; it would be 'sandwich'", "model.norm.unit_offset=False; it would be True"]),
    ("BertForMaskedLM", LLAMA, ["model.architecture='decoder'; it would be 'encoder'"]),
    ("T5ForConditionalGeneration", LLAMA, ["model.architecture='decoder'; it would be 'encoder_decoder'"]),
])  # fmt: skip
def test_export_names_what_the_class_cannot_express(class_name, changes, problems):
    config = model(**changes)
    found = export_config(class_name, config)
    assert sorted(found.problems) == sorted(problems)
    with pytest.raises(ConfigError) as refused:
        choose_class(config, class_name, None)
    assert sorted(refused.value.problems) == sorted(f"{class_name} cannot express {problem}" for problem in problems)


def test_encoder_and_decoder_are_compared_separately():
    sides = {
        "model__architecture": "encoder_decoder",
        "objective__kind": "prefix",
        "model__position__kind": "sinusoidal",
        "model__position__layout": "half",
        "model__norm__placement": "post",
        "model__ffn__kind": "relu",
        "model__head__bias": True,
    }
    assert choose_class(model(**sides), None, None).class_name == "MarianMTModel"
    uneven = model(**sides, model__decoder__ffn__kind="gelu", model__encoder__num_layers=1)
    assert export_config("MarianMTModel", uneven).problems == ("model.decoder.ffn.kind='gelu'; it would be 'relu'",)


def test_the_closest_class_is_named_if_none_fits():
    with pytest.raises(ConfigError) as refused:
        choose_class(model(**LLAMA, model__attention__sinks=True), None, None)
    assert refused.value.problems == [
        "no class can express this config; LlamaForCausalLM, which comes closest, cannot express "
        "model.attention.sinks=True; it would be False"
    ]
    with pytest.raises(ConfigError, match=r"no class can express model\.architecture=elmo"):
        choose_class(
            model(model__architecture="elmo", objective__kind="bidirectional", model__num_layers=1), None, None
        )


def test_model_differences_compare_the_computation():
    one, same = (
        model(**LLAMA).model,
        model(**LLAMA, model__layers__pattern=("x",), model__layers__kinds__x__residual=True).model,
    )
    assert model_differences(one, same) == []
    deeper = model(**LLAMA, model__num_layers=3).model
    assert model_differences(one, deeper) == [("model.num_layers", 2, 3)]
    assert model_differences(deeper, same)[0] == ("model.num_layers", 3, 2)
