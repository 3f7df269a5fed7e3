"""Tunes numbers in each arm, usually the learning rate, in sweeps of their own.

The best learning rate differs between arms, so a comparison at one shared rate depends on that
rate. The values of a search (`zoo.lab.planning.tuning_search`) are tried in the subfolder `tuning`
of the sweep, with seeds that the experiment does not use: the best of several runs with one seed is
also the luckiest, and that luck would be credited to the arm. A second number is tuned in a further
folder, at the values found for the first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from zoo import config
from zoo.lab.declarations import TUNING_FOLDER, Tune
from zoo.lab.experiment import Experiment, arm_name
from zoo.lab.metrics import steps_to_arm
from zoo.lab.planning.arm_resolution import arm_overrides
from zoo.lab.planning.tuning_search import FACTOR, Losses, SearchState
from zoo.lab.statistics.tuning_curve import MIN_VALUES, TuningCurve, curve_record
from zoo.nested import flatten

_EVAL_EVERY, _TRANSLATE_EVERY = "training.eval_every", "training.translate_every"


def tuning_factor(experiment: Experiment, tune: Tune) -> str:
    """Returns the name of the tuned values as a factor: the last part of the field's path, or the
    whole path if a factor already has that name.
    """
    short = tune.field.rpartition(".")[2]
    return tune.field if short in experiment.factors else short


def tuning_folder(experiment: Experiment, tune: Tune) -> str:
    """Returns the name of the subfolder with the tuning runs of one number."""
    first = experiment.tunings[0].field
    return TUNING_FOLDER if tune.field == first else f"{TUNING_FOLDER}-{tuning_factor(experiment, tune)}"


def arm_names(experiment: Experiment) -> list[str]:
    """Returns the names of an experiment's arms."""
    return [arm_name(levels) or experiment.name for levels, _ in arm_overrides(experiment)]


def tuning_experiment(
    experiment: Experiment, tune: Tune, trials: Mapping[str, Mapping[float, tuple[int, ...]]]
) -> Experiment:
    """Returns the experiment that runs every arm with the given values of one field. Its runs are
    evaluated at their last step alone, unless their translations are scored or the metric is read
    from curves: nothing else of them is read.

    Args:
        experiment: whose arms are tuned; values that are tuned already are in it.
        tune: what is tuned.
        trials: {arm: {value: seeds}}.
    """
    factor = tuning_factor(experiment, tune)
    values = sorted({value for by_value in trials.values() for value in by_value})
    grid = {str(value): {tune.field: value} for value in values}
    runs, tuned = {}, {}
    for levels, _ in arm_overrides(experiment):
        name = arm_name(levels) or experiment.name
        for value, seeds in trials[name].items():
            trial = arm_name({**levels, factor: str(value)})
            runs[trial] = tuple(seeds)
            tuned[trial] = experiment.tuned_values.get(name, {})
    return replace(
        experiment,
        base=_evaluated_once(experiment),
        name=tuning_folder(experiment, tune),
        question=f"Which {tune.field} suits each arm of {experiment.name} best?",
        factors={**experiment.factors, factor: grid},
        seeds=tune.seeds,
        claim=None,
        contrasts=(),
        looks={},
        tune=None,
        tuned_values=tuned,
        tuning_curves={},
        seeds_of_arms=runs,
        measures=(),
    )


def _evaluated_once(experiment: Experiment) -> Mapping[str, Any]:
    """Returns the base without evaluations before the last step, which no fit reads, unless something
    is scored at them.
    """
    if flatten(experiment.base)[_TRANSLATE_EVERY] or steps_to_arm(experiment.metric):
        return experiment.base
    return config.override(experiment.base, {_EVAL_EVERY: 0})


def planned_trials(
    tune: Tune, losses: Mapping[str, Losses], states: Mapping[str, SearchState]
) -> dict[str, dict[float, tuple[int, ...]]]:
    """Returns {arm: {value: seeds}} of all runs so far and those to be run next."""
    found: dict[str, dict[float, tuple[int, ...]]] = {}
    for arm, state in states.items():
        seeds = {value: set(by_seed) for value, by_seed in losses[arm].items()}
        for value, further in state.trials.items():
            seeds[value] = seeds.get(value, set()) | set(further)
        # In the order of the tuning seeds, in which runs are planned.
        found[arm] = {value: tuple(seed for seed in tune.seeds if seed in seeds[value]) for value in sorted(seeds)}
    return found


