"""Compares the arrays of a checkpoint with those of a model, and names the parts that may differ."""

from typing import Any, NamedTuple

import jax


class ReplaceableParts(NamedTuple):
    """Parts of a model that need not be found in the run whose weights it takes.

    Parts are named by the first component of their parameters' paths.

    Attributes:
        optional: taken over where they fit, otherwise initialised.
        fresh: always initialised.
    """

    optional: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()


NOTHING_REPLACEABLE = ReplaceableParts()


def tree_differences(saved: Any, wanted: Any) -> list[str]:
    """Returns one line for every array that is missing, unexpected, or of another shape or type."""
    one, other = (
        {path: (tuple(leaf.shape), str(leaf.dtype)) for path, leaf in _leaves(tree).items()} for tree in (saved, wanted)
    )
    lines = [f"{path} is missing from the checkpoint" for path in other if path not in one]
    lines += [f"{path} does not exist in this model" for path in one if path not in other]
    return lines + [
        f"{path} has shape {one[path][0]} and type {one[path][1]}, expected {other[path][0]} and {other[path][1]}"
        for path in other
        if path in one and one[path] != other[path]
    ]


def type_differences(saved: Any, wanted: Any) -> list[tuple[str, str, str]]:
    """Returns (path, type saved, type wanted) of every array that both have with another type.

    Arrays are matched by path: a checkpoint has no named tuples, so the order may differ.
    """
    one, other = ({path: str(leaf.dtype) for path, leaf in _leaves(tree).items()} for tree in (saved, wanted))
    return [(path, one[path], other[path]) for path in other if path in one and one[path] != other[path]]


def _leaves(tree: Any) -> dict[str, Any]:
    """Returns the leaves of a tree by path, e.g. "stack/layers/ffn/up/kernel"."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def without_replaceable(
    saved: dict[str, Any], wanted: dict[str, Any], replaceable: ReplaceableParts
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns `saved` and `wanted` without the parts that are initialised instead of taken over.

    Args:
        saved, wanted: {"params", "stats"}, trees of anything with a shape and a dtype.
        replaceable: optional parts are removed where the two trees differ in them, fresh parts in
            any case.
    """
    for name in (*replaceable.optional, *replaceable.fresh):
        if name in replaceable.fresh or any(
            tree_differences(saved[kind].get(name, {}), wanted[kind].get(name, {})) for kind in wanted
        ):
            saved, wanted = (
                {kind: {part: tree for part, tree in values.items() if part != name} for kind, values in trees.items()}
                for trees in (saved, wanted)
            )
    return saved, wanted
