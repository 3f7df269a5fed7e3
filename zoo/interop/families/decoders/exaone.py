"""EXAONE 4.0 (LG AI Research 2025) of Hugging Face's transformers: norms after the sublayers, as in
OLMo 2, queries and keys normalised head by head, and either global layers with RoPE or, with a sliding
window, local layers with RoPE and global ones without positions.
"""

from collections.abc import Mapping
from typing import Any

from zoo.interop.families.llama import COMMON, common, rope, rules
from zoo.interop.settings.equivalents import ConfigView, window
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import layer_kind_fields, unpack_rope_parameters, window_layers

EXAONE4 = {name: value for name, value in COMMON.items() if name != "attention_bias"} | {
    "vocab_size": 102400, "intermediate_size": 16384, "num_key_value_heads": 32, "rms_norm_eps": 1e-5,
    "sliding_window": 4096, "sliding_window_pattern": 4, "layer_types": None,
}  # fmt: skip


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for Exaone4ForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), EXAONE4, "exaone4")
    local, period = settings["sliding_window"], settings["sliding_window_pattern"]
    default = ["full_attention"] * settings["num_hidden_layers"]
    # The period is a number, or a text such as "LLLG", which the class reads from layer_types alone.
    if settings["layer_types"] is None and local is not None:
        if not isinstance(period, int) or period < 1:
            settings.reject("sliding_window_pattern", "expected a number of layers, or layer_types beside it")
            period = 1
        default = ["sliding_attention" if (layer + 1) % period else "full_attention" for layer in range(len(default))]
    described = [
        (name, changes) if name == "local" or local is None else (f"{name}_nope", changes | {"position.kind": "none"})
        for name, changes in window_layers(settings, default, local)
    ]
    fields = common(settings) | rope(settings)
    fields |= {"model.norm.placement": "reordered", "model.attention.qk_norm": "head"}
    settings.expect(False, None, attention_bias="this class has no such biases")
    settings.finish()
    return fields | layer_kind_fields(described)


def sliding_window(view: ConfigView) -> int | None:
    """Returns the window, which also decides whether global layers have positions."""
    without_positions = any(layer.position.kind == "none" for layer in view.layers)
    return window(view) or (
        view.given.get("sliding_window") or EXAONE4["sliding_window"] if without_positions else None
    )


CLASSES = {
    "Exaone4ForCausalLM": Importer(
        read_config,
        rules,
        EXAONE4,
        model_type="exaone4",
        prefix="model",
        custom_settings={"sliding_window": sliding_window},
    )
}
