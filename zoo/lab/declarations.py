"""The parts of an experiment: claim, contrasts, size matching, tuning and prerequisite runs.

`zoo.lab.experiment` combines them, and experiment files import them from there. `problems` of each
part yields one line for every mistake in it.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from zoo import config
from zoo.errors import ConfigError, did_you_mean, listed, shown
from zoo.lab.measures import MEASURE_PREFIX
from zoo.lab.metrics import base_name, higher_is_better, is_known_metric, known_metrics, steps_to_arm

# Valid names of an experiment; the sweep's folder has this name.
EXPERIMENT_NAME = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,99}")
RULES = ("superiority", "non_inferiority", "equivalence", "equal")
# In a config, marks a reference to a prerequisite run: see `zoo.lab.planning.prerequisites`.
PREREQUISITE_PREFIX = "prerequisite:"
# Between the levels in what an arm is called, in texts as in folders: arguments of configs and
# lists of values end at a comma.
BETWEEN_LEVELS = "+"


def arm_text(name: str) -> str:
    """Returns what an arm is called in texts, tables and folders, e.g. "norm=pre+warm-up=0".

    Args:
        name: as records and experiment files have it, "norm=pre,warm-up=0".
    """
    return name.replace(",", BETWEEN_LEVELS)


# Subfolder of a sweep with the sweep that tunes its arms: see `zoo.lab.planning.tuning`.
TUNING_FOLDER = "tuning"
# Entry of a run's meta.json: the sweep that it was trained for, and its folder there.
TAKEN_FROM = "taken_from"
# Default seeds of tuning runs, far from the seeds of experiments.
FIRST_TUNING_SEED = 1000
TUNING_SEEDS = tuple(range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + 3))
# Fields, by the last part of their path, whose distance to 1 is what matters.
NEAR_ONE = ("beta1", "beta2", "beta3", "momentum", "ema_decay")
MAX_SEEDS = 1000
# Part of the warnings of changes that were made when results were known.
POST_HOC = "changed after runs had finished"
# Differences between arms besides their factors, by the name that allows them.
DIFFERENCES = {
    "tokens": "the training budget in tokens",
    "parameters": "the number of parameters",
    "flops": "FLOPs per token",
    "levels": "fields that only some levels of a factor set",
    "text": "the text that is scored",
    "tokenizer": "the tokenizer, under a metric per token",
    "rows": "the rows that are scored: how many, how they are cut, what hides in them",
    "targets": "the tokens or labels that count",
    "context": "what these are predicted from",
    "seen_text": "held-out text that the run which an arm starts or learns from was trained on",
}
MATCHED_SIZES = ("parameters", "flops")
# What they are called in models with experts.
SIZE_SYNONYMS = {"total_parameters": "parameters", "active_flops": "flops"}

# What an arm has to beat before a rule about it is judged, the hardest first.
FLOORS = {
    "n-gram": "the best of all floors",
    "bigram": "unigram and bigram, or the constant answer of a task",
    "unigram": "the unigram, or the constant answer of a task",
    "none": "nothing",
}
BEST_FLOOR = "n-gram"
# Of the record of a claim: the names of the premises that were declared after its runs.
PREMISES_LATER = "premises_later"
# Hardware that a claim may name, and the platforms that are it; "accelerator" is anything but a CPU.
HARDWARE = {"GPU": ("gpu", "cuda", "rocm"), "TPU": ("tpu",), "accelerator": ("gpu", "cuda", "rocm", "tpu")}

# Factor -> level -> flat overrides of the base config.
Factors = Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Premises:
    """Conditions that the runs must meet before a rule says anything about a claim.

    Attributes:
        floor: one of `FLOORS`: one of the arms that a contrast compares must beat it
            (`zoo.lab.floors.run_floors`).
        floor_reason: why a lower floor than the default will do, as a sentence; needed for one.
        hardware: one of `HARDWARE`, if the claim is about it; empty for any.
        control: {factor: level} of an arm without what the claim presupposes, such as training from
            scratch; other factors have the levels of the contrast's first side. None without one.
    """

    floor: str = BEST_FLOOR
    floor_reason: str = ""
    hardware: str = ""
    control: Mapping[str, str] | None = None

    def problems(self, where: str, factors: Factors) -> Iterator[str]:
        """Yields what is wrong with the declaration; `where` opens each line."""
        if self.floor not in FLOORS:
            yield (
                f"{where}: floor {shown(self.floor)} is not one of {listed(FLOORS)}{did_you_mean(self.floor, FLOORS)}"
            )
        elif self.floor != BEST_FLOOR and not self.floor_reason:
            yield f'{where}: floor "{self.floor}" is lower than "{BEST_FLOOR}"; floor_reason must say why it will do'
        if self.hardware and self.hardware not in HARDWARE:
            hint = did_you_mean(self.hardware, HARDWARE)
            yield f"{where}: hardware {shown(self.hardware)} is not one of {listed(HARDWARE)}{hint}"
        if self.control is not None and not (isinstance(self.control, Mapping) and self.control):
            yield f"{where}: control {self.control!r} is not a mapping of factors to levels"
            return
        for factor, level in (self.control or {}).items():
            if factor not in factors:
                yield f'{where}: control has the unknown factor "{factor}"{did_you_mean(factor, factors)}'
            elif level not in factors[factor]:
                yield f'{where}: control: factor "{factor}" has no level "{level}"; its levels are ' + ", ".join(
                    factors[factor]
                )

    def record(self) -> dict[str, Any]:
        """Returns what is not as by default, as plain JSON."""
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in vars(self).items()
            if value != getattr(Premises, name)
        }

    @classmethod
    def parse(cls, record: Mapping[str, Any]) -> Self:
        """Returns the premises in a record; what is missing or of the wrong type is as by default."""
        floor, control = record.get("floor"), record.get("control")
        texts: dict[str, Any] = {
            name: record[name] for name in ("floor_reason", "hardware") if isinstance(record.get(name), str)
        }
        known = {"floor": floor} if floor in FLOORS else {}
        if isinstance(control, Mapping):
            texts["control"] = {str(factor): str(level) for factor, level in control.items()}
        return cls(**known, **texts)


@dataclass(frozen=True)
class Claim:
    """The statement under test, its identifier in the list of claims, and its publication.

    An experiment that judges several claims names them as "N7, N10", and each contrast says which
    one it judges.

    Attributes:
        floor, floor_reason, hardware, control: the `Premises` of the claim, or of all claims.
        premises_of: {identifier: premises} of single claims of several, in place of these.
    """

    id: str
    statement: str
    source: str
    floor: str = BEST_FLOOR
    floor_reason: str = ""
    hardware: str = ""
    control: Mapping[str, str] | None = None
    premises_of: Mapping[str, Premises] = field(default_factory=dict)

    @property
    def premises(self) -> Premises:
        """The premises of the claims that have none of their own."""
        return Premises(self.floor, self.floor_reason, self.hardware, self.control)

    def problems(self, factors: Factors) -> Iterator[str]:
        """Yields what is wrong with the premises."""
        yield from self.premises.problems("claim", factors)
        for name, premises in self.premises_of.items():
            if name not in self.ids:
                yield f'claim: premises_of names "{name}", which is not one of {", ".join(self.ids)}'
            yield from premises.problems(f"claim {name}", factors)

    def record(self) -> dict[str, Any]:
        """Returns the claim as plain JSON, without premises that are as by default."""
        of = {name: premises.record() for name, premises in self.premises_of.items()}
        return {
            "id": self.id,
            "statement": self.statement,
            "source": self.source,
            **self.premises.record(),
            **({"premises_of": of} if of else {}),
        }

    @property
    def ids(self) -> list[str]:
        """The identifiers of the claims."""
        return claim_ids(self.id)


def claim_ids(text: str) -> list[str]:
    """Returns the identifiers in a text like "N7, N10"."""
    return [name.strip() for name in text.split(",")]


def premises_in(claim: Mapping[str, Any], name: str = "") -> Premises:
    """Returns the premises of a claim in a record of `Claim.record`; `name` is one of several ids."""
    of = claim.get("premises_of")
    own = of.get(name) if isinstance(of, Mapping) else None
    return Premises.parse(own if isinstance(own, Mapping) else claim)


def premises_sentences(claim: Mapping[str, Any]) -> list[str]:
    """Returns the premises in a record of `Claim.record` that are not as by default, without stops."""
    of, later = claim.get("premises_of"), claim.get(PREMISES_LATER) or ()

    def when(name: str) -> str:
        return "; declared after these runs" if name in later or "premises_of" in later else ""

    named = [("", premises_in(claim))] + [
        (f" of {name}", premises_in(claim, name)) for name in (of if isinstance(of, Mapping) else ())
    ]
    found = []
    for words, premises in named:
        if premises.floor != BEST_FLOOR:
            found.append(f"Floor{words}: {premises.floor}, because {premises.floor_reason}{when('floor')}")
        if premises.hardware:
            found.append(f"Hardware{words}: {premises.hardware}{when('hardware')}")
        if premises.control:
            control = ", ".join(f"{key}={level}" for key, level in premises.control.items())
            found.append(f"Control{words}: {control}{when('control')}")
    return found


def claim_order(claim: str) -> tuple[str, int]:
    """Returns a sort key that puts N2 before N10."""
    found = re.match(r"([A-Z]+)(\d+)", claim)
    return (found[1], int(found[2])) if found else (claim, 0)


@dataclass(frozen=True)
class Side:
    """One side of a contrast: an arm and a metric.

    Attributes:
        arm: one level of every factor, as experiment files declare it; the arm's name once the
            experiment is planned or read from a sweep.
        metric: None for the experiment's metric, which a planned side always names.
    """

    arm: str | Mapping[str, str]
    metric: str | None = None


@dataclass(frozen=True)
class Contrast:
    """A rule about the paired difference d of two sides, stated before any run.

    d is a - b for losses and b - a for scores, paired by seed: a is better if d is below 0.

    Attributes:
        rule: "superiority" (d below -margin), "non_inferiority" (d below margin), "equivalence"
            (|d| below margin), or "equal" for a check of the laboratory with arms that do not differ;
            `zoo.lab.results.decision_rules` defines when each holds or is refuted.
        margin: in the unit of the metric (`zoo.lab.metrics`): nats per token or label for losses, a
            fraction for accuracies.
        expected: the prediction of the claim, in words.
        claim: the claim that it judges, where the experiment judges several.
        diverged_above: None, or the loss above which a finished run counts as diverged: a model
            without norms may end at 100 or at 50,000 nats, which says the same and has no mean.
    """

    name: str
    a: Side
    b: Side
    rule: str
    margin: float
    expected: str
    claim: str = ""
    diverged_above: float | None = None

    @property
    def sides(self) -> tuple[Side, Side]:
        """The two sides, a first."""
        return self.a, self.b

    def problems(self, factors: Factors, default_metric: str) -> Iterator[str]:
        """Yields what is wrong with a declared contrast."""
        where = f'contrast "{self.name}"'
        if self.rule not in RULES:
            yield f"{where}: rule {shown(self.rule)} is not one of {listed(RULES)}{did_you_mean(self.rule, RULES)}"
        if isinstance(self.margin, bool) or not isinstance(self.margin, int | float) or not 0 <= self.margin < math.inf:
            yield f"{where}: margin {self.margin!r} is not a number of at least 0"
        elif self.margin == 0 and self.rule in ("equivalence", "non_inferiority"):
            yield f"{where}: {self.rule} needs a margin above 0"
        elif self.margin and self.rule == "equal":
            yield f"{where}: equal has no margin; it must be 0"
        if wrong := [side.arm for side in self.sides if not isinstance(side.arm, Mapping)]:
            yield f"{where}: arm {wrong[0]!r} is not a mapping of factors to levels"
            return
        for name, side in (("a", self.a), ("b", self.b)):
            yield from _side_problems(f"{where}, side {name}", side, factors, default_metric)
        metrics = [side.metric or default_metric for side in self.sides]
        if _quantity(metrics[0]) != _quantity(metrics[1]):
            names = [metric.partition("@")[0] for metric in metrics]
            yield f"{where}: {' and '.join(names)} are different metrics and cannot be subtracted"
        if steps := [metric for metric in metrics if steps_to_arm(metric) and self.rule != "superiority"]:
            yield (
                f"{where}: {steps[0]} is for superiority: a run that never reaches the loss counts as if its last step "
                "did, which would make other rules easier"
            )
        if self.diverged_above is not None and higher_is_better(metrics[0]):
            yield f"{where}: diverged_above is for losses, and of {base_name(metrics[0])} more is better"
        if dict(self.a.arm) == dict(self.b.arm) and self.a.metric == self.b.metric:
            yield f"{where}: both sides are the same"


def _quantity(metric: str) -> str:
    """Returns the quantity that a metric measures: metrics of one quantity can be subtracted.

    The loss of the run that an arm starts from is a loss like its own.
    """
    return "loss" if metric == f"{MEASURE_PREFIX}pretraining_loss" else base_name(metric)


def _side_problems(where: str, side: Side, factors: Factors, default_metric: str) -> Iterator[str]:
    for factor, level in side.arm.items():
        if factor not in factors:
            yield f'{where}: unknown factor "{factor}"{did_you_mean(factor, factors)}'
        elif level not in factors[factor]:
            known = factors[factor]
            hint = did_you_mean(str(level), known) or f"; its levels are {', '.join(known)}"
            yield f'{where}: factor "{factor}" has no level "{level}"{hint}'
    if missing := [factor for factor in factors if factor not in side.arm]:
        yield f"{where}: several arms match; add a level of {', '.join(missing)}"
    metric = side.metric or default_metric
    if not is_known_metric(metric):
        yield f"{where}: unknown metric {metric!r}{did_you_mean(metric, known_metrics())}"


def used_metrics(metric: str, contrasts: Iterable[Contrast]) -> list[str]:
    """Returns the metric of an experiment, and those of the sides of its contrasts, each once."""
    return list(dict.fromkeys([metric, *(side.metric or metric for one in contrasts for side in one.sides)]))


@dataclass(frozen=True)
class Match:
    """Gives every arm the size of the first one, to within 1 %, by adjusting one field.

    Attributes:
        what: "parameters" (the total, with all experts; also "total_parameters") or "flops" (per
            token, with the experts that a token is sent to; also "active_flops").
        field: an integer field that the size grows with, e.g. model.ffn.hidden_dim or
            model.num_layers.
    """

    what: str
    field: str

    def __post_init__(self):
        object.__setattr__(self, "what", SIZE_SYNONYMS.get(self.what, self.what))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the match of WHAT:FIELD.

        Raises:
            ConfigError: there is no colon.
        """
        what, colon, field = text.partition(":")
        if not colon:
            raise ConfigError(f"match: {shown(text)}: expected WHAT:FIELD, e.g. parameters:model.ffn.hidden_dim")
        return cls(what, field)

    def problems(self, factors: Factors) -> Iterator[str]:
        """Yields what is wrong with the declaration."""
        if self.what not in MATCHED_SIZES:
            hint = did_you_mean(self.what, MATCHED_SIZES)
            yield f"match: {shown(self.what)} is not one of {listed(MATCHED_SIZES)}{hint}"
        if (found := config.field_at(self.field)) is None:
            yield f"match: {config.unknown_field(self.field)}"
        elif found.kind is not int:
            yield (
                f"match: {self.field} is not an integer field and cannot be adjusted; use model.ffn.hidden_dim or "
                "model.num_layers"
            )
        for factor in _factors_that_set(self.field, factors):
            yield f'match: {self.field} is varied by the factor "{factor}" and cannot be adjusted too'


