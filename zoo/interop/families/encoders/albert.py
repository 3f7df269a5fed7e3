"""ALBERT (Lan et al. 2020) of Hugging Face's transformers.

    AlbertForPreTraining   masked-language-model head, pooler and the head for the order of segments
    AlbertForMaskedLM      masked-language-model head

BERT with embeddings of width `embedding_size`, which a dense layer maps to the hidden width, and with
`num_hidden_groups` layers in place of `num_hidden_layers`, each applied several times in a row.

`zoo.interop.families.bodies` and `task_heads` have the classes with another head or none.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.encoders.bert import encoder, learned, output_rules
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, layers, linear, norm

ALBERT = {
    "vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_hidden_layers": 12, "num_hidden_groups": 1,
    "num_attention_heads": 64, "intermediate_size": 16384, "inner_group_num": 1, "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "max_position_embeddings": 512, "type_vocab_size": 2,
    "initializer_range": 0.02, "layer_norm_eps": 1e-12, "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
}  # fmt: skip


def masked_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for AlbertForMaskedLM."""
    settings = SettingsReader(hf, ALBERT, "albert")
    fields = (
        encoder(settings)
        | learned(settings["max_position_embeddings"])
        | settings.choose("hidden_act", ACTIVATIONS)
        | {"model.embedding.dim": settings["embedding_size"], "model.layers.distinct": settings["num_hidden_groups"]}
    )
    settings.expect(1, inner_group_num="layers that take turns within a group are not supported")
    settings.expect("absolute", position_embedding_type="expected absolute")
    settings.finish()
    return fields


def pretraining_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for AlbertForPreTraining."""
    return masked_config(hf) | {"model.head.pooler": True, "model.head.next_sentence": True}


def encoder_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of everything below the heads."""

    def layer(config: ResolvedConfig) -> Rules:
        at = "albert.encoder.albert_layer_groups.{layer}.albert_layers.0"
        return [
            *(
                rule
                for name in ("query", "key", "value")
                for rule in linear(f"attention/{name}", f"{at}.attention.{name}")
            ),
            *linear("attention/output", f"{at}.attention.dense"),
            *norm("attention_norm", f"{at}.attention.LayerNorm", config),
            *linear("ffn/up", f"{at}.ffn"),
            *linear("ffn/down", f"{at}.ffn_output"),
            *norm("ffn_norm", f"{at}.full_layer_layer_norm", config),
        ]

    at = "albert.embeddings"
    return [
        Rule(f"{at}.word_embeddings.weight", ("embedding",)),
        Rule(f"{at}.token_type_embeddings.weight", ("segments",)),
        Rule(f"{at}.position_embeddings.weight", ("position/table",)),
        *norm("embedding_norm", f"{at}.LayerNorm", config),
        *linear("embedding_projection", "albert.encoder.embedding_hidden_mapping_in"),
        # Tensors are numbered by group, not by the first layer of each.
        *(replace(rule, layers=tuple(range(len(rule.layers)))) for rule in layers(config, layer)),
        # Position numbers of old files.
        IgnoredTensors(r"albert\.embeddings\.position_ids"),
    ]


def masked_head_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of the masked-language-model head."""
    table = "albert.embeddings.word_embeddings.weight"
    return [
        *linear("head/dense", "predictions.dense"),
        *norm("head/norm", "predictions.LayerNorm", config),
        *output_rules(config, table, "predictions.decoder", "predictions.bias"),
    ]


def masked_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of AlbertForMaskedLM.

    Published files of this class also contain the pooler and the head for the order of segments.
    """
    return [
        *encoder_rules(config),
        *masked_head_rules(config),
        IgnoredTensors(r"albert\.pooler\..*"),
        IgnoredTensors(r"sop_classifier\..*"),
    ]


def pretraining_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of AlbertForPreTraining."""
    return [
        *encoder_rules(config),
        *masked_head_rules(config),
        *linear("pooler", "albert.pooler"),
        *linear("next_sentence", "sop_classifier.classifier"),
    ]


CUSTOM = {
    "embedding_size": lambda view: view.model.embedding.dim or view.model.dim,
    "num_hidden_groups": lambda view: view.model.layers.distinct or view.model.num_layers,
    "inner_group_num": lambda view: 1,
}
CLASSES = {
    name: Importer(read_config, rules, ALBERT, model_type="albert", prefix="albert", custom_settings=CUSTOM)
    for name, read_config, rules in (
        ("AlbertForPreTraining", pretraining_config, pretraining_rules),
        ("AlbertForMaskedLM", masked_config, masked_rules),
    )
}
