"""Nemotron-4 (Parmar et al. 2024) and Minitron of Hugging Face's transformers.

LLaMA's tensor names, LayerNorm with factors stored minus one, a squared ReLU without a gate, and RoPE
on half of each head.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.llama import LLAMA, common, rules
from zoo.interop.settings.equivalents import activation
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import rope_fields, rotated_fraction, unpack_rope_parameters
from zoo.interop.weights.mapping import Rules, linear

NEMOTRON = {name: value for name, value in LLAMA.items() if name not in ("rms_norm_eps", "rope_scaling")} | {
    "vocab_size": 256000, "hidden_size": 6144, "intermediate_size": 24576, "num_attention_heads": 48,
    "hidden_act": "relu2", "max_position_embeddings": 4096, "initializer_range": 0.0134, "norm_eps": 1e-5,
    "partial_rotary_factor": 0.5,
}  # fmt: skip
NONLINEARITIES = {"relu2": {"model.ffn.kind": "relu_squared"}} | ACTIVATIONS


def nemotron_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for NemotronForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf, fraction="partial_rotary_factor"), NEMOTRON, "nemotron")
    fields = common(settings, epsilon="norm_eps", activations=NONLINEARITIES)
    width = settings["head_dim"] or settings["hidden_size"] // settings["num_attention_heads"]
    fields |= rope_fields(settings, settings["rope_theta"], None, settings["max_position_embeddings"])
    fields |= {
        "model.norm.kind": "layernorm",
        "model.norm.unit_offset": True,
        **rotated_fraction(width, settings["partial_rotary_factor"]),
    }
    settings.expect(None, rope_scaling="this class does not stretch RoPE")
    settings.finish()
    return fields


def plain(config: ResolvedConfig) -> Rules:
    """Returns the rules of a feed-forward layer without a gate."""
    return [
        rule
        for name in ("up", "down")
        for rule in linear(f"ffn/{name}", f"model.layers.{{layer}}.mlp.{name}_proj", config.ffn.bias)
    ]


def nemotron_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of NemotronForCausalLM."""
    return rules(config, feed_forward=plain)


CLASSES = {
    "NemotronForCausalLM": Importer(
        nemotron_config,
        nemotron_rules,
        NEMOTRON,
        model_type="nemotron",
        prefix="model",
        custom_settings={
            "hidden_act": lambda view: "relu2" if view.model.ffn.kind == "relu_squared" else activation(view)
        },
    )
}
