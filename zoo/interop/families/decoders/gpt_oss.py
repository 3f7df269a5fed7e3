"""gpt-oss (OpenAI 2025) of Hugging Face's transformers: sinks, a window in every other layer, YaRN
whose ramp is not rounded, and experts with biases and clamped SwiGLU.

A tensor holds a matrix of all experts, [E, in, out]; columns of gate and up alternate in it. Published
files have these in MXFP4, blocks of 32 numbers with a common exponent, and are refused; the class of
transformers writes plain numbers after it has read them with `Mxfp4Config(dequantize=True)`.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.decoders.mixtures import LOCAL_SETTINGS, all_mixed
from zoo.interop.families.llama import COMMON, common, rope, rules
from zoo.interop.settings.equivalents import hidden_dim
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import layer_kind_fields, unpack_rope_parameters, window_layers
from zoo.interop.weights.mapping import Rule, Rules, fused, linear

CLAMP, SLOPE = 7.0, 1.702
YARN = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 4096}  # fmt: skip
GPT_OSS = COMMON | {
    "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128, "layer_types": None,
    "rope_theta": 150000.0, "rope_scaling": YARN, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
    "attention_bias": True, "num_local_experts": 128, "num_experts_per_tok": 4,
}  # fmt: skip


def gpt_oss_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for GptOssForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf, stretched=True), GPT_OSS, "gpt_oss")
    settings.expect("silu", hidden_act="the class always has clamped SwiGLU")
    settings.expect(CLAMP, None, swiglu_limit=f"the class has a bound of {CLAMP:g}")
    settings.expect(SLOPE, None, swiglu_alpha=f"the class has a factor of {SLOPE:g}")
    settings.expect(settings["num_experts_per_tok"], None, experts_per_token="expected num_experts_per_tok")
    types = [("sliding_attention", "full_attention")[layer % 2] for layer in range(settings["num_hidden_layers"])]
    layers = window_layers(settings, types, settings["sliding_window"])
    fields = common(settings) | rope(settings) | {
        "model.attention.sinks": True, "model.ffn.kind": "swiglu_clamped", "model.ffn.clamp": CLAMP,
        "model.ffn.bias": True, "model.ffn.experts.router_bias": True,
    }  # fmt: skip
    fields = all_mixed(settings, fields, "num_local_experts", renormalise=True)
    settings.finish()
    return fields | layer_kind_fields(layers)


def alternating(config: ResolvedConfig) -> Rules:
    """Returns the rules of a layer's sinks, router and experts."""
    at, width = "model.layers.{layer}", hidden_dim(config)
    experts, both = f"{at}.mlp.experts", ("ffn/experts/gate", "ffn/experts/up")
    in_turn = fused([width, width], groups=width, axis=-1)
    return [
        Rule(f"{at}.self_attn.sinks", ("attention/sinks",)),
        *linear("ffn/router", f"{at}.mlp.router"),
        Rule(f"{experts}.gate_up_proj", tuple(f"{path}/kernel" for path in both), in_turn),
        Rule(f"{experts}.gate_up_proj_bias", tuple(f"{path}/bias" for path in both), in_turn),
        Rule(f"{experts}.down_proj", ("ffn/experts/down/kernel",)),
        Rule(f"{experts}.down_proj_bias", ("ffn/experts/down/bias",)),
    ]


def gpt_oss_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of GptOssForCausalLM."""
    return rules(config, feed_forward=alternating)


CLASSES = {
    "GptOssForCausalLM": Importer(
        gpt_oss_config,
        gpt_oss_rules,
        GPT_OSS,
        model_type="gpt_oss",
        prefix="model",
        custom_settings=LOCAL_SETTINGS | {"hidden_act": lambda view: "silu"},
    )
}
