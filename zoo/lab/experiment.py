"""What an experiment file declares: a question, a base config, what varies, over which seeds, and
what is claimed.

An experiment file is Python with a function `get_experiment(size="tiny") -> Experiment`;
`FILE.py:full` passes the part after the colon.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zoo import config
from zoo.errors import ConfigError, did_you_mean
from zoo.lab.measures import MEASURES, name_of
from zoo.lab.metrics import base_name, is_known, names_of_all
from zoo.lab.planning.fairness import DIFFERENCES, MATCHED
from zoo.lab.planning.prerequisites import Prepared
from zoo.lab.planning.tuning import Tune
from zoo.lab.planning.tuning import problems as problems_of_tuning
from zoo.lab.results.schema import NAME, RULES


@dataclass(frozen=True)
class Claim:
    """The sentence under test, its identifier in the list of claims, and where it was published."""

    id: str
    statement: str
    source: str


@dataclass(frozen=True)
class Outcome:
    """One side of a contrast: an arm, named by one level of every factor, and a metric (None: the
    experiment's).
    """

    levels: Mapping[str, str]
    metric: str | None = None


@dataclass(frozen=True)
class Contrast:
    """A rule stated before any run about d, paired by seed: a - b of losses, b - a of scores, so
    that below 0 a is the better one.

    Attributes:
        rule: "superiority" (d below -margin), "non_inferiority" (d below margin) or "equivalence"
            (|d| below margin); `zoo.lab.results.verdict` says when each holds and when it is
            refuted.
        margin: in the unit of the metric (`zoo.lab.metrics`): nats per token or label for losses, a
            share for accuracies.
        expected: what the claim predicts, in words.
    """

    name: str
    a: Outcome
    b: Outcome
    rule: str
    margin: float
    expected: str


@dataclass(frozen=True)
class Match:
    """Every arm is made as large as the first one, to within 1 %, by one field.

    Attributes:
        what: "parameters" (all of them) or "flops" (per token).
        field: a whole number that it grows with: model.ffn.hidden_dim, model.num_layers ...
    """

    what: str
    field: str


@dataclass(frozen=True)
class Experiment:
    """A question and everything needed to answer it.

    Attributes:
        name: also the name of the folder under `runs/`.
        base: the config that all arms share, not resolved.
        factors: factor -> level -> flat overrides of `base`. The arms are the full product in this
            order; plots give the first factor to the colour and the second to the dash. `levels`
            writes the common case of a single field.
        seeds: every arm runs once with each.
        metric: what the arms are compared by; of losses less is better, of accuracies and other
            scores more (`zoo.lab.metrics`).
        claim: None for a question without one.
        contrasts: the claim, as rules that can fail.
        size: name of the size, for the record.
        allow: what arms may differ in besides what their factors set, by the names of
            `zoo.lab.planning.fairness.DIFFERENCES`; what is not named is refused, what is named is
            told in the report.
        match: None, or what the arms are made equal in.
        looks: {number of seeds: level of the intervals}, where seeds are added until the contrasts
            are decided; empty for one look.
        prepare: runs that are trained before the arms that start from them, by name: an arm says
            `training.start_from=prepared:NAME` and takes the tokenizer with
            `data.tokenizer.kind=file`, `data.tokenizer.path=prepared:NAME`, as
            `config.with_body_of` has it. They are no arms, and nothing is judged by them.
        tune: None, or a number of which each arm gets the best value of a grid before the seeds
            that decide (`zoo.lab.planning.tuning`).
        chosen: {arm: {path: value}}, what that came to; found by `zoo run`.
        measures: names of what is measured on the trained runs (`zoo.lab.measures`) besides what
            the metric and the contrasts name.

    Raises:
        ConfigError: one line for everything that is wrong with what is declared.
    """

    name: str
    question: str
    base: Mapping[str, Any]
    factors: Mapping[str, Mapping[str, Mapping[str, Any]]]
    seeds: tuple[int, ...] = (0, 1, 2)
    metric: str = "eval/loss"
    claim: Claim | None = None
    contrasts: tuple[Contrast, ...] = ()
    size: str = ""
    allow: tuple[str, ...] = ()
    match: Match | None = None
    looks: Mapping[int, float] = field(default_factory=dict)
    prepare: Mapping[str, Prepared] = field(default_factory=dict)
    tune: Tune | None = None
    chosen: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    measures: tuple[str, ...] = ()

    def __post_init__(self):
        if problems := [
            *_check_frame(self),
            *_check_prepared(self.prepare),
            *_check_factors(self.factors),
            *_check_contrasts(self),
        ]:
            raise ConfigError(problems)


def levels(path: str, *values: Any) -> dict[str, dict[str, Any]]:
    """The levels of a factor that is one config field: {"pre": {path: "pre"}, "post": {path:
    "post"}}.
    """
    labelled = [(_label(value), value) for value in values]
    if repeated := sorted({label for label, _ in labelled if [other for other, _ in labelled].count(label) > 1}):
        raise ConfigError(f"{path}: level {', '.join(repeated)} is given more than once")
    return {label: {path: value} for label, value in labelled}


def _label(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def arm_name(chosen: Mapping[str, str]) -> str:
    """The name of the arm with these levels, one of every factor."""
    return ",".join(f"{factor}={level}" for factor, level in chosen.items())


def side_of(experiment: Experiment, outcome: Outcome) -> dict[str, str]:
    """The arm and the metric of one side of a contrast, by name."""
    return {
        "arm": arm_name({factor: outcome.levels[factor] for factor in experiment.factors}),
        "metric": outcome.metric or experiment.metric,
    }


def measured(experiment: Experiment) -> list[str]:
    """The names of everything that is measured on its runs."""
    named = [
        experiment.metric,
        *(side.metric or "" for contrast in experiment.contrasts for side in (contrast.a, contrast.b)),
    ]
    return list(dict.fromkeys(name for name in (*map(name_of, named), *experiment.measures) if name))


def load_experiment(spec: str) -> Experiment:
    """Loads an experiment from `FILE.py[:size]`.

    Raises:
        ConfigError: if the file is missing or broken, or the experiment is.
    """
    path, argument = config.split_spec(spec)
    module = config.import_file(path, "experiment file")
    if not hasattr(module, "get_experiment"):
        hint = "; it has get_config: use --config=FILE with --vary" if hasattr(module, "get_config") else ""
        raise ConfigError(f"experiment file {path} has no function get_experiment{hint}")
    experiment = config.call_with_argument(module.get_experiment, argument, f"experiment file {spec}")
    if not isinstance(experiment, Experiment):
        raise ConfigError(
            f"experiment file {path}: get_experiment returned {type(experiment).__name__}, expected an Experiment"
        )
    return experiment


def choose_size(size: str, sizes: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns `sizes[size]`, or refuses a size that an experiment does not have."""
    if size not in sizes:
        raise ConfigError(f"size {size!r} is not one of {', '.join(sizes)}{did_you_mean(size, sizes)}")
    return sizes[size]


def _check_frame(experiment: Experiment):
    if not NAME.fullmatch(experiment.name):
        yield f"name {experiment.name!r} is used as a folder name: up to 100 letters, digits and ._=-, no dot in front"
    if not experiment.seeds:
        yield "seeds: at least one is needed"
    for seed in dict.fromkeys(experiment.seeds):
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            yield f"seeds: {seed!r} is not a whole number from 0 on"
        elif experiment.seeds.count(seed) > 1:
            yield f"seeds: {seed} is given more than once"
    for name in experiment.measures:
        if name not in MEASURES:
            yield f"measures: {name!r} is not one of {', '.join(MEASURES)}{did_you_mean(name, MEASURES)}"
    for name in experiment.allow:
        if name not in DIFFERENCES:
            yield f"allow: {name!r} is not one of {', '.join(DIFFERENCES)}{did_you_mean(name, DIFFERENCES)}"
    if experiment.match:
        yield from _check_match(experiment.match, experiment.factors)
    if experiment.tune:
        yield from problems_of_tuning(experiment.tune, experiment.factors, experiment.seeds)
    if not is_known(experiment.metric):
        yield f"metric {experiment.metric!r} is not one of {', '.join(names_of_all())}{did_you_mean(experiment.metric, names_of_all())}"


def _check_match(match: Match, factors: Mapping[str, Mapping[str, Mapping[str, Any]]]):
    if match.what not in MATCHED:
        yield f"match: {match.what!r} is not one of {', '.join(MATCHED)}{did_you_mean(match.what, MATCHED)}"
    if (found := config.field_at(match.field)) is None:
        yield f"match: unknown field {match.field}{did_you_mean(match.field, config.known_paths(match.field))}"
    elif found.kind is not int:
        yield f"match: {match.field} is not a whole number that could be adjusted; take model.ffn.hidden_dim or model.num_layers"
    for factor, its_levels in factors.items():
        if any(match.field in changes for changes in its_levels.values()):
            yield f'match: {match.field} is varied by the factor "{factor}" and cannot be adjusted too'


def _check_prepared(prepare: Mapping[str, Prepared]):
    for name, stage in prepare.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,60}", name):
            yield f"prepared run {name!r}: the name is used as a folder name: up to 60 letters, digits and _-"
        if not isinstance(stage, Prepared):
            yield f"prepared run {name!r}: expected Prepared(config), got {type(stage).__name__}"


