"""Longformer (Beltagy et al. 2020) of Hugging Face's transformers.

It is RoBERTa with a window and global tokens. `attention_window` W means W / 2 tokens on either
side of the query, W + 1 keys in total. Which tokens are global is not a setting of the class, but
an input. Here they are the first tokens of the row: one, unless `model.attention.global_tokens`
gives another number. Global tokens have separate projections; for a model without them, set
`model.attention.global_tokens` to 0 and `model.attention.global_projections` to false, and those
tensors are ignored.

The class pads rows to a multiple of W and masks the padding, so any length works.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.bert import encoder_rules
from zoo.interop.families.roberta import CUSTOM_SETTINGS, ROBERTA, common, head_rules
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import layer_kind_fields
from zoo.interop.weights.mapping import IgnoredTensors, Rules

LONGFORMER = {name: value for name, value in ROBERTA.items() if name != "position_embedding_type"} | {
    "vocab_size": 30522,
    "attention_window": 512,
}


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for LongformerForMaskedLM."""
    settings = SettingsReader(hf, LONGFORMER, "longformer")
    settings.expect("longformer", None, attention_mode="expected longformer, a window and global tokens")
    settings.expect(False, None, ignore_attention_mask="padding is never attended to")
    fields = (
        common(settings)
        | _windows(settings)
        | {"model.attention.global_tokens": 1, "model.attention.global_projections": True}
    )
    settings.finish()
    return fields


def _windows(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields of the windows; different windows become kinds of layers."""
    depth, windows = settings["num_hidden_layers"], settings["attention_window"]
    windows = [windows] * depth if isinstance(windows, int) else list(windows)
    if len(windows) != depth:
        settings.reject("attention_window", f"expected one for each of the {depth} layers")
    elif any(window <= 0 or window % 2 for window in windows):
        settings.reject("attention_window", "expected even numbers above 0, half on either side")
    if settings.problems:
        return {}
    keys = [window + 1 for window in windows]
    return {"model.attention.window": keys[0]} | layer_kind_fields(
        [(f"window{window}", {"attention.window": window}) for window in keys]
    )


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of LongformerForMaskedLM."""
    unused = (
        ()
        if config.attention.global_projections
        else (IgnoredTensors(r"longformer\.encoder\.layer\.\d+\.attention\.self\.\w+_global\..*"),)
    )
    return [*encoder_rules(config, "longformer"), *head_rules(config, "longformer"), *unused]


CLASSES = {
    "LongformerForMaskedLM": Importer(
        read_config, rules, LONGFORMER, model_type="longformer", prefix="longformer", custom_settings=CUSTOM_SETTINGS
    )
}
