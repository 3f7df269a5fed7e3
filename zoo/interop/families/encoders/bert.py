"""BERT (Devlin et al. 2019) and RoFormer (Su et al. 2021) of Hugging Face's transformers, and what
later encoders share with them.

    BertForPreTraining   masked-language-model head, pooler and next-sentence head
    BertForMaskedLM      masked-language-model head
    RoFormerForMaskedLM  the same with interleaved RoPE; the class stores sines and cosines as a
                         fixed table, which it counts among its parameters

`position_embedding_type="relative_key"` is the key part of Shaw et al. 2018, with a vector for
every distance: its table runs from the farthest key before the query to the farthest one after it,
ours the other way round.

Padding has no position here. The class numbers all slots of a row: with padding in front, results
agree only if the class is given `position_ids`; with padding at the end, they agree as they are.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.weights.mapping import REVERSED, IgnoredTensors, Rule, Rules, TiedTensor, layers, linear, norm

BERT = {
    "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512, "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute", "tie_word_embeddings": True,
}  # fmt: skip
ROFORMER = {name: value for name, value in BERT.items() if name != "position_embedding_type"} | {
    "vocab_size": 50000,
    "embedding_size": None,
    "max_position_embeddings": 1536,
    "rotary_value": False,
}
# The first published files use the parameter names of the authors' code.
RENAMED_SUFFIXES = {".LayerNorm.gamma": ".LayerNorm.weight", ".LayerNorm.beta": ".LayerNorm.bias"}


def encoder(settings: SettingsReader) -> dict[str, Any]:
    """Returns the fields that all of them share; positions, activations and heads differ."""
    if settings["type_vocab_size"] == 0:
        settings.reject("type_vocab_size", "the class adds a segment's embedding to every token; expected at least 1")
    return {
        "model.architecture": "encoder",
        "model.vocab_size": settings["vocab_size"],
        "model.dim": settings["hidden_size"],
        "model.num_layers": settings["num_hidden_layers"],
        "model.dropout": settings["hidden_dropout_prob"],
        "model.tie_embeddings": settings["tie_word_embeddings"],
        "model.embedding.segments": settings["type_vocab_size"],
        "model.embedding.norm": True,
        "model.norm.kind": "layernorm",
        "model.norm.placement": "post",
        "model.norm.epsilon": settings["layer_norm_eps"],
        "model.attention.num_heads": settings["num_attention_heads"],
        "model.attention.dropout": settings["attention_probs_dropout_prob"],
        "model.ffn.hidden_dim": settings["intermediate_size"],
        "model.head.transform": True,
        "model.head.bias": True,
        "model.init.std": settings["initializer_range"],
        "objective.kind": "masked",
    }


def learned(rows: int, offset: int = 0) -> dict[str, Any]:
    """Returns the fields of a learned table of `rows` rows, the first `offset` of them unused."""
    length = rows - offset
    return {
        "model.position.kind": "learned",
        "model.position.max_length": length,
        "model.position.offset": offset,
        "data.sequence_length": length,
    }


def _position(settings: SettingsReader) -> dict[str, Any]:
    rows, kind = settings["max_position_embeddings"], settings["position_embedding_type"]
    if kind == "relative_key":
        return {
            "model.position.kind": "shaw",
            "model.position.clip": rows - 1,
            "model.position.relative_values": False,
            "data.sequence_length": rows,
        }
    settings.expect("absolute", position_embedding_type="expected absolute or relative_key")
    return learned(rows)


def masked_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for BertForMaskedLM."""
    settings = SettingsReader(hf, BERT, "bert")
    fields = encoder(settings) | _position(settings) | settings.choose("hidden_act", ACTIVATIONS)
    settings.finish()
    return fields


