"""Models of other libraries: their configs and their weights, read and written, one file per
family.

`FAMILIES` finds the importer of a class by its name, which a `config.json` gives under
`architectures`. Wherever a class's name is asked for, an `Importer` that somebody wrote for a class
of their own will do.
"""

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

import numpy as np

from zoo.config import ResolvedConfig, default, override, resolve
from zoo.errors import ConfigError, did_you_mean
from zoo.interop.families import (
    bart,
    bert,
    bloom,
    distilbert,
    gpt,
    llama,
    longformer,
    marian,
    mpt,
    neox,
    performer_pytorch,
    roberta,
    roformer,
    t5,
)
from zoo.interop.settings.importer import Importer
from zoo.interop.weights.mapping import Copy, Rule, from_zoo, tensor_shapes, to_zoo
from zoo.interop.weights.tensor_names import Renamed
from zoo.nested import flatten, unflatten

FAMILIES: dict[str, Importer] = {
    name: importer
    for family in (
        bart,
        bert,
        bloom,
        distilbert,
        gpt,
        llama,
        longformer,
        marian,
        mpt,
        neox,
        performer_pytorch,
        roberta,
        roformer,
        t5,
    )
    for name, importer in family.CLASSES.items()
}

__all__ = [
    "FAMILIES",
    "Importer",
    "export_weights",
    "from_zoo",
    "import_weights",
    "importer_of",
    "resolve_like",
    "to_zoo",
]


def importer_of(class_name: str | Importer) -> Importer:
    """The importer of a class, e.g. "GPT2LMHeadModel"; an importer is its own.

    Raises:
        ConfigError: if there is none.
    """
    if isinstance(class_name, Importer):
        return class_name
    if class_name not in FAMILIES:
        raise ConfigError(
            f"no importer for {class_name}{did_you_mean(class_name, FAMILIES)}; there are {', '.join(sorted(FAMILIES))}"
        )
    return FAMILIES[class_name]


def resolve_like(
    class_name: str | Importer, hf: Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> ResolvedConfig:
    """A resolved config of the model that a `config.json` describes.

    Args:
        class_name: the class that it describes.
        hf: its content.
        overrides: flat fields on top, e.g. the data's.

    Raises:
        ConfigError: for settings that cannot be expressed, and for fields that do not fit together.
    """
    try:
        fields = importer_of(class_name).config_of(hf)
    except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError) as error:
        name = class_name if isinstance(class_name, str) else "this class"
        raise ConfigError(
            f"the config of {name} has a value of a wrong type: {type(error).__name__}: {error}"
        ) from error
    return resolve(override(default(), fields | dict(overrides or {})))


def import_weights(
    class_name: str | Importer, config: ResolvedConfig, tensors: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and statistics of a model, from the tensors of a class.

    Args:
        class_name: the class that has these tensors.
        config: the resolved config of the model, e.g. that of `resolve_like`.
        tensors: arrays by name.

    Returns:
        (parameters, statistics), nested dicts of numpy arrays in the tensors' type.

    Raises:
        DataError: naming all tensors that are missing, left over or of another shape.
    """
    from zoo.models.architectures import make_model
    from zoo.models.functional import split

    importer = importer_of(class_name)
    _, params, stats = split(make_model(config))
    both = unflatten(flatten(params, "/") | flatten(stats, "/"), "/")
    rules = [*importer.rules(config.model), *importer.statistics(config.model)]
    named = [rule.name for rule in rules if isinstance(rule, Rule | Copy)]
    heads = {name.split(".")[0] for name in named if not name.startswith(f"{importer.prefix}.")}
    there = Renamed(tensors, importer.old_endings, importer.prefix, heads)
    shapes = tensor_shapes(rules, both)
    left_out = {
        name: np.zeros(shapes[name], np.float32) for name in importer.zeros if name in shapes and name not in there
    }
    read = flatten(to_zoo(rules, ChainMap(left_out, there), both), "/")
    return unflatten({path: read[path] for path in flatten(params, "/")}, "/"), unflatten(
        {path: read[path] for path in flatten(stats, "/")}, "/"
    )


def export_weights(
    class_name: str | Importer,
    config: ResolvedConfig,
    params: dict[str, Any],
    stats: dict[str, Any],
    release: bool = False,
) -> dict[str, Any]:
    """The tensors of a class, from a model's parameters and statistics: what `import_weights`
    undoes.

    With `release` both are empty afterwards: see `from_zoo`.
    """
    both = unflatten(flatten(params, "/") | flatten(stats, "/"), "/")
    if release:
        params.clear()
        stats.clear()
    return from_zoo(
        [*importer_of(class_name).rules(config.model), *importer_of(class_name).statistics(config.model)], both, release
    )
