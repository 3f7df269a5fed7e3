"""Sections of the pages that take long to compute, kept in computed.json.

Shapes and costs need JAX; usage needs all configs and experiments. `python -m publication variants`
writes the file, and tests compare it with what is computed.
"""

import functools
import json
from pathlib import Path
from typing import NamedTuple

from zoo.variants.variant import Variant

FILE = Path(__file__).with_name("computed.json")


class Computed(NamedTuple):
    """Lines of the page about a variant.

    Attributes:
        configs: names of the configs that have it.
        experiments: claims and experiments about it.
        shapes: parameters that it adds, removes or changes.
        cost: parameters and FLOPs of training.
        inference: FLOPs of a forward pass, and the cache.
    """

    configs: list[str]
    experiments: list[str]
    shapes: list[str]
    cost: str
    inference: list[str]


def compute(variant: Variant) -> Computed:
    """Computes the lines, which takes seconds."""
    from zoo.variants.usage import experiments_on, used_by
    from zoo.variants.variant_cost import costs, inference, shapes

    return Computed(used_by(variant), experiments_on(variant), shapes(variant), costs(variant), inference(variant))


@functools.cache
def stored() -> dict[str, Computed]:
    """Returns the lines in the file by the names of variants."""
    return {name: Computed(**lines) for name, lines in json.loads(FILE.read_text(encoding="utf-8")).items()}


def computed(variant: Variant) -> Computed:
    """Returns the lines in the file; those of a plug-in's variant are computed."""
    return stored().get(variant.name) or compute(variant)
