"""Reads a sweep folder: experiment.json and all of its runs."""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from zoo.config import plugins
from zoo.errors import ConfigError
from zoo.lab.declarations import Contrast
from zoo.lab.floors.record import RunFloors, read_floors
from zoo.lab.measures import MEASURE_PREFIX, requested_measures
from zoo.lab.metrics import is_known_metric, unit_suffix
from zoo.lab.results.run_records import RunRecord, load_run, read_run
from zoo.lab.results.schema import (
    Arm,
    as_dict,
    as_text,
    as_words,
    find_arm,
    is_inside,
    parse_arms,
    parse_contrast,
    parse_looks,
    parse_noise,
    prerequisite_entries,
    restore_prerequisite_names,
)
from zoo.lab.results.steps_to_loss import add_steps_to_loss
from zoo.lab.statistics.noise import Noise
from zoo.lab.statistics.paired import ALPHA
from zoo.lab.statistics.sequential import SequentialDesign
from zoo.training.records.run_folder import read_json_object

REQUIRED = {"name": str, "metric": str, "arms": list, "runs": list, "seeds": list, "contrasts": list}


@dataclass(frozen=True)
class SweepResults:
    """All runs of one experiment, or runs picked by hand (then without contrasts).

    Attributes:
        prerequisites: the runs that others start from. They are not arms; `RunRecord.arm` is
            their name.
        looks: {number of seeds: level of the intervals} if seeds are added until the contrasts are
            decided; empty for a single analysis.
        command: the words of the `zoo run` that repeats the whole sweep; empty if not recorded.
        measures: names of what is measured on the trained runs (`zoo.lab.measures`).
        corpus: {"experiment", "source"} of an experiment on another text than its own; else empty.
        noise: {metric: noise of paired differences} of earlier sweeps, recorded before this one began.
        floors: what models without depth score, by arm (`zoo.lab.floors`); None if that was not
            computed, as in older sweeps.
        baseline: name of the arm that the others are compared with; empty for the first.
    """

    folder: Path
    name: str
    metric: str
    arms: list[Arm]
    runs: list[RunRecord]
    seeds: list[int]
    contrasts: list[Contrast] = field(default_factory=list)
    question: str = ""
    size: str = ""
    claim: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    prerequisites: list[RunRecord] = field(default_factory=list)
    looks: dict[int, float] = field(default_factory=dict)
    tuning: dict[str, Any] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    measures: list[str] = field(default_factory=list)
    corpus: dict[str, Any] = field(default_factory=dict)
    noise: dict[str, Noise] = field(default_factory=dict)
    floors: dict[str, RunFloors] | None = None
    baseline: str = ""

    @property
    def baseline_arm(self) -> Arm:
        """The arm that the others are compared with: `baseline`, or else the first."""
        return self.arm(self.baseline) if self.baseline else self.arms[0]

    def with_baseline(self, text: str) -> Self:
        """Returns the sweep with another baseline.

        Args:
            text: what an arm is called in tables, folders or records.

        Raises:
            ConfigError: there is no such arm.
        """
        return replace(self, baseline=find_arm(self.arms, text).name)

    @property
    def alpha(self) -> float:
        """Level of the intervals: 0.05, or that of the current look if seeds are added."""
        return SequentialDesign(self.looks).alpha(len(self.seeds)) if self.looks else ALPHA

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)

    def runs_of(self, arm: str) -> list[RunRecord]:
        return [run for run in self.runs if run.arm == arm]

    def run(self, arm: str, seed: int) -> RunRecord | None:
        return next((run for run in self.runs if run.arm == arm and run.seed == seed), None)

    def with_seeds(self, number: int) -> Self:
        """Returns the sweep as it was with its first seeds only."""
        seeds = self.seeds[:number]
        return replace(self, seeds=seeds, runs=[run for run in self.runs if run.seed in seeds])

    def floor_scores(self, arm: str, metric: str) -> dict[str, float]:
        """Returns {floor: score} of an arm's floors by a metric; empty where none is known."""
        floors = (self.floors or {}).get(arm)
        return floors.of(metric) if floors else {}

    def unit(self, metric: str) -> str:
        """Returns the unit of a metric, with a leading space.

        It is empty for regression: there the loss is a squared error, in the unit of the labels.
        """
        kinds = {as_dict(run.config.get("objective")).get("kind") for run in self.runs}
        return "" if "regression" in kinds else unit_suffix(metric)

    def with_unit(self, metric: str) -> str:
        """Returns a metric as axes and captions name it, e.g. `eval/loss, nats`."""
        return f"{metric},{unit}" if (unit := self.unit(metric)) else metric

    def metrics(self) -> list[str]:
        """Returns every metric that any run has written, sorted."""
        keys = {key for run in self.runs for row in run.rows for key in row}
        return sorted(keys - {"step", "tokens", "seconds"})


def load_any(folder: str | Path) -> SweepResults:
    """Reads a sweep folder, or a single run's folder as a sweep of one run.

    Raises:
        ConfigError: the folder is neither, or files in it are damaged.
    """
    folder = Path(folder)
    if (folder / "experiment.json").exists() or not (folder / "status.json").exists():
        return load_sweep(folder)
    run = replace(load_run(folder), arm="run")
    name = folder.resolve().name
    metric = "eval/loss" if any("eval/loss" in row for row in run.rows) else "train/loss"
    return SweepResults(folder, name, metric, [Arm("run", name, {})], [run], [run.seed])


