"""RoBERTa (Liu et al. 2019) of Hugging Face's transformers.

It is BERT with positions that start at the padding id plus one. The class numbers the tokens whose
id is not the padding id. These are our positions as long as exactly the padding has that id,
wherever it is in the row. The activation of its head is GELU, whatever `hidden_act` says.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.bert import BERT, encoder, encoder_rules, learned, output_rules
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.weights.mapping import IgnoredTensors, Rules, linear, norm

ROBERTA = BERT | {"vocab_size": 50265, "pad_token_id": 1}


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


def roberta_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for RobertaForMaskedLM."""
    settings = SettingsReader(hf, ROBERTA, "roberta")
    fields = common(settings)
    settings.finish()
    return fields


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
    """Returns the rules of RobertaForMaskedLM."""
    return [*encoder_rules(config, "roberta"), *head_rules(config, "roberta")]


CUSTOM_SETTINGS = {"pad_token_id": lambda view: view.model.position.offset - 1}
CLASSES = {
    "RobertaForMaskedLM": Importer(
        roberta_config, rules, ROBERTA, model_type="roberta", prefix="roberta", custom_settings=CUSTOM_SETTINGS
    )
}
