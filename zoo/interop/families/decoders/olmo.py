"""OLMo (Groeneveld et al. 2024) of Hugging Face's transformers, with LLaMA's tensor names.

LLaMA with LayerNorm that has no parameters; later versions clip queries, keys and values. OLMo 2 and 3
are in `zoo.interop.families.llama`.
"""

from collections.abc import Mapping
from typing import Any

from zoo.interop.families.llama import COMMON, common, rope, rules
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import unpack_rope_parameters

OLMO = {name: value for name, value in COMMON.items() if name not in ("head_dim", "rms_norm_eps")} | {
    "vocab_size": 50304, "clip_qkv": None,
}  # fmt: skip


def olmo_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for OlmoForCausalLM, whose norms have an epsilon of 1e-5."""
    settings = SettingsReader(unpack_rope_parameters(hf), OLMO, "olmo")
    fields = common(settings, epsilon="") | rope(settings)
    fields |= {
        "model.norm.kind": "layernorm",
        "model.norm.scale": False,
        "model.norm.bias": False,
        "model.attention.clip": settings["clip_qkv"] or 0.0,
    }
    settings.finish()
    return fields


CLASSES = {
    "OlmoForCausalLM": Importer(
        olmo_config,
        rules,
        OLMO,
        model_type="olmo",
        prefix="model",
        custom_settings={"clip_qkv": lambda view: view.model.attention.clip or None},
    )
}