def load_sweep(folder: str | Path) -> SweepResults:
    """Reads a sweep folder. Runs that have not started have the state "missing".

    Raises:
        ConfigError: the folder is not a sweep, or files in it are damaged; one line per problem.
    """
    folder = Path(folder)
    path = folder / "experiment.json"
    experiment = _read_experiment(folder)
    load_metrics(folder, experiment)
    problems: list[str] = []
    arms = parse_arms(experiment["arms"], str(path), problems)
    if problems:
        raise ConfigError(problems)
    names = [arm.name for arm in arms]
    contrasts = [parse_contrast(entry, str(path), names, problems) for entry in experiment["contrasts"]]
    prerequisites = _read_prerequisites(folder, prerequisite_entries(experiment), problems)
    prerequisite_names = {run.folder.name: run.arm for run in prerequisites}
    runs = _read_runs(folder, experiment["runs"], names, prerequisite_names, problems)
    runs = add_steps_to_loss(runs, _used_metrics(experiment))
    if any(type(seed) is not int for seed in experiment["seeds"]):
        problems.append(f"{path}: seeds need to be integers")
    looks = parse_looks(experiment.get("looks"), str(path), problems)
    floors = read_floors(folder, problems)
    if problems:
        raise ConfigError(problems)
    warnings = experiment.get("warnings")
    return SweepResults(
        folder,
        experiment["name"],
        experiment["metric"],
        arms,
        runs,
        experiment["seeds"],
        contrasts,
        question=as_text(experiment.get("question")),
        size=as_text(experiment.get("size")),
        claim=as_dict(experiment.get("claim")) or None,
        warnings=[str(warning) for warning in warnings] if isinstance(warnings, list) else [],
        prerequisites=prerequisites,
        looks=looks,
        tuning=as_dict(experiment.get("tuning")),
        command=as_words(experiment.get("command")),
        measures=requested_measures(folder)[0],
        corpus=as_dict(experiment.get("corpus")),
        noise=parse_noise(experiment.get("noise")),
        floors=floors,
    )


def load_metrics(folder: Path, experiment: dict[str, Any]) -> None:
    """Loads the plug-ins of a sweep if they define a metric that it uses.

    Raises:
        ConfigError: they are not trusted, or damaged.
    """
    used = _used_metrics(experiment)
    measures = [f"{MEASURE_PREFIX}{name}" for name in as_words(experiment.get("measures"))]
    if not all(is_known_metric(metric) for metric in (*used, *measures)):
        plugins.load_stored(folder, as_words(experiment.get("plugins")))


def _used_metrics(experiment: dict[str, Any]) -> list[str]:
    """Returns the metrics of an experiment and of the sides of its contrasts."""
    sides = [side for entry in experiment["contrasts"] for side in (as_dict(as_dict(entry).get(key)) for key in "ab")]
    used = [experiment["metric"], *(side["metric"] for side in sides if isinstance(side.get("metric"), str))]
    return list(dict.fromkeys(used))


def _read_experiment(folder: Path) -> dict[str, Any]:
    path = folder / "experiment.json"
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder")
    if not path.exists():
        hint = " (this is a single run: use zoo compare)" if (folder / "status.json").exists() else ""
        raise ConfigError(f"{folder}: not a sweep folder, it has no experiment.json{hint}")
    problems: list[str] = []
    experiment = read_json_object(path, problems)
    if not problems:
        problems = [
            f"{path}: {key} is missing or not of the type {kind.__name__}"
            for key, kind in REQUIRED.items()
            if not isinstance(experiment.get(key), kind)
        ]
    if problems:
        raise ConfigError(problems)
    return experiment


def _read_runs(
    folder: Path, entries: list[Any], arms: list[str], prerequisites: dict[str, str], problems: list[str]
) -> list[RunRecord]:
    path = folder / "experiment.json"
    runs = []
    for entry in map(as_dict, entries):
        inside, arm, seed = entry.get("folder"), entry.get("arm"), entry.get("seed")
        if not is_inside(inside) or arm not in arms or type(seed) is not int:
            shown = json.dumps(entry)[:120]
            problems.append(f"{path}: run {shown} needs a folder inside the sweep, a known arm and a seed")
        else:
            run = read_run(folder / inside, problems)
            # Each seed starts from a folder of its own, but from the same prerequisite run.
            config = restore_prerequisite_names(run.config, prerequisites) if prerequisites else run.config
            runs.append(replace(run, arm=arm, seed=seed, config=config))
    repeated = [pair for pair, count in Counter((run.arm, run.seed) for run in runs).items() if count > 1]
    problems += [f'{path}: arm "{arm}" has more than one run with seed {seed}' for arm, seed in repeated]
    return runs


def _read_prerequisites(folder: Path, entries: Any, problems: list[str]) -> list[RunRecord]:
    """Reads the runs that others start from; older sweeps have none."""
    runs = []
    for entry in map(as_dict, entries if isinstance(entries, list) else []):
        inside, name, seed = entry.get("folder"), as_text(entry.get("name")), entry.get("seed")
        if not is_inside(inside) or not name or type(seed) is not int:
            problems.append(
                f"{folder / 'experiment.json'}: prerequisite run {json.dumps(entry)[:120]} needs a folder inside the "
                "sweep, a name and a seed"
            )
        else:
            runs.append(replace(read_run(folder / inside, problems), arm=name, seed=seed))
    return runs
