"""What makes the arms of a plan less than fairly compared: refused before anything runs, or allowed
by name and told in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from zoo import config
from zoo.config.fields import TASKS
from zoo.config.parts import KINDS, SIDES
from zoo.errors import ConfigError
from zoo.lab.metrics import per_token
from zoo.nested import flatten

if TYPE_CHECKING:
    from zoo.lab.experiment import Experiment
    from zoo.lab.planning.plan import Arm

TOLERANCE = 0.01
# What arms may differ in besides what their factors set, by the name that allows it.
DIFFERENCES = {
    "tokens": "the training budget in tokens",
    "parameters": "the number of parameters",
    "flops": "FLOPs per token",
    "levels": "fields that only some levels of a factor set",
    "text": "the text",
    "rows": "the rows that are scored",
    "tokenizer": "the tokenizer, under a metric per token",
}
# What a field can be adjusted for, and how it is counted.
MATCHED: dict[str, Callable[[Arm], float]] = {
    "parameters": lambda arm: arm.parameters["total"],
    "flops": lambda arm: arm.flops_per_token,
}


def warnings(experiment: Experiment, arms: list[Arm]) -> list[str]:
    """Lines for the differences that `experiment.allow` names.

    Raises:
        ConfigError: a line for each that it does not name.
    """
    found = [(kind, line) for kind, lines in differences(experiment, arms).items() for line in lines]
    if refused := [f"{line}; {_way_out(kind)}" for kind, line in found if kind not in experiment.allow]:
        raise ConfigError(refused)
    return [line for _, line in found]


def _way_out(kind: str) -> str:
    matched = f"match it (--match {kind}:model.ffn.hidden_dim), or " if kind in MATCHED else ""
    return f'{matched}allow it by name: --allow {kind}, or allow=("{kind}",) in the experiment file'


def differences(experiment: Experiment, arms: list[Arm]) -> dict[str, list[str]]:
    """Lines for what makes a comparison less than fair, by the names of `DIFFERENCES`. Arms share
    one base, so only factors can bring differences in.
    """
    found: dict[str, list[str]] = {name: [] for name in DIFFERENCES}
    for factor, its_levels in experiment.factors.items():
        found["levels"] += _unequal_levels(factor, {level: changes for level, changes in its_levels.items() if changes})
        for name, value in (("tokens", lambda arm: arm.tokens), *MATCHED.items()):
            found[name] += _unequal_cost(factor, arms, DIFFERENCES[name], value)
    texts = {
        (arm.config.data.source, arm.config.data.document_separator, arm.config.data.validation_fraction)
        for arm in arms
    }
    if len(texts) > 1:
        found["text"].append("arms differ in their text: each is scored on the held-out part of its own")
    scored = {
        (arm.config.training.eval_batches, arm.config.data.batch_size, arm.config.data.sequence_length) for arm in arms
    }
    if len(scored) > 1 and any(batches for batches, _, _ in scored):
        found["rows"].append(
            "arms are scored on samples of other rows (training.eval_batches, data.batch_size and data.sequence_length "
            "choose them); training.eval_batches=0 scores all of the held-out text"
        )
    tokenizers = {repr(flatten(arm.config.data.tokenizer)) for arm in arms}
    if (
        len(tokenizers) > 1
        and per_token(experiment.metric)
        and not any(arm.config.objective.kind in TASKS for arm in arms)
    ):
        found["tokenizer"].append(
            f"arms differ in their tokenizer: {experiment.metric} counts per token and cannot be compared; "
            "use eval/bits_per_byte"
        )
    return found


def _unequal_levels(factor: str, its_levels: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Levels that change more than what all levels of their factor set. Levels with nothing in
    common are a list of alternatives, which is no fault; a field that is read only under another
    choice belongs to that choice.
    """
    common = set.intersection(*(set(changes) for changes in its_levels.values())) if its_levels else set()
    lines = []
    for level, changes in its_levels.items():
        extra = [path for path in changes if path not in common and not _belongs_to_a_choice(path, common)]
        if common and extra:
            without = [other for other, others in its_levels.items() if not set(extra) & set(others)]
            lines.append(
                f'factor "{factor}": level "{level}" also sets {", ".join(extra)}, and level '
                f"{' or '.join(without) or 'another'} does not: more differs than what the factor always sets"
            )
    return lines


def _belongs_to_a_choice(path: str, common: set[str]) -> bool:
    """Whether a field is read only under a choice: of its own, or of what has the scope that it is
    in.
    """
    if path.startswith(f"{KINDS}."):
        return "model.layers.pattern" in common
    if path.startswith(tuple(f"{side}." for side in SIDES)):
        return "model.architecture" in common or config.field_at(path).when is not None
    return config.BY_PATH[path].when is not None


def _unequal_cost(factor: str, arms: list[Arm], what: str, value: Callable[[Arm], float]) -> list[str]:
    """The largest gap between arms that differ in `factor` alone."""
    worst, pair = TOLERANCE, None
    groups: dict[tuple, list[Arm]] = {}
    for arm in arms:
        rest = {other: level for other, level in arm.levels.items() if other != factor}
        groups.setdefault(tuple(rest.items()), []).append(arm)
    for group in groups.values():
        low, high = min(group, key=value), max(group, key=value)
        gap = value(high) / value(low) - 1 if value(low) else 0.0
        if gap > worst:
            worst, pair = gap, (low, high)
    if pair is None:
        return []
    low, high = pair
    return [
        f'factor "{factor}" changes {what} by up to {worst:.1%}: from {value(low):,.0f} ({low.levels[factor]}) '
        f"to {value(high):,.0f} ({high.levels[factor]})"
    ]