def pretraining_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for BertForPreTraining."""
    return masked_config(hf) | {"model.head.pooler": True, "model.head.next_sentence": True}


def encoder_rules(config: ResolvedConfig, at: str) -> Rules:
    """Returns the rules of everything below the heads, for a class with the prefix `at`."""

    def layer(config: ResolvedConfig) -> Rules:
        inside, attention = f"{at}.encoder.layer.{{layer}}", config.attention
        rules = [
            rule
            for name in ("query", "key", "value")
            for rule in linear(f"attention/{name}", f"{inside}.attention.self.{name}")
        ]
        if attention.global_projections:
            rules += [
                rule
                for name in ("query", "key", "value")
                for rule in linear(f"attention/global_{name}", f"{inside}.attention.self.{name}_global")
            ]
        if config.position.kind == "shaw":
            rules.append(
                Rule(f"{inside}.attention.self.distance_embedding.weight", ("attention/position/keys",), REVERSED)
            )
        return [
            *rules,
            *linear("attention/output", f"{inside}.attention.output.dense"),
            *norm("attention_norm", f"{inside}.attention.output.LayerNorm", config),
            *linear("ffn/up", f"{inside}.intermediate.dense"),
            *linear("ffn/down", f"{inside}.output.dense"),
            *norm("ffn_norm", f"{inside}.output.LayerNorm", config),
        ]

    table = f"{at}.embeddings.position_embeddings.weight"
    return [
        Rule(f"{at}.embeddings.word_embeddings.weight", ("embedding",)),
        Rule(f"{at}.embeddings.token_type_embeddings.weight", ("segments",)),
        # With relative positions, the class has an absolute table that it does not read.
        Rule(table, ("position/table",))
        if config.position.kind == "learned"
        else IgnoredTensors(table.replace(".", r"\.")),
        *norm("embedding_norm", f"{at}.embeddings.LayerNorm", config),
        *layers(config, layer),
        # Position numbers of old files.
        IgnoredTensors(rf"{at}\.embeddings\.position_ids"),
    ]


def output_rules(config: ResolvedConfig, embedding: str, output: str, bias: str | None = None) -> Rules:
    """Returns the rules of the head's output matrix.

    Args:
        config: the `model` part.
        embedding: name of the token embedding.
        output: name of the matrix and its bias, without "weight" and "bias".
        bias: name of the bias, if the class has it under two names.
    """
    rules: list[Rule | TiedTensor] = [Rule(bias or f"{output}.bias", ("head/bias",))]
    rules += [TiedTensor(f"{output}.bias", bias)] if bias else []
    return [
        *rules,
        TiedTensor(f"{output}.weight", embedding)
        if config.tie_embeddings
        else Rule(f"{output}.weight", ("head/weights",)),
    ]


def masked_head_rules(config: ResolvedConfig, at: str) -> Rules:
    """Returns the rules of BERT's masked-language-model head, in a class with the prefix `at`."""
    head = "cls.predictions"
    return [
        *linear("head/dense", f"{head}.transform.dense"),
        *norm("head/norm", f"{head}.transform.LayerNorm", config),
        *output_rules(config, f"{at}.embeddings.word_embeddings.weight", f"{head}.decoder", f"{head}.bias"),
    ]


def masked_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of BertForMaskedLM.

    Published files of this class also contain the pooler and the next-sentence head.
    """
    return [
        *encoder_rules(config, "bert"),
        *masked_head_rules(config, "bert"),
        IgnoredTensors(r"bert\.pooler\..*"),
        IgnoredTensors(r"cls\.seq_relationship\..*"),
    ]


def pretraining_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of BertForPreTraining."""
    return [
        *encoder_rules(config, "bert"),
        *masked_head_rules(config, "bert"),
        *linear("pooler", "bert.pooler.dense"),
        *linear("next_sentence", "cls.seq_relationship"),
    ]


def roformer_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for RoFormerForMaskedLM."""
    settings = SettingsReader(hf, ROFORMER, "roformer")
    fields = (
        encoder(settings)
        | settings.choose("hidden_act", ACTIVATIONS)
        | {
            "model.position.kind": "rope",
            "model.position.layout": "interleaved",
            "model.position.theta": 10000.0,
            # The table's rows.
            "data.sequence_length": settings["max_position_embeddings"],
        }
    )
    settings.expect(
        None,
        settings["hidden_size"],
        embedding_size="expected hidden_size: embeddings of another width are not supported",
    )
    settings.expect(False, rotary_value="values are not rotated here")
    settings.finish()
    return fields


def roformer_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of RoFormerForMaskedLM."""
    return [
        *encoder_rules(config, "roformer"),
        *masked_head_rules(config, "roformer"),
        IgnoredTensors(r"roformer\.encoder\.embed_positions\.weight"),
    ]


CLASSES = {
    "BertForPreTraining": Importer(
        pretraining_config, pretraining_rules, BERT, renamed_suffixes=RENAMED_SUFFIXES, model_type="bert", prefix="bert"
    ),
    "BertForMaskedLM": Importer(
        masked_config, masked_rules, BERT, renamed_suffixes=RENAMED_SUFFIXES, model_type="bert", prefix="bert"
    ),
    "RoFormerForMaskedLM": Importer(
        roformer_config, roformer_rules, ROFORMER, model_type="roformer", prefix="roformer"
    ),
}
