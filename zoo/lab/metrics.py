"""Metrics of evaluations and of measures: directions, units, and which runs write them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from zoo.config import LOSS_TERMS, declared_loss_terms
from zoo.lab.measures import (
    MEASURE_PREFIX,
    MEASURES,
    find_measure,
    is_measure,
    known_measures,
    measure_metrics,
    measure_name,
)


class Metric(NamedTuple):
    """A metric of `eval/`.

    Attributes:
        higher_is_better: true for accuracies and other scores, false for losses.
        unit: empty for fractions, correlations and scores.
        best: the best value that there can be; None where none is known.
    """

    higher_is_better: bool
    unit: str = ""
    best: float | None = None


# Names are those of `base_name`.
_SCORES = (
    "accuracy",
    "word_accuracy",
    "next_accuracy",
    "replaced_accuracy",
    "generator_accuracy",
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
)
METRICS = {
    "loss": Metric(False, "nats", 0.0),
    "next_loss": Metric(False, "nats", 0.0),
    "generator_loss": Metric(False, "nats", 0.0),
    "perplexity": Metric(False, best=1.0),
    "bits_per_byte": Metric(False, "bits", 0.0),
    **dict.fromkeys(_SCORES, Metric(True, best=1.0)),
    # sacreBLEU's scores.
    **dict.fromkeys(("bleu", "chrf"), Metric(True, best=100.0)),
}
_LOSS_TERM = Metric(False)

# "steps_to/ARM": updates to the loss at which another arm ends (`zoo.lab.results.steps_to_loss`).
STEPS_TO_PREFIX = "steps_to/"
_STEPS_TO = Metric(False, "steps")

_OF_TOKENS = ("loss", "perplexity", "bits_per_byte")
# Metrics that objectives of plug-ins report in addition to those of tokens.
METRICS_OF: dict[str, list[str]] = {}
OF_REPLACED_TOKENS = ("loss", "accuracy", "replaced_accuracy", "generator_loss", "generator_accuracy")
# Metrics of objectives other than of tokens alone.
_OF_OBJECTIVES = {
    "replaced_tokens": OF_REPLACED_TOKENS,
    "classification": ("loss", "accuracy", "macro_f1", "matthews", "f1"),
    "regression": ("loss", "pearson", "spearman"),
    "tagging": ("loss", "accuracy", "word_accuracy", "entity_precision", "entity_recall", "entity_f1"),
    "extraction": ("loss", "exact_match", "answer_f1"),
    "translation": (*_OF_TOKENS, "bleu", "chrf", "exact_match"),
}


def base_name(metric: str) -> str:
    """Returns "accuracy" for "eval/accuracy@256"."""
    return metric.partition("@")[0].rpartition("/")[2]


def steps_to_arm(metric: str) -> str:
    """Returns the arm of `steps_to/ARM`; empty for another metric."""
    return metric.removeprefix(STEPS_TO_PREFIX) if metric.startswith(STEPS_TO_PREFIX) else ""


def is_known_metric(metric: str) -> bool:
    """Whether some evaluation writes the metric, or it is derived from evaluations or a measure."""
    known = base_name(metric) in METRICS or base_name(metric) in LOSS_TERMS
    return (metric.startswith("eval/") and known) or bool(steps_to_arm(metric)) or is_measure(metric)


def known_metrics() -> tuple[str, ...]:
    """Returns every metric that some evaluation writes, and the metrics of measures: of one whose
    plug-in is not loaded, only that of the trained run.
    """
    written = (f"eval/{name}" for name in (*METRICS, *LOSS_TERMS))
    measured = (metric for name in MEASURES for metric in measure_metrics(name))
    return tuple(dict.fromkeys((*written, *measured, *(MEASURE_PREFIX + name for name in known_measures()))))


def _find(metric: str) -> Metric | None:
    if measure := find_measure(measure_name(metric)):
        # The answers of a synthetic task are scored by the share of right ones.
        return Metric(measure.higher_is_better, measure.unit, 1.0 if measure.task else None)
    if steps_to_arm(metric):
        return _STEPS_TO
    return METRICS.get(base_name(metric), _LOSS_TERM if base_name(metric) in LOSS_TERMS else None)


def equal_by_chance(metric: str) -> bool:
    """Whether different runs may end with the same value of a metric, as with counts and shares."""
    return base_name(metric) not in (*_OF_TOKENS, "pretraining_loss")


def higher_is_better(metric: str) -> bool:
    """Whether the higher value of a metric is the better one; false for unknown metrics."""
    found = _find(metric)
    return found is not None and found.higher_is_better


def best_possible(metric: str) -> float | None:
    """Returns the best value that a metric can have, such as 1 for an accuracy; None if unknown."""
    found = _find(metric)
    return found.best if found is not None else None


def lower_is_better(metric: str) -> bool:
    """Whether the lower value of a metric is the better one; false for unknown metrics.

    A run that diverges ends far above its start in such a metric.
    """
    found = _find(metric)
    return found is not None and not found.higher_is_better


def is_per_token(metric: str) -> bool:
    """Whether a metric is a mean over tokens, which cannot be compared between tokenizers."""
    return base_name(metric) in ("loss", "perplexity") or bool(steps_to_arm(metric))


def unit_suffix(metric: str) -> str:
    """Returns the unit of a metric after a space, e.g. " nats"; empty if it has none."""
    found = _find(metric)
    return f" {found.unit}" if found is not None and found.unit else ""


def written_metrics(flat: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the metrics that the evaluation of a flat resolved config writes.

    Tagging without entities, which only the data tell, writes no scores of entities.
    """
    names = _OF_OBJECTIVES.get(flat["objective.kind"], (*_OF_TOKENS, *METRICS_OF.get(flat["objective.kind"], ())))
    if flat["objective.kind"] == "classification" and flat["model.head.classes"] != 2:
        names = tuple(name for name in names if name != "f1")
    if flat["model.generator.num_layers"] == 0:
        names = tuple(name for name in names if name != "generator_loss")
    if flat["objective.next_sentence"]:
        names += ("next_loss", "next_accuracy")
    names += declared_loss_terms(flat)
    averages = {"ema": "optimizer.ema_steps", "tail": "optimizer.tail_average"}
    prefixes = ("eval", *(f"eval/{name}" for name, path in averages.items() if flat[path]))
    return tuple(f"{prefix}/{name}" for prefix in prefixes for name in names)
