"""Experiments from the command line: a config file and the fields to vary, or several configs."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from zoo import config
from zoo.config.scopes import split_path
from zoo.errors import ConfigError, shown
from zoo.lab.experiment import Experiment, levels
from zoo.nested import flatten

# The factor of --arm, and the beginning of a list of fields as opposed to a config.
ARM = "arm"
BUNDLE = re.compile(r"[\w.]+=")
LONGEST_NAME = 100


def experiment_from_flags(
    spec: str | None, vary: Sequence[str], name: str | None = None, arms: Sequence[str] = ()
) -> Experiment:
    """Returns the experiment of `--config=SPEC --vary PATH=VALUE,VALUE ... --arm NAME=...`, without a
    claim.

    Args:
        spec: config file with its argument; None if the arms are configs of their own.
        vary: one PATH=VALUE,VALUE,... per factor.
        name: by default composed of the names of the config file and of the varied fields.
        arms: NAME=CONFIG each without `spec`, NAME=PATH=VALUE,PATH=VALUE,... each with it; they are
            the levels of the factor "arm".

    Raises:
        ConfigError: with one line for every mistake in the flags.
    """
    problems: list[str] = []
    fields = _varied_fields(vary, problems)
    bundles = _arms(arms, spec is not None, problems)
    if problems:
        raise ConfigError(problems)
    names = [short_name(path) for path in fields]
    short = {path: name if names.count(name) == 1 else path for path, name in zip(fields, names, strict=True)}
    factors = {short[path]: levels(path, *values) for path, values in fields.items()}
    if spec is not None:
        base, what, stems = config.load_with_plugins(spec), spec, [config.split_spec(spec)[0].stem]
    else:
        base, bundles = _configs_as_levels(bundles)
        what, stems = f"each of {', '.join(bundles)}", []
    if bundles:
        factors = {ARM: bundles, **factors}
    parts = [*stems, *bundles, *short.values()]
    if bundles:
        question = f"How do {' and '.join(bundles)} differ?"
    elif short:
        question = f"What does {' and '.join(short.values())} change in {what}?"
    else:
        question = f"How much does {what} vary with the seed?"
    return Experiment(
        name=name or re.sub(r"[^A-Za-z0-9._=-]+", "-", "-".join(parts)).lstrip(".")[:LONGEST_NAME],
        question=question,
        base=base,
        factors=factors,
    )


def changed_base(experiment: Experiment, changes: Mapping[str, Any]) -> Any:
    """Returns the base config of an experiment with changed fields, {path: value}.

    Raises:
        ConfigError: a factor varies a field, or it is the seed; and as `config.override`.
    """
    varied = {
        path: factor for factor, levels in experiment.factors.items() for level in levels.values() for path in level
    }
    if clash := [f'{path} cannot be set: factor "{varied[path]}" varies it' for path in changes if path in varied]:
        raise ConfigError(clash)
    if "seed" in changes:
        raise ConfigError("seed cannot be set for all runs; use --seeds, in Python seeds=")
    return config.override(experiment.base, changes)


def _varied_fields(vary: Sequence[str], problems: list[str]) -> dict[str, list[str]]:
    """Returns {path: values} of the --vary flags; appends what is wrong to `problems`."""
    fields: dict[str, list[str]] = {}
    for text in vary:
        path, equals, values = text.partition("=")
        if not equals or not all(values.split(",")):
            problems.append(f"--vary {text}: expected PATH=VALUE,VALUE,...")
        elif problem := _field_problem(path):
            problems.append(f"--vary {text}: {problem}")
        elif path in fields:
            problems.append(f"--vary {path} is given twice; list all its values after one =")
        else:
            fields[path] = [value.strip() for value in values.split(",")]
    return fields


def _field_problem(path: str) -> str | None:
    if config.field_at(path) is None:
        return config.unknown_field(path)
    if config.field_at(path).kind is tuple:
        return f"the values of {path} contain commas; write an experiment file"
    return None


def _arms(arms: Sequence[str], with_base: bool, problems: list[str]) -> dict[str, Any]:
    """Returns {name: overrides} of the --arm flags, or {name: CONFIG} without a base."""
    found: dict[str, Any] = {}
    if len(arms) == 1:
        problems.append(f"--arm {arms[0]}: one arm has nothing to be compared with; give --arm again")
    for text in arms:
        name, equals, content = text.partition("=")
        is_bundle = not content or BUNDLE.match(content) is not None
        if not name or not equals or (not content and not with_base):
            problems.append(
                f"--arm {text}: expected NAME=" + ("PATH=VALUE,PATH=VALUE,..." if with_base else "CONFIG[:ARGUMENT]")
            )
        elif name in found:
            problems.append(f"--arm {name} is given twice")
        elif is_bundle and not with_base:
            problems.append(f"--arm {text}: a list of fields needs --config=FILE, the config that it changes")
        elif with_base and not is_bundle:
            problems.append(
                f"--arm {text}: expected NAME=PATH=VALUE,PATH=VALUE,... with --config; "
                "leave --config out if every arm is a config"
            )
        else:
            found[name] = _bundle(text, content, problems) if with_base else content
    return found


def _bundle(text: str, content: str, problems: list[str]) -> dict[str, str]:
    overrides = {}
    for part in filter(None, content.split(",")):
        path, equals, value = part.partition("=")
        if not equals:
            problems.append(f"--arm {text}: {shown(part)} is not PATH=VALUE")
        elif problem := _field_problem(path):
            problems.append(f"--arm {text}: {problem}")
        elif path in overrides:
            problems.append(f"--arm {text}: {path} is given twice")
        elif not value and config.field_at(path).kind is not str:
            problems.append(f"--arm {text}: {shown(part)} is not PATH=VALUE; only texts can be empty")
        else:
            overrides[path] = value
    return overrides


def _configs_as_levels(specs: Mapping[str, str]) -> tuple[Mapping[str, Any], dict[str, dict[str, Any]]]:
    """Returns what all configs set alike as a base, and the rest as the levels of a factor."""
    start = config.default()
    flats = {
        name: {path: value for path, (_, value) in config.difference(start, config.load_with_plugins(spec)).items()}
        for name, spec in specs.items()
    }
    first, *others = flats.values()
    shared = {
        path: value for path, value in first.items() if all(path in other and other[path] == value for other in others)
    }
    varied = dict.fromkeys(path for flat in flats.values() for path in flat if path not in shared)
    defaults = flatten(start)
    arms = {
        name: {path: flat.get(path, defaults.get(path)) for path in varied if path in flat or path in defaults}
        for name, flat in flats.items()
    }
    return config.override(start, shared), arms


def short_name(path: str) -> str:
    """Returns the shortest end of a path that is unique: "norm.kind" for "model.norm.kind".

    Longer paths may have the same end: "dim" is "model.dim", beside "embedding.dim". Inside a scope
    it follows the scope's name: "local.window" for "model.layers.kinds.local.attention.window".
    """
    if (parts := split_path(path)) is not None:
        return f"{parts[0].rsplit('.', 1)[-1]}.{short_name(parts[1])}"
    parts = path.split(".")
    ends = (".".join(parts[start:]) for start in range(len(parts) - 1, 0, -1))
    rivals = [other for other in config.BY_PATH if other != path and other.count(".") < len(parts)]
    return next((end for end in ends if not any(f".{other}".endswith(f".{end}") for other in rivals)), path)
