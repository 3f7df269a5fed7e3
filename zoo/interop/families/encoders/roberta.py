"""RoBERTa (Liu et al. 2019), XLM-RoBERTa, CamemBERT and Longformer of Hugging Face's transformers.

RoBERTa is BERT with positions that start at the padding id plus one. The class numbers the tokens
whose id is not the padding id. These are our positions as long as exactly the padding has that id,
wherever it is in the row. The activation of its head is GELU, whatever `hidden_act` says.
XLM-RoBERTa (Conneau et al. 2020) and CamemBERT (Martin et al. 2020) are the same model of other text.

Longformer (Beltagy et al. 2020) is RoBERTa with a window and global tokens. `attention_window` W
means W / 2 tokens on either side of the query, W + 1 keys in total. Which tokens are global is not a
setting of the class, but an input. Here they are the first tokens of the row: one, unless
`model.attention.global_tokens` gives another number. Global tokens have separate projections; for a
model without them, set `model.attention.global_tokens` to 0 and `model.attention.global_projections`
to false, and those tensors are ignored. The class pads rows to a multiple of W and masks the padding,
so any length works.
"""

from collections.abc import Callable, Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.encoders.bert import BERT, encoder, encoder_rules, learned, output_rules
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.settings.shared_settings import layer_kind_fields
from zoo.interop.weights.mapping import IgnoredTensors, Rules, linear, norm

ROBERTA = BERT | {"vocab_size": 50265, "pad_token_id": 1}
XLM_ROBERTA = ROBERTA | {"vocab_size": 30522}
LONGFORMER = {name: value for name, value in ROBERTA.items() if name != "position_embedding_type"} | {
    "vocab_size": 30522,
    "attention_window": 512,
}


def common(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields that RoBERTa and Longformer share."""
    table = {name: ACTIVATIONS[name] for name in ("gelu", "gelu_python")}
    fields = encoder(settings) | settings.choose("hidden_act", table)
    settings.expect("absolute", None, position_embedding_type="expected absolute: only BERT's importer has distances")
    padding, rows = settings["pad_token_id"], settings["max_position_embeddings"]
    if padding is None or padding < 0:
        settings.reject("pad_token_id", "expected the id of a token: positions count from the number after it")
        return fields
    return fields | learned(rows, padding + 1)


def reader(model_type: str, defaults: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Returns the function that reads the settings of one of RoBERTa's model types."""

    def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
        settings = SettingsReader(hf, defaults, model_type)
        fields = common(settings)
        settings.finish()
        return fields

    return read_config


def longformer_config(hf: Mapping[str, Any]) -> dict[str, Any]:
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


def head_rules(config: ResolvedConfig, at: str) -> Rules:
    """Returns the rules of the head, in a class with the prefix `at`."""
    return [
        *linear("head/dense", "lm_head.dense"),
        *norm("head/norm", "lm_head.layer_norm", config),
        *output_rules(config, f"{at}.embeddings.word_embeddings.weight", "lm_head.decoder", "lm_head.bias"),
        # Published files contain a pooler that this class does not read.
        IgnoredTensors(rf"{at}\.pooler\..*"),
    ]


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of RobertaForMaskedLM and its like."""
    return [*encoder_rules(config, "roberta"), *head_rules(config, "roberta")]


def longformer_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of LongformerForMaskedLM."""
    unused = (
        ()
        if config.attention.global_projections
        else (IgnoredTensors(r"longformer\.encoder\.layer\.\d+\.attention\.self\.\w+_global\..*"),)
    )
    return [*encoder_rules(config, "longformer"), *head_rules(config, "longformer"), *unused]


CUSTOM_SETTINGS = {"pad_token_id": lambda view: view.model.position.offset - 1}
# Model types, by the beginning of the names of their classes.
TYPES = {
    "Roberta": ("roberta", ROBERTA),
    "XLMRoberta": ("xlm-roberta", XLM_ROBERTA),
    "Camembert": ("camembert", XLM_ROBERTA),
}
CLASSES = {
    f"{name}ForMaskedLM": Importer(
        reader(model_type, defaults),
        rules,
        defaults,
        model_type=model_type,
        prefix="roberta",
        custom_settings=CUSTOM_SETTINGS,
    )
    for name, (model_type, defaults) in TYPES.items()
} | {
    "LongformerForMaskedLM": Importer(
        longformer_config,
        longformer_rules,
        LONGFORMER,
        model_type="longformer",
        prefix="longformer",
        custom_settings=CUSTOM_SETTINGS,
    )
}