def _check_factors(factors: Mapping[str, Mapping[str, Mapping[str, Any]]]):
    setter: dict[str, str] = {}
    for factor, its_levels in factors.items():
        if not its_levels:
            yield f'factor "{factor}" has no levels'
        for name in (factor, *its_levels):
            if not isinstance(name, str) or not name.strip() or not name.isprintable():
                yield f'factor "{factor}": {name!r} is not a name'
        for level, changes in its_levels.items():
            for path in changes:
                if config.field_at(path) is None:
                    yield f'factor "{factor}", level "{level}": unknown field {path}{did_you_mean(path, config.known_paths(path))}'
                if path == "seed":
                    yield f'factor "{factor}", level "{level}": the seed is no factor; give seeds, so that differences are paired'
        for path in dict.fromkeys(path for changes in its_levels.values() for path in changes):
            if path in setter:
                yield f'factors "{setter[path]}" and "{factor}" both set {path}; a field belongs to one factor'
            setter.setdefault(path, factor)


def _check_contrasts(experiment: Experiment):
    names = [contrast.name for contrast in experiment.contrasts]
    yield from (f'contrast "{name}" is stated twice' for name in dict.fromkeys(names) if names.count(name) > 1)
    for contrast in experiment.contrasts:
        where = f'contrast "{contrast.name}"'
        if contrast.rule not in RULES:
            yield f"{where}: rule {contrast.rule!r} is not one of {', '.join(RULES)}{did_you_mean(contrast.rule, RULES)}"
        margin = contrast.margin
        if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < math.inf:
            yield f"{where}: margin {margin!r} is not a number of at least 0"
        elif margin == 0 and contrast.rule == "equivalence":
            yield f"{where}: equivalence needs a margin above 0, nothing is within 0"
        for side, outcome in (("a", contrast.a), ("b", contrast.b)):
            for factor, level in outcome.levels.items():
                if factor not in experiment.factors:
                    yield f'{where}, side {side}: unknown factor "{factor}"{did_you_mean(factor, experiment.factors)}'
                elif level not in experiment.factors[factor]:
                    known = experiment.factors[factor]
                    yield (
                        f'{where}, side {side}: factor "{factor}" has no level "{level}"'
                        f"{did_you_mean(str(level), known) or ', only ' + ', '.join(known)}"
                    )
            if missing := [factor for factor in experiment.factors if factor not in outcome.levels]:
                yield f"{where}, side {side}: names more than one arm; give a level of {', '.join(missing)} too"
            metric = outcome.metric or experiment.metric
            if not is_known(metric):
                yield f"{where}, side {side}: unknown metric {metric!r}{did_you_mean(metric, names_of_all())}"
        kinds = [base_name(side.metric or experiment.metric) for side in (contrast.a, contrast.b)]
        if kinds[0] != kinds[1]:
            names = [(side.metric or experiment.metric).partition("@")[0] for side in (contrast.a, contrast.b)]
            yield f"{where}: {' and '.join(names)} are two things and have no difference"
        if dict(contrast.a.levels) == dict(contrast.b.levels) and contrast.a.metric == contrast.b.metric:
            yield f"{where}: both sides are the same"
