"""Classes of Hugging Face's transformers without a head, such as LlamaModel and BertModel.

Their outputs are the last hidden states, and of BERT, RoBERTa and ALBERT also the pooled first one.
The head of our model is the embedding, so it has no parameters; its scores of tokens mean
nothing. Where embeddings have another width than the hidden states (ALBERT, small ELECTRAs), the head
is a matrix of zeros instead; the model is written without it, or refused once it has been trained.
Such a run is there to be started from, for another task or for more training.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families import llama, neox, phi
from zoo.interop.families.decoders import apertus, exaone, glm, granite, helium, nemotron, olmo, phi3, stablelm
from zoo.interop.families.encoders import albert, bert, distilbert, electra, modernbert, roberta
from zoo.interop.settings.equivalents import given_tie
from zoo.interop.settings.importer import Importer
from zoo.interop.weights.mapping import ConstantTensor, IgnoredTensors, Rule, Rules, TiedTensor, ZeroParameters, linear

NOTE = "a model without a head: its scores of tokens mean nothing; start another run from it"
NO_HEAD = {
    "model.head.transform": False,
    "model.head.transform_bias": True,
    "model.head.bias": False,
    "model.tie_embeddings": True,
}


def without_prefix(rules: Rules, prefix: str) -> Rules:
    """Returns rules for the names that tensors have in a class without heads."""

    def changed(rule: Any) -> Any:
        if isinstance(rule, IgnoredTensors):
            return IgnoredTensors(rule.pattern.removeprefix(re.escape(f"{prefix}.")))
        if isinstance(rule, TiedTensor):
            return TiedTensor(rule.name.removeprefix(f"{prefix}."), rule.tied_to.removeprefix(f"{prefix}."))
        named = isinstance(rule, Rule | ConstantTensor)
        return replace(rule, name=rule.name.removeprefix(f"{prefix}.")) if named else rule

    return [changed(rule) for rule in rules]


def body_of(whole: Importer, body: Callable[[ResolvedConfig], Rules] | None = None, pooler: str = "") -> Importer:
    """Returns the importer of a class without heads.

    Args:
        whole: importer of the class with a head for tokens.
        body: rules of what is below the heads; by default those of `whole` that are not the head's.
        pooler: name of the dense layer over the first token; empty if the class has none.
    """

    def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
        fields = whole.read_config(hf) | ({"model.head.pooler": True} if pooler else {})
        fields |= {path: value for path, value in NO_HEAD.items() if path in fields}
        # Scores from the embedding would need a dense layer that maps hidden states to its width.
        if fields.get("model.embedding.dim", 0) not in (0, fields["model.dim"]):
            fields["model.tie_embeddings"] = False
        return fields

    def rules(config: ResolvedConfig) -> Rules:
        found = [
            rule
            for rule in (body or whole.rules)(config)
            if not (isinstance(rule, Rule) and rule.paths[0].startswith("head/"))
        ]
        if config.head.pooler:
            found += linear("pooler", f"{whole.prefix}.{pooler}")
        elif pooler:
            found.append(IgnoredTensors(rf"{whole.prefix}\.pooler\..*"))
        if not config.tie_embeddings:
            found.append(ZeroParameters(("head/weights",)))
        return without_prefix(found, whole.prefix)

    return replace(
        whole,
        read_config=read_config,
        rules=rules,
        prefix="",
        note=NOTE,
        custom_settings={**whole.custom_settings, "tie_word_embeddings": given_tie},
    )


CLASSES = {
    "BertModel": body_of(
        bert.CLASSES["BertForMaskedLM"], lambda config: bert.encoder_rules(config, "bert"), pooler="pooler.dense"
    ),
    **{
        f"{name}Model": body_of(
            roberta.CLASSES[f"{name}ForMaskedLM"],
            lambda config: bert.encoder_rules(config, "roberta"),
            pooler="pooler.dense",
        )
        for name in roberta.TYPES
    },
    "DistilBertModel": body_of(distilbert.CLASSES["DistilBertForMaskedLM"], distilbert.encoder_rules),
    "AlbertModel": body_of(albert.CLASSES["AlbertForMaskedLM"], albert.encoder_rules, pooler="pooler"),
    "ElectraModel": body_of(electra.ENCODER, electra.body_rules),
    "ModernBertModel": body_of(modernbert.CLASSES["ModernBertForMaskedLM"], modernbert.encoder_rules),
    **{
        f"{name}Model": body_of(llama.CLASSES[f"{name}ForCausalLM"])
        for name in ("Llama", "Mistral", "Ministral", "SmolLM3", "Qwen2", "Qwen3", "Olmo2", "Olmo3", "DiffLlama")
    },
    **{f"{name}Model": body_of(neox.CLASSES[f"{name}ForCausalLM"]) for name in ("GPTNeoX", "GPTJ")},
    "PhiModel": body_of(phi.CLASSES["PhiForCausalLM"]),
    **{
        name.replace("ForCausalLM", "Model"): body_of(importer)
        for family in (apertus, exaone, glm, granite, helium, nemotron, olmo, phi3, stablelm)
        for name, importer in family.CLASSES.items()
    },
}
