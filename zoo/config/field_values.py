"""Values of fields: parsed as typed, and checked against their type, choices and limits."""

import itertools
import math
from typing import Any

from zoo.config.fields import AUTO, Field
from zoo.errors import ConfigError, did_you_mean, listed, shown, user_path
from zoo.files import LARGEST_NUMBER

# A list of choices is cut after so many.
_MOST_CHOICES = 20
# Hints for values that are known by a name but are set by another field.
_HINTS = {
    ("optimizer.kind", "adam"): "; Adam is adamw with optimizer.weight_decay=0 or optimizer.weight_decay_form=coupled"
}
TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
"""What messages call the types of single values."""


def parse_value(field: Field, text: str) -> Any:
    """Parses a value as typed on a command line.

    A text that cannot be parsed is returned unchanged, and `resolve` refuses it.
    """
    text = text.strip() if field.kind is not str else text
    if field.auto and text == AUTO:
        return AUTO
    try:
        if field.kind is bool:
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        if field.kind is int:
            number = float(text)
            return int(number) if number == int(number) else text
        if field.kind is float:
            return float(text)
        if field.kind is tuple:
            parts = [part.strip(" '\"") for part in _without_brackets(text).split(",") if part.strip()]
            return tuple(field.items(part) for part in parts)
    except (ValueError, KeyError, OverflowError):
        return text
    return text


def _without_brackets(text: str) -> str:
    """Returns the items of a list as typed, "(a, b)", "[a, b]" or "a, b", without the brackets."""
    for opening, closing in ("()", "[]"):
        if text.startswith(opening) and text.endswith(closing):
            depths = list(itertools.accumulate((each == opening) - (each == closing) for each in text))
            # The first bracket is closed by the last one.
            if depths.index(0) == len(text) - 1:
                return _without_brackets(text[1:-1])
    return text


def checked_value(field: Field, value: Any) -> tuple[Any, str | None]:
    """Returns the value in the field's type, and what is wrong with it or None."""
    if field.auto and value == AUTO and isinstance(value, str):
        return value, None
    if field.choices:
        if not isinstance(value, str) or value not in field.choices:
            names = listed([*field.choices, *([AUTO] if field.auto else ())], _MOST_CHOICES)
            hint = _HINTS.get((field.path, str(value))) or did_you_mean(str(value), field.choices)
            return value, f"{field.path}={shown(value)} is not one of {names}{hint}"
        return value, None
    if field.is_path and isinstance(value, str) and value.startswith("~"):
        try:
            return str(user_path(value)), None
        except ConfigError as error:
            return value, f"{field.path}={error}"
    if field.kind is tuple:
        allowed = int | float if field.items is float else field.items
        if isinstance(value, allowed) and not isinstance(value, bool):
            value = (value,)
        if not isinstance(value, tuple | list) or not all(
            isinstance(item, allowed) and not isinstance(item, bool) for item in value
        ):
            return value, _wrong_type(field, value)
        value = tuple(map(float, value)) if field.items is float else tuple(value)
        numbers = () if field.items is str else value
        if any(not math.isfinite(number) or abs(number) > LARGEST_NUMBER for number in numbers if field.items is float):
            return value, f"{field.path}={shown(value)}: expected finite numbers, at most {LARGEST_NUMBER:.1e}"
    elif field.kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value, _wrong_type(field, value)
        value = float(value)
        if not math.isfinite(value):
            return value, f"{field.path}={value!r}: expected a finite number"
        if abs(value) > LARGEST_NUMBER:
            return (
                value,
                f"{field.path}={value!r}: expected a number that fits in 32 bits, at most {LARGEST_NUMBER:.1e}",
            )
        numbers = (value,)
    elif not isinstance(value, field.kind) or (field.kind is int and isinstance(value, bool)):
        return value, _wrong_type(field, value)
    else:
        numbers = (value,) if field.kind is int else ()
    for number in numbers:
        if field.minimum is not None and number < field.minimum:
            return value, f"{field.path}={shown(number)} must be at least {field.minimum:g}"
        if field.above is not None and number <= field.above:
            return value, f"{field.path}={shown(number)} must be above {field.above:g}"
        if (largest := field.largest) is not None and number > largest:
            return value, f"{field.path}={shown(number)} must be at most {largest:.10g}"
    return value, None


def _wrong_type(field: Field, value: Any) -> str:
    several = "comma-separated " + {int: "integers", float: "numbers"}.get(field.items, "names")
    expected = TYPE_NAMES.get(field.kind, several)
    return f"{field.path}={shown(value)}: expected {expected}" + (f' or "{AUTO}"' if field.auto else "")
