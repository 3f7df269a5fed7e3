"""Longformer (Beltagy et al. 2020) as Hugging Face's transformers has it: RoBERTa with a window,
and global tokens.

`attention_window` W is W / 2 tokens on either side of the query, which with the query itself are W
+ 1 keys. Which tokens are global is no setting of the class, but an input. Here they are the first
of the row: one, unless `model.attention.global_tokens` says another number. They have matrices of
their own; for a model without global tokens set `model.attention.global_tokens` to 0 and
`model.attention.global_projections` to false, and those matrices are passed over.

The class fills rows up to a multiple of W and masks what it added, so that lengths need not divide.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.bert import INERT, encoder_rules
from zoo.interop.families.roberta import ROBERTA, WRITTEN, common, head_rules
from zoo.interop.settings.importer import Importer, Settings
from zoo.interop.settings.shared_settings import kinds
from zoo.interop.weights.mapping import Rules, Skip

LONGFORMER = {name: value for name, value in ROBERTA.items() if name != "position_embedding_type"} | {
    "vocab_size": 30522,
    "attention_window": 512,
}


def config_of(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides for LongformerForMaskedLM."""
    settings = Settings(hf, LONGFORMER, (*INERT, "onnx_export"))
    settings.expect("longformer", None, attention_mode="expected longformer, a window and global tokens")
    settings.expect(False, None, ignore_attention_mask="empty slots are never read")
    fields = (
        common(settings)
        | _windows(settings)
        | {"model.attention.global_tokens": 1, "model.attention.global_projections": True}
    )
    settings.finish()
    return fields


def _windows(settings: Settings) -> dict[str, Any]:
    """Fields of the windows; those of layers that differ become kinds of layers."""
    depth, windows = settings["num_hidden_layers"], settings["attention_window"]
    windows = [windows] * depth if isinstance(windows, int) else list(windows)
    if len(windows) != depth:
        settings.refuse("attention_window", f"expected one for each of the {depth} layers")
    elif any(window <= 0 or window % 2 for window in windows):
        settings.refuse("attention_window", "expected even numbers above 0, half on either side")
    if settings.problems:
        return {}
    keys = [window + 1 for window in windows]
    return {"model.attention.window": keys[0]} | kinds(
        [(f"window{window}", {"attention.window": window}) for window in keys]
    )


def rules(config: ResolvedConfig) -> Rules:
    """The rules of LongformerForMaskedLM."""
    unused = (
        ()
        if config.attention.global_projections
        else (Skip(r"longformer\.encoder\.layer\.\d+\.attention\.self\.\w+_global\..*"),)
    )
    return [*encoder_rules(config, "longformer"), *head_rules(config, "longformer"), *unused]


CLASSES = {
    "LongformerForMaskedLM": Importer(
        config_of, rules, LONGFORMER, model_type="longformer", prefix="longformer", written=WRITTEN
    )
}
