"""A field of the config, and how its value is looked up in a flat config."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zoo.errors import shortened, shown

AUTO = "auto"
LARGEST_INTEGER = 2**31 - 1


@dataclass(frozen=True)
class Field:
    """One leaf of the config.

    Attributes:
        path: dotted path, e.g. "model.norm.kind".
        default: value in a fresh config; `AUTO` when it is derived by `resolve`.
        kind: Python type of the value: int, float, bool, str, or tuple.
        meaning: one-line description, with the unit.
        choices: allowed names with one line each, for fields that pick an implementation.
        minimum, maximum: inclusive range of a number; `above` is an exclusive lower bound. Integers
            without a maximum have that of 32 bits (see `largest`).
        auto: how an `auto` value is derived; empty where `auto` is not allowed.
        when: (path, values): the field is read only when the field at `path` has one of `values`
            (see `chosen`).
        items: type of a tuple's items.
        traced: programs take the value as an argument, so that runs that differ in it can share one
            (see `zoo.config.hyperparameters`). What reads it then gets a float or a traced array,
            never a number to branch on.
        added: it came after runs that are kept. Where it has its default it is no part of a run's
            identity, so that these keep theirs.
        synonyms: other names that `zoo describe` knows, in lower case and with hyphens.
        is_path: the value is the path of a file or folder; "~" is the user's home folder.

    Raises:
        ValueError: the field is traced, but it is no number, may be `auto`, or is of a part that
            reads no arguments of a program.
    """

    path: str
    default: Any
    kind: type
    meaning: str
    choices: Mapping[str, str] | None = None
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    auto: str = ""
    when: tuple[str, tuple] | None = None
    items: type = int
    traced: bool = False
    added: bool = False
    synonyms: tuple[str, ...] = ()
    is_path: bool = False

    def __post_init__(self):
        number = self.kind in (int, float) and not self.auto
        if self.traced and not (number and self.path.startswith(("optimizer.", "schedule.", "objective."))):
            raise ValueError(
                f"{self.path} cannot be traced: only numbers of optimizer, schedule and objective that are not auto can"
            )

    @property
    def largest(self) -> float | None:
        """The largest number that is allowed, if there is one. Shapes, positions and counters of
        steps are int32 on the devices.
        """
        whole = self.kind is int or (self.kind is tuple and self.items is int)
        return LARGEST_INTEGER if self.maximum is None and whole else self.maximum

    @property
    def default_as_given(self) -> str:
        """The default in a message: "at 0.8", or "empty"."""
        return "empty" if self.default in ("", ()) else f"at {as_given(self.default)}"

    def is_read(self, flat: Mapping[str, Any]) -> bool:
        """Returns whether `when` holds in a flat config."""
        return self.when is None or any(value in self.when[1] for value in chosen(flat, self.when[0]))


def as_given(value: Any) -> str:
    """Returns a value as a command line has it: texts without quotes, lists with commas."""
    if isinstance(value, tuple):
        value = ",".join(map(str, value))
    return shortened(value) if isinstance(value, str) else shown(value)


def chosen(flat: Mapping[str, Any], path: str) -> tuple:
    """Returns the value at a path of a flat config, as a tuple of one.

    For `data.source` these are the kinds of source, the text before a ":"; a mixture also has the
    kinds of its entries, and `data.held_out` adds its own kind. A mixture of experts is also a
    feed-forward layer of the kind of its experts, and parallel heads are also of the kind of their
    mixer with a state.
    """
    if path == "model.ffn.kind" and flat[path] == "moe":
        return flat[path], flat.get("model.ffn.experts.kind")
    if path == "model.attention.kind" and flat[path] == "parallel_heads":
        return flat[path], flat.get("model.attention.state_kind")
    if path != "data.source":
        return (flat[path],)
    entries = flat["data.mixture"] if flat[path] == "mixture" and isinstance(flat["data.mixture"], tuple | list) else ()
    sources = [flat[path], *(str(entry).partition("*")[2].strip() for entry in entries)]
    if held_out := flat.get("data.held_out"):
        sources.append(held_out)
    return tuple(str(source).partition(":")[0] for source in sources)
