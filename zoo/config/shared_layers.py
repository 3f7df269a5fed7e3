"""Sharing of weights between the layers of a stack (`model.layers.distinct`), and loops over them."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Loop(NamedTuple):
    """A loop over layers (`layers.sharing=cycle`): P + r R + C are applied, and P + R + C stored.

    Attributes:
        prelude: P, number of layers before the loop.
        looped: R, number of layers that are looped over.
        coda: C, number of layers after the loop.
        loops: r, number of loops.
    """

    prelude: int
    looped: int
    coda: int
    loops: int

    @property
    def depth(self) -> int:
        """The number of layers that are applied."""
        return self.prelude + self.looped * self.loops + self.coda

    @property
    def stored(self) -> int:
        """The number of layers with weights of their own."""
        return self.prelude + self.looped + self.coda

    def place(self, layer: int) -> int:
        """Returns which of the stored layers has the weights of an applied one."""
        if layer < self.prelude:
            return layer
        if layer >= self.depth - self.coda:
            return layer - self.depth + self.stored
        return self.prelude + (layer - self.prelude) % self.looped


def loop_of(model: Mapping[str, Any], evaluated: bool = False) -> Loop | None:
    """Returns the loop of a stack, or None where its layers are no loop.

    Args:
        model: the `model` part of a resolved config, or one side of it.
        evaluated: with the number of loops of evaluation; otherwise with their mean in training.
    """
    layers = model["layers"]
    if layers["sharing"] != "cycle":
        return None
    once = layers["prelude"] + layers["coda"]
    looped = layers["distinct"] - once
    loops = (model["num_layers"] - once) // looped
    return Loop(layers["prelude"], looped, layers["coda"], (evaluated and layers["eval_loops"]) or loops)


def evaluated_layers(model: Mapping[str, Any]) -> int:
    """Returns how many layers of a stack are applied in evaluation and generation: L, or P + e R + C
    with e = `layers.eval_loops`.
    """
    loop = loop_of(model, evaluated=True)
    return model["num_layers"] if loop is None else loop.depth


def stored_layers(model: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the numbers of the layers that have weights of their own.

    These are all L, or with n = `layers.distinct` the first of every L / n consecutive layers: 0,
    L / n, 2 L / n, ... The others use the weights of the last of these before them. In a loop they are
    the layers before it, those of its first turn, and those after it.

    Args:
        model: the `model` part of a resolved config, or one side of it.
    """
    depth = model["num_layers"]
    if loop := loop_of(model):
        return (*range(loop.prelude + loop.looped), *range(depth - loop.coda, depth))
    return tuple(range(0, depth, depth // (model["layers"]["distinct"] or depth)))
