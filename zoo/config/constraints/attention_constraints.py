"""Checks the fields of attention; the arguments are those of `layer_constraints`."""

from collections.abc import Iterator
from typing import Any

from zoo.config.fields import ATTENTION_SUPPORT, AUTO
from zoo.config.kinds import ATTENTION_KINDS, POSITION_KINDS, is_prefix_decoder


def check_heads(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    """Yields the problems of the number and width of heads."""
    heads, kv_heads, dim = flat["model.attention.num_heads"], flat["model.attention.num_kv_heads"], flat["model.dim"]
    if flat["model.attention.head_dim"] == AUTO:
        yield (
            f"model.dim={dim} is not divisible by model.attention.num_heads={heads}; change one, "
            "or set model.attention.head_dim"
        )
    if heads % kv_heads:
        yield f"model.attention.num_heads={heads} is not divisible by model.attention.num_kv_heads={kv_heads}"
    if heads % (queries := flat["model.attention.num_query_heads"]):
        yield f"model.attention.num_heads={heads} is not divisible by model.attention.num_query_heads={queries}"
    cross = flat["model.attention.cross_kv_heads"]
    if cross not in (AUTO, kv_heads) and architecture != "encoder" and heads % cross:
        yield f"model.attention.num_heads={heads} is not divisible by model.attention.cross_kv_heads={cross}"


def check_kind(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    """Yields a line for each of positions, cross-attention and objective that asks for more than the
    kind of attention can do.
    """
    position, cross = flat["model.position.kind"], flat["model.attention.cross_kv_heads"]
    if architecture != "encoder" and cross not in (AUTO, flat["model.attention.num_kv_heads"]):
        yield from ATTENTION_KINDS.lacks("heads", flat, "model.attention.cross_kv_heads")
    if position in (*POSITION_KINDS.having("score_bias"), *POSITION_KINDS.having("value_bias")):
        yield from ATTENTION_KINDS.lacks("scores", flat, "model.position.kind")
    elif position not in ("none", *POSITION_KINDS.having("embedded")):
        yield from ATTENTION_KINDS.lacks("positions", flat, "model.position.kind")
    if is_prefix_decoder(flat, architecture):
        yield from ATTENTION_KINDS.lacks("prefix", flat, "objective.kind")


def check_cross(flat: dict[str, Any], decoder: dict[str, Any]) -> Iterator[str]:
    """Yields a line if the decoder of an encoder-decoder cannot read the encoder's output.

    Args:
        flat: the whole config.
        decoder: overrides of the decoder.
    """
    kind = decoder.get("model.attention.kind", flat["model.attention.kind"])
    if flat["model.architecture"] == "encoder_decoder" and kind not in (able := ATTENTION_KINDS.having("cross")):
        yield (
            f"model.attention.kind={kind} cannot read an encoder's output; set "
            f"model.decoder.attention.kind={' or '.join(able)}"
        )


def check_dilations(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    """Yields the problems of dilations: without a window, or uneven over the heads."""
    dilations, heads = flat["model.attention.dilations"], flat["model.attention.num_heads"]
    if not dilations:
        return
    shown = f"model.attention.dilations={','.join(map(str, dilations))}"
    if architecture == "encoder_decoder":
        yield f"{shown} belongs to a window; set it under model.encoder or model.decoder"
    elif not flat["model.attention.window"]:
        yield f"{shown} has no effect without model.attention.window"
    if max(dilations) == 1:
        yield f"{shown} has no effect: 1 is no dilation; leave it empty"
    if heads % len(dilations):
        yield f"{shown} has {len(dilations)} entries, but model.attention.num_heads={heads} is not divisible by that"


def check_window(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    """Yields the problems of windows and global tokens."""
    window, global_tokens = flat["model.attention.window"], flat["model.attention.global_tokens"]
    if architecture == "encoder" and window and window % 2 == 0:
        yield f"model.attention.window={window} must be odd in an encoder: the token itself and as many on either side"
    if architecture == "encoder_decoder" and (window or global_tokens):
        yield (
            "model.attention.window and global_tokens mean different things on the two sides; "
            "set them under model.encoder or model.decoder"
        )
    if flat["model.attention.global_projections"] and not global_tokens:
        yield "model.attention.global_projections=true needs model.attention.global_tokens of at least 1"
    if flat["model.attention.global_projections"] and flat["model.attention.exclusive"]:
        yield (
            "model.attention.exclusive=true removes the token's own value, of which global tokens have two; it cannot "
            "be combined with model.attention.global_projections=true"
        )
    if global_tokens:
        if architecture == "decoder":
            yield (
                f"model.attention.global_tokens={global_tokens} would let early tokens see later ones; "
                "it needs model.architecture=encoder"
            )
        if not window:
            yield f"model.attention.global_tokens={global_tokens} has no effect without model.attention.window"
        if flat["data.isolate_documents"]:
            yield (
                f"model.attention.global_tokens={global_tokens} counts from a row's start; "
                "it cannot be combined with data.isolate_documents=true"
            )
    if is_prefix_decoder(flat, architecture) and window:
        yield (
            f"objective.kind={flat['objective.kind']} lets all later tokens see the first tokens of a row; a decoder "
            f"cannot combine that with model.attention.window={window}"
        )


def check_implementation(flat: dict[str, Any]) -> Iterator[str]:
    """Yields what the chosen implementation of attention does not support."""
    implementation, head_dim = flat["model.attention.implementation"], flat["model.attention.head_dim"]
    if implementation == AUTO:
        return
    shown, support = f"model.attention.implementation={implementation}", ATTENTION_SUPPORT[implementation]
    for feature, (wanted, name) in _features(flat).items():
        if wanted and feature not in support.features:
            yield f"{shown} does not support {name}; use einsum"
    if flat["model.dtype"] not in support.dtypes:
        yield f"{shown} needs model.dtype={' or '.join(support.dtypes)}, got {flat['model.dtype']}"
    if head_dim != AUTO and head_dim not in (widths := support.head_dims):
        yield (
            f"{shown} needs model.attention.head_dim to be a multiple of {widths.step} up to {widths[-1]}, "
            f"got {head_dim}"
        )


def _features(flat: dict[str, Any]) -> dict[str, tuple[bool, str]]:
    """Returns by feature whether a config needs it, and the field that does."""
    position, dilations = flat["model.position.kind"], flat["model.attention.dilations"]
    kind = flat["model.attention.kind"]
    dropout, softcap = flat["model.attention.dropout"], flat["model.attention.softcap"]
    architecture, offsets = flat["model.architecture"], flat["data.position_offsets"]
    return {
        "score": (position in POSITION_KINDS.having("score_bias"), f"model.position.kind={position}"),
        "query_score": (position == "shaw", f"model.position.kind={position}"),
        "value": (
            position in POSITION_KINDS.having("value_bias")
            and (position != "shaw" or flat["model.position.relative_values"]),
            "model.position.relative_values=true of Shaw's positions"
            if position == "shaw"
            else f"model.position.kind={position}",
        ),
        "documents": (flat["data.isolate_documents"], "data.isolate_documents=true"),
        "dropout": (dropout > 0, f"model.attention.dropout={dropout:g}"),
        "softcap": (softcap > 0, f"model.attention.softcap={softcap:g}"),
        "dilations": (bool(dilations), f"model.attention.dilations={','.join(map(str, dilations))}"),
        "sinks": (
            flat["model.attention.sinks"] or kind in ATTENTION_KINDS.having("zero_sink"),
            f"model.attention.kind={kind}"
            if kind in ATTENTION_KINDS.having("zero_sink")
            else "model.attention.sinks=true",
        ),
        "weights": (kind in ATTENTION_KINDS.having("weights"), f"model.attention.kind={kind}"),
        "prefix": (is_prefix_decoder(flat, architecture), f"objective.kind={flat['objective.kind']} of a decoder"),
        "padding": (architecture != "decoder", f"model.architecture={architecture}"),
        "any_order": (
            bool(offsets) and (architecture == "decoder" or flat["model.attention.window"] > 0),
            f"data.position_offsets={','.join(map(str, offsets))}",
        ),
    }
