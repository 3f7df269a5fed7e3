"""Functions shared by update rules that treat each parameter by its path."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.tree_util import KeyPath, keystr

from zoo.models.functional import ParameterTraits, Params
from zoo.nested import flatten


def path_name(path: KeyPath) -> str:
    """Returns a path in a tree of parameters, as in `ParameterTraits.heads`."""
    return keystr(path, simple=True, separator="/")


def layer_axes(traits: ParameterTraits) -> Callable[[KeyPath], tuple[int, ...]]:
    """Returns a function that gives the axes of a parameter within one layer, counted from the last.

    A matrix gives (-2, -1), with or without a leading layer axis.
    """
    dimensions = flatten(traits.ndim, "/")
    return lambda path: tuple(range(-dimensions[path_name(path)], 0))


def split_leaves(tree: Any, kind: type[NamedTuple]) -> tuple[Params, ...]:
    """Returns one tree for each field of the named tuples that are the leaves of a tree.

    Args:
        tree: nested dicts of named tuples.
        kind: class of the named tuples.
    """
    return tuple(
        jax.tree.map(lambda leaf, index=index: leaf[index], tree, is_leaf=lambda node: isinstance(node, kind))
        for index in range(len(kind._fields))
    )
