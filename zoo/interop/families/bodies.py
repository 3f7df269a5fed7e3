"""Classes of Hugging Face's transformers without a head, such as LlamaModel and BertModel.

Their outputs are the last hidden states, and of BERT and RoBERTa also the pooled first one. The head
of our model is the embedding, so that it has no parameters; its scores of tokens mean nothing. Such
a run is there to be started from, for another task or for more training.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families import llama, neox, phi
from zoo.interop.families.encoders import bert, distilbert, modernbert, roberta
from zoo.interop.settings.equivalents import given_tie
from zoo.interop.settings.importer import Importer
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, TiedTensor, linear

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
        return replace(rule, name=rule.name.removeprefix(f"{prefix}.")) if isinstance(rule, Rule) else rule

    return [changed(rule) for rule in rules]


def body_of(whole: Importer, body: Callable[[ResolvedConfig], Rules] | None = None, pooler: bool = False) -> Importer:
    """Returns the importer of a class without heads.

    Args:
        whole: importer of the class with a head for tokens.
        body: rules of what is below the heads; by default those of `whole` that are not the head's.
        pooler: the class has BERT's pooler.
    """

    def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
        fields = whole.read_config(hf) | ({"model.head.pooler": True} if pooler else {})
        return fields | {path: value for path, value in NO_HEAD.items() if path in fields}

    def rules(config: ResolvedConfig) -> Rules:
        found = [
            rule
            for rule in (body or whole.rules)(config)
            if not (isinstance(rule, Rule) and rule.paths[0].startswith("head/"))
        ]
        if config.head.pooler:
            found += linear("pooler", f"{whole.prefix}.pooler.dense")
        elif pooler:
            found.append(IgnoredTensors(rf"{whole.prefix}\.pooler\..*"))
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
        bert.CLASSES["BertForMaskedLM"], lambda config: bert.encoder_rules(config, "bert"), pooler=True
    ),
    **{
        f"{name}Model": body_of(
            roberta.CLASSES[f"{name}ForMaskedLM"], lambda config: bert.encoder_rules(config, "roberta"), pooler=True
        )
        for name in roberta.TYPES
    },
    "DistilBertModel": body_of(distilbert.CLASSES["DistilBertForMaskedLM"], distilbert.encoder_rules),
    "ModernBertModel": body_of(modernbert.CLASSES["ModernBertForMaskedLM"], modernbert.encoder_rules),
    **{
        f"{name}Model": body_of(llama.CLASSES[f"{name}ForCausalLM"])
        for name in ("Llama", "Mistral", "SmolLM3", "Qwen2", "Qwen3", "Olmo2", "Olmo3")
    },
    **{f"{name}Model": body_of(neox.CLASSES[f"{name}ForCausalLM"]) for name in ("GPTNeoX", "GPTJ")},
    "PhiModel": body_of(phi.CLASSES["PhiForCausalLM"]),
}
