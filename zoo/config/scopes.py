"""Scopes: parts of a model that differ from the rest, i.e. the two sides of an encoder-decoder, kinds
of layers, and groups of parameters.

    model.decoder.num_layers=2                    depth of the decoder alone
    model.layers.pattern=local,global             which layers are of which kind
    model.layers.kinds.local.attention.window=64  a field that differs in a kind
    optimizer.groups=tables                       which groups of parameters there are
    optimizer.group.tables.select=role:embedding  what belongs to a group
    optimizer.group.tables.beta2=0.99             a field that differs in a group

A scope holds overrides of the fields below `model`, a group those of fields below `optimizer`; all
other fields are those of the whole model or of the optimizer. A group also has fields of its own
(`GROUP_ONLY`), whose paths here are "optimizer.select" and the like.
"""

import functools
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ml_collections

from zoo.config.fields import BY_PATH, GROUP_ONLY, KIND_FIELDS, SIDE_FIELDS, Field, group_fields
from zoo.config.fields.renamed import RENAMED
from zoo.errors import did_you_mean, shortened
from zoo.nested import flatten, unflatten

SIDES = ("model.encoder", "model.decoder")
KINDS = "model.layers.kinds"
GROUPS = "optimizer.group"

_FIELDS = ChainMap(BY_PATH, GROUP_ONLY)


def split_path(path: str) -> tuple[str, str] | None:
    """Splits a path inside a scope into the scope and the field that it overrides,
    ("model.decoder", "model.num_layers"), else None.
    """
    parts = path.split(".")
    if ".".join(parts[:2]) in SIDES and len(parts) > 2:
        return ".".join(parts[:2]), ".".join(["model", *parts[2:]])
    if path.startswith(KINDS + ".") and len(parts) > 4:
        return ".".join(parts[:4]), ".".join(["model", *parts[4:]])
    if is_group(path) and len(parts) > 3:
        return ".".join(parts[:3]), ".".join(["optimizer", *parts[3:]])
    return None


def is_group(scope: str) -> bool:
    """Returns whether a scope is, or a path belongs to, a group of parameters."""
    return scope.startswith(GROUPS + ".")


def scoped(scope: str, path: str) -> str:
    """Returns the path that overrides a field in a scope, e.g. "model.decoder.num_layers"."""
    return f"{scope}.{path.partition('.')[2]}"


def overridable(scope: str) -> list[str]:
    """Returns the paths of the fields that a scope may override."""
    if is_group(scope):
        return [f"optimizer.{name}" for name in group_fields()]
    allowed = tuple(f"model.{name}" for name in (SIDE_FIELDS if scope in SIDES else KIND_FIELDS))
    return [path for path in BY_PATH if path.startswith(allowed)]


def field_at(path: str) -> Field | None:
    """Returns the field at a path, inside a scope or not, or None.

    A field inside a scope is never `auto`.
    """
    if path in BY_PATH:
        return BY_PATH[path]
    if (found := split_path(path)) is None or found[1] not in overridable(found[0]):
        return None
    return replace(_FIELDS[found[1]], path=path, auto="")


def derivable(path: str) -> bool:
    """Returns whether the value at a path, inside a scope or not, can be derived from others."""
    path = found[1] if (found := split_path(path)) else path
    return path in BY_PATH and bool(BY_PATH[path].auto)


def known_paths(path: str) -> list[str]:
    """Returns the paths that could be meant by an unknown one."""
    found = split_path(path)
    return list(BY_PATH) if found is None else [scoped(found[0], name) for name in overridable(found[0])]


def unknown_field(path: str) -> str:
    """Returns the line that refuses an unknown path, with the path that was probably meant.

    For a field that was renamed this is its new name.
    """
    scope, whole = split_path(path) or (None, path)
    if whole in RENAMED:
        new = RENAMED[whole] if scope is None else scoped(scope, RENAMED[whole])
        return f"unknown field {shortened(path)}: it is now called {new}"
    return f"unknown field {shortened(path)}{did_you_mean(path, known_paths(path))}"


