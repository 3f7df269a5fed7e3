"""Experiments from the command line: one config file and the fields to vary."""

import re
from collections.abc import Sequence

from zoo import config
from zoo.config.scopes import split_path
from zoo.errors import ConfigError
from zoo.lab.experiment import Experiment, levels


def experiment_from_flags(spec: str, vary: Sequence[str], name: str | None = None) -> Experiment:
    """Returns the experiment of `--config=SPEC --vary PATH=VALUE,VALUE ...`, without a claim.

    Args:
        spec: config file with its argument.
        vary: one PATH=VALUE,VALUE,... per factor.
        name: by default composed of the names of the config file and of the varied fields.
    """
    fields: dict[str, list[str]] = {}
    problems = []
    for text in vary:
        path, equals, values = text.partition("=")
        if not equals or not all(values.split(",")):
            problems.append(f"--vary {text}: expected PATH=VALUE,VALUE,...")
        elif config.field_at(path) is None:
            problems.append(f"--vary {text}: {config.unknown_field(path)}")
        elif config.field_at(path).kind is tuple:
            problems.append(f"--vary {text}: the values of {path} contain commas; write an experiment file")
        elif path in fields:
            problems.append(f"--vary {path} is given twice; list all its values after one =")
        else:
            fields[path] = [value.strip() for value in values.split(",")]
    if problems:
        raise ConfigError(problems)
    names = [_short(path) for path in fields]
    short = {path: name if names.count(name) == 1 else path for path, name in zip(fields, names, strict=True)}
    return Experiment(
        name=name
        or re.sub(r"[^A-Za-z0-9._=-]+", "-", "-".join([config.split_spec(spec)[0].stem, *short.values()])).lstrip("."),
        question=f"What does {' and '.join(short.values())} change in {spec}?"
        if short
        else f"How much does {spec} vary with the seed?",
        base=config.load_with_plugins(spec),
        factors={short[path]: levels(path, *values) for path, values in fields.items()},
    )


def _short(path: str) -> str:
    """Returns the shortest end of a path that is unique: "norm.kind" for "model.norm.kind".

    Inside a scope it follows the scope's name: "local.window" for
    "model.layers.kinds.local.attention.window".
    """
    if (parts := split_path(path)) is not None:
        return f"{parts[0].rsplit('.', 1)[-1]}.{_short(parts[1])}"
    parts = path.split(".")
    ends = (".".join(parts[start:]) for start in range(len(parts) - 1, 0, -1))
    return next(
        (end for end in ends if sum(f".{other}".endswith(f".{end}") for other in {*config.BY_PATH, path}) == 1), path
    )
