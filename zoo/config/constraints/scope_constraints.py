"""Checks the scopes of a config: the sides of an encoder-decoder, and kinds of layers."""

from collections.abc import Iterator
from typing import Any

from zoo.config.field import as_given
from zoo.config.fields import BY_PATH, EMBEDDED_POSITIONS
from zoo.config.kinds import ATTENTION_KINDS, PLACEMENT_KINDS
from zoo.config.scopes import KINDS, SIDES, scoped
from zoo.errors import shown

# The norms of queries and keys that may have a learned scale.
SCALED_KEY_NORMS = BY_PATH["model.attention.qk_norm_scale"].when[1]


def check_scopes(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields the problems of scopes that the architecture or the layer pattern does not have."""
    architecture, pattern = flat["model.architecture"], flat["model.layers.pattern"]
    defined = {scope.removeprefix(KINDS + ".") for scope in scopes if scope.startswith(KINDS)}
    for scope in SIDES:
        if scope in scopes and architecture != "encoder_decoder":
            yield (
                f"{scope} is read only when model.architecture is encoder_decoder, and it is {architecture}; "
                "set the fields of model itself"
            )
    if pattern and architecture == "encoder_decoder":
        yield (
            "model.layers.pattern is not for model.architecture=encoder_decoder; set fields of each side under "
            "model.encoder and model.decoder"
        )
    for name in sorted(set(pattern) - defined):
        yield (
            f"model.layers.pattern names {shown(name)}, but no field of {KINDS}.{name} is set "
            f"(e.g. {KINDS}.{name}.attention.window=0)"
        )
    for name in sorted(defined - set(pattern)):
        yield f"{KINDS}.{name} has no effect: model.layers.pattern={','.join(pattern) or 'empty'} does not name it"
    if flat["model.norm.unit_offset"] and not any(_has_norm_scale(flat | own) for own in ({}, *scopes.values())):
        yield "model.norm.unit_offset=true has no effect: no norm has a scale that it changes; leave it false"
    if pattern and not set(pattern) - defined:
        yield from _check_first_layer(flat, pattern, scopes)
    for name in sorted(defined):
        yield from _check_positions_of_kind(flat, f"{KINDS}.{name}", scopes[f"{KINDS}.{name}"])
        yield from _check_placement_of_kind(flat, f"{KINDS}.{name}", scopes[f"{KINDS}.{name}"])


def _has_norm_scale(flat: dict[str, Any]) -> bool:
    """Returns whether some layers have a norm with a learned scale that `norm.unit_offset` changes."""
    kind = flat["model.attention.kind"]
    return (
        flat["model.norm.scale"]
        or flat["model.attention.output_norm"]
        or (flat["model.attention.qk_norm"] in SCALED_KEY_NORMS and flat["model.attention.qk_norm_scale"])
        # The norms of linear recurrences have plain scales.
        or kind in set(ATTENTION_KINDS.having("inner_norm")) - set(ATTENTION_KINDS.having("state"))
    )


def _check_first_layer(
    flat: dict[str, Any], pattern: tuple[str, ...], scopes: dict[str, dict[str, Any]]
) -> Iterator[str]:
    """Yields a line for each kind of layers that reads an array that the first layer lacks."""
    kinds = {name: flat | scopes[f"{KINDS}.{name}"] for name in dict.fromkeys(pattern)}
    shape, of_state = ("kind", "num_kv_heads", "head_dim"), ("kind", "num_heads", "value_dim")
    rank = "model.attention.value_rank"
    first = kinds[pattern[0]]
    for name, own in kinds.items():
        kind = own["model.attention.kind"]
        # Without a rank there are no matrices that read the values.
        if kind not in ATTENTION_KINDS.having("reads_first") or own[rank] == 0:
            continue
        read = of_state if kind in ATTENTION_KINDS.having("state") else shape
        for path in (f"model.attention.{field}" for field in read):
            if own[path] != first[path]:
                yield (
                    f"{scoped(f'{KINDS}.{name}', path)}={own[path]} reads the values of the first layer, whose kind "
                    f"{pattern[0]} has {path}={first[path]}; they must be the same"
                )
                break
        else:
            if first[rank] == 0:
                yield (
                    f"{scoped(f'{KINDS}.{name}', rank)}={own[rank]} reads the values of the first layer, whose kind "
                    f"{pattern[0]} has {rank}=0 and keeps its own; give both a rank, or both 0"
                )


def _check_positions_of_kind(flat: dict[str, Any], scope: str, changes: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each position field of a kind of layers that only the whole model can set.

    These are positions in the embedding, and a table of biases that all layers share.
    """
    whole_kind = flat["model.position.kind"]
    shared = whole_kind == "relative_bias" and flat["model.position.shared"]
    kind = changes.get("model.position.kind")
    if kind in EMBEDDED_POSITIONS:
        yield f"{scope}.position.kind={kind} is added to the embedding, before any layer; set model.position.kind"
    elif shared and kind is not None:
        yield f"{scope}.position.kind={kind}: all layers share one table; set model.position.shared=false"
    elif (kind or whole_kind) in EMBEDDED_POSITIONS:
        embedded = {f"model.position.{name}" for name in ("max_length", "offset", "layout", "endpoint")}
        for path in sorted(embedded & changes.keys()):
            yield (
                f"{scoped(scope, path)}={as_given(changes[path])} has no effect: {whole_kind} positions are added to "
                f"the embedding, before any layer; set {path}"
            )
    elif shared:
        for path in ("model.position.buckets", "model.position.max_distance", "model.position.shared"):
            if path in changes and changes[path] != flat[path]:
                yield (
                    f"{scoped(scope, path)}={as_given(changes[path])} has no effect: all layers share one table; "
                    f"set {path} itself"
                )
        heads = changes.get("model.attention.num_heads", flat["model.attention.num_heads"])
        if heads != flat["model.attention.num_heads"]:
            yield (
                f"{scope}.attention.num_heads={heads}: all layers share one table, of "
                f"{flat['model.attention.num_heads']} heads; set model.position.shared=false"
            )
    elif (kind or whole_kind) == "relative_bias" and changes.get(
        "model.position.shared", flat["model.position.shared"]
    ):
        yield (
            f"{scope}.position.kind=relative_bias: a kind of layers has tables of its own; "
            f"set {scope}.position.shared=false"
        )


def _check_placement_of_kind(flat: dict[str, Any], scope: str, changes: dict[str, Any]) -> Iterator[str]:
    """Yields a line if a kind of layers cannot have another placement of norms than the whole model,
    which says what enters the stack and what is normalised after it.
    """
    path, able = "model.norm.placement", PLACEMENT_KINDS.having("by_kind")
    own, whole = changes.get(path, flat[path]), flat[path]
    if own == whole:
        return
    for value in (own, whole):
        if value not in able:
            yield (
                f"{scoped(scope, path)}={own} cannot stand beside {path}={whole}: {value} has several residual "
                f"streams, or no norm after the last block; both must be of {', '.join(able)}"
            )
            return
