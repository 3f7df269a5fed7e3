"""Checks the fields of layers: those of the whole model, of one side, or of one kind.

In each function `flat` holds the fields as these layers see them, and `architecture` is "decoder"
where they are causal, "encoder" where they are not, "encoder_decoder" for both sides together.
"""

from collections.abc import Iterator
from typing import Any

from zoo.config.constraints.attention_constraints import (
    check_dilations,
    check_heads,
    check_implementation,
    check_kind,
    check_window,
)
from zoo.config.fields import AUTO, BY_PATH
from zoo.config.kinds import ATTENTION_KINDS, KIND_TABLES, NORM_KINDS, WIDTH_FIELDS, hidden_width, unit_kind


def check_layers(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    """Yields the problems of some layers."""
    kind = flat["model.attention.kind"]
    if kind in ATTENTION_KINDS.having("heads"):
        yield from check_heads(flat, architecture)
    yield from check_kind(flat, architecture)
    yield from check_dilations(flat, architecture)
    yield from _check_block(flat, architecture)
    yield from _check_hidden_width(flat)
    yield from check_window(flat, architecture)
    if kind in ATTENTION_KINDS.having("kernels"):
        yield from check_implementation(flat)
    for table in KIND_TABLES.values():
        if table.path.startswith("model."):
            for path, trait in table.needs.items():
                if flat[path] != BY_PATH[path].default:
                    yield from table.lacks(trait, flat, path)
            yield from table.problems(flat, architecture)


def _check_hidden_width(flat: dict[str, Any]) -> Iterator[str]:
    """Yields the adjustments of the hidden width that change nothing of a width that is given. A width
    that follows from `model.dim` may need none, so that a ladder of sizes can have one setting.
    """
    given = {name: flat[f"model.ffn.{name}"] for name in WIDTH_FIELDS}
    given["kind"] = unit_kind(given["kind"], flat["model.ffn.experts.kind"])
    if given["hidden_dim"] in (AUTO, 4 * flat["model.dim"]):
        return
    width = hidden_width(**given)
    for path in ("model.ffn.dim_multiplier", "model.ffn.multiple_of"):
        name, default = path.removeprefix("model.ffn."), BY_PATH[path].default
        if given[name] != default and hidden_width(**given | {name: default}) == width:
            yield (
                f"{path}={given[name]:g} has no effect: with model.ffn.hidden_dim={given['hidden_dim']} the layers "
                f"have {width} hidden units with or without it; leave it at {default:g}"
            )


def _check_block(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    """Yields the problems of initial values and of parallel blocks."""
    placement, parallel = flat["model.norm.placement"], flat["model.parallel"]
    if not flat["model.attention.input_norm"]:
        if flat["model.norm.kind"] not in NORM_KINDS.having("normalises"):
            yield f"model.attention.input_norm=false has no effect: model.norm.kind={flat['model.norm.kind']}"
        if parallel == "shared_norm":
            yield (
                "model.attention.input_norm=false: model.parallel=shared_norm has one norm for attention and "
                "feed-forward layer; use own_norms"
            )
    if flat["model.residual_multiplier"] != 1 and not flat["model.residual"]:
        yield (
            f"model.residual_multiplier={flat['model.residual_multiplier']:g} weighs a sublayer against the residual "
            "connection; it needs model.residual=true"
        )
    if flat["model.init.zero_outputs"]:
        if flat["model.init.scale_residual"]:
            yield "model.init.scale_residual=true has no effect: model.init.zero_outputs makes these matrices 0"
        if not flat["model.residual"]:
            yield "model.init.zero_outputs=true without model.residual: every token would be 0 after the first sublayer"
    if parallel != "none":
        if placement != "pre" or flat["model.norm.kind"] not in NORM_KINDS.having("normalises"):
            yield (
                f"model.parallel={parallel} is defined for pre-norm; model.norm.placement is {placement} and "
                f"model.norm.kind is {flat['model.norm.kind']}"
            )
        if flat["model.architecture"] == "encoder_decoder" and architecture != "encoder":
            yield (
                "model.parallel does not support cross-attention; the decoder of an encoder-decoder needs "
                "model.parallel=none"
            )
