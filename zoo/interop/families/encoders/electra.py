"""ELECTRA (Clark et al. 2020) of Hugging Face's transformers.

    ElectraForPreTraining  the discriminator, with the logit of "this token was replaced"
    ElectraForMaskedLM     a generator, or any encoder of this family, with its head for hidden tokens

BERT's layers; where `embedding_size` differs from the hidden width, a dense layer maps one to it.
A discriminator comes without its generator: it is imported with `model.generator.num_layers=0`, and a
run with a generator is exported without it.

`zoo.interop.families.bodies` and `task_heads` have the classes with another head or none.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.encoders.bert import encoder, encoder_rules, learned, output_rules
from zoo.interop.settings.equivalents import given_tie
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.weights.mapping import IgnoredTensors, Rules, linear, norm

ELECTRA = {
    "vocab_size": 30522, "embedding_size": 128, "hidden_size": 256, "num_hidden_layers": 12, "num_attention_heads": 4,
    "intermediate_size": 1024, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512, "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute", "tie_word_embeddings": True,
}  # fmt: skip
# Fields that only the head for hidden tokens reads.
OF_TOKENS = ("model.head.transform", "model.head.bias", "model.tie_embeddings")


def _fields(settings: SettingsReader) -> dict[str, Any]:
    """Returns overrides for all classes."""
    width = settings["embedding_size"]
    fields = (
        encoder(settings)
        | learned(settings["max_position_embeddings"])
        | settings.choose("hidden_act", ACTIVATIONS)
        | {"model.embedding.dim": width if width != settings["hidden_size"] else 0}
    )
    settings.expect("absolute", position_embedding_type="expected absolute")
    return fields


def masked_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for ElectraForMaskedLM, whose head has the exact GELU in any case."""
    settings = SettingsReader(hf, ELECTRA, "electra")
    if ACTIVATIONS.get(settings["hidden_act"]) != ACTIVATIONS["gelu"]:
        settings.reject("hidden_act", "the head of the class has gelu; layers and head have one activation here")
    fields = _fields(settings)
    settings.finish()
    return fields


def encoder_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for classes without the head for hidden tokens, which have any activation."""
    settings = SettingsReader(hf, ELECTRA, "electra")
    fields = _fields(settings)
    settings.finish()
    return fields


def pretraining_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for ElectraForPreTraining."""
    fields = {path: value for path, value in encoder_config(hf).items() if path not in OF_TOKENS}
    return fields | {"objective.kind": "replaced_tokens", "model.generator.num_layers": 0}


def body_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of everything below the heads."""
    projection = linear("embedding_projection", "electra.embeddings_project") if config.embedding.dim else []
    return [*encoder_rules(config, "electra"), *projection]


def masked_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of ElectraForMaskedLM."""
    table = "electra.embeddings.word_embeddings.weight"
    return [
        *body_rules(config),
        *linear("head/dense", "generator_predictions.dense"),
        *norm("head/norm", "generator_predictions.LayerNorm", config),
        *output_rules(config, table, "generator_lm_head"),
    ]


def pretraining_rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of ElectraForPreTraining."""
    return [
        *body_rules(config),
        *linear("discriminator/dense", "discriminator_predictions.dense"),
        *linear("discriminator/output", "discriminator_predictions.dense_prediction"),
        # Some checkpoints also contain the generator's head.
        IgnoredTensors(r"generator_.*"),
    ]


CUSTOM = {"embedding_size": lambda view: view.model.embedding.dim or view.model.dim}
CLASSES = {
    "ElectraForPreTraining": Importer(
        pretraining_config, pretraining_rules, ELECTRA, model_type="electra", prefix="electra",
        custom_settings={**CUSTOM, "tie_word_embeddings": given_tie},
    ),
    "ElectraForMaskedLM": Importer(
        masked_config, masked_rules, ELECTRA, model_type="electra", prefix="electra", custom_settings=CUSTOM
    ),
}  # fmt: skip
# The classes with a task's head and the class without a head are derived from this importer.
ENCODER = replace(CLASSES["ElectraForMaskedLM"], read_config=encoder_config)
