"""Checks the generator of replaced tokens: whether its layers can be built, and whether what only it
reads has an effect.
"""

from collections.abc import Iterator
from typing import Any

from zoo.config.constraints.layer_constraints import check_layers
from zoo.config.constraints.sharing_constraints import sharing_problem
from zoo.config.fields import BY_PATH
from zoo.config.generators import FRACTION, LAYERS, OF_GENERATORS, generator_fields
from zoo.config.kinds import OBJECTIVE_KINDS


def check_generator(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields the problems of a generator; nothing for objectives and architectures without one."""
    if flat["objective.kind"] not in OBJECTIVE_KINDS.having("replaced") or flat["model.architecture"] == "elmo":
        return
    if flat["model.parametrization"] != "standard":
        yield (
            f"model.parametrization={flat['model.parametrization']} has no rule for a generator; "
            f"objective.kind={flat['objective.kind']} needs standard"
        )
    if flat[LAYERS] == 0:
        yield from (
            f"{path}={flat[path]} has no effect without a generator ({LAYERS}=0); leave it at {BY_PATH[path].default}"
            for path in OF_GENERATORS
            if flat[path] != BY_PATH[path].default
        )
        return
    if flat["model.layers.distinct"] and (line := sharing_problem(flat, flat[LAYERS], LAYERS)):
        yield line
    for changes in ({}, *scopes.values()):
        seen = flat | changes
        own = set(check_layers(seen, "encoder"))
        yield from (
            f"the generator, {FRACTION}={flat[FRACTION]:g} of the model: {line}"
            for line in check_layers(seen | generator_fields(seen), "encoder")
            if line not in own
        )
