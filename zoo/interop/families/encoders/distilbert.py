"""DistilBERT (Sanh et al. 2019) of Hugging Face's transformers.

It is BERT without segments and pooler, with other names. The norms' epsilon is 1e-12 and not a
setting. As in BERT, the class numbers padding in front of a row, and this library does not.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.encoders.bert import learned, output_rules
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, layers, linear, norm

DISTILBERT = {
    "vocab_size": 30522, "max_position_embeddings": 512, "sinusoidal_pos_embds": False, "n_layers": 6, "n_heads": 12,
    "dim": 768, "hidden_dim": 3072, "dropout": 0.1, "attention_dropout": 0.1, "activation": "gelu",
    "initializer_range": 0.02, "tie_word_embeddings": True,
}  # fmt: skip


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for DistilBertForMaskedLM."""
    settings = SettingsReader(hf, DISTILBERT, "distilbert")
    rows = settings["max_position_embeddings"]
    position = learned(rows)
    if settings["sinusoidal_pos_embds"]:
        position = {
            "model.position.kind": "sinusoidal",
            "model.position.layout": "interleaved",
            "data.sequence_length": rows,
        }
    fields = (
        position
        | settings.choose("activation", ACTIVATIONS)
        | {
            "model.architecture": "encoder",
            "model.vocab_size": settings["vocab_size"],
            "model.dim": settings["dim"],
            "model.num_layers": settings["n_layers"],
            "model.dropout": settings["dropout"],
            "model.tie_embeddings": settings["tie_word_embeddings"],
            "model.embedding.norm": True,
            "model.norm.kind": "layernorm",
            "model.norm.placement": "post",
            "model.norm.epsilon": 1e-12,
            "model.attention.num_heads": settings["n_heads"],
            "model.attention.dropout": settings["attention_dropout"],
            "model.ffn.hidden_dim": settings["hidden_dim"],
            "model.head.transform": True,
            "model.head.bias": True,
            "model.init.std": settings["initializer_range"],
            "objective.kind": "masked",
        }
    )
    settings.finish()
    return fields


def encoder_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of everything below the heads."""

    def layer(config: ResolvedConfig) -> Rules:
        at = "distilbert.transformer.layer.{layer}"
        names = {"query": "q_lin", "key": "k_lin", "value": "v_lin", "output": "out_lin"}
        return [
            *(
                rule
                for ours, theirs in names.items()
                for rule in linear(f"attention/{ours}", f"{at}.attention.{theirs}")
            ),
            *norm("attention_norm", f"{at}.sa_layer_norm", config),
            *linear("ffn/up", f"{at}.ffn.lin1"),
            *linear("ffn/down", f"{at}.ffn.lin2"),
            *norm("ffn_norm", f"{at}.output_layer_norm", config),
        ]

    at = "distilbert.embeddings"
    table = f"{at}.position_embeddings.weight"
    return [
        Rule(f"{at}.word_embeddings.weight", ("embedding",)),
        # Files contain sinusoids, too.
        Rule(table, ("position/table",))
        if config.position.kind == "learned"
        else IgnoredTensors(table.replace(".", r"\.")),
        *norm("embedding_norm", f"{at}.LayerNorm", config),
        *layers(config, layer),
        IgnoredTensors(r"distilbert\.embeddings\.position_ids"),
    ]


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of DistilBertForMaskedLM."""
    return [
        *encoder_rules(config),
        *linear("head/dense", "vocab_transform"),
        *norm("head/norm", "vocab_layer_norm", config),
        *output_rules(config, "distilbert.embeddings.word_embeddings.weight", "vocab_projector"),
    ]


CLASSES = {
    "DistilBertForMaskedLM": Importer(read_config, rules, DISTILBERT, model_type="distilbert", prefix="distilbert")
}