@dataclass(frozen=True)
class Tune:
    """A hyperparameter that is tuned in each arm: a coarse bracket, then a curve fitted around its
    best value (`zoo.lab.planning.tuning_search`).

    Attributes:
        field: a numeric field that no factor sets.
        values: the bracket, the same for every arm; all above 0.
        seeds: seeds of the tuning runs; disjoint from the experiment's seeds. The bracket is tried
            with the first of them, the values around its best one with all.
        distance_to_one: the logarithm of 1 - value is searched in place of that of the value, for
            decay rates near 1 such as beta2.
    """

    field: str
    values: tuple[float, ...]
    seeds: tuple[int, ...] = TUNING_SEEDS
    distance_to_one: bool = False

    def problems(self, factors: Factors, seeds: Sequence[int]) -> Iterator[str]:
        """Yields what is wrong with the grid, given the experiment's factors and seeds."""
        found = config.field_at(self.field)
        if found is None:
            yield f"tune: {config.unknown_field(self.field)}"
        elif found.kind not in (int, float) or self.field == "seed":
            yield f"tune: {self.field} is not a number that can be tuned; use optimizer.learning_rate"
        for factor in _factors_that_set(self.field, factors):
            yield f'tune: {self.field} is varied by the factor "{factor}" and cannot be tuned too'
        numbers = [value for value in self.values if isinstance(value, int | float) and not isinstance(value, bool)]
        given = ", ".join(map(str, self.values)) or "none"
        if len(numbers) < len(self.values):
            yield f"tune: the values of {self.field} are not all numbers: {given}"
        elif len(set(numbers)) < 2 or len(set(numbers)) < len(numbers):
            yield f"tune: {self.field} needs at least two different values, got {given}"
        elif wrong := [value for value in numbers if value <= 0 or (self.distance_to_one and value >= 1)]:
            bounds = "above 0 and below 1" if self.distance_to_one else "above 0"
            yield f"tune: values of {self.field} are searched by their logarithm and must be {bounds}: {wrong[0]:g}"
        if not self.seeds:
            yield "tune: at least one seed is needed"
        yield from (
            f"tune: seed {seed!r} is not a non-negative integer"
            for seed in self.seeds
            if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0
        )
        if both := [seed for seed in self.seeds if seed in seeds]:
            yield (
                f"tune: seed {', '.join(map(str, both))} is also a seed of the experiment; tuning needs seeds of its "
                f"own (default: from {FIRST_TUNING_SEED} on)"
            )


