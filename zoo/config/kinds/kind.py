"""Kinds: the choices of a field that picks an implementation, each with what concerns it alone."""

import functools
import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zoo.config.field import Field, as_given
from zoo.config.kinds.description import Description
from zoo.errors import did_you_mean, listed, shown

NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")
Problems = Callable[[Mapping[str, Any], str], Iterator[str]]
Derivation = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def no_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    """Yields nothing: the kind can be combined with everything."""
    del flat, architecture
    yield from ()


def no_derivation(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns no derived value."""
    del flat
    return {}


@dataclass(frozen=True)
class Kind:
    """One choice of a field such as "model.norm.kind".

    Attributes:
        path: path of the field.
        name: the choice.
        meaning: one line for people, with the paper.
        traits: words that it has in common with other kinds, of those that its table declares. Fields
            that several kinds read name a trait (`KindTable.when`).
        fields: fields that only this kind reads.
        problems: (flat config as the layers or the group of parameters see it, architecture) -> a
            line for each value that this kind cannot be combined with; see
            `zoo.config.constraints.layer_constraints`, `objective_constraints` for objectives, and
            `group_constraints` for optimizers and schedules.
        derive: flat config -> {path: value} for its fields that may be `auto`. The width of a head
            is derived before, and "auto" where it cannot be.
        loss_terms: the terms that it adds to the loss (`Context.add_loss`), each with the path of
            the field that has its weight.
        code: the class or function that computes it. Kinds of zoo name it as "module:name", which
            is imported when it is first asked for (`KindTable.code_of`), because configs are
            resolved without JAX; plug-ins give the object itself.
        widths: for kinds of attention with heads of other widths than `attention.head_dim`: the
            fields that a width adds up (`zoo.config.kinds.attention_kinds.width_fields`).
        description: what its page tells beyond this (`zoo describe`); None for a choice without a
            page.
        reference: of a plug-in, what the kind computes in plain numpy, in float64; `zoo check`
            compares the two. Of a layer (config of the model, {name: array}, x [B, T, D], positions
            [B, T] with -1 for padding) -> [B, T, D], of an optimizer ({path: value}, gradients of a
            parameter so far) -> its direction, of a schedule (`ScheduleStep`) -> its share.
    """

    path: str
    name: str
    meaning: str
    traits: frozenset[str] = frozenset()
    fields: tuple[Field, ...] = ()
    problems: Problems = no_problems
    derive: Derivation = no_derivation
    loss_terms: Mapping[str, str] = field(default_factory=dict)
    code: str | Callable[..., Any] | None = None
    widths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    description: Description | None = field(default_factory=Description)
    reference: Callable[..., Any] | None = None

    def __post_init__(self):
        own = (self.path, (self.name,))
        object.__setattr__(self, "traits", frozenset(self.traits))
        fields = tuple(one if one.when else replace(one, when=own) for one in self.fields)
        object.__setattr__(self, "fields", fields)


class KindTable:
    """The kinds of one field, in the order of their registration.

    Attributes:
        path: path of the field.
        traits: the traits that its kinds can have, each with its meaning. No other can be declared or
            asked for: a misspelt one would switch off a refusal.
        needs: by the path of a field, the trait without which a kind leaves it at its default.
        by_name: the kinds.
        part: heading under which their pages are listed; "" for kinds without pages.

    Raises:
        ValueError: a kind cannot be added (`refusals`).
    """

    def __init__(
        self,
        path: str,
        traits: Mapping[str, str],
        kinds: Sequence[Kind],
        needs: Mapping[str, str] | None = None,
        part: str = "",
    ):
        self.path, self.traits, self.needs, self.part = path, traits, needs or {}, part
        self.by_name: dict[str, Kind] = {}
        for kind in kinds:
            self.add(kind)

    def refusals(self, kind: Kind) -> Iterator[str]:
        """Yields a line for each reason why a kind cannot be added."""
        label = f"{self.path}={kind.name}"
        if not isinstance(kind.name, str) or not NAME.fullmatch(kind.name):
            yield f"{label}: a name consists of lower-case letters, digits and _, e.g. my_variant"
        elif kind.name in self.by_name:
            yield f"{label} exists already; choose another name"
        if not kind.meaning.strip():
            yield f"{label}: its meaning is empty; write the equation, and the paper, in one line"
        for trait in sorted(kind.traits - self.traits.keys(), key=str):
            yield f"{label}: {self._unknown(trait)}"

    def _unknown(self, trait: str) -> str:
        near = did_you_mean(trait, self.traits)
        return f"unknown trait {shown(trait)}{near or f'; it is one of {listed(self.traits, len(self.traits))}'}"

    def add(self, kind: Kind) -> None:
        """Adds a kind as the last choice.

        Raises:
            ValueError: why it cannot be added.
        """
        if problems := list(self.refusals(kind)):
            raise ValueError("\n".join(problems))
        self.by_name[kind.name] = kind

    def remove(self, name: str) -> None:
        """Removes the kind of this name."""
        del self.by_name[name]

    @property
    def choices(self) -> "Choices":
        """Returns {name: meaning}, as `Field.choices` has it."""
        return Choices(self)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Returns the fields that only one kind reads, in the order of the kinds."""
        return tuple(field for kind in self.by_name.values() for field in kind.fields)

    def code_of(self, name: str) -> Any:
        """Returns the class or function that computes a kind.

        The first call for a kind of zoo imports its module, which is above this package: only
        modules that may import that one may call this (tests/project/test_architecture.py counts a
        call as an import of the code of all kinds of the table).
        """
        return code_of(self.by_name[name])

    def having(self, *traits: str) -> "KindsWithTrait":
        """Returns the names of the kinds that have a trait, or one of several.

        Raises:
            ValueError: the table declares no such trait.
        """
        for trait in traits:
            if trait not in self.traits:
                raise ValueError(f"{self.path}: {self._unknown(trait)}")
        return KindsWithTrait(self, frozenset(traits))

    def when(self, *traits: str) -> tuple[str, "KindsWithTrait"]:
        """Returns a value of `Field.when`: the kind has a trait, or one of several."""
        return self.path, self.having(*traits)

    def problems(self, flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
        """Yields the problems of the kind that a flat config chooses."""
        yield from self.by_name[flat[self.path]].problems(flat, architecture)

    def lacks(self, trait: str, flat: Mapping[str, Any], path: str) -> Iterator[str]:
        """Yields a line if the kind that a flat config chooses lacks a trait that the value at `path`
        needs.
        """
        if (kind := flat[self.path]) not in (able := self.having(trait)):
            yield (
                f"{self.path}={kind} cannot be combined with {path}={as_given(flat[path])}; leave it out, or use "
                f"{' or '.join(able)}"
            )

    def derive(self, flat: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the derived values of the kind that a flat config chooses."""
        return self.by_name[flat[self.path]].derive(flat)


def code_of(kind: Kind) -> Any:
    """Returns the class or function that computes a kind; see `KindTable.code_of`."""
    return _imported(kind.code) if isinstance(kind.code, str) else kind.code


@functools.cache
def _imported(code: str) -> Any:
    module, _, name = code.partition(":")
    return getattr(importlib.import_module(module), name)


class KindsWithTrait(Sequence[str]):
    """The names of the kinds that have one of some traits, among the current entries of the table."""

    def __init__(self, table: KindTable, traits: frozenset[str]):
        self._table, self._traits = table, traits

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(kind.name for kind in self._table.by_name.values() if self._traits & kind.traits)

    def __getitem__(self, index: Any) -> Any:
        return self._names[index]

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        # Faster than looking through all names: conditions of fields ask this again and again.
        kind = self._table.by_name.get(name) if isinstance(name, str) else None
        return kind is not None and bool(self._traits & kind.traits)


class Choices(Mapping[str, str]):
    """The meaning of each kind by its name, for the current entries of the table."""

    def __init__(self, table: KindTable):
        self._table = table

    def __getitem__(self, name: str) -> str:
        return self._table.by_name[name].meaning

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.by_name)

    def __len__(self) -> int:
        return len(self._table.by_name)
