"""Plans that cannot be: arms that are one run, metrics that nobody writes, runs that nothing starts
from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zoo import config
from zoo.config.side_lengths import side_lengths
from zoo.errors import did_you_mean
from zoo.lab.experiment import Experiment, side_of
from zoo.lab.measures import PREFIX, name_of, problem
from zoo.lab.metrics import base_name, written_by
from zoo.lab.planning.prerequisites import named
from zoo.nested import flatten

if TYPE_CHECKING:
    from zoo.lab.planning.plan import Arm


def twins(arms: list[Arm]) -> list[str]:
    """Arms that would be one and the same run, and why."""
    first: dict[str, Arm] = {}
    lines = []
    names = [arm.name for arm in arms]
    lines += [f"two arms are called {name}; rename a level" for name in dict.fromkeys(names) if names.count(name) > 1]
    for arm in arms:
        twin = first.setdefault(config.identity(arm.config), arm)
        if twin is arm:
            continue
        # What the two set and what became of it: a field of which only the spelling differs, or one
        # that changes no result.
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


def absent_metrics(experiment: Experiment, arms: list[Arm]) -> list[str]:
    """Metrics that are asked of arms whose evaluation will not write them."""
    by_name = {arm.name: arm for arm in arms}
    asked = [(f'arm "{arm.name}"', arm, experiment.metric) for arm in arms]
    for contrast in experiment.contrasts:
        for side in (contrast.a, contrast.b):
            named = side_of(experiment, side)
            asked.append((f'contrast "{contrast.name}"', by_name[named["arm"]], named["metric"]))
    asked += [(f'arm "{arm.name}"', arm, PREFIX + name) for arm in arms for name in experiment.measures]
    lines = []
    for where, arm, metric in asked:
        flat = flatten(arm.config)
        lengths = flat["training.eval_lengths"]
        names = written_by(flat)
        if name_of(metric):
            lines += [f"{where}: no metric {metric}: {why}"] if (why := problem(metric, flat)) else []
            continue
        available = [*names, *(f"{name}@{length}" for name in names for length in lengths)]
        if (
            metric.partition("@")[0] not in names
            and base_name(metric).startswith("next_")
            and "eval/perplexity" in names
        ):
            lines.append(f"{where}: no metric {metric} without objective.next_sentence=true")
        elif metric.partition("@")[0] not in names:
            lines.append(
                f"{where}: no metric {metric} of objective.kind={flat['objective.kind']}, which has {', '.join(names)}"
            )
        elif metric not in available:
            lines.append(
                f"{where}: no metric {metric}{did_you_mean(metric, available)}; training.eval_lengths is "
                f"{','.join(map(str, lengths)) or 'empty'}"
            )
        elif "@" in metric and (longest := _longest(arm.config, int(metric.partition("@")[2]))) is not None:
            lines.append(f"{where}: no metric {metric} for {arm.name}: its learned positions end at {longest}")
    return list(dict.fromkeys(lines))


def _longest(resolved: config.ResolvedConfig, length: int) -> int | None:
    """Where the learned positions of the model, or of a side of it, end before a row of `length`
    tokens does.
    """
    model, parts = resolved.model, [(resolved.model, length)]
    if model.architecture == "encoder_decoder":
        sides = (config.side(model, name) for name in ("encoder", "decoder"))
        parts = list(zip(sides, side_lengths(resolved.objective, length), strict=True))
    last = max(resolved.data.offsets, default=0)
    ends = [
        part.position.max_length
        for part, tokens in parts
        if part.position.kind == "learned" and model.architecture != "elmo" and tokens + last > part.position.max_length
    ]
    return min(ends, default=None)


def idle(prepared: Mapping[str, Arm], arms: list[Arm]) -> list[str]:
    """Prepared runs that nothing starts from, and such as are one and the same."""
    needed = {name for arm in (*arms, *prepared.values()) for name in named(arm.config).values()}
    lines = [f'prepared run "{name}": no arm starts from it' for name in prepared if name not in needed]
    first: dict[str, str] = {}
    for name, arm in prepared.items():
        twin = first.setdefault(config.identity(arm.config), name)
        lines += [f'prepared runs "{twin}" and "{name}" are the same run'] if twin != name else []
    return lines
