"""Plans an experiment: expands the product of its factors into runs, and checks them."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from zoo import config
from zoo.errors import ConfigError, DataError
from zoo.lab.declarations import BETWEEN_LEVELS, PREREQUISITE_PREFIX, arm_text, used_metrics
from zoo.lab.experiment import Experiment, named_contrasts, required_measures
from zoo.lab.planning.arm import PlannedArm, PlannedRun
from zoo.lab.planning.arm_resolution import ArmResolver
from zoo.lab.planning.evaluations import field_differences, generator_warnings
from zoo.lab.planning.fairness import fairness_warnings, refused_differences
from zoo.lab.planning.known_noise import found_with_fit, noise_of_size
from zoo.lab.planning.prerequisites import references, resolve_references
from zoo.lab.planning.trained_on import trained_on
from zoo.lab.planning.tuning import tuned_elsewhere_warnings, tuning_record, untuned_arm_warnings
from zoo.lab.planning.validation import duplicate_arms, missing_metrics, unused_prerequisites


@dataclass(frozen=True)
class Plan:
    """All runs of an experiment.

    Attributes:
        runs: the runs of the arms: every arm with the first seed, then with the second, and so on.
        prerequisites: the prerequisite runs that `runs` need, also seed by seed.
    """

    experiment: Experiment
    arms: list[PlannedArm]
    runs: list[PlannedRun]
    warnings: list[str]
    prerequisites: list[PlannedRun] = field(default_factory=list)

    @property
    def in_order(self) -> list[PlannedRun]:
        """All runs seed by seed, the prerequisites of a seed first.

        A sweep that is stopped early can thus be compared on the seeds that are complete.
        """
        return sorted([*self.prerequisites, *self.runs], key=lambda run: self.experiment.seeds.index(run.seed))

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plug-ins of its runs, as the field `plugins` names them."""
        return tuple(dict.fromkeys(entry for run in self.in_order for entry in run.config.plugins))

    @property
    def differences(self) -> list[str]:
        """A line for each pair of arms that differ in several fields (`field_differences`)."""
        return field_differences(self.experiment, self.arms) if len(self.arms) > 1 else []

    @property
    def noise(self) -> dict[str, Any]:
        """{metric: {sd, df, source}} of paired differences, as earlier sweeps tell it."""
        experiment = self.experiment
        if experiment.noise or not self.arms:
            return dict(experiment.noise)
        used = used_metrics(experiment.metric, experiment.contrasts)
        trained = trained_on(arm.config for arm in self.arms)
        return noise_of_size(experiment.size, trained, used, self.arms[0].tokens)

    @property
    def found_with_fit(self) -> Mapping[str, Any] | None:
        """{difference, sweeps} that earlier sweeps of the size with fitted settings find, if this one
        fits any and its noise is that of the record.
        """
        experiment = self.experiment
        if experiment.noise or experiment.tuned_at or not self.arms or not experiment.tunings:
            return None
        trained = trained_on(arm.config for arm in self.arms)
        return found_with_fit(experiment.size, trained, experiment.metric, self.arms[0].tokens)

    def pending(self, finished: Callable[[PlannedRun], bool]) -> list[PlannedRun]:
        """Returns the unfinished runs of arms, and the prerequisites that they need, in order."""
        wanted = {run.folder for run in self.runs if not finished(run)}
        for run in reversed([*self.prerequisites, *self.runs]):
            if run.folder in wanted:
                wanted |= {needed.folder for needed in run.needs if not finished(needed)}
        return [run for run in self.in_order if run.folder in wanted]

    def in_folder(self, sweep: Path) -> "Plan":
        """Returns the plan with the names that its runs have in a sweep's folder: those that exist
        there with commas, as earlier versions named them, keep these names.
        """

        def as_found(run: PlannedRun) -> PlannedRun:
            renamed = (sweep / run.former_folder).is_dir() and not (sweep / run.folder).exists()
            return replace(run, folder=run.former_folder) if renamed else run

        return replace(self, runs=[as_found(run) for run in self.runs])

    def record(self) -> dict[str, Any]:
        """Returns the content of experiment.json."""
        experiment, measures = self.experiment, required_measures(self.experiment)
        return {
            "name": experiment.name,
            "question": experiment.question,
            "size": experiment.size,
            **({"corpus": dict(experiment.corpus)} if experiment.corpus else {}),
            "claim": experiment.claim and experiment.claim.record(),
            "metric": experiment.metric,
            "factors": {factor: list(levels) for factor, levels in experiment.factors.items()},
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
            "runs": [_run_record(run, "arm") for run in self.runs],
            "prerequisites": [_run_record(run, "name") for run in self.prerequisites],
            "seeds": list(experiment.seeds),
            "allow": list(experiment.allow),
            "match": experiment.match and asdict(experiment.match),
            **({"measures": measures} if measures else {}),
            **({"plugins": list(self.plugins)} if self.plugins else {}),
            **({"noise": noise} if (noise := self.noise) else {}),
            **({"tuning": tuning_record(experiment)} if experiment.tune else {}),
            **({"looks": {str(seeds): level for seeds, level in experiment.looks.items()}} if experiment.looks else {}),
            "contrasts": [
                {
                    name: value
                    for name, value in asdict(contrast).items()
                    if name not in ("claim", "diverged_above") or value
                }
                | {"margin": float(contrast.margin)}
                for contrast in named_contrasts(experiment)
            ],
            **({"differences": lines} if (lines := self.differences) else {}),
            "warnings": self.warnings,
        }


