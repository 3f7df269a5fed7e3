"""Parameters and statistics of a model from the tensors of a class, and back."""

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

import numpy as np

from zoo.config import ResolvedConfig, override, resolve
from zoo.interop.class_registry import importer_of
from zoo.interop.settings.equivalents import ConfigView
from zoo.interop.settings.importer import Importer
from zoo.interop.weights.mapping import Rule, TiedTensor, from_zoo, tensor_shapes, to_zoo
from zoo.interop.weights.tensor_names import RenamedTensors
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten, unflatten


def import_weights(
    class_name: str | Importer, config: ResolvedConfig, tensors: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads a model's parameters and statistics from the tensors of a class.

    Args:
        class_name: the class that has these tensors.
        config: the resolved config of the model, e.g. that of `resolve_like`.
        tensors: arrays by name.

    Returns:
        (parameters, statistics), nested dicts of numpy arrays in the tensors' type.

    Raises:
        DataError: naming all tensors that are missing, unexpected or of a wrong shape.
    """
    importer = importer_of(class_name)
    _, params, stats = split(make_model(config))
    both = unflatten(flatten(params, "/") | flatten(stats, "/"), "/")
    rules = [*importer.rules(config.model), *importer.statistics(config.model)]
    named = [rule.name for rule in rules if isinstance(rule, Rule | TiedTensor)]
    heads = {name.split(".")[0] for name in named if not name.startswith(f"{importer.prefix}.")}
    stored = RenamedTensors(tensors, importer.renamed_suffixes, importer.prefix, heads)
    stored = importer.arranged(ConfigView(config, {}), stored)
    shapes = tensor_shapes(rules, both)
    missing = {
        name: np.zeros(shapes[name], np.float32)
        for name in importer.zero_if_missing
        if name in shapes and name not in stored
    }
    read = flatten(to_zoo(rules, ChainMap(missing, stored), both), "/")
    params, stats = (unflatten({path: read[path] for path in flatten(tree, "/")}, "/") for tree in (params, stats))
    return params, stats


def without_padding(config: ResolvedConfig) -> ResolvedConfig:
    """Returns the config of the same model with as many rows in its tables as there are ids."""
    if config.model.vocab_multiple == 1:
        return config
    return resolve(override(config, {"model.vocab_multiple": 1}))


def with_rows_of(config: ResolvedConfig, params: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a model with the rows of another padding of the vocabulary
    (`model.vocab_multiple`): cut, or padded with zeros.

    Args:
        config: the resolved config with that padding.
        params: the parameters; arrays of the right shape are returned as they are.
    """
    shapes = flatten(split(make_model(config))[1], "/")

    def fitted(x: Any, rows: int) -> Any:
        if x.shape[0] == rows:
            return x
        more = max(rows - x.shape[0], 0)
        return np.pad(np.asarray(x)[:rows], [(0, more)] + [(0, 0)] * (x.ndim - 1))

    found = {path: fitted(x, shapes[path].shape[0]) if x.ndim else x for path, x in flatten(params, "/").items()}
    return unflatten(found, "/")


def export_weights(
    class_name: str | Importer,
    config: ResolvedConfig,
    params: dict[str, Any],
    stats: dict[str, Any],
    consume: bool = False,
) -> dict[str, Any]:
    """Returns a model's parameters and statistics as the tensors of a class.

    This is the inverse of `import_weights`. With `consume`, `params` and `stats` are emptied to
    save memory; see `from_zoo`.
    """
    both = unflatten(flatten(params, "/") | flatten(stats, "/"), "/")
    if consume:
        params.clear()
        stats.clear()
    importer = importer_of(class_name)
    return from_zoo([*importer.rules(config.model), *importer.statistics(config.model)], both, consume)
