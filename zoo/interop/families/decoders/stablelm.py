"""StableLM (Tow et al. 2023) and StableLM 2 (Bellagente et al. 2024) of Hugging Face's transformers,
with LLaMA's tensor names.

LLaMA with LayerNorm and RoPE on a quarter of each head. The 1.6B model of StableLM 2 has biases of
queries, keys and values; the 12B model normalises queries and keys, each head by itself, and has
attention and feed-forward layer in parallel. The class drops out only the outputs of feed-forward
layers; here those of attention and the embedding have the same rate.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.llama import COMMON, biases_of_inputs, common, rope, rules
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import rotated_fraction, unpack_rope_parameters
from zoo.interop.weights.mapping import Rule, Rules

OTHERS = ("head_dim", "rms_norm_eps", "attention_bias")
STABLELM = {name: value for name, value in COMMON.items() if name not in OTHERS} | {
    "vocab_size": 50304, "intermediate_size": 6912, "hidden_size": 2560, "num_key_value_heads": 32,
    "max_position_embeddings": 4096, "layer_norm_eps": 1e-5, "use_qkv_bias": False, "qk_layernorm": False,
    "use_parallel_residual": False, "hidden_dropout": 0.0, "partial_rotary_factor": 0.25,
}  # fmt: skip


def stablelm_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for StableLmForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf, fraction="partial_rotary_factor"), STABLELM, "stablelm")
    fields = common(settings, epsilon="layer_norm_eps") | rope(settings)
    width = settings["hidden_size"] // settings["num_attention_heads"]
    fields |= {
        "model.dropout": settings["hidden_dropout"],
        "model.parallel": "shared_norm" if settings["use_parallel_residual"] else "none",
        "model.norm.kind": "layernorm",
        **rotated_fraction(width, settings["partial_rotary_factor"]),
        "model.attention.qk_norm": "head_layernorm" if settings["qk_layernorm"] else "none",
    } | biases_of_inputs(settings["use_qkv_bias"])
    settings.finish()
    return fields


def stablelm_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of StableLmForCausalLM, which has a tensor for the norm of each head."""
    heads = {"q": config.attention.num_heads, "k": config.attention.num_kv_heads}

    def head_norms(name: str, path: str) -> Rule:
        return Rule(f"{name}_layernorm.norms.{{row}}.weight", (path,), rows=heads[name[-1]])

    shared = {"attention_norm": "input_layernorm"} if config.parallel == "shared_norm" else None
    return rules(config, norms=shared, query_key_norm=head_norms)


CLASSES = {
    "StableLmForCausalLM": Importer(
        stablelm_config,
        stablelm_rules,
        STABLELM,
        model_type="stablelm",
        prefix="model",
        custom_settings={"qk_layernorm": lambda view: view.model.attention.qk_norm != "none"},
    )
}