def _run_record(run: PlannedRun, arm_key: str) -> dict[str, Any]:
    return {"folder": run.folder, arm_key: run.arm.name, "seed": run.seed, "identity": run.identity}


class InvalidPlan(ConfigError):
    """The problems of an experiment.

    Args:
        problems: one line for each.
        configs: by arm, those whose data and whose related runs can be looked for all the same.
        exit_code: that of bad data if all problems are.
    """

    def __init__(self, problems: list[str], configs: Mapping[str, config.ResolvedConfig], exit_code: int):
        super().__init__(problems)
        self.configs, self.exit_code = configs, exit_code


def make_plan(experiment: Experiment) -> Plan:
    """Plans an experiment and checks every arm and every prerequisite run.

    Raises:
        InvalidPlan: with the problems of all arms: invalid configs, duplicate arms, metrics that
            an arm will not write, parameters that an arm cannot start from, unfair differences.
    """
    resolver = ArmResolver(experiment)
    arms, prerequisites = resolver.arms(), resolver.prerequisites
    problems = [*resolver.problems, *duplicate_arms(arms)]
    if not problems:
        problems += unused_prerequisites(prerequisites, arms)
    try:
        problems += _comparison_problems(experiment, [*arms, *resolver.sketches])
    except Exception:
        if not resolver.sketches:
            raise
        # A check relies on what the problems of an arm deny.
        problems += _comparison_problems(experiment, arms)
    if problems:
        only_data = resolver.only_data and len(problems) == len(resolver.problems)
        configs = {arm.name: arm.config for arm in (*arms, *resolver.sketches)}
        raise InvalidPlan(problems, configs, (DataError if only_data else ConfigError).exit_code)
    first, runs = _plan_runs(experiment, prerequisites, arms)
    warnings = [
        *fairness_warnings(experiment, arms),
        *generator_warnings(experiment, arms),
        *untuned_arm_warnings(experiment),
        *tuned_elsewhere_warnings(experiment),
    ]
    return Plan(experiment, arms, runs, warnings, first)


def _comparison_problems(experiment: Experiment, arms: list[PlannedArm]) -> list[str]:
    """Returns lines for metrics that an arm does not write, and for unfair differences of arms."""
    sized = all(arm.parameters for arm in arms)
    refused = refused_differences(experiment, arms) if sized or not experiment.match else []
    return [*missing_metrics(experiment, arms), *refused]


def _plan_runs(
    experiment: Experiment, prerequisites: Mapping[str, PlannedArm], arms: list[PlannedArm]
) -> tuple[list[PlannedRun], list[PlannedRun]]:
    """Returns (the prerequisite runs, the runs of the arms)."""
    first: dict[str, PlannedRun] = {}
    runs = []
    for seed in experiment.seeds:
        of_seed: dict[str, PlannedRun] = {}
        for name, arm in prerequisites.items():
            once = experiment.prerequisites[name].once
            folder = name if once else f"{name}-seed{seed}"
            run = _plan_run(folder, arm, experiment.seeds[0] if once else seed, of_seed)
            # A run's config names the folder of its prerequisite. With the prerequisite's identity
            # in that name, the identity of the run depends on it.
            run = replace(run, folder=f"{run.folder}-{run.identity}")
            of_seed[name] = first.setdefault(run.folder, run)
        runs += [
            _plan_run(f"{arm.name}-seed{seed}", arm, seed, of_seed)
            for arm in arms
            if seed in experiment.seeds_of_arms.get(arm.name, experiment.seeds)
        ]
    # Compared in lower case: some file systems ignore case.
    shared = {name for name, count in Counter(run.folder.lower() for run in runs).items() if count > 1}
    runs = [
        replace(run, folder=f"{run.folder}-{run.identity[:8]}", former_folder=f"{run.former_folder}-{run.identity[:8]}")
        if run.folder.lower() in shared
        else run
        for run in runs
    ]
    return list(first.values()), runs


def _plan_run(folder: str, arm: PlannedArm, seed: int, prerequisites: Mapping[str, PlannedRun]) -> PlannedRun:
    # No field is derived from the seed, so resolving again changes only the seed. It is needed
    # because `override` returns an unresolved config.
    resolved = config.resolve(config.override(arm.config, {"seed": seed}))
    resolved = resolve_references(resolved, lambda name: PREREQUISITE_PREFIX + prerequisites[name].folder)
    needs = tuple(prerequisites[name] for name in dict.fromkeys(references(arm.config).values()))
    name = _folder_name(folder)
    former = name.replace(BETWEEN_LEVELS, ",")
    return PlannedRun(name, arm, seed, config.identity(resolved), resolved, needs, former)


def _folder_name(text: str) -> str:
    """Returns `text` as a portable folder name; a long one ends in its hash and the seed."""
    name = arm_text(re.sub(r"[^A-Za-z0-9._=,-]+", "-", text))
    if len(name) > 160:
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        name = f"{name[:140]}-{digest}{re.search('-seed[0-9]+$', name)[0]}"
    return "_" + name[1:] if name.startswith(".") else name
