"""Compares what the evaluations of arms score: metrics of one name may measure different things."""

from collections.abc import Iterable, Mapping

from zoo.data.pipeline.evaluation_fingerprint import EvaluationFingerprint, evaluation_fingerprint
from zoo.errors import listed
from zoo.lab.experiment import Experiment, named_contrasts
from zoo.lab.measures import measure_name
from zoo.lab.metrics import is_per_token
from zoo.lab.planning.arm import PlannedArm

_WHAT = {
    "text": "are scored on different texts",
    "tokenizer": "are scored per token of different tokenizers",
    "rows": "are scored on different rows",
    "targets": "are scored on different targets",
    "context": "predict what is scored from different contexts",
}


def evaluation_differences(experiment: Experiment, arms: list[PlannedArm]) -> dict[str, list[str]]:
    """Returns a line for each way in which a metric is not the same measure in all arms that it
    compares, by the names of `DIFFERENCES`.

    Compared are all arms by the experiment's metric, and both arms of each contrast by its own. A
    contrast of two metrics, say of two lengths, is meant to differ.
    """
    configs = {arm.name: arm.config for arm in arms}
    compared = dict.fromkeys([(experiment.metric, tuple(configs))])
    for contrast in named_contrasts(experiment):
        if contrast.a.metric == contrast.b.metric != experiment.metric:
            compared[contrast.a.metric, (contrast.a.arm, contrast.b.arm)] = None
    found: dict[str, list[str]] = {what: [] for what in _WHAT}
    for metric, members in compared:
        # An arm whose config has problems is missing here.
        if measure_name(metric) or not members or any(name not in configs for name in members):
            continue
        length = metric.partition("@")[2]
        prints = {name: evaluation_fingerprint(configs[name], int(length) if length else None) for name in members}
        for what, line in fingerprint_differences(prints, metric).items():
            found[what].append(line)
    return found


def fingerprint_differences(prints: Mapping[str, EvaluationFingerprint], metric: str) -> dict[str, str]:
    """Returns a line for each difference between evaluations, by the names of `DIFFERENCES`.

    Args:
        prints: by the name of the arm; the first is compared with all others.
        metric: what is compared.
    """
    found: dict[str, dict[str, list[str]]] = {}
    (first, reference), *others = prints.items()
    for name, other in others:
        for what, (one, value) in reference.differences(other, is_per_token(metric)).items():
            found.setdefault(what, {one: [first]}).setdefault(value, []).append(name)
    return {
        what: f"{_opening(what, metric)}{values_by_arm(sides)}{_advice(what, prints, metric)}"
        for what, sides in found.items()
    }


def _opening(what: str, metric: str) -> str:
    return f"arms {_WHAT[what]} by {metric}: "


def why_not_ranked(warnings: Iterable[str], metric: str) -> list[str]:
    """Returns in which ways arms are scored differently, such as "are scored on different rows".

    Args:
        warnings: of a sweep or a comparison, among them the lines of `fingerprint_differences`.
        metric: what the arms would be ranked by; without a line about it the list is empty.
    """
    lines = tuple(warnings)
    return [words for what, words in _WHAT.items() if any(line.startswith(_opening(what, metric)) for line in lines)]


def values_by_arm(sides: Mapping[str, list[str]]) -> str:
    """Returns "1,000 (pre) | 2,000 (post and 1 more)", with at most three values.

    Args:
        sides: the names of the arms that have a value, by value.
    """
    shown = [f"{value} ({listed(names, 1)})" for value, names in list(sides.items())[:3]]
    return " | ".join(shown + ["..."] * (len(sides) > 3))


def _advice(what: str, prints: Mapping[str, EvaluationFingerprint], metric: str) -> str:
    """Returns which setting makes the arms comparable, where there is one."""
    if what == "text":
        return "; each is scored on the held-out part of its own"
    if what == "tokenizer":
        return f"; {metric} counts per token, use eval/bits_per_byte"
    sides = prints.values()
    same_context = len({each.context for each in sides}) == 1
    if what == "rows" and len({each.sample for each in sides}) > 1:
        return "; training.eval_batches=0 scores all of the held-out text"
    if what == "rows" and same_context and len({each.hidden for each in sides}) > 1:
        return "; training.eval_masks=all hides tokens in the same way"
    if what == "targets" and same_context and not any(each.hidden for each in sides):
        return "; training.eval_context leaves out the first targets of a row"
    return "; any models compare by the score of a task that they are fine-tuned on"
