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
    check_window,
    is_prefix_decoder,
)
from zoo.config.fields import AUTO


def check_layers(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    """Yields the problems of some layers."""
    yield from check_heads(flat, architecture)
    yield from check_dilations(flat, architecture)
    yield from _check_rope(flat)
    yield from _check_relative_bias(flat, architecture)
    yield from _check_block(flat, architecture)
    yield from check_window(flat, architecture)
    if is_prefix_decoder(flat, architecture) and flat["model.position.kind"] == "relative_bias":
        yield (
            "objective.kind=prefix lets early tokens of a row see later ones, for which "
            "model.position.kind=relative_bias has no buckets in a decoder; use another, or "
            "model.architecture=encoder_decoder"
        )
    if flat["model.attention.kind"] == "performer":
        yield from _check_performer(flat, architecture)
    else:
        yield from check_implementation(flat)


def _check_rope(flat: dict[str, Any]) -> Iterator[str]:
    head_dim = flat["model.attention.head_dim"]
    if flat["model.position.kind"] != "rope" or head_dim == AUTO:
        return
    rotated = head_dim * flat["model.position.fraction"]
    if abs(rotated - round(rotated)) > 1e-6 or round(rotated) % 2 or round(rotated) == 0:
        yield (
            f"RoPE rotates pairs: model.attention.head_dim={head_dim} times model.position.fraction="
            f"{flat['model.position.fraction']:g} is {rotated:g}, not an even number"
        )
    scaling = flat["model.position.scaling.kind"]
    if scaling == "dynamic" and round(rotated) <= 2:
        yield (
            "model.position.scaling.kind=dynamic needs more than two rotated dimensions of a head, "
            f"got {round(rotated)}"
        )
    if scaling in ("linear", "yarn", "llama3") and flat["model.position.scaling.factor"] == 1:
        yield (
            f"model.position.scaling.kind={scaling} has no effect with model.position.scaling.factor=1; set the factor"
        )
    if scaling in ("yarn", "llama3"):
        low, high = flat["model.position.scaling.low"], flat["model.position.scaling.high"]
        if low >= high:
            yield f"model.position.scaling.low={low:g} must be below model.position.scaling.high={high:g}"
        if scaling == "yarn" and flat["model.position.theta"] <= 1:
            yield (
                "model.position.scaling.kind=yarn needs model.position.theta above 1, "
                f"got {flat['model.position.theta']:g}"
            )


def _check_relative_bias(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    if flat["model.position.kind"] != "relative_bias":
        return
    # For both sides together the decoder's limit is the tighter one.
    buckets = flat["model.position.buckets"] // (2 if architecture == "encoder" else 1)
    if flat["model.position.buckets"] % 4:
        yield (
            f"model.position.buckets={flat['model.position.buckets']} must be divisible by 4: two directions, near "
            "and far"
        )
    if flat["model.position.max_distance"] <= buckets // 2:
        yield (
            f"model.position.max_distance={flat['model.position.max_distance']} must be above {buckets // 2}: with "
            f"model.position.buckets={flat['model.position.buckets']} the distances up to there have a bucket each"
        )


def _check_block(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    """Yields the problems of parallel blocks and of DeepNorm."""
    placement, parallel = flat["model.norm.placement"], flat["model.parallel"]
    if parallel != "none":
        if placement != "pre" or flat["model.norm.kind"] == "none":
            yield (
                f"model.parallel={parallel} is defined for pre-norm; model.norm is {flat['model.norm.kind']}, "
                f"{placement}"
            )
        if flat["model.architecture"] == "encoder_decoder" and architecture != "encoder":
            yield (
                "model.parallel does not support cross-attention; the decoder of an encoder-decoder needs "
                "model.parallel=none"
            )
    if placement == "deepnorm" and not flat["model.residual"]:
        yield "model.norm.placement=deepnorm weighs the residual connection; it needs model.residual=true"
    if placement == "deepnorm" and flat["model.init.scale_residual"]:
        yield "model.norm.placement=deepnorm has its own initial values; set model.init.scale_residual=false"


def _check_performer(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    refused = {
        "model.attention.window": flat["model.attention.window"] > 0,
        "model.attention.softcap": flat["model.attention.softcap"] > 0,
        "model.attention.sinks": flat["model.attention.sinks"],
        "model.attention.dropout": flat["model.attention.dropout"] > 0,
        "model.position.kind": flat["model.position.kind"] in ("alibi", "relative_bias", "shaw"),
        "data.isolate_documents": flat["data.isolate_documents"],
        "objective.kind": is_prefix_decoder(flat, architecture),
    }
    for path, wanted in refused.items():
        if wanted:
            yield (
                f"model.attention.kind=performer never forms the scores that {path}={flat[path]} acts on; "
                "leave it out or use softmax"
            )
