"""Rejects plans with duplicate arms, metrics that no run writes, or unused prerequisite runs."""

from collections.abc import Mapping

from zoo import config
from zoo.config.kinds.side_lengths import side_lengths
from zoo.errors import did_you_mean
from zoo.lab.declarations import arm_text
from zoo.lab.experiment import Experiment, arm_name, named_contrasts
from zoo.lab.measures import MEASURE_PREFIX, measure_name, why_unavailable
from zoo.lab.metrics import base_name, steps_to_arm, written_metrics
from zoo.lab.planning.arm import PlannedArm
from zoo.lab.planning.arm_resolution import arm_overrides
from zoo.lab.planning.prerequisites import references
from zoo.nested import flatten


def duplicate_arms(arms: list[PlannedArm]) -> list[str]:
    """Returns a line for every pair of arms that resolve to the same run, with the reason."""
    names = [arm.name for arm in arms]
    lines = [f"two arms are called {name}; rename a level" for name in dict.fromkeys(names) if names.count(name) > 1]
    first: dict[str, PlannedArm] = {}
    for arm in arms:
        twin = first.setdefault(config.identity(arm.config), arm)
        if twin is arm:
            continue
        # Either the arms differ in fields that change no result, or their settings resolve to the
        # same values.
        if irrelevant := sorted(config.difference(twin.config, arm.config)):
            why = f"they differ only in {', '.join(irrelevant)}, which cannot change a result"
        else:
            one, other = (_settings(side) for side in (twin, arm))
            why = f"both resolve to {one}" if one == other else f"{one} and {other} resolve to the same config"
        lines.append(f'arms "{arm_text(twin.name)}" and "{arm_text(arm.name)}" are the same run: {why}')
    return lines


def _settings(arm: PlannedArm) -> str:
    return ", ".join(f"{path}={value}" for path, value in arm.overrides.items()) or "the base"


def missing_metrics(experiment: Experiment, arms: list[PlannedArm]) -> list[str]:
    """Returns a line for every required metric that the evaluation of an arm will not write."""
    by_name = {arm.name: arm for arm in arms}
    planned = [arm_name(levels) or experiment.name for levels, _ in arm_overrides(experiment)]
    required = [(f'arm "{arm_text(arm.name)}"', arm, experiment.metric) for arm in arms]
    for contrast in named_contrasts(experiment):
        for side in contrast.sides:
            if side.arm not in by_name:
                continue  # An arm whose config has problems.
            required.append((f'contrast "{contrast.name}"', by_name[side.arm], side.metric))
    required += [
        (f'arm "{arm_text(arm.name)}"', arm, MEASURE_PREFIX + name) for arm in arms for name in experiment.measures
    ]
    lines = [
        f"{where}: no metric {metric}: no arm has this name; the arms are {', '.join(planned)}"
        for where, _, metric in required
        if (needed := steps_to_arm(metric)) and needed not in planned
    ]
    lines += [line for where, arm, metric in required if (line := _why_missing(where, arm, metric))]
    return list(dict.fromkeys(lines))


def _why_missing(where: str, arm: PlannedArm, metric: str) -> str:
    """Returns why an arm will not have a metric; empty if it will."""
    flat = flatten(arm.config)
    if measure_name(metric):
        why = why_unavailable(metric, flat)
        return f"{where}: no metric {metric}: {why}" if why else ""
    lengths, names = flat["training.eval_lengths"], written_metrics(flat)
    if steps_to_arm(metric):
        if "eval/loss" in names and flat["training.eval_every"]:
            return ""
        return f"{where}: no metric {metric} without evaluations of eval/loss; set training.eval_every"
    available = [*names, *(f"{name}@{length}" for name in names for length in lengths)]
    name, _, length = metric.partition("@")
    if name not in names and base_name(metric).startswith("next_") and "eval/perplexity" in names:
        return f"{where}: no metric {metric} without objective.next_sentence=true"
    if name not in names:
        kind = flat["objective.kind"]
        return f"{where}: no metric {metric} under objective.kind={kind}, which writes {', '.join(names)}"
    if metric not in available:
        shown = ",".join(map(str, lengths)) or "empty"
        return f"{where}: no metric {metric}{did_you_mean(metric, available)}; training.eval_lengths is {shown}"
    if length and (longest := _longest_evaluable(arm.config, int(length))) is not None:
        return f"{where}: no metric {metric} for {arm_text(arm.name)}: its learned positions end at {longest}"
    return ""


def _longest_evaluable(resolved: config.ResolvedConfig, length: int) -> int | None:
    """Returns where learned positions end, if they end before a row of `length` tokens; else None.

    An encoder-decoder has learned positions on either side.
    """
    model, parts = resolved.model, [(resolved.model, length)]
    if model.architecture == "encoder_decoder":
        sides = (config.side(model, name) for name in ("encoder", "decoder"))
        parts = list(zip(sides, side_lengths(resolved.objective, length), strict=True))
    last = max(resolved.data.position_offsets, default=0)
    ends = [
        part.position.max_length
        for part, tokens in parts
        if part.position.kind == "learned" and model.architecture != "elmo" and tokens + last > part.position.max_length
    ]
    return min(ends, default=None)


def unused_prerequisites(prerequisites: Mapping[str, PlannedArm], arms: list[PlannedArm]) -> list[str]:
    """Returns a line for every unused or duplicate prerequisite run."""
    needed = {name for arm in (*arms, *prerequisites.values()) for name in references(arm.config).values()}
    lines = [f'prerequisite run "{name}": no arm starts from it' for name in prerequisites if name not in needed]
    first: dict[str, str] = {}
    for name, arm in prerequisites.items():
        twin = first.setdefault(config.identity(arm.config), name)
        lines += [f'prerequisite runs "{twin}" and "{name}" are the same run'] if twin != name else []
    return lines
