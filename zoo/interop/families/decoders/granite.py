"""Granite 3 (Granite Team 2024) of Hugging Face's transformers: LLaMA with four constant multipliers,
of the embedding, the scores, the outputs of sublayers and the logits.
"""

from collections.abc import Mapping
from typing import Any

from zoo.interop.families.llama import LLAMA, common, rope, rules
from zoo.interop.settings.equivalents import Setting
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import unpack_rope_parameters

GRANITE = {name: value for name, value in LLAMA.items() if name != "head_dim"} | {
    "embedding_multiplier": 1.0, "logits_scaling": 1.0, "residual_multiplier": 1.0, "attention_multiplier": 1.0,
}  # fmt: skip


def multipliers(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields of the four multipliers."""
    return {
        "model.embedding.multiplier": settings["embedding_multiplier"],
        "model.residual_multiplier": settings["residual_multiplier"],
        "model.head.multiplier": 1 / settings["logits_scaling"],
        "model.attention.scale": settings["attention_multiplier"],
    }


def granite_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for GraniteForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), GRANITE, "granite")
    fields = common(settings) | rope(settings) | multipliers(settings)
    settings.finish()
    return fields


MULTIPLIERS: dict[str, Setting] = {
    "embedding_multiplier": lambda view: view.model.embedding.multiplier,
    "residual_multiplier": lambda view: view.model.residual_multiplier,
    "logits_scaling": lambda view: 1 / view.model.head.multiplier,
    "attention_multiplier": lambda view: view.model.attention.scale,
}
CLASSES = {
    "GraniteForCausalLM": Importer(
        granite_config, rules, GRANITE, model_type="granite", prefix="model", custom_settings=MULTIPLIERS
    )
}
