"""Every setting of other libraries is used, known to have no effect, or rejected by name."""

import math
import re

import pytest

from zoo.errors import ConfigError
from zoo.interop import FAMILIES, importer_of, resolve_like
from zoo.interop.config_export import export_config
from zoo.interop.families import bodies, task_heads
from zoo.interop.settings.importer import ACTIVATIONS, SettingsReader
from zoo.interop.settings.shared_settings import layer_kind_fields

# Settings that have an effect only together with another one, such as windows that another setting
# switches on.
INERT_ALONE = {
    "SmolLM3ForCausalLM": {"use_sliding_window", "sliding_window"}, "Qwen3ForCausalLM": {"sliding_window", "max_window_layers"},
    "Qwen2ForCausalLM": {"sliding_window", "max_window_layers"},
    "FalconForCausalLM": {"num_kv_heads"}, "Phi3ForCausalLM": {"original_max_position_embeddings"},
    "Qwen2MoeForCausalLM": {"sliding_window", "max_window_layers", "intermediate_size"},
    "DeepseekV2ForCausalLM": {"n_group", "topk_group", "intermediate_size"},
    "Qwen3MoeForCausalLM": {"sliding_window", "intermediate_size"}, "Qwen3NextForCausalLM": {"intermediate_size"},
    "Lfm2ForCausalLM": {"conv_L_cache"},
    "BloomForCausalLM": {"pretraining_tp", "slow_but_exact"}, "ElectraForPreTraining": {"tie_word_embeddings"}, }  # fmt: skip
