"""Mixtures of experts: which numbers of a file are whose, and what is not a parameter."""

import math

import numpy as np
import pytest

from tests.parity.harness import resolved
from tests.support.checkpoints_of_others import OF_CLASSES, stored_tensors
from tests.support.stored_outputs import read
from zoo import config as configs
from zoo.errors import ConfigError, DataError
from zoo.interop import importer_of, resolve_like
from zoo.interop.config_export import export_config, export_settings
from zoo.interop.model_weights import export_weights, import_weights
from zoo.nested import flatten

CHARACTERS = {"data.tokenizer.kind": "characters"}


def opened(name, **more):
    """Returns (config, tensors by name, parameters by path, statistics by path) of a system's file."""
    system, hf = OF_CLASSES[name], read(name)[0]["config"]
    config, tensors = resolved(system, hf), stored_tensors(name) | more
    params, stats = import_weights(system.reference, config, tensors)
    return config, tensors, flatten(params, "/"), flatten(stats, "/")


def test_columns_of_gate_and_up_alternate_in_gpt_oss():
    _, tensors, params, _ = opened("gpt-oss")
    for part, suffix in (("kernel", ""), ("bias", "_bias")):
        for place, name in enumerate(("gate", "up")):
            theirs = tensors[f"model.layers.1.mlp.experts.gate_up_proj{suffix}"][..., place::2]
            np.testing.assert_array_equal(params[f"stack/layers/global/ffn/experts/{name}/{part}"][0], theirs)


def test_rows_of_up_follow_those_of_gate_in_granite():
    _, tensors, params, _ = opened("granite-moe")
    both = tensors["model.layers.1.block_sparse_moe.input_linear.weight"]
    for name, rows in (("gate", both[:, :20]), ("up", both[:, 20:])):
        np.testing.assert_array_equal(params[f"stack/layers/ffn/experts/{name}/kernel"][1], rows.swapaxes(1, 2))


def test_keys_and_values_of_a_head_lie_side_by_side_in_deepseek():
    _, tensors, params, _ = opened("deepseek-v3")
    by_head = tensors["model.layers.0.self_attn.kv_b_proj.weight"].reshape(4, 20, 12)
    for name, rows in (("key", by_head[:, :10]), ("value", by_head[:, 10:])):
        kernel = params[f"stack/layers/dense/attention/{name}/kernel"][0]
        np.testing.assert_array_equal(kernel, rows.reshape(40, 12).T)


def test_biases_of_the_choice_are_read_and_written_as_statistics():
    config, tensors, _, stats = opened("deepseek-v3")
    name, at = "model.layers.2.mlp.gate.e_score_correction_bias", "stack/layers/sparse/ffn"
    np.testing.assert_array_equal(stats[f"{at}/choice_bias"][1], tensors[name])
    assert not stats[f"{at}/sent"].any()
    params, stats = import_weights("DeepseekV3ForCausalLM", config, tensors)
    written = export_weights("DeepseekV3ForCausalLM", config, params, stats)
    np.testing.assert_array_equal(written[name], tensors[name])


def test_the_rate_of_biases_of_the_choice_is_no_part_of_an_export():
    config = opened("deepseek-v3")[0]
    for rate, problems in ((0.01, ()), (0.0, ("model.ffn.experts.bias_rate",))):
        changed = configs.resolve(configs.override(config, {"model.ffn.experts.bias_rate": rate}))
        found = export_config("DeepseekV3ForCausalLM", changed).problems
        assert len(found) == len(problems)
        assert all(line.startswith(start) for line, start in zip(found, problems, strict=True))


def test_the_module_that_predicts_later_tokens_is_left_out_and_named():
    extra = {"model.layers.3.eh_proj.weight": np.ones((2, 2), np.float32)}
    params = opened("deepseek-v3", **extra)[2]
    assert all(leaf.shape != (2, 2) for leaf in params.values())
    (line,) = importer_of("DeepseekV3ForCausalLM").deviations({"num_nextn_predict_layers": 1})
    assert line.startswith("num_nextn_predict_layers=1: the module that predicts later tokens is not imported")
    with pytest.raises(DataError, match=r"model\.layers\.4\.eh_proj\.weight has no place in the model"):
        opened("deepseek-v3", **{"model.layers.4.eh_proj.weight": np.ones((2, 2), np.float32)})


