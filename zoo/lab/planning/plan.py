"""From an experiment to its runs: the full product of the factors, checked as a whole before
anything runs.
"""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zoo import config
from zoo.config.fields import TASKS
from zoo.errors import ConfigError
from zoo.lab.experiment import Experiment, arm_name, measured, side_of
from zoo.lab.planning import tuning
from zoo.lab.planning.fairness import MATCHED, TOLERANCE, warnings
from zoo.lab.planning.prerequisites import misfits, named, placed, unknown, vocabulary_of
from zoo.lab.planning.size_matching import adjusted
from zoo.lab.planning.validation import absent_metrics, idle, twins
from zoo.lab.results.schema import PREFIX
from zoo.nested import flatten


@dataclass(frozen=True)
class Arm:
    """One variant: a level of every factor; or a run that is prepared, without levels. `config` is
    resolved, with the first seed.
    """

    name: str
    levels: dict[str, str]
    overrides: dict[str, Any]
    config: config.ResolvedConfig
    parameters: dict[str, int]
    flops_per_token: float

    @property
    def tokens_per_step(self) -> int:
        return self.config.data.batch_size * self.config.data.sequence_length

    @property
    def steps(self) -> int:
        return self.config.training.steps

    @property
    def tokens(self) -> int:
        """Tokens trained on in the whole run."""
        return self.steps * self.tokens_per_step


