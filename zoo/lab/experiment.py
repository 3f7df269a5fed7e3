"""Experiments: a question, a base config, the factors that vary, the seeds and the contrasts.

An experiment file is Python with a function `get_experiment(size="tiny") -> Experiment`;
`FILE.py:full` passes "full" as the size.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ml_collections

from zoo import config
from zoo.errors import ConfigError, did_you_mean, listed, shown
from zoo.lab.declarations import (
    DIFFERENCES,
    EXPERIMENT_NAME,
    MAX_SEEDS,
    Claim,
    Contrast,
    Factors,
    Match,
    Premises,
    Prerequisite,
    Side,
    Tune,
    factor_problems,
    prerequisite_problems,
    used_metrics,
)
from zoo.lab.measures import find_measure, known_measures, measure_name
from zoo.lab.metrics import is_known_metric, known_metrics
from zoo.lab.statistics.tuning_curve import TuningCurve

__all__ = [
    "Claim",
    "Contrast",
    "Experiment",
    "Match",
    "Premises",
    "Prerequisite",
    "Side",
    "Tune",
    "arm_name",
    "choose_size",
    "levels",
    "load_experiment",
    "named_contrasts",
    "required_measures",
]


@dataclass(frozen=True)
class Experiment:
    """A question and everything needed to answer it.

    Attributes:
        name: also the name of the folder under `runs/`.
        base: the config that all arms share, not resolved.
        factors: factor -> level -> flat overrides of `base`. The arms are the full product in this
            order; plots show the first factor by colour and the second by dash. `levels` writes the
            common case of a single field.
        seeds: every arm runs once with each.
        metric: compares the arms; lower is better for losses, higher for accuracies and other
            scores (`zoo.lab.metrics`).
        claim: None for an open question.
        contrasts: the claim as rules that can fail.
        size: name of the size, for the record.
        allow: names of `DIFFERENCES` that arms may have besides their factors. Other differences
            are refused; allowed ones are listed in the report.
        match: None, or how arms are made equally large; "parameters:model.ffn.hidden_dim" stands for
            Match("parameters", "model.ffn.hidden_dim").
        looks: {number of seeds: level of the intervals} if seeds are added until the contrasts are
            decided (group-sequential); empty for a single analysis.
        prerequisites: runs that are trained before the arms that start from them, by name: an arm sets
            `training.start_from=prerequisite:NAME`, and takes the tokenizer with
            `data.tokenizer.kind=file`, `data.tokenizer.path=prerequisite:NAME`, as
            `config.with_body_of` does. They are not arms, and the verdict ignores them.
        tune: None, or a number that is tuned in each arm before the experiment itself is run
            (`zoo.lab.planning.tuning`); several are tuned one after another, each at the values
            found for those before it (one round of coordinate descent).
        tuned_values: {arm: {path: value}}, the result of tuning; filled in by `zoo run`.
        tuning_curves: {arm: {path: curve}} behind them; filled in by `zoo run`.
        noise: {metric: {sd, df, source}} of paired differences in earlier sweeps; filled in by
            `zoo run --noise-from`, else taken from the record of the size
            (`zoo.lab.planning.known_noise`).
        seeds_of_arms: {arm: its seeds} if not every arm runs with every seed, as in a tuning sweep;
            arms that are not named have no runs. Empty in experiment files.
        tuned_at: name of another sweep, as at another size, that `tuned_values` follow; empty if they
            were found for these arms. Filled in by `zoo run --tuned-as`.
        curves_not_taken: why the fitted curves of that sweep were not taken over; empty if it has
            none.
        archived_tuning: the "metric", "scores", "commits" and "data" of the tuning runs of an archived
            result from which `tuned_values` and `tuning_curves` were taken over; empty if they were
            not. Filled in by `zoo run --tuned-as`.
        measures: names of measures (`zoo.lab.measures`) of the trained runs, besides those that the
            metric and the contrasts need.
        corpus: {"experiment": its name on its own text, "source": the text} of an experiment on
            another text (`zoo.lab.planning.other_corpus`); empty on its own.

    Raises:
        ConfigError: with one line for every mistake in the declaration.
    """

    name: str
    question: str
    base: Mapping[str, Any]
    factors: Factors
    seeds: tuple[int, ...] = (0, 1, 2)
    metric: str = "eval/loss"
    claim: Claim | None = None
    contrasts: tuple[Contrast, ...] = ()
    size: str = ""
    allow: tuple[str, ...] = ()
    match: Match | str | None = None
    looks: Mapping[int, float] = field(default_factory=dict)
    prerequisites: Mapping[str, Prerequisite] = field(default_factory=dict)
    tune: Tune | tuple[Tune, ...] | None = None
    tuned_values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tuning_curves: Mapping[str, Mapping[str, TuningCurve]] = field(default_factory=dict)
    tuned_at: str = ""
    curves_not_taken: str = ""
    archived_tuning: Mapping[str, Any] = field(default_factory=dict)
    seeds_of_arms: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    noise: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    measures: tuple[str, ...] = ()
    corpus: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self):
        if problems := list(_type_problems(self)):
            raise ConfigError(problems)
        if isinstance(self.match, str):
            object.__setattr__(self, "match", Match.parse(self.match))
        if problems := list(_problems(self)):
            raise ConfigError(problems)

    @property
    def tunings(self) -> tuple[Tune, ...]:
        """The numbers that are tuned, in order."""
        return () if self.tune is None else (self.tune,) if isinstance(self.tune, Tune) else tuple(self.tune)


# Types of the fields: what a field is, what its items are if it is a sequence, and how that is called.
_TYPES: Mapping[str, tuple[Any, Any, str]] = {
    "name": (str, None, "a text"),
    "question": (str, None, "a text"),
    "base": (Mapping | ml_collections.ConfigDict, None, "a config"),
    "factors": (Mapping, None, "{factor: {level: {field: value}}}"),
    "seeds": (tuple | list | range, None, "a sequence of whole numbers"),
    "metric": (str, None, "the name of a metric"),
    "claim": (Claim | None, None, "a Claim"),
    "contrasts": (tuple | list, Contrast, "a sequence of Contrast"),
    "size": (str, None, "a text"),
    "allow": (tuple | list, str, "a sequence of names"),
    "match": (Match | str | None, None, "a Match, or a text such as parameters:model.ffn.hidden_dim"),
    "looks": (Mapping, None, "{number of seeds: level}"),
    "prerequisites": (Mapping, None, "{name: Prerequisite}"),
    "tune": (Tune | tuple | list | None, None, "a Tune, or a sequence of them"),
    "measures": (tuple | list, str, "a sequence of names"),
}


def _type_problems(experiment: Experiment) -> Iterator[str]:
    for name, (kind, items, described) in _TYPES.items():
        value = getattr(experiment, name)
        wrong = [value] if not isinstance(value, kind) else []
        if not wrong and name == "tune" and isinstance(value, tuple | list):
            wrong = [item for item in value if not isinstance(item, Tune)]
        if not wrong and items is not None:
            wrong = [item for item in value if not isinstance(item, items)]
        if wrong:
            yield f"{name}: expected {described}, got {shown(wrong[0])} ({type(wrong[0]).__name__})"


def _problems(experiment: Experiment) -> Iterator[str]:
    if not EXPERIMENT_NAME.fullmatch(experiment.name):
        yield (
            f"name {experiment.name!r} is used as a folder name: up to 100 letters, digits and ._=-, not beginning "
            "with a dot"
        )
    yield from _seed_problems(experiment.seeds)
    for name in experiment.measures:
        if find_measure(name) is None:
            known = ("harness:TASK[:METRIC]", *known_measures())
            yield f"measures: {shown(name)} is not one of {listed(known)}{did_you_mean(name, known)}"
    for name in experiment.allow:
        if name not in DIFFERENCES:
            yield f"allow: {shown(name)} is not one of {listed(DIFFERENCES)}{did_you_mean(name, DIFFERENCES)}"
    if experiment.match:
        yield from experiment.match.problems(experiment.factors)
    for tune in experiment.tunings:
        yield from tune.problems(experiment.factors, experiment.seeds)
    fields = [tune.field for tune in experiment.tunings]
    yield from (f"tune: {path} is given more than once" for path in dict.fromkeys(fields) if fields.count(path) > 1)
    if not is_known_metric(experiment.metric):
        known = known_metrics()
        yield f"metric {shown(experiment.metric)} is not one of {listed(known)}{did_you_mean(experiment.metric, known)}"
    yield from prerequisite_problems(experiment.prerequisites)
    yield from factor_problems(experiment.factors)
    names = [contrast.name for contrast in experiment.contrasts]
    yield from (f'two contrasts are called "{name}"' for name in dict.fromkeys(names) if names.count(name) > 1)
    for contrast in experiment.contrasts:
        yield from contrast.problems(experiment.factors, experiment.metric)
    yield from _claim_problems(experiment)


def _claim_problems(experiment: Experiment) -> Iterator[str]:
    """Yields what is wrong with the claim, and contrasts that do not say which one they judge."""
    ids = experiment.claim.ids if experiment.claim else []
    if experiment.claim:
        yield from experiment.claim.problems(experiment.factors)
    for contrast in experiment.contrasts:
        if (len(ids) > 1 or contrast.claim) and contrast.claim not in ids:
            allowed = f"one of {', '.join(ids)}" if ids else "empty, because the experiment names no claim"
            yield f'contrast "{contrast.name}": claim is {contrast.claim!r}; it must be {allowed}'


def _seed_problems(seeds: tuple[int, ...]) -> Iterator[str]:
    if not seeds:
        yield "seeds: at least one is needed"
    if len(seeds) > MAX_SEEDS:
        yield f"seeds: {len(seeds):,} are given; at most {MAX_SEEDS:,} can be"
        return
    for seed in dict.fromkeys(seeds):
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            yield f"seeds: {seed!r} is not a non-negative integer"
        elif seeds.count(seed) > 1:
            yield f"seeds: {seed} is given more than once"


def levels(path: str, *values: Any) -> dict[str, dict[str, Any]]:
    """Returns the levels of a factor that is one config field.

    `levels(path, "pre", "post")` is {"pre": {path: "pre"}, "post": {path: "post"}}.
    """
    labels = [_label(value) for value in values]
    if repeated := sorted({label for label in labels if labels.count(label) > 1}):
        raise ConfigError(f"{path}: level {', '.join(repeated)} is given more than once")
    return {label: {path: value} for label, value in zip(labels, values, strict=True)}


def _label(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def arm_name(levels_by_factor: Mapping[str, str]) -> str:
    """Returns the name of the arm with these levels, e.g. "norm=pre,warm-up=0"."""
    return ",".join(f"{factor}={level}" for factor, level in levels_by_factor.items())


def named_contrasts(experiment: Experiment) -> list[Contrast]:
    """Returns the contrasts with every side's arm and metric by name."""

    def named(side: Side) -> Side:
        arm = arm_name({factor: side.arm[factor] for factor in experiment.factors}) or experiment.name
        return Side(arm, side.metric or experiment.metric)

    return [replace(contrast, a=named(contrast.a), b=named(contrast.b)) for contrast in experiment.contrasts]


def required_measures(experiment: Experiment) -> list[str]:
    """Returns the names of all measures that the experiment needs of its runs."""
    metrics = used_metrics(experiment.metric, experiment.contrasts)
    return list(dict.fromkeys(name for name in (*map(measure_name, metrics), *experiment.measures) if name))


def load_experiment(spec: str) -> Experiment:
    """Loads an experiment from `FILE.py[:size]`, or by name if it comes with zoo (`heads:tiny`).

    Raises:
        ConfigError: the file is missing or broken, or the experiment is invalid.
    """
    path, argument = config.locate(spec, config.EXPERIMENTS)
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
    """Returns `sizes[size]`.

    Raises:
        ConfigError: the experiment has no such size.
    """
    if size not in sizes:
        raise ConfigError(f"size {shown(size)} is not one of {listed(sizes)}{did_you_mean(size, sizes)}")
    return sizes[size]
