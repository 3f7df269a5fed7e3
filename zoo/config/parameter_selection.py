"""Groups of parameters: the roles and axes that parameters have, and the terms that select them.

`optimizer.groups` names the groups, `optimizer.group.NAME.select` says what belongs to one. Each
term selects by role, by logical axis or by path, and one that applies is enough:

    role:embedding        every table of vectors
    axes:vocab            every parameter with a dimension of that name
    path:*/query/kernel   every parameter with such a path, e.g. "stack/layers/attention/query/kernel"

A path is that of the parameters' tree, in which the layers of a kind are one stacked array: it has
no number of a layer. In patterns `*` stands for any text, slashes included.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from zoo.errors import ConfigError, did_you_mean, listed, shortened, shown

# Roles of parameters (`zoo.layers.parameter.parameter`).
ROLES = {
    "matrix": "weights of linear maps and convolutions inside the model",
    "vector": "scales and biases, those of heads included; weights of short convolutions over the tokens",
    "embedding": "tables with a vector for each token, character, segment, position or distance",
    "head": "matrices that turn hidden states into scores: output matrix, transform, classifier, pooler",
    "expert": "matrices of the experts of a mixture, stacked",
    "router": "matrices that give the scores of experts, and the gate of a shared one",
    "scalar": "numbers that act alone: attention sinks, factors on scores, biases by distance, weights of a mixture",
}
# Names of dimensions; "layers" is the dimension of stacked layers.
LOGICAL_AXES = ("vocab", "embed", "latent", "mlp", "heads", "kv_heads", "expert", "layers")
# The parameters that no group selects.
REST = "rest"


def by_role(**settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a group of parameters for each of some roles, for `override`.

        override(config, by_role(embedding={"rate_factor": 0.3}, vector={"weight_decay": 0.1}))

    Args:
        settings: by role, what its group sets, e.g. "rate_factor", "weight_decay", "kind", "beta1".

    Raises:
        ConfigError: one line for each unknown role.
    """
    if unknown := [role for role in settings if role not in ROLES]:
        raise ConfigError(
            [f"by_role: {role} is not one of {listed(ROLES)}{did_you_mean(role, ROLES)}" for role in unknown]
        )
    return parameter_groups(**{role: {"select": f"role:{role}", **own} for role, own in settings.items()})


def parameter_groups(**groups: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of groups of parameters, for `override`; the first group that selects a
    parameter has it.

    Args:
        groups: by name, what each sets: "select", and e.g. "rate_factor", "kind".
    """
    fields: dict[str, Any] = {"optimizer.groups": tuple(groups)}
    for name, own in groups.items():
        fields |= {f"optimizer.group.{name}.{field}": value for field, value in own.items()}
    return fields


def select_problems(select: str) -> Iterator[str]:
    """Yields what is wrong with each term of a `select`."""
    for term in _terms(select):
        what, _, name = term.partition(":")
        known = {"role": ROLES, "axes": LOGICAL_AXES}.get(what)
        if what not in ("role", "axes", "path") or not name:
            yield f"{shown(term)} is not role:NAME, axes:NAME or path:PATTERN"
        elif known is not None and name not in known:
            yield f"{shown(term)}: {shortened(name)} is not one of {listed(known)}{did_you_mean(name, known)}"


def is_selected(select: str, path: str, role: str, axes: tuple[str | None, ...]) -> bool:
    """Returns whether a term of a `select` applies to a parameter.

    Args:
        select: comma-separated terms.
        path: path of the parameter, e.g. "stack/layers/attention/query/kernel".
        role: its role, of `ROLES`.
        axes: the names of its dimensions.
    """
    return any(_applies(term, path, role, axes) for term in _terms(select))


def _applies(term: str, path: str, role: str, axes: tuple[str | None, ...]) -> bool:
    what, _, name = term.partition(":")
    return {"role": name == role, "axes": name in axes, "path": fnmatchcase(path, name)}[what]


def _terms(select: str) -> list[str]:
    return [term.strip() for term in select.split(",")]
