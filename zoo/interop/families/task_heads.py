"""Classes of Hugging Face's transformers with a head for a task over an encoder.

    ...ForSequenceClassification   tanh of a dense layer over the first token, then the classes;
                                   the dense layer of BERT and ALBERT is their pooler, in the others it
                                   is a part of the head. DistilBERT has ReLU in place of tanh, ELECTRA
                                   GELU
    ...ForTokenClassification      the classes of every token
    ...ForQuestionAnswering        beginning and end of the answer, from every token

One label, or `problem_type="regression"`, is a number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zoo.config import ResolvedConfig
from zoo.errors import ConfigError
from zoo.interop.families.encoders import albert, bert, distilbert, electra, roberta
from zoo.interop.settings.equivalents import ConfigView, Setting, given_tie
from zoo.interop.settings.importer import Importer
from zoo.interop.weights.mapping import IgnoredTensors, Rules, linear

# Fields of the head for tokens, which a model with another head does not have.
OF_TOKENS = ("model.head.transform", "model.head.bias", "model.tie_embeddings")


def label_names(hf: Mapping[str, Any]) -> list[str]:
    """Returns the labels of a `config.json` in the order of their ids; by default there are two.

    Raises:
        ConfigError: ids that are not 0, 1, 2, ...
    """
    count = next((hf[name] for name in ("num_labels", "_num_labels") if hf.get(name) is not None), 2)
    names = hf.get("id2label") or {str(id): f"LABEL_{id}" for id in range(count)}
    ids = sorted(names, key=int)
    if [int(id) for id in ids] != list(range(len(ids))):
        raise ConfigError(f"id2label={names!r}: expected names of the ids 0 to {len(ids) - 1}")
    return [str(names[id]) for id in ids]


def task_fields(task: str, hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of the head.

    Args:
        task: "classification", "tagging" or "extraction".
        hf: the content of a `config.json`.

    Raises:
        ConfigError: labels that cannot be expressed.
    """
    names, problem = label_names(hf), hf.get("problem_type")
    if problem not in (None, "regression", "single_label_classification"):
        raise ConfigError(f"problem_type={problem!r}: a text has one label here, or a number")
    if task == "extraction":
        if len(names) != 2:
            raise ConfigError(f"id2label={hf.get('id2label')!r}: expected 2, the beginning and the end of an answer")
        return {"objective.kind": task, "model.head.classes": 2}
    if task == "classification" and (len(names) == 1 or problem == "regression"):
        return {"objective.kind": "regression", "model.head.classes": 1, "model.head.pooler": True}
    fields = {"objective.kind": task, "model.head.classes": len(names), "data.labels": tuple(names)}
    return fields | ({"model.head.pooler": True} if task == "classification" else {})


def task_settings() -> dict[str, Setting]:
    """Returns the settings of labels, by name, which a class with a task's head has."""

    def names(view: ConfigView) -> list[str]:
        labels = view.config.data.labels if view.config.objective.kind in ("classification", "tagging") else ()
        return list(labels) or [f"LABEL_{id}" for id in range(view.model.head.classes)]

    return {
        "id2label": lambda view: {str(id): name for id, name in enumerate(names(view))},
        "label2id": lambda view: {name: id for id, name in enumerate(names(view))},
        "problem_type": lambda view: "regression" if view.config.objective.kind == "regression" else None,
        "tie_word_embeddings": given_tie,
    }


def with_task(
    whole: Importer,
    task: str,
    body: Callable[[ResolvedConfig], Rules],
    head: Sequence[tuple[str, str]],
    activation: str = "tanh",
) -> Importer:
    """Returns the importer of a class with a task's head.

    Args:
        whole: importer of the class with a head for tokens, of the same encoder.
        task: as in `task_fields`.
        body: rules of what is below the heads.
        head: paths of our dense layers and their names in the class.
        activation: that of the pooler, if the class has one.
    """

    def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
        fields = {path: value for path, value in whole.read_config(hf).items() if path not in OF_TOKENS}
        fields |= task_fields(task, hf)
        return fields | ({"model.head.pooler_activation": activation} if fields.get("model.head.pooler") else {})

    def rules(config: ResolvedConfig) -> Rules:
        there = [(path, name) for path, name in head if path != "pooler" or config.head.pooler]
        of_head = [rule for path, name in there for rule in linear(path, name)]
        # Files of encoders that were fine-tuned contain a pooler that the class does not read.
        unread = () if task == "classification" else (IgnoredTensors(rf"{whole.prefix}\.pooler\..*"),)
        return [*body(config), *of_head, *unread]

    return replace(
        whole, read_config=read_config, rules=rules, custom_settings={**whole.custom_settings, **task_settings()}
    )


BERT_POOLER_AND_CLASSES = (("pooler", "bert.pooler.dense"), ("classifier", "classifier"))
ALBERT_POOLER_AND_CLASSES = (("pooler", "albert.pooler"), ("classifier", "classifier"))
DENSE_AND_CLASSES = (("pooler", "classifier.dense"), ("classifier", "classifier.out_proj"))
DISTILBERT_DENSE_AND_CLASSES = (("pooler", "pre_classifier"), ("classifier", "classifier"))
POOLER_ACTIVATIONS = {"DistilBert": "relu", "Electra": "gelu"}
TAGS = ("TokenClassification", "tagging", (("classifier", "classifier"),))
ANSWERS = ("QuestionAnswering", "extraction", (("classifier", "qa_outputs"),))
FAMILIES = (
    ("Bert", bert.CLASSES["BertForMaskedLM"], lambda config: bert.encoder_rules(config, "bert"),
     BERT_POOLER_AND_CLASSES),
    *((name, roberta.CLASSES[f"{name}ForMaskedLM"], lambda config: bert.encoder_rules(config, "roberta"),
       DENSE_AND_CLASSES) for name in roberta.TYPES),
    ("DistilBert", distilbert.CLASSES["DistilBertForMaskedLM"], distilbert.encoder_rules,
     DISTILBERT_DENSE_AND_CLASSES),
    ("Albert", albert.CLASSES["AlbertForMaskedLM"], albert.encoder_rules, ALBERT_POOLER_AND_CLASSES),
    ("Electra", electra.ENCODER, electra.body_rules, DENSE_AND_CLASSES),
)  # fmt: skip
CLASSES = {
    f"{name}For{ending}": with_task(whole, task, body, head, POOLER_ACTIVATIONS.get(name, "tanh"))
    for name, whole, body, of_texts in FAMILIES
    for ending, task, head in (("SequenceClassification", "classification", of_texts), TAGS, ANSWERS)
}
