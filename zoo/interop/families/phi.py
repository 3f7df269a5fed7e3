"""Phi (Gunasekar et al. 2023; Li et al. 2023; Javaheripi et al. 2023) of Hugging Face's transformers.

Attention and feed-forward layer are parallel behind one LayerNorm; RoPE in half layout rotates a part
of each head; there are biases everywhere, also in the head. Phi-2 drops out the sublayers' outputs and
not the embedding (`embd_pdrop=0`); here both have one rate, that of the sublayers.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import rope_fields, rotated_fraction, unpack_rope_parameters
from zoo.interop.weights.mapping import Rule, Rules, layers, linear, norm, output_head

PHI = {
    "vocab_size": 51200, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
    "num_attention_heads": 32, "num_key_value_heads": None, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
    "attention_dropout": 0.0, "hidden_act": "gelu_new", "max_position_embeddings": 2048, "initializer_range": 0.02,
    "layer_norm_eps": 1e-5, "tie_word_embeddings": False, "rope_theta": 10000.0, "rope_scaling": None,
    "partial_rotary_factor": 0.5, "qk_layernorm": False,
}  # fmt: skip


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for PhiForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf, fraction="partial_rotary_factor"), PHI, "phi")
    dim, heads = settings["hidden_size"], settings["num_attention_heads"]
    width = dim // heads
    fields = {
        "model.architecture": "decoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": dim,
        "model.num_layers": settings["num_hidden_layers"],
        "model.dropout": settings["resid_pdrop"],
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.parallel": "shared_norm",
        "model.norm.kind": "layernorm",
        "model.norm.placement": "pre",
        "model.norm.epsilon": settings["layer_norm_eps"],
        **rotated_fraction(width, settings["partial_rotary_factor"]),
        "model.position.layout": "half",
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": settings["num_key_value_heads"] or heads,
        "model.attention.dropout": settings["attention_dropout"],
        "model.ffn.hidden_dim": settings["intermediate_size"],
        "model.head.bias": True,
        "model.init.std": settings["initializer_range"],
    } | settings.choose("hidden_act", ACTIVATIONS)
    settings.expect(0, settings["resid_pdrop"], embd_pdrop="expected 0 or resid_pdrop")
    settings.expect(False, qk_layernorm="LayerNorm of queries and keys is not supported")
    fields |= rope_fields(
        settings, settings["rope_theta"], settings["rope_scaling"], settings["max_position_embeddings"]
    )
    settings.finish()
    return fields


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of PhiForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        at = "model.layers.{layer}"
        names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "dense"}
        return [
            *norm("attention_norm", f"{at}.input_layernorm", config),
            *(
                rule
                for ours, theirs in names.items()
                for rule in linear(f"attention/{ours}", f"{at}.self_attn.{theirs}")
            ),
            *linear("ffn/up", f"{at}.mlp.fc1"),
            *linear("ffn/down", f"{at}.mlp.fc2"),
        ]

    return [
        Rule("model.embed_tokens.weight", ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "model.final_layernorm", config),
        output_head(config, "model.embed_tokens.weight"),
        Rule("lm_head.bias", ("head/bias",)),
    ]


CLASSES = {"PhiForCausalLM": Importer(read_config, rules, PHI, model_type="phi", prefix="model")}