@pytest.mark.parametrize(("class_name", "more"), [
    ("DeepseekV2ForCausalLM", {"topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 3}),
    ("DeepseekV3ForCausalLM", {}),
])  # fmt: skip
@pytest.mark.parametrize(("m", "m_all"), [(1.0, 1.0), (0.707, 0.707), (0.5, 2.0)])
def test_factors_of_yarn_act_on_scores_and_on_what_is_rotated(class_name, more, m, m_all):
    yarn = {
        "type": "yarn",
        "factor": 40,
        "original_max_position_embeddings": 4096,
        "mscale": m,
        "mscale_all_dim": m_all,
    }
    hf = {"rope_scaling": yarn, "num_hidden_layers": 4} | more
    model = resolve_like(class_name, hf, CHARACTERS).model
    on_scores, turned = (0.1 * weight * math.log(40) + 1 for weight in (m_all, m))
    assert model.attention.scale == pytest.approx(on_scores**2 / math.sqrt(128 + 64), rel=1e-12)
    assert model.position.scaling.sharpening == pytest.approx(turned / on_scores, rel=1e-12)
    config = resolve_like(class_name, hf, CHARACTERS)
    written = export_settings(class_name, config)
    assert written["rope_scaling"]["mscale"] == pytest.approx(m, rel=1e-9)
    assert written["rope_scaling"]["mscale_all_dim"] == pytest.approx(m_all, rel=1e-9)
    assert not export_config(class_name, config).problems
    lines = importer_of(class_name).deviations(hf)
    assert [line.startswith("scores have the factor of mscale_all_dim") for line in lines] == [True] * (
        "V2" in class_name
    )


def test_groups_of_v2_count_by_their_best_expert_and_only_with_its_method():
    groups = {"n_group": 8, "topk_group": 3}
    limited = resolve_like("DeepseekV2ForCausalLM", groups | {"topk_method": "group_limited_greedy"}, CHARACTERS)
    experts = limited.model.ffn.experts
    assert (experts.groups, experts.chosen_groups, experts.group_score) == (8, 3, "max")
    assert resolve_like("DeepseekV2ForCausalLM", groups, CHARACTERS).model.ffn.experts.groups == 1
    for name, settings in (("V2", {"topk_method": "group_limited_greedy"}), ("V3", dict.fromkeys(groups))):
        with pytest.raises(ConfigError, match="n_group=None: expected a number of groups") as caught:
            resolve_like(f"Deepseek{name}ForCausalLM", settings)
        assert caught.value.problems[1:] == ["topk_group=None: expected a number of groups"]


@pytest.mark.parametrize(("settings", "message"), [
    ({"v_head_dim": 64}, "v_head_dim=64: expected qk_nope_head_dim"),
    ({"rms_norm_eps": 1e-5}, "rms_norm_eps=1e-05: expected 1e-06, which the class has in the norms of latent vectors"),
    ({"num_key_value_heads": 8}, "num_key_value_heads=8: expected num_attention_heads"),
    ({"q_lora_rank": None, "attention_bias": True}, "attention_bias=True: without q_lora_rank the class has no bias"),
    ({"n_shared_experts": 0}, "n_shared_experts=0: expected at least one"),
    ({"num_experts_per_tok": None}, "num_experts_per_tok=None: expected a number"),
    ({"scoring_func": "tanh"}, "scoring_func='tanh': expected "),
    ({"moe_layer_freq": 2}, "moe_layer_freq=2: expected 1; all layers from first_k_dense_replace on have experts"),
])  # fmt: skip
def test_what_deepseek_cannot_have_is_refused_in_one_line(settings, message):
    for name in ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"):
        with pytest.raises(ConfigError, match=message) as caught:
            resolve_like(name, settings)
        assert len(caught.value.problems) == 1


@pytest.mark.parametrize("name", [
    "MixtralForCausalLM", "OlmoeForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM",
    "GraniteMoeForCausalLM", "GptOssForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM",
])  # fmt: skip
def test_choices_that_no_mixture_has_are_refused_by_the_settings_of_the_file(name):
    importer = importer_of(name)
    (number,) = {"num_experts", "num_local_experts", "n_routed_experts"} & set(importer.defaults)
    divided = {"norm_topk_prob": True} if "norm_topk_prob" in importer.defaults and "V2" not in name else {}
    refused = {
        f"{number}=1: expected at least two": {number: 1, "num_experts_per_tok": 2},
        f"{number}=None: expected a number": {number: None},
        f"num_experts_per_tok=99: expected at most {number}=16": {number: 16, "num_experts_per_tok": 99},
    }
    if "V2" not in name:
        refused["num_experts_per_tok=1: expected at least two: the weight of a single expert"] = {
            "num_experts_per_tok": 1
        }
    for message, settings in refused.items():
        with pytest.raises(ConfigError) as caught:
            resolve_like(name, divided | settings)
        (line,) = caught.value.problems
        assert line.startswith(message)


@pytest.mark.parametrize(("name", "settings", "line"), [
    ("Qwen3Moe", {"decoder_sparse_step": 0}, "decoder_sparse_step=0: expected at least 1: every so many layers have experts"),
    ("Qwen3Next", {"decoder_sparse_step": "1"}, "decoder_sparse_step='1': expected a whole number"),
    ("Qwen2Moe", {"mlp_only_layers": 3}, "mlp_only_layers=3: expected a list of the numbers of layers"),
    ("Mixtral", {"num_local_experts": "8"}, "num_local_experts='8': expected a whole number"),
    ("GraniteMoe", {"num_experts_per_tok": [2]}, "num_experts_per_tok=[2]: expected a whole number"),
    ("DeepseekV3", {"first_k_dense_replace": None}, "first_k_dense_replace=None: expected a whole number"),
])  # fmt: skip
def test_a_wrong_value_is_refused_by_its_setting(name, settings, line):
    with pytest.raises(ConfigError) as caught:
        resolve_like(f"{name}ForCausalLM", settings)
    assert caught.value.problems == [line]


def test_a_shared_expert_of_qwen_has_hidden_units():
    for name in ("Qwen2Moe", "Qwen3Next"):
        with pytest.raises(ConfigError) as caught:
            resolve_like(f"{name}ForCausalLM", {"shared_expert_intermediate_size": 0})
        assert caught.value.problems == [
            "shared_expert_intermediate_size=0: the class has a shared expert, of at least one hidden unit"
        ]


def test_quantised_weights_are_refused_in_one_line():
    name = "model.layers.0.mlp.experts.gate_up_proj"
    tensors = {f"{name}_blocks": np.zeros((4, 40, 1, 16), np.uint8), f"{name}_scales": np.zeros((4, 40, 1), np.uint8)}
    whole = stored_tensors("gpt-oss")
    whole.pop(name)
    config = resolved(OF_CLASSES["gpt-oss"], read("gpt-oss")[0]["config"])
    with pytest.raises(
        DataError, match=rf"^2 tensors are parts of weights in MXFP4, such as {name}_blocks; dequantise"
    ):
        import_weights("GptOssForCausalLM", config, whole | tensors)
