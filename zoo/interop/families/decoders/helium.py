"""Helium 1 (Kyutai 2025) of Hugging Face's transformers: LLaMA with RoPE over neighbouring pairs;
biases of attention, where there are any, are those of queries, keys and values alone.
"""

from collections.abc import Mapping
from typing import Any

from zoo.interop.families.llama import COMMON, biases_of_inputs, common, rope, rules
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import unpack_rope_parameters

HELIUM = COMMON | {
    "vocab_size": 48000, "hidden_size": 2560, "intermediate_size": 7040, "num_hidden_layers": 24,
    "num_attention_heads": 20, "num_key_value_heads": 20, "head_dim": 128, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-8, "rope_theta": 1e5, "mlp_bias": False,
}  # fmt: skip


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for HeliumForCausalLM."""
    settings = SettingsReader(unpack_rope_parameters(hf), HELIUM, "helium")
    fields = common(settings) | rope(settings) | {"model.position.layout": "interleaved"}
    fields |= biases_of_inputs(settings["attention_bias"])
    width, heads = settings["head_dim"], settings["num_attention_heads"]
    if width is not None and width * heads != settings["hidden_size"]:
        settings.reject("head_dim", f"expected hidden_size / num_attention_heads = {settings['hidden_size'] / heads:g}")
    settings.finish()
    return fields


CLASSES = {"HeliumForCausalLM": Importer(read_config, rules, HELIUM, model_type="helium", prefix="model")}