def cost_lines(experiment: Experiment) -> Iterator[str]:
    """Yields how many runs tuning will take at least, one line for each tuned number."""
    arms = len(arm_names(experiment))
    for tune in experiment.tunings:
        yield (
            f"tuning {tune.field}: in each of {arms} arms {len(tune.values)} values with one seed, then "
            f"{MIN_VALUES} values a factor of {FACTOR} apart with {len(tune.seeds)} seeds: "
            f"{fewest_runs(experiment, tune)} runs, and more where the minimum lies outside"
        )


def fewest_tuning_runs(experiment: Experiment) -> int:
    """Returns how many runs all tuning takes at least."""
    return sum(fewest_runs(experiment, tune) for tune in experiment.tunings)


def fewest_runs(experiment: Experiment, tune: Tune) -> int:
    """Returns how many runs the tuning of one number takes at least."""
    # One of the finer values was tried with one seed.
    return len(arm_names(experiment)) * (len(tune.values) + MIN_VALUES * len(tune.seeds) - 1)


def with_tuned_value(
    experiment: Experiment, tune: Tune, values: Mapping[str, float], curves: Mapping[str, TuningCurve]
) -> Experiment:
    """Returns the experiment with the tuned value of each arm, and the curves behind them."""
    before, fitted = experiment.tuned_values, experiment.tuning_curves
    return replace(
        experiment,
        tuned_values={arm: {**before.get(arm, {}), tune.field: value} for arm, value in values.items()},
        tuning_curves={arm: {**fitted.get(arm, {}), tune.field: curve} for arm, curve in curves.items()},
    )


def tuning_record(experiment: Experiment) -> dict[str, Any]:
    """Returns the entry `tuning` of experiment.json: of the first tuned number, with those of further
    ones under `further`.
    """
    records = [_record_of(experiment, tune) for tune in experiment.tunings]
    return records[0] | ({"further": records[1:]} if len(records) > 1 else {})


def _record_of(experiment: Experiment, tune: Tune) -> dict[str, Any]:
    field = tune.field
    curves = {arm: by_field[field] for arm, by_field in experiment.tuning_curves.items() if field in by_field}
    chosen = {arm: changes[field] for arm, changes in experiment.tuned_values.items() if field in changes}
    return {
        "field": field,
        "factor": tuning_factor(experiment, tune),
        "folder": tuning_folder(experiment, tune),
        "values": sorted(tune.values),
        "seeds": list(tune.seeds),
        "chosen": chosen,
        **({"distance_to_one": True} if tune.distance_to_one else {}),
        **({"curves": {arm: curve_record(curve) for arm, curve in curves.items()}} if curves else {}),
        **({"tuned_at": experiment.tuned_at} if experiment.tuned_at else {}),
        **experiment.archived_tuning,
    }


def tuned_elsewhere_warnings(experiment: Experiment) -> list[str]:
    """Returns a warning if the values were chosen in another sweep."""
    if found := experiment.archived_tuning:
        commits = ", ".join(commit[:8] for commit in found["commits"]) or "unknown"
        return [
            f"the tuning runs are those of an earlier sweep of the same arms (commits of its runs: {commits}); they "
            "were not repeated"
        ]
    if not experiment.tuned_at:
        return []
    why = experiment.curves_not_taken
    return [
        f"{experiment.tunings[0].field} was not tuned in this sweep: each arm has the value at the same place in the "
        f"bracket as the best one in {experiment.tuned_at}"
        + (f", whose fitted curves are not taken over, because {why}" if why else "")
    ]


def untuned_arm_warnings(experiment: Experiment) -> list[str]:
    """Returns a line for each number and the arms in which no minimum was found."""
    found = []
    for tune in experiment.tunings:
        curves = {arm: by_field.get(tune.field) for arm, by_field in experiment.tuning_curves.items()}
        wrong = [f"{arm} ({curve.problem})" for arm, curve in curves.items() if curve and curve.problem]
        if wrong:
            found.append(f"{tune.field} is not tuned in {'; '.join(wrong)}: contrasts with it are not judged")
    return found
