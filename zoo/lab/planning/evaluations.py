"""Compares what the evaluations of arms score: metrics of one name may measure different things."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from zoo.config import chosen_differences
from zoo.config.fields import chosen
from zoo.data import content_fingerprints
from zoo.data.pipeline.evaluation_fingerprint import EvaluationFingerprint, evaluation_fingerprint
from zoo.errors import ConfigError, DataError, listed
from zoo.lab.declarations import arm_text
from zoo.lab.experiment import Experiment, named_contrasts
from zoo.lab.measures import measure_name
from zoo.lab.metrics import OF_REPLACED_TOKENS, base_name, is_per_token
from zoo.lab.planning.arm import PlannedArm
from zoo.nested import flatten

_WHAT = {
    "text": "are scored on different texts",
    "tokenizer": "are scored per token of different tokenizers",
    "rows": "are scored on different rows",
    "targets": "are scored on different targets",
    "context": "predict what is scored from different contexts",
}
# Sources that name files, whose content can be compared before anything is trained.
_FILES = {"text", "jsonl", "parquet", "tokens", "csv", "tsv", "conll", "squad", "parallel", "mixture"}


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
        prints = with_equal_texts(prints, lambda name: _contents(configs[name]))
        for what, line in fingerprint_differences(prints, metric).items():
            found[what].append(line)
    return found


def generator_differences(configs: Mapping[str, Mapping[str, Any]], metric: str) -> str | None:
    """Returns a line if a metric scores what networks make that are trained with the arms, and these
    networks differ: the generators of replaced-token detection (Clark et al. 2020).

    A generator has the model's fields but for its depth and width, its rate and its training.

    Args:
        configs: by the name of the arm; the first is compared with all others.
        metric: what is compared.
    """
    flats = {name: flatten(settings) for name, settings in configs.items()}
    if base_name(metric) not in OF_REPLACED_TOKENS or not metric.startswith("eval/"):
        return None
    if not any(
        flat.get("objective.kind") == "replaced_tokens" and flat.get("model.generator.num_layers")
        for flat in flats.values()
    ):
        return None
    (_, first), *others = configs.items()
    paths = dict.fromkeys(path for _, other in others for path in chosen_differences(first, other))
    paths.pop("model.num_layers", None)
    if not paths:
        return None
    return (
        f"arms are scored by {metric} on tokens that their own generators make, and these differ (by "
        f"{listed(paths)}): a better generator is harder to tell from text; any models compare by the score of a task "
        "that they are fine-tuned on"
    )


def generator_warnings(experiment: Experiment, arms: list[PlannedArm]) -> list[str]:
    """Returns a line for each metric that compares arms with different generators."""
    configs = {arm.name: arm.config for arm in arms}
    compared = {experiment.metric: list(configs)}
    for contrast in named_contrasts(experiment):
        if contrast.a.metric == contrast.b.metric != experiment.metric:
            compared.setdefault(contrast.a.metric, [contrast.a.arm]).append(contrast.b.arm)
    lines = (generator_differences({name: configs[name] for name in names}, one) for one, names in compared.items())
    return [line for line in lines if line]


def field_differences(experiment: Experiment, arms: list[PlannedArm]) -> list[str]:
    """Returns a line for each pair of arms that differ in more than one field, with the fields: the
    arms of each contrast, or without contrasts the first arm and each other.
    """
    configs = {arm.name: arm.config for arm in arms}
    given = {arm.name: arm.overrides.keys() for arm in arms}
    pairs = [(contrast.b.arm, contrast.a.arm) for contrast in named_contrasts(experiment)]
    pairs = pairs or [(arms[0].name, arm.name) for arm in arms[1:]]
    lines = (
        several_fields(arm_text(one), configs[one], arm_text(other), configs[other], given[one] | given[other])
        for one, other in dict.fromkeys(pairs)
    )
    return [line for line in lines if line]


def several_fields(
    one: str, config: Mapping[str, Any], other: str, its: Mapping[str, Any], given: Collection[str] = ()
) -> str | None:
    """Returns in which fields two arms differ; None if it is at most one.

    Args:
        one, config: an arm.
        other, its: another one.
        given: fields that an arm sets, itself or by the matching of sizes.
    """
    paths = chosen_differences(config, its, given)
    return f"{other} differs from {one} in {len(paths)} fields: {listed(paths, 12)}" if len(paths) > 1 else None


def with_equal_texts(
    prints: Mapping[str, EvaluationFingerprint], contents: Callable[[str], tuple[Any, Any] | None]
) -> dict[str, EvaluationFingerprint]:
    """Returns evaluations in which equal texts and equal tokenizers are described equally.

    A text may have several names: relative, absolute, or that of a compressed copy.

    Args:
        prints: by the name of the arm.
        contents: returns what identifies the text that an arm is scored on, and its tokenizer; None
            if that is not known. It is called where descriptions differ.
    """
    if all(len({getattr(each, part) for each in prints.values()}) == 1 for part in ("text", "tokenizer")):
        return dict(prints)
    texts: dict[Any, str] = {}
    tokenizers: dict[Any, str] = {}
    found = {}
    for name, each in prints.items():
        if (keys := contents(name)) is not None:
            text, tokenizer = texts.setdefault(keys[0], each.text), tokenizers.setdefault(keys[1], each.tokenizer)
            each = replace(each, text=text, tokenizer=tokenizer)
        found[name] = each
    return found


def scored_text(flat: Mapping[str, Any], source: Any, held_out: str) -> Any:
    """Returns what identifies the text that a config is scored on.

    Args:
        flat: the resolved config.
        source: fingerprint of its source, or of each.
        held_out: fingerprint of `data.held_out`; empty if there is none.
    """
    return held_out or (source, flat["data.validation_fraction"], flat["data.split"])


def _contents(config: Any) -> tuple[Any, Any] | None:
    """Returns what `with_equal_texts` asks for, from the files of a config that reads files."""
    flat = flatten(config)
    if not set(chosen(flat, "data.source")) <= _FILES:
        return None
    try:
        sources, held_out = content_fingerprints(config)
    except (ConfigError, DataError):
        return None
    settings = tuple((path, value) for path, value in flat.items() if path.startswith("data.tokenizer."))
    return scored_text(flat, tuple(sources), held_out), (tuple(sources), held_out, settings)


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
    shown = [f"{value} ({listed(list(map(arm_text, names)), 1)})" for value, names in list(sides.items())[:3]]
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
