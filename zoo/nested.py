"""Nested dicts as flat ones and back: {"model": {"dim": 64}} and {"model.dim": 64}."""

from collections.abc import Mapping
from typing import Any


def flatten(tree: Mapping[str, Any], separator: str = ".") -> dict[str, Any]:
    """Returns the leaves of a nested dict by path, in its order.

    Lists, tuples and arrays are leaves. An empty dict has no leaves and disappears.

    Args:
        tree: dicts within dicts; anything with a method `items` counts as one.
        separator: stands between the names of a path.
    """

    found: dict[str, Any] = {}

    def collect(node: Mapping[str, Any], prefix: str) -> None:
        for name, value in node.items():
            if hasattr(type(value), "items"):
                collect(value, f"{prefix}{name}{separator}")
            else:
                found[f"{prefix}{name}"] = value

    collect(tree, "")
    return found


def unflatten(leaves: Mapping[str, Any], separator: str = ".") -> dict[str, Any]:
    """Returns the nested dict that has these leaves; the inverse of `flatten`."""
    tree: dict[str, Any] = {}
    for path, leaf in leaves.items():
        *parents, name = path.split(separator)
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = leaf
    return tree
