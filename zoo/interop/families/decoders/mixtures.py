"""Mixtures of experts of Hugging Face's transformers, with LLaMA's attention.

MixtralForCausalLM   (Jiang et al. 2024) weights of a token's experts add up to 1
OlmoeForCausalLM     (Muennighoff et al. 2024) query and key norms over all heads; weights as they are
Qwen3MoeForCausalLM  (Yang et al. 2025) query and key norms per head; some layers may be dense

Files have a tensor for each matrix of each expert. The balancing losses of these classes average over
all layers together, where zoo's are of each layer, so their weights are not imported.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoo.config import ResolvedConfig
from zoo.interop.families.llama import COMMON, MISTRAL, common, gated, rope, rules
from zoo.interop.settings.equivalents import ConfigView, Setting, hidden_dim
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import layer_kind_fields, unpack_rope_parameters
from zoo.interop.weights.mapping import Rule, Rules, Transform, linear

MIXTRAL = MISTRAL | {
    "rms_norm_eps": 1e-5, "rope_theta": 1e6, "sliding_window": None, "num_local_experts": 8, "num_experts_per_tok": 2,
    "router_jitter_noise": 0.0,
}  # fmt: skip
OLMOE = {name: value for name, value in COMMON.items() if name != "head_dim"} | {
    "vocab_size": 50304, "hidden_size": 2048, "intermediate_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 16, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "clip_qkv": None,
    "num_experts_per_tok": 8, "num_experts": 64, "norm_topk_prob": False,
}  # fmt: skip
QWEN3_MOE = COMMON | {
    "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
    "num_key_value_heads": 4, "max_position_embeddings": 32768, "use_sliding_window": False, "sliding_window": 4096,
    "decoder_sparse_step": 1, "moe_intermediate_size": 768, "num_experts_per_tok": 8, "num_experts": 128,
    "norm_topk_prob": False, "mlp_only_layers": None,
}  # fmt: skip
EXPERTS = "model.ffn.experts."
TRANSPOSED_EACH = Transform(lambda x: (np.swapaxes(x, -1, -2),), lambda parts: np.swapaxes(parts[0], -1, -2))
# Names of the matrices of an expert in Mixtral's files.
NUMBERED = {"gate": "w1", "down": "w2", "up": "w3"}


def _mixture(fields: Mapping[str, Any], number: int, per_token: int, renormalise: bool) -> dict[str, Any]:
    """Returns fields with feed-forward layers of their kind as experts."""
    return dict(fields) | {
        "model.ffn.kind": "moe",
        f"{EXPERTS}kind": fields["model.ffn.kind"],
        f"{EXPERTS}number": number,
        f"{EXPERTS}per_token": per_token,
        f"{EXPERTS}renormalise": renormalise,
    }


def mixtral_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for MixtralForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), MIXTRAL, "mixtral")
    fields = common(settings) | rope(settings) | {"model.attention.window": settings["sliding_window"] or 0}
    fields = _mixture(fields, settings["num_local_experts"], settings["num_experts_per_tok"], renormalise=True)
    settings.expect(False, None, attention_bias="this class has no such biases")
    settings.expect(0.0, None, router_jitter_noise="the class multiplies the inputs of the experts too")
    settings.finish()
    return fields


def olmoe_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for OlmoeForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), OLMOE, "olmoe")
    fields = common(settings) | rope(settings)
    fields |= {"model.attention.qk_norm": "full"}
    settings.expect(None, clip_qkv="the class clips normalised queries and keys, where zoo clips them before the norm")
    fields = _mixture(fields, settings["num_experts"], settings["num_experts_per_tok"], settings["norm_topk_prob"])
    settings.finish()
    return fields


def qwen3_moe_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Qwen3MoeForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), QWEN3_MOE, "qwen3_moe")
    window = settings["sliding_window"]
    window = window if settings["use_sliding_window"] else None
    fields = common(settings) | rope(settings)
    fields |= {"model.attention.qk_norm": "head", "model.attention.window": window or 0}
    kind, dense = fields["model.ffn.kind"], fields["model.ffn.hidden_dim"]
    fields = _mixture(fields, settings["num_experts"], settings["num_experts_per_tok"], settings["norm_topk_prob"])
    fields["model.ffn.hidden_dim"] = settings["moe_intermediate_size"]
    step, alone = settings["decoder_sparse_step"], settings["mlp_only_layers"] or ()
    described = [
        ("dense", {"ffn.kind": kind, "ffn.hidden_dim": dense})
        if layer in alone or (layer + 1) % step
        else ("sparse", {"ffn.kind": "moe"})
        for layer in range(settings["num_hidden_layers"])
    ]
    settings.finish()
    return fields | layer_kind_fields(described)


def numbered(config: ResolvedConfig) -> Rules:
    """Returns the rules of a layer's router and experts with the names of Mixtral's files."""
    return _experts(config, "model.layers.{layer}.block_sparse_moe", NUMBERED)


def named(config: ResolvedConfig) -> Rules:
    """Returns the same with LLaMA's names, and those of a dense layer."""
    if config.ffn.kind != "moe":
        return gated(config)
    return _experts(config, "model.layers.{layer}.mlp", {name: f"{name}_proj" for name in NUMBERED})


