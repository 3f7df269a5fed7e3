"""The two ways in which a property does not hold, and the comparison of arrays."""

from typing import Any

import jax
import numpy as np


class Fails(AssertionError):
    """The property does not hold; the message says what was found."""


class NotApplicable(Exception):
    """The kind has nothing that the property could be about; the message says why."""


def largest_difference(actual: Any, expected: Any) -> float:
    """Returns the largest difference of two arrays, in shares of the largest expected magnitude.

    Raises:
        Fails: their shapes differ, or one is not finite.
    """
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    if actual.shape != expected.shape:
        raise Fails(f"the shape is {list(actual.shape)}, not {list(expected.shape)}")
    if not (np.isfinite(actual).all() and np.isfinite(expected).all()):
        raise Fails("there are values that are not finite")
    return float(np.abs(actual - expected).max(initial=0) / np.abs(expected).max(initial=1e-30))


def require_close(actual: Any, expected: Any, tolerance: float, what: str) -> float:
    """Returns the difference of two arrays (`largest_difference`), which is at most `tolerance`.

    Raises:
        Fails: it is larger.
    """
    try:
        found = largest_difference(actual, expected)
    except Fails as error:
        raise Fails(f"{what}: {error}") from None
    if found > tolerance:
        raise Fails(f"{what} by {found:.1e} of the largest value; rounding explains {tolerance:.0e}")
    return found


def require_close_trees(actual: Any, expected: Any, tolerance: float, what: str, floor: float = 0.0) -> float:
    """Does the same for every array of two nested dicts; the message names the first that differs.
    Where `floor` decides, the difference is returned in shares of the largest magnitude of all arrays.

    Args:
        actual, expected: nested dicts of arrays of equal structure.
        tolerance: in shares of the largest magnitude of each array.
        what: beginning of the message.
        floor: differences up to this share of the largest magnitude of all arrays are rounding too,
            which the gradients of arrays without effect consist of.
    """
    top = max((float(np.abs(leaf).max(initial=0)) for leaf in jax.tree.leaves(expected)), default=0.0)
    worst = 0.0
    pairs = zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(actual), strict=True)
    for (path, other), one in pairs:
        own = float(np.abs(other).max(initial=0))
        allowed = max(tolerance, floor * top / own) if own else np.inf
        if not own and float(np.abs(one).max(initial=0)) > floor * top:
            raise Fails(f"{what} in {path_name(path)}: it is 0 on one side only")
        found = require_close(one, other, allowed, f"{what} in {path_name(path)}") if own else 0.0
        worst = max(worst, found if allowed == tolerance else found * own / top)
    return worst


def path_name(path: Any) -> str:
    """Returns the path of an array in a nested dict, "stack/layers/attention/query/kernel"."""
    return "/".join(str(getattr(key, "key", key)) for key in path)