@dataclass(frozen=True)
class Run:
    """One arm with one seed.

    Attributes:
        folder: name of its folder inside the sweep's.
        config: resolved; runs that it starts from are named as in `zoo.lab.planning.prerequisites`.
        needs: those runs.
    """

    folder: str
    arm: Arm
    seed: int
    identity: str
    config: config.ResolvedConfig
    needs: tuple["Run", ...] = ()

    @property
    def name(self) -> str:
        return f"{self.arm.name} seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """Everything that will run.

    Attributes:
        runs: those of the arms: every arm with the first seed, then with the second.
        prepared: those that they start from, likewise.
    """

    experiment: Experiment
    arms: list[Arm]
    runs: list[Run]
    warnings: list[str]
    prepared: list[Run] = field(default_factory=list)

    @property
    def in_order(self) -> list[Run]:
        """All runs, seed by seed, so that a sweep that is stopped early can be compared all the
        same; of a seed what is prepared first.
        """
        return sorted([*self.prepared, *self.runs], key=lambda run: self.experiment.seeds.index(run.seed))

    def pending(self, finished: Callable[[Run], bool]) -> list[Run]:
        """What is left to run, in order: runs of arms that are not finished, and of what is
        prepared those that one of these needs.
        """
        wanted = {run.folder for run in self.runs if not finished(run)}
        for run in reversed([*self.prepared, *self.runs]):
            if run.folder in wanted:
                wanted |= {needed.folder for needed in run.needs if not finished(needed)}
        return [run for run in self.in_order if run.folder in wanted]

    def record(self) -> dict[str, Any]:
        """The content of experiment.json."""
        experiment = self.experiment
        claim = experiment.claim
        return {
            "name": experiment.name,
            "question": experiment.question,
            "size": experiment.size,
            "claim": claim and {"id": claim.id, "statement": claim.statement, "source": claim.source},
            "metric": experiment.metric,
            "factors": {factor: list(its_levels) for factor, its_levels in experiment.factors.items()},
            "arms": [
                {
                    "name": arm.name,
                    "factors": arm.levels,
                    "overrides": arm.overrides,
                    "parameters": arm.parameters,
                    "flops_per_token": arm.flops_per_token,
                }
                for arm in self.arms
            ],
            "runs": [
                {"folder": run.folder, "arm": run.arm.name, "seed": run.seed, "identity": run.identity}
                for run in self.runs
            ],
            "prepared": [
                {"folder": run.folder, "name": run.arm.name, "seed": run.seed, "identity": run.identity}
                for run in self.prepared
            ],
            "seeds": list(experiment.seeds),
            "allow": list(experiment.allow),
            "match": experiment.match and {"what": experiment.match.what, "field": experiment.match.field},
            **({"measures": names} if (names := measured(experiment)) else {}),
            **({"tuning": _tuning(experiment)} if experiment.tune else {}),
            **({"looks": {str(seeds): level for seeds, level in experiment.looks.items()}} if experiment.looks else {}),
            "contrasts": [
                {
                    "name": contrast.name,
                    "a": side_of(experiment, contrast.a),
                    "b": side_of(experiment, contrast.b),
                    "rule": contrast.rule,
                    "margin": float(contrast.margin),
                    "expected": contrast.expected,
                }
                for contrast in experiment.contrasts
            ],
            "warnings": self.warnings,
        }


def _tuning(experiment: Experiment) -> dict[str, Any]:
    tune = experiment.tune
    return {
        "field": tune.field,
        "factor": tuning.factor_name(experiment),
        "values": sorted(tune.values),
        "seeds": list(tune.seeds),
        "chosen": {arm: changes[tune.field] for arm, changes in experiment.chosen.items()},
    }


def expand(experiment: Experiment) -> Plan:
    """Expands an experiment and checks every arm, and every run that is prepared for them.

    Raises:
        ConfigError: with the problems of all arms at once: configs that cannot be, two arms that
            are the same run, contrasts on metrics that an arm will not have, parameters that an arm
            cannot start from.
    """
    vocabulary: dict[str, int] = {}
    prepared, wrong = _prepared(experiment, vocabulary)
    problems: dict[str, list[str]] = {}
    arms = []
    products = [dict(zip(experiment.factors, chosen)) for chosen in itertools.product(*experiment.factors.values())]
    for chosen in products:
        name = arm_name(chosen) or experiment.name
        changes = {
            path: value for factor, level in chosen.items() for path, value in experiment.factors[factor][level].items()
        }
        changes |= experiment.chosen.get(name, {})
        try:
            arm = _arm(experiment, name, config.override(experiment.base, changes), prepared, vocabulary)
        except ConfigError as error:
            problems[name] = error.problems
            continue
        if arm is not None:
            # What is recorded has the type of the field: a level may be written as text.
            flat = flatten(arm.config)
            overrides = {path: list(flat[path]) if isinstance(flat[path], tuple) else flat[path] for path in changes}
            arms.append(replace(arm, levels=chosen, overrides=overrides))
    if wrong or problems:
        raise ConfigError([*wrong, *_per_arm(problems, len(products))])
    if experiment.match and arms:
        arms = _matched(experiment, arms, prepared, vocabulary)
    if wrong := [*idle(prepared, arms), *twins(arms), *absent_metrics(experiment, arms)]:
        raise ConfigError(wrong)
    first, runs = _runs(experiment, prepared, arms)
    return Plan(experiment, arms, runs, [*warnings(experiment, arms), *tuning.doubts(experiment)], first)


def _matched(
    experiment: Experiment, arms: list[Arm], prepared: Mapping[str, Arm | None], vocabulary: dict[str, int]
) -> list[Arm]:
    """The arms, made as large as the first by the field of `experiment.match`, which is then one of
    their overrides.
    """
    path, count = experiment.match.field, MATCHED[experiment.match.what]
    target, found, problems = count(arms[0]), [arms[0]], {}
    for arm in arms[1:]:

        def sized(value: int, arm: Arm = arm) -> Arm:
            changes = {**arm.overrides, path: value}
            made = _arm(experiment, arm.name, config.override(experiment.base, changes), prepared, vocabulary)
            return replace(made, levels=arm.levels, overrides=changes)

        if abs(count(arm) / target - 1) <= TOLERANCE:
            found.append(arm)
            continue
        try:
            found.append(
                sized(adjusted(flatten(arm.config)[path], target, lambda value, sized=sized: count(sized(value))))
            )
        except ConfigError as error:
            problems[arm.name] = [
                f"match: {path} {line}" if line.startswith("does") else line for line in error.problems
            ]
    if problems:
        raise ConfigError(_per_arm(problems, len(arms)))
    return found


def _prepared(experiment: Experiment, vocabulary: dict[str, int]) -> tuple[dict[str, Arm | None], list[str]]:
    """The runs to prepare, None for one with problems, and those problems. One may start from
    another that stands before it.
    """
    prepared: dict[str, Arm | None] = {}
    problems = []
    for name, stage in experiment.prepare.items():
        try:
            prepared[name] = _arm(experiment, name, stage.config, dict(prepared), vocabulary)
        except ConfigError as error:
            prepared[name] = None
            problems += [f'prepared run "{name}": {line}' for line in error.problems]
    return prepared, problems


def _arm(
    experiment: Experiment,
    name: str,
    settings: Mapping[str, Any],
    prepared: Mapping[str, Arm | None],
    vocabulary: dict[str, int],
) -> Arm | None:
    """Resolves an arm and counts its cost; None where it starts from a prepared run that has
    problems itself.
    """
    unresolved = config.override(settings, {"seed": experiment.seeds[0]})
    if lines := unknown(unresolved, prepared):
        raise ConfigError(lines)
    if any(prepared[needed] is None for needed in named(unresolved).values()):
        config.resolve(unresolved)
        return None
    there = {other: arm.config for other, arm in prepared.items() if arm is not None}
    resolved = _resolve(unresolved, vocabulary_of(unresolved, there), vocabulary)
    if lines := list(misfits(resolved, there)):
        raise ConfigError(lines)
    cost = _cost(resolved)
    return Arm(name, {}, {}, resolved, dict(cost.parameters), float(cost.flops_per_token))


def _resolve(
    unresolved: Mapping[str, Any], vocab_size: int | None, vocabulary: dict[str, int]
) -> config.ResolvedConfig:
    """Resolves a config; a vocabulary that only the data tell is read once per data config."""
    resolved = config.resolve(unresolved, vocab_size)
    known = resolved.model.vocab_size != config.AUTO
    if known and resolved.objective.kind not in TASKS:
        return resolved
    from zoo import data

    if not known:
        key = repr((flatten(resolved.data), flatten(resolved.objective)))
        if key not in vocabulary:
            vocabulary[key] = data.vocabulary_size(resolved)
        resolved = config.resolve(unresolved, vocab_size=vocabulary[key])
    return data.with_labels(resolved)


def _cost(resolved: config.ResolvedConfig) -> Any:
    # Imported late: it brings JAX, which a plan that is refused does not need.
    from zoo.models import cost

    return cost.summary(resolved)


def _per_arm(problems: Mapping[str, list[str]], arms: int) -> list[str]:
    """One line per problem with the arms that have it."""
    having: dict[str, list[str]] = {}
    for name, lines in problems.items():
        for line in lines:
            having.setdefault(line, []).append(name)
    lines = []
    for line, names in having.items():
        everywhere = len(names) == arms > 1
        lines.append(f"every arm: {line}" if everywhere else f"arm {' and arm '.join(names)}: {line}")
    return lines


def _runs(experiment: Experiment, prepared: Mapping[str, Arm], arms: list[Arm]) -> tuple[list[Run], list[Run]]:
    """(the runs to prepare, those of the arms)."""
    first: dict[str, Run] = {}
    runs = []
    for seed in experiment.seeds:
        here: dict[str, Run] = {}
        for name, arm in prepared.items():
            once = experiment.prepare[name].once
            made = _run(name if once else f"{name}-seed{seed}", arm, experiment.seeds[0] if once else seed, here)
            # Its identity in the name is what makes it a part of the identity of what starts from
            # it.
            made = replace(made, folder=f"{made.folder}-{made.identity}")
            here[name] = first.setdefault(made.folder, made)
        runs += [_run(f"{arm.name}-seed{seed}", arm, seed, here) for arm in arms]
    # Folders are compared without case: some file systems do.
    shared = {name for name, count in Counter(run.folder.lower() for run in runs).items() if count > 1}
    runs = [
        replace(run, folder=f"{run.folder}-{run.identity[:8]}") if run.folder.lower() in shared else run for run in runs
    ]
    return list(first.values()), runs


def _run(folder: str, arm: Arm, seed: int, here: Mapping[str, Run]) -> Run:
    # Nothing is derived from the seed, so the resolved arm with another seed is resolved.
    resolved = config.resolve(config.override(arm.config, {"seed": seed}))
    resolved = placed(resolved, lambda name: PREFIX + here[name].folder)
    needs = tuple(here[name] for name in dict.fromkeys(named(arm.config).values()))
    return Run(_folder_name(folder), arm, seed, config.identity(resolved), resolved, needs)


def _folder_name(text: str) -> str:
    """`text` as a portable folder name; what is cut off a long one is replaced by its hash."""
    name = re.sub(r"[^A-Za-z0-9._=,-]+", "-", text)
    if len(name) > 160:
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        name = f"{name[:140]}-{digest}{re.search('-seed[0-9]+$', name)[0]}"
    return "_" + name[1:] if name.startswith(".") else name
