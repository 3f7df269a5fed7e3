"""Nested dicts as flat ones and back: {"model": {"dim": 64}} and {"model.dim": 64}."""

from collections.abc import Mapping
from typing import Any

# The types of most leaves: looking for a method that they lack takes long.
LEAVES = frozenset({str, int, float, bool, type(None), tuple, list})


def flatten(tree: Mapping[str, Any], separator: str = ".") -> dict[str, Any]:
    """Returns the leaves of a nested dict by path, in its order.

    Lists, tuples and arrays are leaves. An empty dict has no leaves and disappears.

    Args:
        tree: dicts within dicts; anything with a method `items` counts as one.
        separator: stands between the names of a path.
    """
    found: dict[str, Any] = {}
    _collect(tree, "", separator, found)
    return found


def _collect(node: Mapping[str, Any], prefix: str, separator: str, found: dict[str, Any]) -> None:
    # Not nested in `flatten`: a function that names itself would keep the leaves alive.
    for name, value in node.items():
        if (kind := type(value)) not in LEAVES and hasattr(kind, "items"):
            _collect(value, f"{prefix}{name}{separator}", separator, found)
        else:
            found[f"{prefix}{name}"] = value


def unflatten(leaves: Mapping[str, Any], separator: str = ".") -> dict[str, Any]:
    """Returns the nested dict that has these leaves; the inverse of `flatten`."""
    tree: dict[str, Any] = {}
    # Most paths have the parent of another one: each is looked for once.
    nodes = {"": tree}
    for path, leaf in leaves.items():
        name = path.rpartition(separator)[2]
        prefix = path.removesuffix(name)
        if (node := nodes.get(prefix)) is None:
            node = tree
            for parent in prefix.split(separator)[:-1]:
                node = node.setdefault(parent, {})
            nodes[prefix] = node
        node[name] = leaf
    return tree
