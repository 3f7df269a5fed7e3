"""Parses the arms, contrasts and looks in experiment.json."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from zoo.errors import ConfigError, did_you_mean, listed, shortened
from zoo.lab.declarations import BETWEEN_LEVELS, PREREQUISITE_PREFIX, RULES, Contrast, Side, arm_text
from zoo.lab.statistics.noise import Noise
from zoo.training.records.record_faults import SHORT_ROWS, ignores_length_of_rows
from zoo.training.records.run_folder import recorded_executor

# How the source of noise begins that was estimated from the sweeps of `--noise-from`.
OF_SWEEPS = "the arms and seeds of"


def restore_prerequisite_names(settings: Mapping[str, Any], folders: Mapping[str, str]) -> dict[str, Any]:
    """Returns a config with the folders of prerequisite runs replaced by `prerequisite:NAME`.

    Args:
        settings: a config, flat or nested.
        folders: {folder name: name of the prerequisite run}.
    """
    found = {}
    for key, value in settings.items():
        known = folders.get(Path(value).name) if isinstance(value, str) else None
        found[key] = (
            restore_prerequisite_names(value, folders)
            if isinstance(value, dict)
            else value
            if known is None
            else PREREQUISITE_PREFIX + known
        )
    return found


def parse_noise(entry: Any) -> dict[str, Noise]:
    """Returns {metric: noise} of an experiment.json; entries that are not readable are left out."""
    found = {}
    for metric, one in as_dict(entry).items():
        numbers = [as_dict(one).get("sd"), as_dict(one).get("df")]
        if all(isinstance(number, int | float) and math.isfinite(number) and number > 0 for number in numbers):
            found[metric] = Noise(*map(float, numbers), as_text(one.get("source")))
    return found


@dataclass(frozen=True)
class Arm:
    """An arm of a sweep. `label` names it by the factors that differ within the sweep."""

    name: str
    label: str
    factors: dict[str, str]
    overrides: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)


def factor_labels(arms: list[dict[str, str]], names: list[str]) -> list[str]:
    """Returns one label per arm, which mentions only the factors in which the arms differ."""
    keys = list(dict.fromkeys(key for factors in arms for key in factors))
    varying = [key for key in keys if len({factors.get(key) for factors in arms}) > 1]
    labels = [BETWEEN_LEVELS.join(f"{key}={factors[key]}" for key in varying if key in factors) for factors in arms]
    return labels if len(set(labels)) == len(labels) and all(labels) else names


def find_arm(arms: Sequence[Arm], text: str) -> Arm:
    """Returns the arm that `--baseline` names, as tables, folders or records call it.

    Raises:
        ConfigError: there is no such arm.
    """
    found = [arm for arm in arms if text in (arm.label, arm.name, arm_text(arm.name))]
    if not found:
        labels = [arm.label for arm in arms]
        raise ConfigError(
            f"--baseline {shortened(text)}: no arm has this name{did_you_mean(text, labels)}; the arms are "
            f"{listed(labels, 12)}"
        )
    return found[0]


def as_text(value: Any) -> str:
    """Returns the value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_dict(value: Any) -> dict[str, Any]:
    """Returns the value if it is a dict, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Returns the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def is_named(noise: Mapping[str, Any]) -> bool:
    """Whether a noise, {metric: {sd, df, source}}, is that of sweeps which `--noise-from` named."""
    return any(source_of(one).startswith(OF_SWEEPS) for one in noise.values())


def source_of(noise: Any) -> str:
    """Returns the source of one metric's noise; empty if the record is damaged."""
    return as_text(as_dict(noise).get("source"))


