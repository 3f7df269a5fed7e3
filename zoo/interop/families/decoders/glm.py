"""GLM-4 (GLM Team 2024) of Hugging Face's transformers: RoPE over neighbouring pairs of a part of each
head, biases of queries, keys and values alone, and gate and up projection in one tensor.

GlmForCausalLM   pre-norm (GLM-4 9B of 2024, GLM Edge)
Glm4ForCausalLM  norms before and after the sublayers (GLM-4 0414)
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.llama import COMMON, NORMS, biases_of_inputs, common, rope, rules
from zoo.interop.settings.equivalents import hidden_dim
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import rotated_fraction, unpack_rope_parameters
from zoo.interop.weights.mapping import Rules, fused_linear, linear

GLM = COMMON | {
    "vocab_size": 151552, "intermediate_size": 13696, "num_hidden_layers": 40, "num_key_value_heads": 2,
    "partial_rotary_factor": 0.5, "head_dim": 128, "max_position_embeddings": 131072, "rms_norm_eps": 1.5625e-7,
    "attention_bias": True,
}  # fmt: skip
SANDWICH = {
    "attention_norm": "input_layernorm",
    "attention_output_norm": "post_self_attn_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_output_norm": "post_mlp_layernorm",
}


def read_config(model_type: str, placement: str, hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for a class of this family, by its type and the placement of its norms."""
    settings = SettingsReader(unpack_rope_parameters(hf, fraction="partial_rotary_factor"), GLM, model_type)
    fields = common(settings) | rope(settings) | {"model.norm.placement": placement}
    width = settings["head_dim"] or settings["hidden_size"] // settings["num_attention_heads"]
    fields["model.position.layout"] = "interleaved"
    fields |= rotated_fraction(width, settings["partial_rotary_factor"])
    fields |= biases_of_inputs(settings["attention_bias"])
    settings.finish()
    return fields


def glm_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of this family."""

    def feed_forward(config: ResolvedConfig) -> Rules:
        at = "model.layers.{layer}.mlp"
        return [
            *fused_linear(["ffn/gate", "ffn/up"], f"{at}.gate_up_proj", [hidden_dim(config)] * 2, bias=False),
            *linear("ffn/down", f"{at}.down_proj", bias=False),
        ]

    norms = SANDWICH if config.norm.placement == "sandwich" else NORMS["pre"]
    return rules(config, norms=norms, feed_forward=feed_forward)


def _importer(model_type: str, placement: str) -> Importer:
    reader: Callable[[Mapping[str, Any]], dict[str, Any]] = partial(read_config, model_type, placement)
    return Importer(reader, glm_rules, GLM, model_type=model_type, prefix="model")


CLASSES = {"GlmForCausalLM": _importer("glm", "pre"), "Glm4ForCausalLM": _importer("glm4", "sandwich")}
