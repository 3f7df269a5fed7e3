"""The JSON Schema of configs: for editors, and for programs that write configs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.fields import FIELDS
from zoo.config.scopes import GROUPS, KINDS, SIDES, field_at, overridable, scoped
from zoo.files import LARGEST_NUMBER

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Stands for the name of a kind of layers or of a group of parameters, which a config may choose.
_ANY_NAME = "*"
_TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}


def json_schema() -> dict[str, Any]:
    """Returns the schema (draft 2020-12) of a config as nested JSON objects, e.g. a run's config.json.

    It has every field of the table, those of loaded plug-ins included, with type, choices, limits,
    default and meaning, and the overrides inside scopes (see `zoo.config.scopes`). Unknown names are
    refused. Values that are right one by one and cannot be combined are left to `resolve`.
    """
    root = _object()
    _insert(root, ((field.path, field) for field in FIELDS), _with_default)
    for scope in (*SIDES, f"{KINDS}.{_ANY_NAME}", f"{GROUPS}.{_ANY_NAME}"):
        paths = [scoped(scope, path) for path in overridable(scope)]
        _insert(root, ((path, field_at(path)) for path in paths), _value_schema)
    return {"$schema": DIALECT, "title": "Config of zoo", **root}


def _object() -> dict[str, Any]:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def _insert(root: dict[str, Any], fields: Iterable[tuple[str, Field]], leaf: Callable[[Field], dict[str, Any]]) -> None:
    """Inserts the schema of each field at its path below `root`."""
    for path, field in fields:
        node, (*parents, name) = root, path.split(".")
        for parent in parents:
            if parent == _ANY_NAME:
                node["additionalProperties"] = node["additionalProperties"] or _object()
                node = node["additionalProperties"]
            else:
                node = node["properties"].setdefault(parent, _object())
        node["properties"][name] = leaf(field)


def _with_default(field: Field) -> dict[str, Any]:
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    return {**_value_schema(field), "default": default}


def _value_schema(field: Field) -> dict[str, Any]:
    """Returns the schema of a field's values, `auto` included where it is allowed."""
    schema = _typed(field)
    if field.auto:
        schema = {"anyOf": [schema, {"const": AUTO, "description": field.auto}]}
    return {"description": field.meaning, **schema}


def _typed(field: Field) -> dict[str, Any]:
    if field.choices:
        return {"enum": list(field.choices)}
    if field.kind is not tuple:
        return {"type": _TYPES[field.kind], **_limits(field, field.kind)}
    item = {"type": _TYPES[field.items], **_limits(field, field.items)}
    # A single value is a list of one.
    return {"anyOf": [{"type": "array", "items": item}, item]}


def _limits(field: Field, kind: type) -> Mapping[str, float]:
    """Returns the range of a number; a float must fit in 32 bits."""
    if kind not in (int, float):
        return {}
    widest = LARGEST_NUMBER if kind is float else None
    low = field.minimum if field.minimum is not None or widest is None else -widest
    high = field.largest if field.largest is not None else widest
    found = {"minimum": low, "exclusiveMinimum": field.above, "maximum": high}
    return {name: limit for name, limit in found.items() if limit is not None}