def scopes_in(flat: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the overrides of a flat config by scope: {"model.decoder": {"model.dropout": 0.1}}."""
    found: dict[str, dict[str, Any]] = {}
    for path, value in flat.items():
        if path not in BY_PATH and (parts := split_path(path)) is not None:
            found.setdefault(parts[0], {})[parts[1]] = value
    return found


def values_in(scope: str, flat: Mapping[str, Any]) -> dict[str, Any]:
    """Returns flat values as they hold inside a scope, with its overrides applied."""
    return {path: value for path, value in flat.items() if path in BY_PATH} | scopes_in(flat).get(scope, {})


def layer_scopes(flat: Mapping[str, Any], overrides: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns flat values as the layers of a model see them, by scope: of each kind in the pattern of
    layers, of both sides of an encoder-decoder, or of the model.

    Args:
        flat: values outside of scopes; others are left out.
        overrides: those of each scope (`scopes_in`).
    """
    base = {path: value for path, value in flat.items() if path in BY_PATH}
    if pattern := flat["model.layers.pattern"]:
        scopes = [f"{KINDS}.{name}" for name in dict.fromkeys(pattern)]
    else:
        scopes = list(SIDES) if flat["model.architecture"] == "encoder_decoder" else ["model"]
    return {scope: base | overrides.get(scope, {}) for scope in scopes}


def _model_in(scope: str, model: Mapping[str, Any], **more: Any) -> ml_collections.FrozenConfigDict:
    flat = {f"model.{path}": value for path, value in flatten(model).items()}
    changes = {f"model.{path}": value for path, value in more.items()}
    found = values_in(scope, flat) | changes
    return _frozen_model(tuple((path, type(value), _hashable(value)) for path, value in found.items()))


def _hashable(value: Any) -> Any:
    """Returns a value with tuples for lists, which a frozen config has in their place too."""
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


@functools.lru_cache(maxsize=256)
def _frozen_model(items: tuple[tuple[str, type, Any], ...]) -> ml_collections.FrozenConfigDict:
    # Making it takes longer than everything else, and each layer and each count of a cost asks for it.
    # The types are for the cache: 1, 1.0 and True are equal, but three settings.
    return ml_collections.FrozenConfigDict(unflatten({path: value for path, _, value in items})["model"])


def side(model: Mapping[str, Any], name: str) -> ml_collections.FrozenConfigDict:
    """Returns the `model` part of a resolved config as the "encoder" or the "decoder" sees it."""
    return _model_in(f"model.{name}", model, architecture=name)


def layer_kind(model: Mapping[str, Any], name: str) -> ml_collections.FrozenConfigDict:
    """Returns the `model` part of a resolved config as layers of the kind `name` see it."""
    return _model_in(f"{KINDS}.{name}", model)


def expert_config(model: Mapping[str, Any]) -> ml_collections.FrozenConfigDict:
    """Returns the `model` part of a resolved config as the experts of a mixture see it."""
    return _model_in("model", model, **{"ffn.kind": model["ffn"]["experts"]["kind"]})


def attention_part(model: Mapping[str, Any]) -> ml_collections.FrozenConfigDict:
    """Returns the `model` part of a resolved config as the attention of parallel heads sees it."""
    return _model_in("model", model, **{"attention.kind": "softmax"})


def state_part(model: Mapping[str, Any]) -> ml_collections.FrozenConfigDict:
    """Returns the `model` part of a resolved config as the states of parallel heads see it."""
    attention = model["attention"]
    own = {"kind": "state_kind", "num_heads": "state_heads", "head_dim": "state_dim"}
    return _model_in("model", model, **{f"attention.{name}": attention[path] for name, path in own.items()})


def shared_expert_config(model: Mapping[str, Any]) -> ml_collections.FrozenConfigDict:
    """Returns the `model` part of a resolved config as the shared expert of a mixture sees it, whose
    width is `experts.shared_dim`.
    """
    experts = model["ffn"]["experts"]
    own = {"kind": experts["kind"], "hidden_dim": experts["shared_dim"], "match_parameters": False}
    width = own | {"dim_multiplier": 1.0, "multiple_of": 1}
    return _model_in("model", model, **{f"ffn.{name}": value for name, value in width.items()})


def embedding_config(model: Mapping[str, Any]) -> ml_collections.FrozenConfigDict:
    """Returns the `model` part of a resolved config as the embeddings see it: `embedding.dim` wide,
    if that is not 0.
    """
    return _model_in("model", model, dim=model["embedding"]["dim"] or model["dim"])
