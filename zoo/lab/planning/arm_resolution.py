"""Resolves the configs of arms and of prerequisite runs, and computes their cost."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo import config
from zoo.config.fields import TASKS
from zoo.errors import ConfigError, DataError
from zoo.lab.declarations import arm_text
from zoo.lab.experiment import Experiment, arm_name
from zoo.lab.planning.arm import SIZE_OF, SIZE_TOLERANCE, PlannedArm
from zoo.lab.planning.prerequisites import incompatible_starts, prerequisite_vocab_size, references, unknown_references
from zoo.lab.planning.size_matching import find_matching_value
from zoo.nested import flatten
from zoo.training.records.ancestry import ALLOWED, NAME, START, seen_tokens


class ArmResolver:
    """Resolves the arms of one experiment.

    Attributes:
        prerequisites: the prerequisite runs by name; None for one with problems.
        problems: problems of the prerequisite runs, and after `arms` those of the arms too.
        sketches: arms with problems, with what of their configs could be resolved, and without sizes.
        only_data: whether all problems are of the content of data.
    """

    def __init__(self, experiment: Experiment):
        self._experiment = experiment
        # Vocabulary sizes that only the data tell, by data config: reading the data takes time.
        self._vocab_sizes: dict[str, int] = {}
        self.prerequisites: dict[str, PlannedArm | None] = {}
        self.problems: list[str] = []
        self.sketches: list[PlannedArm] = []
        self.only_data = True
        # A prerequisite may start from one that is declared before it.
        for name, prerequisite in experiment.prerequisites.items():
            try:
                self.prerequisites[name] = self._resolve(name, prerequisite.config)
            except ConfigError as error:
                self.prerequisites[name] = None
                self.only_data = False
                self.problems += [f'prerequisite run "{name}": {line}' for line in error.problems]

    def arms(self) -> list[PlannedArm]:
        """Returns every combination of levels that has no problems as an arm, size-matched if the
        experiment asks for it.
        """
        experiment, arms = self._experiment, []
        problems: dict[str, list[str]] = {}
        products = list(arm_overrides(experiment))
        for levels, changes in products:
            name = arm_name(levels) or experiment.name
            changes |= experiment.tuned_values.get(name, {})
            settings = config.override(experiment.base, changes)
            try:
                arm = self._resolve(name, settings)
            except (ConfigError, DataError) as error:
                problems[name] = error.problems
                self.only_data &= isinstance(error, DataError)
                if (found := _resolved_in_part(settings)) is not None:
                    self.sketches.append(PlannedArm(name, levels, changes, found, {}, 0.0))
                continue
            if arm is not None:
                # Levels may be given as text; the record has values of the field's type.
                flat = flatten(arm.config)
                overrides = {path: _as_json(flat[path]) for path in changes}
                arms.append(replace(arm, levels=levels, overrides=overrides))
        self.problems += _merge_by_problem(problems, len(products))
        return self._match_sizes(arms) if experiment.match and arms and not self.problems else arms

    def _match_sizes(self, arms: list[PlannedArm]) -> list[PlannedArm]:
        """Returns the arms with the size of the first; the adjusted field becomes an override."""
        experiment = self._experiment
        path, size = experiment.match.field, SIZE_OF[experiment.match.what]
        target, matched, problems = size(arms[0]), [arms[0]], {}
        for arm in arms[1:]:

            def with_value(value: int, arm: PlannedArm = arm) -> PlannedArm:
                changes = {**arm.overrides, path: value}
                made = self._resolve(arm.name, config.override(experiment.base, changes))
                return replace(made, levels=arm.levels, overrides=changes)

            if abs(size(arm) / target - 1) <= SIZE_TOLERANCE:
                matched.append(arm)
                continue
            start = flatten(arm.config)[path]
            try:
                value = find_matching_value(start, target, lambda value, arm=with_value: size(arm(value)))
                matched.append(with_value(value))
            except ConfigError as error:
                problems[arm.name] = [
                    f"match: {path} {line}" if line.startswith("does") else line for line in error.problems
                ]
        self.only_data &= not problems
        self.problems += _merge_by_problem(problems, len(arms))
        return arms if problems else matched

    def _resolve(self, name: str, settings: Mapping[str, Any]) -> PlannedArm | None:
        """Returns an arm with its cost; None if it starts from a prerequisite that has problems."""
        unresolved = config.override(settings, {"seed": self._experiment.seeds[0]})
        if NAME in self._experiment.allow:
            unresolved = config.override(unresolved, {ALLOWED: True})
        if lines := unknown_references(unresolved, self.prerequisites):
            raise ConfigError(lines)
        if any(self.prerequisites[needed] is None for needed in references(unresolved).values()):
            config.resolve(unresolved)
            return None
        sources = {other: arm.config for other, arm in self.prerequisites.items() if arm is not None}
        resolved = self._resolve_config(unresolved, prerequisite_vocab_size(unresolved, sources))
        if lines := list(incompatible_starts(resolved, sources)):
            raise ConfigError(lines)
        cost = count_cost(resolved)
        sizes = dict(cost.parameters), float(cost.flops_per_token)
        return PlannedArm(name, {}, {}, resolved, *sizes, self._inherited_tokens(resolved))

    def _inherited_tokens(self, resolved: config.ResolvedConfig) -> int:
        needed, folder = references(resolved).get(START), resolved.training.start_from
        if needed is not None:
            return self.prerequisites[needed].tokens
        return (seen_tokens(Path(folder)) or 0) if folder else 0

    def _resolve_config(self, unresolved: Mapping[str, Any], vocab_size: int | None) -> config.ResolvedConfig:
        resolved = config.resolve(unresolved, vocab_size)
        known = resolved.model.vocab_size != config.AUTO
        if known and resolved.objective.kind not in TASKS:
            return resolved
        from zoo import data

        if not known:
            key = repr((flatten(resolved.data), flatten(resolved.objective)))
            if key not in self._vocab_sizes:
                self._vocab_sizes[key] = data.vocabulary_size(resolved)
            resolved = config.resolve(unresolved, vocab_size=self._vocab_sizes[key])
        return data.with_num_classes(resolved)


def _resolved_in_part(settings: Mapping[str, Any]) -> config.ResolvedConfig | None:
    """Returns what can be resolved of a config, without its data; None if values are wrong."""
    try:
        return config.resolve(settings)
    except config.InvalidCombination as error:
        return config.from_flat(error.fields)
    except ConfigError:
        return None


def count_cost(resolved: config.ResolvedConfig) -> Any:
    """Returns the parameters and FLOPs of a config (`zoo.models.cost`).

    Raises:
        ConfigError: a group of the optimizer has no parameters, or the teacher is not a run.
    """
    # Imported here because it needs JAX, and most mistakes in a plan are found without it.
    from zoo.models import cost, parameter_groups

    parameter_groups.group_sizes(resolved)
    return cost.summary(resolved)


def arm_overrides(experiment: Experiment) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """Yields (levels, flat overrides) of every arm."""
    factors = experiment.factors
    for names in itertools.product(*factors.values()):
        levels = dict(zip(factors, names, strict=True))
        if experiment.seeds_of_arms and arm_name(levels) not in experiment.seeds_of_arms:
            continue
        yield (
            levels,
            {path: value for factor, level in levels.items() for path, value in factors[factor][level].items()},
        )


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _merge_by_problem(problems: Mapping[str, list[str]], num_arms: int) -> list[str]:
    """Returns one line per problem, with the arms that have it.

    Args:
        problems: by arm.
        num_arms: with and without problems.
    """
    arms_with: dict[str, list[str]] = {}
    for name, lines in problems.items():
        for line in lines:
            arms_with.setdefault(line, []).append(arm_text(name))
    return [
        f"every arm: {line}" if len(names) == num_arms > 1 else f"arm {' and arm '.join(names)}: {line}"
        for line, names in arms_with.items()
    ]
