"""Command R (Cohere 2024) and Aya of Hugging Face's transformers, with LLaMA's tensor names.

Attention and SwiGLU are parallel behind one LayerNorm without bias, RoPE rotates neighbouring pairs,
and the logits have a constant factor. Command R+ normalises queries and keys, each head by itself.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.llama import COMMON, common, rope, rules
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import unpack_rope_parameters
from zoo.interop.weights.mapping import Rules

COHERE = {name: value for name, value in COMMON.items() if name not in ("head_dim", "rms_norm_eps")} | {
    "vocab_size": 256000, "hidden_size": 8192, "intermediate_size": 22528, "logit_scale": 0.0625,
    "num_hidden_layers": 40, "num_attention_heads": 64, "max_position_embeddings": 8192, "layer_norm_eps": 1e-5,
    "tie_word_embeddings": True, "use_qk_norm": False,
}  # fmt: skip


def cohere_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for CohereForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), COHERE, "cohere")
    fields = common(settings, epsilon="layer_norm_eps") | rope(settings)
    fields |= {
        "model.parallel": "shared_norm",
        "model.norm.kind": "layernorm",
        "model.norm.bias": False,
        "model.position.layout": "interleaved",
        "model.attention.qk_norm": "head_layernorm" if settings["use_qk_norm"] else "none",
        "model.head.multiplier": settings["logit_scale"],
    }
    settings.finish()
    return fields


def cohere_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of CohereForCausalLM, whose sublayers share a norm."""
    return rules(config, norms={"attention_norm": "input_layernorm"})


CLASSES = {
    "CohereForCausalLM": Importer(
        cohere_config,
        cohere_rules,
        COHERE,
        model_type="cohere",
        prefix="model",
        custom_settings={
            "logit_scale": lambda view: view.model.head.multiplier,
            "use_qk_norm": lambda view: view.model.attention.qk_norm != "none",
        },
    )
}
