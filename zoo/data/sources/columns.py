"""Columns of records by name: "a.b" is field b within field a."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from zoo.errors import listed

# Returned by `value_at` where there is no such column.
MISSING = object()
_TYPES = (
    (Mapping, "an object"),
    (str, "text"),
    (bool, "a truth value"),
    (int | float, "a number"),
    (type(None), "null"),
    (list | tuple, "a list"),
)


def value_at(record: Mapping[str, Any], column: str) -> tuple[Any, str]:
    """Returns (the value in a column, ""); or (`MISSING`, why there is none) in words.

    A name with a dot may also be that of a column itself.
    """
    value: Any = record
    path = (column,) if column in record else tuple(column.split("."))
    for depth, name in enumerate(path):
        if not isinstance(value, Mapping):
            return MISSING, f'what is at "{".".join(path[:depth])}" is {kind_of(value)}, not an object with "{name}"'
        if name not in value:
            return MISSING, missing_column(column, columns_of(record))
        value = value[name]
    return value, ""


def kind_of(value: Any) -> str:
    """Returns what a value of a record is, in words."""
    return next((kind for types, kind in _TYPES if isinstance(value, types)), f"of type {type(value).__name__}")


def columns_of(record: Mapping[str, Any], outer: str = "") -> Iterator[str]:
    """Yields the columns of a record, including nested ones."""
    for name, value in record.items():
        yield f"{outer}{name}"
        if isinstance(value, Mapping):
            yield from columns_of(value, f"{outer}{name}.")


def near_column(column: str, columns: Iterable[str]) -> str:
    """Returns ' (did you mean "x"?)' for a column that may be meant, or an empty string.

    That is one as deeply nested with a similar name at each level, or a nested one of the same name.
    """
    columns, parts = list(map(str, columns)), column.split(".")
    close = [other for other in columns if _similar(parts, other.split("."))]
    close = difflib.get_close_matches(column, close, n=1, cutoff=0.0)
    if not close and len(parts) == 1:
        close = [other for other in columns if other.rpartition(".")[2] == column]
    return f' (did you mean "{close[0]}"?)' if close else ""


def _similar(parts: list[str], others: list[str]) -> bool:
    return len(parts) == len(others) and all(
        difflib.get_close_matches(part, [other], n=1) for part, other in zip(parts, others, strict=True)
    )


def missing_column(column: str, columns: Iterable[str]) -> str:
    """Describes a missing column and those that exist."""
    names = [str(name) for name in columns]
    return f'no column "{column}"{near_column(column, names)}; ' + (
        f"there are {listed(names, 20)}" if names else "there are none at all"
    )