@dataclass(frozen=True)
class Prerequisite:
    """A run that is trained before the arms that start from it, e.g. their pretraining.

    Attributes:
        config: not resolved; it gets the seed of the arm that starts from it.
        once: trained once, with the first seed, for the arms of all seeds; by default once per
            seed.
    """

    config: Mapping[str, Any]
    once: bool = False


def prerequisite_problems(prerequisites: Mapping[str, Prerequisite]) -> Iterator[str]:
    """Yields what is wrong with the names and types of prerequisite runs."""
    for name, prerequisite in prerequisites.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name):
            yield f"prerequisite run {name!r}: the name is used as a folder name: up to 60 letters, digits, _ and -"
        if not isinstance(prerequisite, Prerequisite):
            yield f"prerequisite run {name!r}: expected Prerequisite(config), got {type(prerequisite).__name__}"


def factor_problems(factors: Factors) -> Iterator[str]:
    """Yields what is wrong with factors and their levels."""
    setter: dict[str, str] = {}
    for factor, levels in factors.items():
        if not levels:
            yield f'factor "{factor}" has no levels'
        for name in (factor, *levels):
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                yield f'factor "{factor}": {name!r} is not a name'
        for level, changes in levels.items():
            where = f'factor "{factor}", level "{level}"'
            for path in changes:
                if config.field_at(path) is None:
                    yield f"{where}: {config.unknown_field(path)}"
                if path == "seed":
                    yield f"{where}: the seed cannot be a factor; set seeds instead, so that differences are paired"
        for path in dict.fromkeys(path for changes in levels.values() for path in changes):
            if path in setter:
                yield f'factors "{setter[path]}" and "{factor}" both set {path}; a field belongs to one factor'
            setter.setdefault(path, factor)


def _factors_that_set(path: str, factors: Factors) -> list[str]:
    return [factor for factor, levels in factors.items() if any(path in changes for changes in levels.values())]