# Settings of the token head, which classes without one do not read.
TOKEN_HEAD_SETTINGS = {"tie_word_embeddings", "decoder_bias", "classifier_bias"}
OTHER_HEADS = ("EncoderModel", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
HEADLESS = {*bodies.CLASSES, *task_heads.CLASSES, *(name for name in FAMILIES if name.endswith(OTHER_HEADS))}
WITHOUT_LIMIT = {"max_position_embeddings"}


def result_of(class_name, hf):
    """Returns the overrides, or the error message."""
    try:
        return importer_of(class_name).read_config(hf)
    except (ConfigError, TypeError) as error:
        return str(error)


def other_values(value):
    """Returns plausible values that differ from `value`."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value * 2 + 2]
    if isinstance(value, str):
        return ["relu", "gated-gelu", "mish"]
    return [True, 3, {"rope_type": "linear", "factor": 2.0}, ["full_attention"] * 999, "gelu"]


@pytest.mark.parametrize("class_name", sorted(FAMILIES))
def test_every_setting_of_a_class_is_read(class_name):
    importer = importer_of(class_name)
    plain = result_of(class_name, {})
    assert isinstance(plain, dict), plain
    for name, value in importer.defaults.items():
        if name in WITHOUT_LIMIT and "model.position.max_length" not in plain:
            continue
        changed = [result_of(class_name, {name: other}) != plain for other in other_values(value)]
        with_head = re.sub(r"(Model|For\w+)$", "ForCausalLM", class_name) if class_name in HEADLESS else class_name
        inert_alone = INERT_ALONE.get(with_head, ())
        not_read = class_name in HEADLESS and name in TOKEN_HEAD_SETTINGS
        assert any(changed) != (name in inert_alone or not_read), name


@pytest.mark.parametrize("class_name", sorted(FAMILIES))
def test_unknown_settings_are_rejected_by_name(class_name):
    with pytest.raises(ConfigError, match=r"new_idea=3: not known to this importer\nquantization_config="):
        importer_of(class_name).read_config(
            {"new_idea": 3, "quantization_config": {"bits": 4}, "torch_dtype": "bfloat16"}
        )
    with pytest.raises(ConfigError, match="add_cross_attention=True: expected False"):
        importer_of(class_name).read_config({"add_cross_attention": True})


def test_an_unknown_class_is_rejected_with_a_suggestion():
    with pytest.raises(ConfigError, match=r'no importer for GPT2LMHead \(did you mean "GPT2LMHeadModel"'):
        importer_of("GPT2LMHead")


def test_all_problems_are_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        importer_of("GPT2LMHeadModel").read_config(
            {"activation_function": "mish", "resid_pdrop": 0.2, "scale_attn_by_inverse_layer_idx": True}
        )
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "embd_pdrop=0.1, resid_pdrop=0.2",
        "activation_function='mish'",
        "scale_attn_by_inverse_layer_idx=True",
    ]


@pytest.mark.parametrize(("scaling", "message"), [
    ({"rope_type": "longrope", "factor": 2.0}, r"rope_type='longrope': expected one of default, linear, dynamic, yarn, llama3"),
    ({"type": "linear"}, r"rope_scaling.factor is missing"),
    ({"rope_type": "linear", "factor": 2.0, "mystery": 1}, r"rope_scaling.mystery=1: not known"),
    ({"rope_type": "llama3", "factor": 4.0, "original_max_position_embeddings": 8, "low_freq_factor": 1.0}, r"high_freq_factor is missing"),
])  # fmt: skip
def test_unsupported_rope_scaling_is_rejected(scaling, message):
    with pytest.raises(ConfigError, match=message):
        importer_of("LlamaForCausalLM").read_config({"rope_scaling": scaling})


def test_rope_scaling():
    def fields(scaling):
        found = importer_of("LlamaForCausalLM").read_config({"rope_scaling": scaling, "max_position_embeddings": 512})
        return {
            path.removeprefix("model.position.scaling."): value for path, value in found.items() if "scaling" in path
        }

    assert fields(None) == fields({"rope_type": "default"}) == {}
    assert fields({"type": "linear", "factor": 2.0}) == {"kind": "linear", "factor": 2.0}
    assert fields({"rope_type": "dynamic", "factor": 2.0}) == {"kind": "dynamic", "factor": 2.0, "original_length": 512}
    yarn = {"kind": "yarn", "factor": 4.0, "original_length": 512, "low": 1, "high": 32, "truncate": True}
    assert (
        fields({"rope_type": "yarn", "factor": 4.0})
        == fields({"type": "yarn", "factor": 4.0, "finetuned": True})
        == yarn
    )
    assert fields({"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.1386294361119891, "original_max_position_embeddings": 64,
                   "beta_slow": 2.0}) == yarn | {"original_length": 64, "low": 2.0}  # fmt: skip
    assert fields({"rope_type": "yarn", "factor": 4.0, "truncate": False}) == yarn | {"truncate": False}
    assert fields({"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.0}) == yarn | {"sharpening": 1.0}
    both = {"mscale": 2.0, "mscale_all_dim": 0.5}
    found = fields({"rope_type": "yarn", "factor": 4.0} | both)
    assert found.pop("sharpening") == pytest.approx((0.2 * math.log(4) + 1) / (0.05 * math.log(4) + 1))
    assert found == yarn


def test_layer_kinds_have_the_shortest_pattern():
    a, b = ("local", {"attention.window": 4}), ("global", {"attention.window": 0})
    both = {"model.layers.kinds.local.attention.window": 4, "model.layers.kinds.global.attention.window": 0}
    assert layer_kind_fields([a, b, a, b, a]) == {"model.layers.pattern": ("local", "global")} | both
    assert layer_kind_fields([a, a, b, a, a]) == {"model.layers.pattern": ("local", "local", "global")} | both
    assert layer_kind_fields([b, b, a]) == {"model.layers.pattern": ("global", "global", "local")} | both
    assert layer_kind_fields([a, a, a]) == {"model.attention.window": 4}


def test_window_patterns_of_each_class():
    def pattern(class_name, **hf):
        model = resolve_like(class_name, hf, {"data.tokenizer.kind": "characters"}).model
        layer_kind_fields = model.layers.pattern
        return (
            [layer_kind_fields[layer % len(layer_kind_fields)] for layer in range(model.num_layers)]
            if layer_kind_fields
            else None
        )

    assert pattern("Gemma2ForCausalLM")[:4] == ["local", "global", "local", "global"]
    assert pattern("Gemma3ForCausalLM")[:7] == ["local"] * 5 + ["global", "local"]
    assert pattern("Gemma3ForCausalLM", sliding_window_pattern=3)[:4] == ["local", "local", "global", "local"]
    assert pattern("Qwen3ForCausalLM") is None
    assert pattern("Qwen3ForCausalLM", use_sliding_window=True, max_window_layers=30) == ["global"] * 30 + ["local"] * 2
    assert pattern("SmolLM3ForCausalLM")[:5] == ["global"] * 3 + ["global_nope", "global"]
    assert pattern("SmolLM3ForCausalLM", use_sliding_window=True, sliding_window=9)[:5] == ["global"] * 3 + [
        "local_nope",
        "global",
    ]


ONE_KIND = [("Lfm2ForCausalLM", {"full_attn_idxs": []}), ("Lfm2ForCausalLM", {}),
            ("Qwen3NextForCausalLM", {"num_hidden_layers": 3}),
            *(("KimiLinearForCausalLM", {"num_hidden_layers": 3, "mlp_layer_types": [ffn] * 3, "layer_types": [mixer] * 3})
              for ffn in ("dense", "sparse") for mixer in ("linear_attention", "full_attention")),
            *((name, {"num_hidden_layers": 3, "first_k_dense_replace": 3} | more)
              for name in ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM")
              for more in ({}, {"n_shared_experts": 0, "num_experts_per_tok": None, "n_group": None})),
            *((f"Qwen{name}ForCausalLM", {"num_experts": 0, "num_hidden_layers": 3} | more)
              for name in ("2Moe", "3Moe", "3Next")
              for more in ({}, {"mlp_only_layers": [0, 1, 2], "num_experts_per_tok": 1, "norm_topk_prob": True})),
            ("Qwen2MoeForCausalLM", {"num_experts": 0, "shared_expert_intermediate_size": 0}),
            ]  # fmt: skip


@pytest.mark.parametrize(("class_name", "hf"), ONE_KIND)
def test_models_with_one_kind_of_layers_are_read_and_written(class_name, hf):
    config = resolve_like(class_name, hf, {"data.tokenizer.kind": "characters"})
    assert not config.model.layers.pattern
    for given in (None, hf):
        assert export_config(class_name, config, given).problems == ()


@pytest.mark.parametrize(("class_name", "known"), [
    ("Lfm2ForCausalLM", "conv, full_attention"), ("Qwen3NextForCausalLM", "linear_attention, full_attention"),
    ("KimiLinearForCausalLM", "linear_attention, full_attention"),
    ("GptOssForCausalLM", "sliding_attention, full_attention"),
])  # fmt: skip
def test_each_problem_of_the_types_of_layers_is_one_line(class_name, known):
    with pytest.raises(ConfigError) as caught:
        importer_of(class_name).read_config({"layer_types": ["mamba"], "num_hidden_layers": 2})
    assert caught.value.problems == [
        f"layer_types=['mamba']: mamba is not one of {known}",
        "layer_types=['mamba']: expected one for each of the 2 layers",
    ]


@pytest.mark.parametrize("class_name", ["GPT2LMHeadModel", "OpenAIGPTLMHeadModel", "GPTJForCausalLM"])
def test_gpt_classes_accept_alternative_setting_names(class_name):
    read_config = importer_of(class_name).read_config
    assert (
        read_config({"hidden_size": 1536, "num_hidden_layers": 3})
        == read_config({"n_embd": 1536, "n_layer": 3})
        != read_config({})
    )


def test_gpt_1_gelu_is_the_tanh_approximation():
    assert importer_of("OpenAIGPTLMHeadModel").read_config({})["model.ffn.gelu_approximation"] == "tanh"
    assert ACTIVATIONS["gelu"]["model.ffn.gelu_approximation"] == "none"


def test_settings_read_with_a_default_are_known():
    settings = SettingsReader({"a": 1, "use_cache": 2}, {"c": 3}, "gpt2")
    assert (settings.get("a", 5), settings.get("missing", 5), settings["c"]) == (1, 5, 3)
    settings.finish()


def test_values_of_a_wrong_type_are_rejected():
    with pytest.raises(ConfigError) as caught:
        resolve_like("GPTNeoXForCausalLM", {"hidden_size": "wide", "rotary_pct": None})
    assert caught.value.problems == [
        "hidden_size='wide': expected a whole number", "rotary_pct=None: expected a number"
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"^activation_function=\['relu'\]: expected one of relu, gelu"):
        resolve_like("GPT2LMHeadModel", {"activation_function": ["relu"]})
    with pytest.raises(ConfigError, match=r"rope_scaling=2\.0: expected a dict"):
        resolve_like("LlamaForCausalLM", {"rope_scaling": 2.0})
    with pytest.raises(ConfigError, match=r"model\.attention\.num_heads='many': expected a whole number"):
        resolve_like("LlamaForCausalLM", {"num_attention_heads": "many", "num_key_value_heads": 2})
