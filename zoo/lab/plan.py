"""From an experiment to its runs: the full product of the factors, checked as a whole before anything runs."""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from zoo import config
from zoo.config.fields import TASKS
from zoo.config.lengths import side_lengths
from zoo.config.scopes import KINDS, SIDES
from zoo.errors import ConfigError, did_you_mean
from zoo.lab.experiment import METRICS, PAIR_METRICS, Experiment, Outcome

TOLERANCE = 0.01


@dataclass(frozen=True)
class Arm:
    """One variant: a level of every factor. `config` is resolved, with the first seed."""

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
    """One arm with one seed. `folder` is the name of its folder inside the sweep's."""

    folder: str
    arm: Arm
    seed: int
    identity: str
    config: config.ResolvedConfig

    @property
    def name(self) -> str:
        return f"{self.arm.name} seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """Everything that will run, in order: every arm with the first seed, then with the second, so that a sweep that is stopped
    early can be compared all the same."""

    experiment: Experiment
    arms: list[Arm]
    runs: list[Run]
    warnings: list[str]

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
                {"name": arm.name, "factors": arm.levels, "overrides": arm.overrides, "parameters": arm.parameters,
                 "flops_per_token": arm.flops_per_token}
                for arm in self.arms
            ],
            "runs": [
                {"folder": run.folder, "arm": run.arm.name, "seed": run.seed, "identity": run.identity} for run in self.runs
            ],
            "seeds": list(experiment.seeds),
            "contrasts": [
                {"name": contrast.name, "a": _side(experiment, contrast.a), "b": _side(experiment, contrast.b),
                 "rule": contrast.rule, "margin": float(contrast.margin), "expected": contrast.expected}
                for contrast in experiment.contrasts
            ],
            "warnings": self.warnings,
        }


def expand(experiment: Experiment) -> Plan:
    """Expands an experiment and checks every arm.

    Raises:
        ConfigError: with the problems of all arms at once: configs that cannot be, two arms that are the same run, contrasts
            on metrics that an arm will not have.
    """
    problems: dict[str, list[str]] = {}
    arms = []
    vocabulary: dict[str, int] = {}
    products = [dict(zip(experiment.factors, chosen)) for chosen in itertools.product(*experiment.factors.values())]
    for chosen in products:
        name = _arm_name(chosen) or experiment.name
        changes = {path: value for factor, level in chosen.items() for path, value in experiment.factors[factor][level].items()}
        try:
            resolved = _resolve(config.override(experiment.base, {**changes, "seed": experiment.seeds[0]}), vocabulary)
            cost = _cost(resolved)
        except ConfigError as error:
            problems[name] = error.problems
            continue
        # What is recorded has the type of the field: a level may be written as text.
        flat = config.flatten(resolved)
        overrides = {path: list(flat[path]) if isinstance(flat[path], tuple) else flat[path] for path in changes}
        arms.append(Arm(name, chosen, overrides, resolved, dict(cost.parameters), float(cost.flops_per_token)))
    if problems:
        raise ConfigError(_per_arm(problems, len(products)))
    if wrong := [*_twins(arms), *_absent_metrics(experiment, arms)]:
        raise ConfigError(wrong)
    return Plan(experiment, arms, _runs(experiment, arms), _warnings(experiment, arms))


def _arm_name(chosen: Mapping[str, str]) -> str:
    return ",".join(f"{factor}={level}" for factor, level in chosen.items())


def _side(experiment: Experiment, outcome: Outcome) -> dict[str, str]:
    return {"arm": _arm_name({factor: outcome.levels[factor] for factor in experiment.factors}),
            "metric": outcome.metric or experiment.metric}


def _resolve(unresolved: Mapping[str, Any], vocabulary: dict[str, int]) -> config.ResolvedConfig:
    """Resolves a config; a vocabulary that only the data tell is read once per data config."""
    resolved = config.resolve(unresolved)
    known = resolved.model.vocab_size != config.AUTO
    if known and resolved.objective.kind not in TASKS:
        return resolved
    from zoo import data

    if not known:
        key = repr((config.flatten(resolved.data), config.flatten(resolved.objective)))
        if key not in vocabulary:
            vocabulary[key] = data.vocabulary_size(resolved)
        resolved = config.resolve(unresolved, vocab_size=vocabulary[key])
    return data.with_labels(resolved)


def _cost(resolved: config.ResolvedConfig) -> Any:
    # Imported late: it brings JAX, which a plan that is refused does not need.
    from zoo.analysis import cost

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


def _twins(arms: list[Arm]) -> list[str]:
    """Arms that would be one and the same run, and why."""
    first: dict[str, Arm] = {}
    lines = []
    names = [arm.name for arm in arms]
    lines += [f"two arms are called {name}; rename a level" for name in dict.fromkeys(names) if names.count(name) > 1]
    for arm in arms:
        twin = first.setdefault(config.identity(arm.config), arm)
        if twin is arm:
            continue
        # What the two set and what became of it: a field of which only the spelling differs, or one that changes no result.
        elsewhere = sorted(config.difference(twin.config, arm.config))
        if elsewhere:
            why = f"they differ only in {', '.join(elsewhere)}, which cannot change a result"
        else:
            one, other = (_settings(side) for side in (twin, arm))
            why = f"both come to {one}" if one == other else f"{one} and {other} resolve to the same config"
        lines.append(f'arms "{twin.name}" and "{arm.name}" are the same run: {why}')
    return lines


def _settings(arm: Arm) -> str:
    return ", ".join(f"{path}={value}" for path, value in arm.overrides.items()) or "the base"


def _absent_metrics(experiment: Experiment, arms: list[Arm]) -> list[str]:
    """Metrics that are asked of arms whose evaluation will not write them."""
    by_name = {arm.name: arm for arm in arms}
    asked = [(f'arm "{arm.name}"', arm, experiment.metric) for arm in arms]
    for contrast in experiment.contrasts:
        for side in (contrast.a, contrast.b):
            named = _side(experiment, side)
            asked.append((f'contrast "{contrast.name}"', by_name[named["arm"]], named["metric"]))
    lines = []
    for where, arm, metric in asked:
        flat = config.flatten(arm.config)
        lengths = flat["training.eval_lengths"]
        names = METRICS + (PAIR_METRICS if flat["objective.next_sentence"] else ())
        available = [*names, *(f"{name}@{length}" for name in names for length in lengths)]
        if metric.partition("@")[0] not in names:
            lines.append(f"{where}: no metric {metric} without objective.next_sentence=true")
        elif metric not in available:
            lines.append(f"{where}: no metric {metric}{did_you_mean(metric, available)}; training.eval_lengths is "
                         f"{','.join(map(str, lengths)) or 'empty'}")
        elif "@" in metric and (longest := _longest(arm.config, int(metric.partition("@")[2]))) is not None:
            lines.append(f"{where}: no metric {metric} for {arm.name}: its learned positions end at {longest}")
    return list(dict.fromkeys(lines))


def _longest(resolved: config.ResolvedConfig, length: int) -> int | None:
    """Where the learned positions of the model, or of a side of it, end before a row of `length` tokens does."""
    model, parts = resolved.model, [(resolved.model, length)]
    if model.architecture == "encoder_decoder":
        sides = (config.side(model, name) for name in ("encoder", "decoder"))
        parts = list(zip(sides, side_lengths(resolved.objective, length), strict=True))
    ends = [part.position.max_length for part, tokens in parts
            if part.position.kind == "learned" and model.architecture != "elmo" and tokens > part.position.max_length]
    return min(ends, default=None)


def _runs(experiment: Experiment, arms: list[Arm]) -> list[Run]:
    runs = []
    for seed, arm in itertools.product(experiment.seeds, arms):
        # Nothing is derived from the seed, so the resolved arm with another seed is resolved.
        resolved = config.resolve(config.override(arm.config, {"seed": seed}))
        runs.append(Run(_folder_name(f"{arm.name}-seed{seed}"), arm, seed, config.identity(resolved), resolved))
    # Folders are compared without case: some file systems do.
    shared = {name for name, count in Counter(run.folder.lower() for run in runs).items() if count > 1}
    return [replace(run, folder=f"{run.folder}-{run.identity[:8]}") if run.folder.lower() in shared else run for run in runs]


def _folder_name(text: str) -> str:
    """`text` as a portable folder name; what is cut off a long one is replaced by its hash."""
    name = re.sub(r"[^A-Za-z0-9._=,-]+", "-", text)
    if len(name) > 160:
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        name = f"{name[:140]}-{digest}{re.search('-seed[0-9]+$', name)[0]}"
    return "_" + name[1:] if name.startswith(".") else name


def _warnings(experiment: Experiment, arms: list[Arm]) -> list[str]:
    """What makes a comparison less than fair. Arms share one base, so only factors can bring differences in."""
    lines = []
    for factor, its_levels in experiment.factors.items():
        lines += _unequal_levels(factor, {level: changes for level, changes in its_levels.items() if changes})
        for what, value in (
            ("the training budget in tokens", lambda arm: arm.tokens),
            ("the number of parameters", lambda arm: arm.parameters["total"]),
            ("FLOPs per token", lambda arm: arm.flops_per_token),
        ):
            lines += _unequal_cost(factor, arms, what, value)
    texts = {(arm.config.data.source, arm.config.data.document_separator, arm.config.data.validation_fraction) for arm in arms}
    if len(texts) > 1:
        lines.append("arms differ in their text: each is scored on the held-out part of its own")
    scored = {(arm.config.training.eval_batches, arm.config.data.batch_size, arm.config.data.sequence_length) for arm in arms}
    if len(scored) > 1 and any(batches for batches, _, _ in scored):
        lines.append("arms are scored on samples of other rows (training.eval_batches, data.batch_size and data.sequence_length "
                     "choose them); training.eval_batches=0 scores all of the held-out text")
    tokenizers = {repr(config.flatten(arm.config.data.tokenizer)) for arm in arms}
    if len(tokenizers) > 1 and experiment.metric.partition("@")[0] != "eval/bits_per_byte":
        lines.append(f"arms differ in their tokenizer: {experiment.metric} counts per token and cannot be compared; "
                     "use eval/bits_per_byte")
    return lines


def _unequal_levels(factor: str, its_levels: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Levels that change more than what all levels of their factor set. Levels with nothing in common are a list of
    alternatives, which is no fault; a field that is read only under another choice belongs to that choice."""
    common = set.intersection(*(set(changes) for changes in its_levels.values())) if its_levels else set()
    lines = []
    for level, changes in its_levels.items():
        extra = [path for path in changes if path not in common and not _belongs_to_a_choice(path, common)]
        if common and extra:
            without = [other for other, others in its_levels.items() if not set(extra) & set(others)]
            lines.append(f'factor "{factor}": level "{level}" also sets {", ".join(extra)}, and level '
                         f'{" or ".join(without) or "another"} does not: more differs than what the factor always sets')
    return lines