def starts(meta: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the records of the programs that trained a run, from its meta.json: that of its start,
    and of each time that it was resumed. Empty without a record of the start.
    """
    return [meta, *filter(None, map(as_dict, as_list(meta.get("resumed"))))] if meta else []


def is_inside(folder: Any) -> bool:
    """Whether the value is a relative path of a folder that does not leave its parent."""
    return (
        isinstance(folder, str)
        and bool(folder)
        and not PurePosixPath(folder).is_absolute()
        and (".." not in PurePosixPath(folder).parts)
        and "\0" not in folder
    )


def as_words(value: Any) -> list[str]:
    """Returns the value if it is a list of strings, else an empty one."""
    return value if isinstance(value, list) and all(isinstance(word, str) for word in value) else []


def prerequisite_entries(experiment: Mapping[str, Any]) -> Any:
    """Returns the entries of prerequisite runs in experiment.json; older sweeps call them prepared."""
    return experiment.get("prerequisites", experiment.get("prepared", []))


def parse_arms(entries: list[Any], where: str, problems: list[str]) -> list[Arm]:
    """Parses arms from JSON; appends what is wrong to `problems`."""
    entries = [entry if isinstance(entry, dict) else {} for entry in entries]
    names = [entry.get("name") for entry in entries]
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        problems.append(f"{where}: at least one arm is needed, and arms need different names")
        return []
    factors = [{str(k): str(v) for k, v in as_dict(entry.get("factors")).items()} for entry in entries]
    return [
        Arm(name, label, factor, as_dict(entry.get("overrides")), as_dict(entry.get("parameters")))
        for entry, name, factor, label in zip(entries, names, factors, factor_labels(factors, names), strict=True)
    ]


def parse_contrast(entry: Any, where: str, arms: list[str], problems: list[str]) -> Contrast | None:
    """Parses one contrast from JSON; returns None and appends to `problems` if it is wrong."""
    entry = as_dict(entry)
    name, rule, margin = as_text(entry.get("name")), entry.get("rule"), entry.get("margin")
    where = f'{where}: contrast "{name}"'
    before = len(problems)
    sides = {}
    for side in "ab":
        value = as_dict(entry.get(side))
        arm, metric = as_text(value.get("arm")), as_text(value.get("metric"))
        if arm not in arms:
            problems.append(f'{where}: {side} names the arm "{arm}", which does not exist{did_you_mean(arm, arms)}')
        if not metric:
            problems.append(f"{where}: {side} names no metric")
        sides[side] = Side(arm, metric)
    if rule not in RULES:
        problems.append(f'{where}: rule is "{rule}"; expected {", ".join(RULES)}{did_you_mean(rule, RULES)}')
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < math.inf:
        problems.append(f"{where}: margin is {margin!r}; expected a number of 0 or more")
    if len(problems) > before:
        return None
    limit = entry.get("diverged_above")
    return Contrast(
        name,
        sides["a"],
        sides["b"],
        rule,
        float(margin),
        as_text(entry.get("expected")),
        as_text(entry.get("claim")),
        float(limit) if isinstance(limit, int | float) else None,
    )


def parse_looks(value: Any, where: str, problems: list[str]) -> dict[int, float]:
    """Parses {number of seeds: level} from JSON; empty for a sweep that is judged only once."""
    if value is None:
        return {}
    entries = as_dict(value).items()
    if not entries or any(
        not seeds.isdecimal() or type(level) is not float or not 0 < level < 1 for seeds, level in entries
    ):
        problems.append(f"{where}: looks need to map numbers of seeds to levels between 0 and 1")
        return {}
    return {int(seeds): level for seeds, level in entries}


def numerics(meta: Mapping[str, Any]) -> str:
    """Returns the numerics of a run, from its meta.json. Only runs with equal numerics are compared.

    They are "exact" for a run that was trained separately, or by the executor `map` on a CPU, which is
    bit-identical; otherwise the name of the executor.
    """
    executor, device = recorded_executor(meta), meta.get("device")
    exact = executor == "single" or (
        executor == "map" and isinstance(device, Mapping) and device.get("platform") == "cpu"
    )
    return "exact" if exact else executor


def mix_kernels(metas: Iterable[Mapping[str, Any]]) -> bool:
    """Returns whether some of these runs were begun by a version that chose the kernel of attention
    without regard to the length of rows, and others have another kernel than it would have chosen.
    """
    metas = list(metas)
    return any(meta.get(SHORT_ROWS) is True for meta in metas) and any(map(ignores_length_of_rows, metas))
