"""The metrics of an evaluation, and the measures of a trained run: which of two values is the
better one, what they count, and which runs write them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from zoo.lab.measures import MEASURES, is_measure, metrics_of, name_of


class Metric(NamedTuple):
    """A metric of `eval/`.

    Attributes:
        more_is_better: of two values the larger is the better one.
        unit: what it counts; empty for shares, correlations and scores.
    """

    more_is_better: bool
    unit: str = ""


# By name, without what stands before "/" and behind "@".
_SHARES = (
    "accuracy",
    "word_accuracy",
    "next_accuracy",
    "macro_f1",
    "f1",
    "matthews",
    "pearson",
    "spearman",
    "entity_precision",
    "entity_recall",
    "entity_f1",
    "exact_match",
    "answer_f1",
    "bleu",
    "chrf",
)
METRICS = {
    "loss": Metric(False, "nats"),
    "next_loss": Metric(False, "nats"),
    "perplexity": Metric(False),
    "bits_per_byte": Metric(False, "bits"),
    **dict.fromkeys(_SHARES, Metric(True)),
}

_OF_TOKENS = ("loss", "perplexity", "bits_per_byte")
_OF_TASKS = {
    "classification": ("loss", "accuracy", "macro_f1", "matthews", "f1"),
    "regression": ("loss", "pearson", "spearman"),
    "tagging": ("loss", "accuracy", "word_accuracy", "entity_precision", "entity_recall", "entity_f1"),
    "extraction": ("loss", "exact_match", "answer_f1"),
    "translation": (*_OF_TOKENS, "bleu", "chrf", "exact_match"),
}


def base_name(metric: str) -> str:
    """ "accuracy" of "eval/accuracy@256"."""
    return metric.partition("@")[0].rpartition("/")[2]


def is_known(metric: str) -> bool:
    """Whether some evaluation writes it, or it can be measured."""
    return (metric.startswith("eval/") and base_name(metric) in METRICS) or is_measure(metric)


def names_of_all() -> tuple[str, ...]:
    """Every metric that some evaluation writes, and what can be measured."""
    return (*(f"eval/{name}" for name in METRICS), *(metric for name in MEASURES for metric in metrics_of(name)))


def _found(metric: str) -> Metric | None:
    if measure := MEASURES.get(name_of(metric)):
        return Metric(measure.more_is_better, measure.unit)
    return METRICS.get(base_name(metric))


def more_is_better(metric: str) -> bool:
    """Whether the larger value of a metric is the better one: of accuracies, where of losses it is
    the smaller one.
    """
    found = _found(metric)
    return found is not None and found.more_is_better


def falls(metric: str) -> bool:
    """Whether a metric is one of which less is better, in training too, so that a run that blows up
    ends far above where it began.
    """
    found = _found(metric)
    return found is not None and not found.more_is_better


def per_token(metric: str) -> bool:
    """Whether a metric of text is a mean over tokens, which those of another tokenizer cannot be
    compared with.
    """
    return base_name(metric) in ("loss", "perplexity")


def unit(metric: str) -> str:
    """Unit of a metric, with a leading space, or an empty string where it has none or none is
    known.
    """
    found = _found(metric)
    return f" {found.unit}" if found is not None and found.unit else ""


def written_by(flat: Mapping[str, Any]) -> tuple[str, ...]:
    """The metrics that the evaluation of a flat resolved config writes.

    Of tags that mark no entities no scores of entities are written, which only the data tell.
    """
    names = _OF_TASKS.get(flat["objective.kind"], _OF_TOKENS)
    if flat["objective.kind"] == "classification" and flat["model.head.classes"] != 2:
        names = tuple(name for name in names if name != "f1")
    if flat["objective.next_sentence"]:
        names += ("next_loss", "next_accuracy")
    return tuple(f"eval/{name}" for name in names)