def _experts(config: ResolvedConfig, at: str, names: Mapping[str, str]) -> Rules:
    number = config.ffn.experts.number
    return [
        *linear("ffn/router", f"{at}.gate", bias=False),
        *(
            Rule(f"{at}.experts.{{row}}.{theirs}.weight", (f"ffn/experts/{ours}/kernel",), TRANSPOSED_EACH, rows=number)
            for ours, theirs in names.items()
        ),
    ]


def _of_a_mixture(view: ConfigView) -> ResolvedConfig:
    """Returns the `model` part as the first layer with experts sees it, or as the whole model does."""
    return next((layer for layer in view.layers if layer.ffn.kind == "moe"), view.model)


def _experts_setting(name: str) -> Setting:
    return lambda view: _of_a_mixture(view).ffn.experts[name]


def _dense_layers(view: ConfigView) -> list[int]:
    return [number for number, layer in enumerate(view.layers) if layer.ffn.kind != "moe"]


def _dense_width(view: ConfigView) -> int:
    dense = _dense_layers(view)
    return hidden_dim(view.layers[dense[0]]) if dense else view.given.get("intermediate_size", hidden_dim(view.model))


MIXTRAL_SETTINGS: dict[str, Setting] = {
    "num_local_experts": _experts_setting("number"),
    "num_experts_per_tok": _experts_setting("per_token"),
    "router_jitter_noise": lambda view: 0.0,
}
OLMOE_SETTINGS: dict[str, Setting] = {
    "num_experts": _experts_setting("number"),
    "num_experts_per_tok": _experts_setting("per_token"),
    "norm_topk_prob": _experts_setting("renormalise"),
    "clip_qkv": lambda view: None,
}
QWEN3_SETTINGS: dict[str, Setting] = {
    "num_experts": _experts_setting("number"),
    "num_experts_per_tok": _experts_setting("per_token"),
    "norm_topk_prob": _experts_setting("renormalise"),
    "intermediate_size": _dense_width,
    "moe_intermediate_size": lambda view: hidden_dim(_of_a_mixture(view)),
    "decoder_sparse_step": lambda view: 1,
    "mlp_only_layers": _dense_layers,
}


def mixtral_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of MixtralForCausalLM."""
    return rules(config, feed_forward=numbered)


def named_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of OlmoeForCausalLM and Qwen3MoeForCausalLM."""
    return rules(config, feed_forward=named)


CLASSES = {
    "MixtralForCausalLM": Importer(
        mixtral_config, mixtral_rules, MIXTRAL, model_type="mixtral", prefix="model", custom_settings=MIXTRAL_SETTINGS
    ),
    "OlmoeForCausalLM": Importer(
        olmoe_config, named_rules, OLMOE, model_type="olmoe", prefix="model", custom_settings=OLMOE_SETTINGS
    ),
    "Qwen3MoeForCausalLM": Importer(
        qwen3_moe_config, named_rules, QWEN3_MOE, model_type="qwen3_moe", prefix="model", custom_settings=QWEN3_SETTINGS
    ),
}
