"""Sharing of weights between the layers of a stack (`model.layers.distinct`)."""

from collections.abc import Mapping
from typing import Any


def stored_layers(model: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the numbers of the layers that have weights of their own.

    These are all L, or with n = `layers.distinct` the first of every L / n consecutive layers: 0,
    L / n, 2 L / n, ... The others use the weights of the last of these before them.

    Args:
        model: the `model` part of a resolved config, or one side of it.
    """
    depth = model["num_layers"]
    return tuple(range(0, depth, depth // (model["layers"]["distinct"] or depth)))
