"""Consecutive layers that run as one loop."""

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple


class LayerLoop(NamedTuple):
    """Layers that run as one loop: `turns` times `period` layers, from layer `first` on."""

    first: int
    period: int
    turns: int


def layer_loops(kinds: Sequence[str], period: int, start: int = 0, alone: Collection[str] = ()) -> Iterator[LayerLoop]:
    """Yields the loops that the layers from `start` on are divided into, in order: the complete
    periods of the pattern if there are two or more, and each run of neighbours of one kind among the
    others. So three dense layers before 58 sparse ones, a pattern that fills the stack once, are two
    loops.

    Args:
        kinds: kind of each layer of the stack.
        period: number of layers of the pattern.
        start: the first layer that is divided.
        alone: kinds of which the last of neighbours is a loop of its own.
    """
    turns = (len(kinds) - start) // period
    if turns > 1:
        yield LayerLoop(start, period, turns)
        start += turns * period
    for _, run in itertools.groupby(range(start, len(kinds)), key=lambda layer: kinds[layer]):
        layers = list(run)
        if len(layers) > 1 and kinds[layers[0]] in alone:
            yield LayerLoop(layers[0], 1, len(layers) - 1)
            layers = layers[-1:]
        yield LayerLoop(layers[0], 1, len(layers))
