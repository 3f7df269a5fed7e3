"""Phi-3 (Abdin et al. 2024) and Phi-4 of Hugging Face's transformers.

LLaMA with one matrix for query, key and value and one for gate and up, both of which hold one part
after the other. Versions for long texts stretch RoPE by LongRoPE; Phi-4-mini rotates three quarters of
each head.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.llama import COMMON, common, rope
from zoo.interop.settings.equivalents import ConfigView, positions, rope_scaling
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import rotated_fraction, unpack_rope_parameters
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, fused_linear, layers, linear, norm, output_head

PHI3 = {name: value for name, value in COMMON.items() if name not in ("attention_bias", "head_dim")} | {
    "vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192, "rms_norm_eps": 1e-5, "resid_pdrop": 0.0,
    "max_position_embeddings": 4096, "original_max_position_embeddings": 4096, "partial_rotary_factor": 1.0,
    "sliding_window": None,
}  # fmt: skip
# Names of LongRoPE in `rope_scaling`; the class reads the first two as the third.
LONGROPE = ("su", "yarn", "longrope")
SCALING = "model.position.scaling."


def phi3_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Phi3ForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf, fraction="partial_rotary_factor"), PHI3, "phi3")
    fields = common(settings) | {
        "model.dropout": settings["resid_pdrop"],
        "model.attention.window": settings["sliding_window"] or 0,
    }
    width = settings["hidden_size"] // settings["num_attention_heads"]
    width = settings.get("head_dim") or width
    fields |= rotated_fraction(width, settings["partial_rotary_factor"])
    settings.expect(False, None, attention_bias="this class has no such biases", mlp_bias="this class has none")
    scaling = settings["rope_scaling"]
    original = settings["original_max_position_embeddings"]
    if isinstance(scaling, Mapping) and scaling.get("rope_type", scaling.get("type")) in LONGROPE:
        plain = SettingsReader({**settings.values, "rope_scaling": None}, PHI3)
        fields |= rope(plain) | _longrope(settings, scaling, original, settings["max_position_embeddings"])
        settings.read |= plain.read
    else:
        fields |= rope(settings)
    settings.finish()
    return fields


def _longrope(settings: SettingsReader, scaling: Mapping[str, Any], original: int, length: int) -> dict[str, Any]:
    """Returns the fields of LongRoPE, with the factors that the file holds for each pair.

    Args:
        settings: collects problems.
        scaling: the setting `rope_scaling`.
        original: tokens of the rows in training; transformers 5 has it among the scaling.
        length: tokens of the longest rows, whose ratio to `original` sharpens the scores.
    """
    inner = SettingsReader(scaling, {}, prefix="rope_scaling.")
    inner.get("type")
    inner.get("rope_type")
    original = inner.get("original_max_position_embeddings") or original
    inner.expect(None, length / original, factor="expected max_position_embeddings / original_max_position_embeddings")
    fields: dict[str, Any] = {f"{SCALING}kind": "longrope", f"{SCALING}original_length": original}
    # A file for no longer rows than in training has no sharpening.
    fields[f"{SCALING}factor"] = max(length / original, 1.0)
    for name in ("short", "long"):
        factors = inner.get(f"{name}_factor")
        if isinstance(factors, list | tuple):
            fields[f"{SCALING}{name}_factors"] = tuple(factors)
        else:
            inner.reject(f"{name}_factor", "expected a list of numbers, one for each pair of dimensions")
    settings.include(inner)
    return fields


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of Phi3ForCausalLM."""

    def layer(config: ResolvedConfig) -> Rules:
        at, attention = "model.layers.{layer}", config.attention
        keys = attention.num_kv_heads * attention.head_dim
        sizes = [attention.num_heads * attention.head_dim, keys, keys]
        names = [f"attention/{name}" for name in ("query", "key", "value")]
        return [
            *norm("attention_norm", f"{at}.input_layernorm", config),
            *norm("ffn_norm", f"{at}.post_attention_layernorm", config),
            *fused_linear(names, f"{at}.self_attn.qkv_proj", sizes, bias=False),
            *linear("attention/output", f"{at}.self_attn.o_proj", bias=False),
            *fused_linear(["ffn/gate", "ffn/up"], f"{at}.mlp.gate_up_proj", [config.ffn.hidden_dim] * 2, bias=False),
            *linear("ffn/down", f"{at}.mlp.down_proj", bias=False),
        ]

    return [
        Rule("model.embed_tokens.weight", ("embedding",)),
        *layers(config, layer),
        *norm("final_norm", "model.norm", config),
        output_head(config, "model.embed_tokens.weight"),
        IgnoredTensors(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq"),
    ]


def _scaling(view: ConfigView) -> dict[str, Any] | None:
    scaling = view.rotary().scaling
    if view.rotary().kind != "rope" or scaling.kind != "longrope":
        return rope_scaling(view)
    return {"type": "longrope", "short_factor": list(scaling.short_factors), "long_factor": list(scaling.long_factors)}


def _lengths(view: ConfigView) -> tuple[int, int]:
    """Returns the largest number of positions, and that of training."""
    scaling = view.rotary().scaling
    if scaling.kind == "longrope":
        return round(scaling.factor * scaling.original_length), scaling.original_length
    length = positions(view)
    return length, view.given.get("original_max_position_embeddings", length)


CLASSES = {
    "Phi3ForCausalLM": Importer(
        phi3_config,
        rules,
        PHI3,
        model_type="phi3",
        prefix="model",
        custom_settings={
            "rope_scaling": _scaling,
            "max_position_embeddings": lambda view: _lengths(view)[0],
            "original_max_position_embeddings": lambda view: _lengths(view)[1],
        },
    )
}
