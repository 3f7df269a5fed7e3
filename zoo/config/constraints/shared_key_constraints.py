"""Checks layers that read the keys and values of earlier ones (`attention.keys_from`)."""

from collections.abc import Iterator
from typing import Any

from zoo.config.field import as_given
from zoo.config.scopes import KINDS, SIDES, scoped
from zoo.errors import shown

FIELD = "model.attention.keys_from"
_SAME = ("kind", "num_kv_heads", "head_dim", "window", "dilations", "global_tokens", "qk_norm", "value_norm")


def check_shared_keys(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields the problems of kinds of layers that read the keys and values of another kind."""
    pattern = flat["model.layers.pattern"]
    kinds = {name: flat | scopes.get(f"{KINDS}.{name}", {}) for name in dict.fromkeys(pattern)}
    stacks = {"model": flat} | {scope: scopes[scope] for scope in SIDES if scope in scopes}
    for scope, values in stacks.items():
        if (source := values.get(FIELD)) and not pattern:
            yield (
                f"{scoped(scope, FIELD)}={shown(source)} is no kind of layers in model.layers.pattern, which is empty; "
                f"a decoder or an encoder reads keys and values of the layer before with model.layers.pattern="
                f"own,reader and {KINDS}.reader.attention.keys_from=own"
            )
    for name, values in kinds.items():
        if values[FIELD]:
            yield from _check_reader(name, values, kinds)


def _check_reader(name: str, reader: dict[str, Any], kinds: dict[str, dict[str, Any]]) -> Iterator[str]:
    order, source = list(kinds), reader[FIELD]
    shown_field = f"{scoped(f'{KINDS}.{name}', FIELD)}={shown(source)}"
    if source not in kinds:
        yield f"{shown_field} is no kind of layers in model.layers.pattern; it has {', '.join(order)}"
        return
    if kinds[source][FIELD]:
        yield (
            f"{shown_field}: layers of kind {source} read keys and values too, those of {kinds[source][FIELD]}; name a "
            "kind that has its own"
        )
        return
    if order.index(source) > order.index(name):
        yield (
            f"{shown_field}: model.layers.pattern has {name} before {source}, and a layer reads keys and values of an "
            f"earlier one; put {source} first"
        )
    if reader["model.attention.global_projections"]:
        yield (
            f"{shown_field}: model.attention.global_projections=true gives global tokens keys and values of their own; "
            "set it to false"
        )
    if reader["model.convolution.kind"] == "kv_shift":
        yield (
            f"{shown_field}: model.convolution.kind=kv_shift shifts keys and values, of which layers of kind {name} "
            f"have none; set {KINDS}.{name}.convolution.kind=none"
        )
    paths = (f"model.attention.{field}" for field in _SAME)
    positions = (path for path in reader if path.startswith("model.position."))
    for path in (*paths, *positions):
        if reader[path] != kinds[source][path]:
            yield (
                f"{shown_field}: {path} is {as_given(reader[path])} in layers of kind {name} and "
                f"{as_given(kinds[source][path])} in those of kind {source}; they must be the same"
            )
