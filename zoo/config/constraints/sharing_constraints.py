"""Checks layers that share their weights, and loops over them."""

from collections.abc import Iterator
from typing import Any

from zoo.config.field import AUTO
from zoo.config.kinds import NORM_KINDS, PLACEMENT_KINDS
from zoo.config.scopes import SIDES

DEPTH, NORM, PLACEMENT = "model.num_layers", "model.norm.kind", "model.norm.placement"
DISTINCT, SHARING = "model.layers.distinct", "model.layers.sharing"
DRAWS, EVALUATED = "model.layers.loop_draws", "model.layers.eval_loops"
GENERATED = "model.generator.num_layers"


def check_sharing(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields the problems of layers that share their weights."""
    distinct, pattern = flat[DISTINCT], flat["model.layers.pattern"]
    if not distinct:
        if flat[SHARING] != "sequence":
            yield f"{SHARING}={flat[SHARING]} has no effect: all layers have weights of their own; set {DISTINCT}"
        return
    if pattern:
        yield (
            f"{DISTINCT}={distinct} shares weights among layers that are alike, and model.layers.pattern="
            f"{','.join(pattern)} has kinds of layers with weights of their own; leave one of them out"
        )
    two = flat["model.architecture"] == "encoder_decoder"
    stacks = [flat | scopes.get(scope, {}) for scope in SIDES] if two else [flat]
    for kind in dict.fromkeys(stack[NORM] for stack in stacks):
        if kind in NORM_KINDS.having("batch"):
            yield (
                f"{DISTINCT}={distinct}: {NORM}={kind} keeps running statistics, which layers cannot share; use "
                "another norm"
            )
    depths = tuple(dict.fromkeys(stack[DEPTH] for stack in stacks))
    problems = [line for depth in depths if (line := sharing_problem(flat, depth, DEPTH))]
    yield from problems
    if flat[SHARING] == "cycle" and not problems:
        yield from _check_loop(flat, stacks)


def sharing_problem(flat: dict[str, Any], depth: int, path: str) -> str | None:
    """Returns why so many layers cannot share the weights of the stored ones, or None if they can.

    Args:
        flat: every field.
        depth: number of layers of a stack.
        path: the field that sets it.
    """
    distinct, once = flat[DISTINCT], flat["model.layers.prelude"] + flat["model.layers.coda"]
    if flat[SHARING] != "cycle":
        return (
            f"{DISTINCT}={distinct} does not divide {path}={depth}: every stored layer is applied equally often"
            if depth % distinct
            else None
        )
    if once >= distinct:
        return (
            f"{DISTINCT}={distinct}: model.layers.prelude={flat['model.layers.prelude']} and "
            f"model.layers.coda={flat['model.layers.coda']} are among these layers, and one at least is left to loop "
            f"over; at least {once + 1}"
        )
    if depth < distinct or (depth - once) % (distinct - once):
        around = f", beside {once} that are applied once" if once else ""
        return (
            f"{path}={depth} is no number of loops over {distinct - once} layers{around}; use {distinct}, "
            f"{2 * distinct - once}, {3 * distinct - 2 * once}, ..."
        )
    return None


def _check_loop(flat: dict[str, Any], stacks: list[dict[str, Any]]) -> Iterator[str]:
    """Yields the problems of a loop whose layers fit."""
    distinct, coda = flat[DISTINCT], flat["model.layers.coda"]
    once = flat["model.layers.prelude"] + coda
    loops = (flat[DEPTH] - once) // (distinct - once)
    placements = dict.fromkeys(stack[PLACEMENT] for stack in stacks)
    if flat["model.layers.reinjection"]:
        for placement in placements:
            if placement in {*PLACEMENT_KINDS.having("streams"), *PLACEMENT_KINDS.having("depth"), "resi_dual"}:
                yield (
                    f"model.layers.reinjection=true adds to one residual stream, and {PLACEMENT}={placement} has "
                    "several; use another placement"
                )
    drawn = flat[DRAWS] != "none"
    if drawn and loops < 2:
        yield f"{DRAWS}={flat[DRAWS]}: {DEPTH}={flat[DEPTH]} is one loop, and a mean of two at least can be drawn"
    if drawn and flat["training.dynamics_every"]:
        yield (
            f"training.dynamics_every={flat['training.dynamics_every']} records every layer, and with "
            f"{DRAWS}={flat[DRAWS]} their number differs from step to step; leave it at 0"
        )
    if drawn and flat[GENERATED] not in (AUTO, 0, flat[DEPTH]):
        yield (
            f"{DRAWS}={flat[DRAWS]}: one number is drawn for the model and its generator, and {GENERATED}="
            f"{flat[GENERATED]} is not {DEPTH}={flat[DEPTH]}"
        )
    changes = [f"{DRAWS}={flat[DRAWS]}"] * drawn
    changes += [f"{EVALUATED}={flat[EVALUATED]}"] * (flat[EVALUATED] not in (0, loops))
    for change in changes:
        if flat["model.architecture"] == "encoder_decoder":
            yield f"{change} is for one stack, and model.architecture=encoder_decoder has two; leave it out"
        for placement in placements:
            if placement in {*PLACEMENT_KINDS.having("depth"), "deepnorm"}:
                yield (
                    f"{change} changes the number of layers, on which constants or parameters of "
                    f"{PLACEMENT}={placement} depend; use another placement"
                )
