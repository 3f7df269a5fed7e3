"""Checks `model.parametrization`: whether its rules are defined for this model and optimizer."""

from collections.abc import Iterator
from typing import Any

from zoo.config.fields import AUTO, TASKS
from zoo.config.kinds import ATTENTION_KINDS, OPTIMIZER_KINDS
from zoo.config.kinds.attention_kinds import KEYS, width_fields
from zoo.config.scopes import is_group, scoped

PATH = "model.parametrization"
KIND, FORM = "optimizer.kind", "optimizer.weight_decay_form"
# Matrices that a width enters in another way than the tables of muP have.
HEADS = ("model.head.transform", "model.head.pooler", "model.head.next_sentence")

# What makes vectors of length 1 at every width, or corrects for them.
SPHERES = {
    "model.norm.kind": {"unit"},
    "model.attention.qk_norm": {"unit"},
    "model.ffn.hidden_scale": {True},
    "model.head.logit_scale": {True},
    "optimizer.constraint": {"unit_norm"},
}


def check_parametrization(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields the problems of muP and CompleteP.

    Args:
        flat: every field, without the scopes.
        scopes: overrides by scope, those of groups of parameters too.
    """
    name = flat[PATH]
    if name == "standard" or flat["model.architecture"] == "elmo":
        return
    shown = f"{PATH}={name}"
    for path, what in (("model.base_dim", "width"), ("model.base_num_layers", "depth")):
        if (path == "model.base_dim" or name == "completep") and not flat[path]:
            yield f"{shown} needs {path}, the {what} of the model that the learning rate is tuned on"
    if (base := flat["model.base_head_dim"]) and not any(
        _scale_follows(flat | changes, base) for changes in ({}, *scopes.values())
    ):
        yield (
            f"model.base_head_dim={base} has no effect: it changes model.attention.scale=auto, and not a scale that is "
            "set, or that of cosine or unit queries and keys; leave it at 0"
        )
    for path in HEADS:
        if flat[path]:
            yield f"{shown} has no rule for the matrices of {path}=true; leave it at False"
    for path, values in SPHERES.items():
        found = {flat[path], *(changes.get(path, flat[path]) for changes in scopes.values())}
        for value in values & found:
            yield f"{shown} has no rule for {path}={str(value).lower()} of nGPT; leave it out"
    if width := flat["model.embedding.dim"]:
        yield f"{shown} has no rule for the dense layer of model.embedding.dim={width}; leave it at 0"
    if flat["objective.kind"] in TASKS:
        yield f"{shown} has no rule for the head of objective.kind={flat['objective.kind']}; use standard"
    groups = {scope: changes for scope, changes in scopes.items() if is_group(scope)}
    able = OPTIMIZER_KINDS.having("per_element")
    for scope, changes in {"optimizer": {KIND: flat[KIND], FORM: flat[FORM]}, **groups}.items():
        if (kind := changes.get(KIND)) is not None and kind not in able:
            yield f"{shown} has no rates for {scoped(scope, KIND)}={kind}; use {' or '.join(able)}"
        if changes.get(FORM) == "coupled":
            yield f"{shown} has no rule for {scoped(scope, FORM)}=coupled; use another form"
    if name == "completep":
        yield from _check_depth(flat, shown, scopes)


def _scale_follows(flat: dict[str, Any], base: int) -> bool:
    """Returns whether some layers have the factor on scores that follows from K at the base."""
    if flat["model.attention.kind"] not in ATTENTION_KINDS.having("heads"):
        return False
    widths = [flat[path] for path in width_fields(flat["model.attention.kind"], KEYS)]
    if AUTO in (*widths, flat["model.attention.scale"]):
        return True
    normed = flat["model.attention.qk_norm"] in ("cosine", "unit")
    return not normed and flat["model.attention.scale"] == base**0.5 / sum(widths)


def _check_depth(flat: dict[str, Any], shown: str, scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields what depth enters in another way than in the stack of pre-norm blocks of CompleteP."""
    if flat["model.architecture"] == "encoder_decoder":
        yield f"{shown} is defined for one stack of layers, and model.architecture is encoder_decoder; use mup"
    placements = (values.get("model.norm.placement", "pre") for values in (flat, *scopes.values()))
    if placement := next((one for one in placements if one != "pre"), None):
        yield f"{shown} is defined for model.norm.placement=pre, which is {placement}; use mup"
    if not all(values["model.residual"] for values in (flat, *(flat | changes for changes in scopes.values()))):
        yield f"{shown} divides what residual connections add; model.residual=false has none"
    if flat["model.layers.distinct"]:
        yield f"{shown} is defined for layers with weights of their own; leave model.layers.distinct at 0, or use mup"
    if flat["model.init.scale_residual"]:
        yield f"{shown} and model.init.scale_residual=true both shrink what the layers add; leave one of them out"