def _belongs_to_a_choice(path: str, common: set[str]) -> bool:
    """Whether a field is read only under a choice: of its own, or of what has the scope that it is in."""
    if path.startswith(f"{KINDS}."):
        return "model.layers.pattern" in common
    if path.startswith(tuple(f"{side}." for side in SIDES)):
        return "model.architecture" in common or config.field_at(path).when is not None
    return config.BY_PATH[path].when is not None


def _unequal_cost(factor: str, arms: list[Arm], what: str, value: Callable[[Arm], float]) -> list[str]:
    """The largest gap between arms that differ in `factor` alone."""
    worst, pair = TOLERANCE, None
    groups: dict[str, list[Arm]] = {}
    for arm in arms:
        rest = {other: level for other, level in arm.levels.items() if other != factor}
        groups.setdefault(_arm_name(rest), []).append(arm)
    for group in groups.values():
        low, high = min(group, key=value), max(group, key=value)
        gap = value(high) / value(low) - 1 if value(low) else 0.0
        if gap > worst:
            worst, pair = gap, (low, high)
    if pair is None:
        return []
    low, high = pair
    return [f'factor "{factor}" changes {what} by up to {worst:.1%}: from {value(low):,.0f} ({low.levels[factor]}) '
            f"to {value(high):,.0f} ({high.levels[factor]})"]
