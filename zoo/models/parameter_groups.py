"""Assigns a model's parameters to the groups of the optimizer."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from flax import nnx

from zoo.config import GROUPS, REST, ResolvedConfig, is_selected
from zoo.config.kinds import OPTIMIZER_KINDS
from zoo.config.kinds.matrix_optimizer_kinds import ORTHOGONAL
from zoo.config.scopes import scoped, scopes_in, values_in
from zoo.errors import ConfigError
from zoo.layers.parameter import zeros
from zoo.models.architectures import make_model
from zoo.models.functional import Params, parameter_traits
from zoo.nested import flatten, unflatten

FIELD = "optimizer.muon_heads"


def group_labels(config: ResolvedConfig, module: nnx.Module) -> Params:
    """Returns the name of each parameter's group, nested like the parameters.

    A parameter belongs to the first group of `optimizer.groups` that selects it, else to `REST`.
    Stacked layers are one parameter.

    Args:
        config: the resolved config.
        module: the abstract model.

    Raises:
        ConfigError: one line for each group that has no parameter, or none that its kind or a field is
            for.
    """
    flat, names = flatten(config), config.optimizer.groups
    labels, selected = _assigned(config, module)
    if empty := [name for name in names if name not in labels.values()]:
        why = {True: "earlier groups have all parameters that it selects", False: "it selects none of this model"}
        selects = _selects(config)
        raise ConfigError(
            [f"{GROUPS}.{name}.select={selects[name]}: no parameter is left; {why[name in selected]}" for name in empty]
        )
    traits = parameter_traits(module)
    if config.optimizer.constraint == "unit_norm" and (
        zero := [path for path in _zeros(module) if path in traits.model_axis]
    ):
        raise ConfigError(
            [
                f"optimizer.constraint=unit_norm keeps vectors of length 1, and those of {path} are 0 at first; choose "
                "other initial values, or leave the constraint none"
                for path in zero
            ]
        )
    hidden = flatten(traits.is_hidden_matrix, "/")
    kinds = {REST: config.optimizer.kind} | {
        name: values_in(f"{GROUPS}.{name}", flat)["optimizer.kind"] for name in names
    }
    if zero := [
        f"optimizer.kind=muonh keeps the norm of the initial values, and those of {path} are 0; give it another kind "
        "in a group of its own"
        for path in _zeros(module)
        if kinds[labels[path]] == "muonh" and hidden[path]
    ]:
        raise ConfigError(zero)
    if without := [
        f"{GROUPS}.{name}.kind={kinds[name]}: the group has no matrix of a "
        "hidden layer, so its rule would be that of adamw; select role:matrix, or leave the kind out"
        for name in names
        if kinds[name] in OPTIMIZER_KINDS.having("matrices")
        and not any(hidden[path] for path, label in labels.items() if label == name)
    ]:
        raise ConfigError(without)
    if fused := list(_check_heads(flat, kinds, {labels[path] for path in traits.heads})):
        raise ConfigError(fused)
    return unflatten(labels, "/")


def groups_without_parameters(config: ResolvedConfig) -> list[str]:
    """Returns the names of the groups that have no parameter of the config's model."""
    labels, _ = _assigned(config, make_model(config))
    return [name for name in config.optimizer.groups if name not in labels.values()]


def _assigned(config: ResolvedConfig, module: nnx.Module) -> tuple[dict[str, str], set[str]]:
    """Returns {path: group} of the parameters, and the groups that select one, whether or not an
    earlier group has it.
    """
    selects, labels, selected = _selects(config), {}, set()
    for parts, variable in nnx.state(module, nnx.Param).flat_state():
        path = "/".join(map(str, parts))
        role, axes = variable.get_metadata("role"), variable.get_metadata("axes")
        fitting = [name for name, select in selects.items() if is_selected(select, path, role, axes)]
        labels[path] = fitting[0] if fitting else REST
        selected.update(fitting)
    return labels, selected


def _selects(config: ResolvedConfig) -> dict[str, str]:
    flat = flatten(config)
    return {name: values_in(f"{GROUPS}.{name}", flat)["optimizer.select"] for name in config.optimizer.groups}


def _zeros(module: nnx.Module) -> Iterator[str]:
    """Yields the path of each parameter whose initial values are 0."""
    for parts, variable in nnx.state(module, nnx.Param).flat_state():
        if variable.get_metadata("initializer") is zeros:
            yield "/".join(map(str, parts))


def _check_heads(flat: Mapping[str, Any], kinds: Mapping[str, str], with_heads: Collection[str]) -> Iterator[str]:
    """Yields a line for each `muon_heads` that no matrix of several heads follows.

    Args:
        flat: flat values of the resolved config.
        kinds: kind of optimizer of each group, `REST` included.
        with_heads: groups that have such a matrix.
    """
    line = "has no effect: no projection to queries, keys or values of several heads follows it; leave it out"
    own = {name: scopes_in(flat).get(f"{GROUPS}.{name}", {}) for name in kinds}
    following = [name for name in with_heads if FIELD not in own[name] and kinds[name] in ORTHOGONAL]
    if flat[FIELD] == "split" and not following:
        yield f"{FIELD}=split {line}"
    for name, changes in own.items():
        if FIELD in changes and name not in with_heads:
            yield f"{scoped(f'{GROUPS}.{name}', FIELD)}={changes[FIELD]} {line}"


def group_sizes(config: ResolvedConfig) -> dict[str, int]:
    """Returns the number of parameters of each group, `REST` last; empty without groups.

    Raises:
        ConfigError: as in `group_labels`.
    """
    if not config.optimizer.groups:
        return {}
    module = make_model(config)
    sizes = dict.fromkeys((*config.optimizer.groups, REST), 0)
    labels = flatten(group_labels(config, module), "/")
    for parts, variable in nnx.state(module, nnx.Param).flat_state():
        sizes[labels["/".join(map(str, parts))]] += math.prod(variable.get_value().shape)
    return sizes
