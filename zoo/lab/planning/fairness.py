"""Unfair differences between arms: refused before training, or allowed by name and reported."""

from collections.abc import Callable, Mapping
from typing import Any

from zoo import config
from zoo.config.fields import has_condition
from zoo.config.scopes import GROUPS, KINDS, SIDES
from zoo.lab.declarations import DIFFERENCES, arm_text
from zoo.lab.experiment import Experiment
from zoo.lab.planning.arm import SIZE_OF, SIZE_TOLERANCE, PlannedArm
from zoo.lab.planning.evaluations import evaluation_differences
from zoo.lab.planning.prerequisites import references
from zoo.nested import flatten
from zoo.training.records.ancestry import NAME, START, Texts, seen_held_out_text, seen_text


def fairness_warnings(experiment: Experiment, arms: list[PlannedArm]) -> list[str]:
    """Returns a line for every difference between arms that `experiment.allow` names."""
    found = unfair_differences(experiment, arms)
    return [line for kind, lines in found.items() if kind in experiment.allow for line in lines]


def refused_differences(experiment: Experiment, arms: list[PlannedArm]) -> list[str]:
    """Returns a line for every difference between arms that `experiment.allow` does not name."""
    found = unfair_differences(experiment, arms)
    refused = {kind: lines for kind, lines in found.items() if kind not in experiment.allow}
    return [f"{line}; {_remedy(kind, experiment)}" for kind, lines in refused.items() for line in lines]


def _remedy(kind: str, experiment: Experiment) -> str:
    # An experiment has one `match`: one that already has it cannot match a second size.
    can_match = kind in SIZE_OF and experiment.match is None
    matched = f"match it (--match {kind}:model.ffn.hidden_dim), or " if can_match else ""
    return f'{matched}allow it by name: --allow {kind}, or allow=("{kind}",) in the experiment file'


def unfair_differences(experiment: Experiment, arms: list[PlannedArm]) -> dict[str, list[str]]:
    """Returns lines for the differences that make a comparison unfair, by the names of
    `DIFFERENCES`.

    All arms share one base, so only factors can introduce differences in size.
    """
    found: dict[str, list[str]] = {name: [] for name in DIFFERENCES}
    for factor, levels in experiment.factors.items():
        found["levels"] += _unequal_levels(factor, {level: changes for level, changes in levels.items() if changes})
        found["tokens"] += _unequal_sizes(factor, arms, DIFFERENCES["tokens"], lambda arm: arm.tokens)
        for name, size in SIZE_OF.items():
            sized = [arm for arm in arms if arm.parameters]
            found[name] += _unequal_sizes(factor, sized, DIFFERENCES[name], size)
    found[NAME] += _seen_text(experiment, arms)
    for what, lines in evaluation_differences(experiment, arms).items():
        found[what] += lines
    return found


def _unequal_levels(factor: str, levels: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns lines for levels that set more than the fields that all levels of the factor set.

    Levels without a common field are a list of alternatives, which is fine. So is a field that is
    read only under a choice that the levels make.
    """
    common = set.intersection(*(set(changes) for changes in levels.values())) if levels else set()
    lines = []
    for level, changes in levels.items():
        extra = [path for path in changes if path not in common and not _belongs_to_a_choice(path, common)]
        if common and extra:
            without = [other for other, others in levels.items() if not set(extra) & set(others)]
            lines.append(
                f'factor "{factor}": level "{level}" also sets {", ".join(extra)}, and level '
                f"{' or '.join(without) or 'another'} does not: arms differ in more than the fields that the factor "
                "always sets"
            )
    return lines


def _belongs_to_a_choice(path: str, common: set[str]) -> bool:
    """Returns whether a field is read only under a condition.

    That is its own `when` or, inside a scope, the choice that creates the scope.
    """
    if path.startswith(f"{KINDS}."):
        return "model.layers.pattern" in common
    if path.startswith(f"{GROUPS}."):
        return "optimizer.groups" in common
    if path.startswith(tuple(f"{side}." for side in SIDES)):
        return "model.architecture" in common or has_condition(config.field_at(path))
    return has_condition(config.BY_PATH[path])


def _unequal_sizes(factor: str, arms: list[PlannedArm], what: str, size: Callable[[PlannedArm], float]) -> list[str]:
    """Returns a line for the largest gap between arms that differ only in `factor`."""
    worst, pair = SIZE_TOLERANCE, None
    groups: dict[tuple, list[PlannedArm]] = {}
    for arm in arms:
        rest = {other: level for other, level in arm.levels.items() if other != factor}
        groups.setdefault(tuple(rest.items()), []).append(arm)
    for group in groups.values():
        low, high = min(group, key=size), max(group, key=size)
        gap = size(high) / size(low) - 1 if size(low) else 0.0
        if gap > worst:
            worst, pair = gap, (low, high)
    if pair is None:
        return []
    low, high = pair
    return [
        f'factor "{factor}" changes {what} by up to {worst:.1%}: from {size(low):,.0f} ({low.levels[factor]}) '
        f"to {size(high):,.0f} ({high.levels[factor]})"
    ]


def _seen_text(experiment: Experiment, arms: list[PlannedArm]) -> list[str]:
    """Returns a line for each way in which arms are scored on text that they were trained on before,
    by the names of their sources: contents are compared when a run starts.
    """
    found: dict[str, list[str]] = {}
    for arm in arms:
        flat = flatten(arm.config)
        if name := references(arm.config).get(START):
            before = Texts.of_fields(flatten(experiment.prerequisites[name].config))
            why = seen_text(Texts.of_fields(flat), before)
            lines = [f"held-out text was training text of the prerequisite run {name}: {why}"] if why else []
        else:
            lines = seen_held_out_text(flat)
        for line in lines:
            found.setdefault(line, []).append(arm_text(arm.name))
    return [f"arm {' and arm '.join(names)}: {line}" for line, names in found.items()]
