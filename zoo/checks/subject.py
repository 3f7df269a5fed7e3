"""The kind under check, in the smallest models that show its properties."""

import functools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flax import nnx

from zoo import config as configs
from zoo.checks.outcome import NotApplicable
from zoo.checks.small_models import random_statistics, random_values
from zoo.config import ResolvedConfig
from zoo.config.fields_of_sizes import resolved_fields
from zoo.config.kinds import KIND_TABLES, Kind
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.functional import Params, Stats
from zoo.models.kind_facts import BASES
from zoo.objectives import Objective, make_objective

T, ROWS = 12, 8
"""Tokens and rows of a batch."""

# Sizes of the models. A field that a config does not read is left out.
SIZES = {
    "model.dim": 16,
    "model.num_layers": 2,
    "model.attention.num_heads": 4,
    "model.ffn.hidden_dim": 24,
    "model.position.max_length": 64,
    # This implementation compiles fastest.
    "model.attention.implementation": "einsum",
    "data.sequence_length": T,
    "data.batch_size": ROWS,
    "training.steps": 8,
}
# The kinds that are part of a model.
OF_MODELS = tuple(path for path in KIND_TABLES if path.startswith("model."))


def small_config(changes: Mapping[str, Any]) -> ResolvedConfig:
    """Returns the resolved config of a small model with these changes.

    Raises:
        ConfigError: they are refused.
    """
    return configs.resolve(configs.from_flat(resolved_fields(changes, SIZES)))


@dataclass(frozen=True)
class Subject:
    """A kind, with the settings that it is checked with.

    Attributes:
        kind: the kind.
        settings: further fields of every model, e.g. a window that the kind needs.
        base: the architecture and objective of the models.
    """

    kind: Kind
    settings: Mapping[str, Any] = field(default_factory=dict)
    base: Mapping[str, Any] = field(default_factory=dict)
    _found: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, kind: Kind, settings: Mapping[str, Any] | None = None) -> "Subject":
        """Returns the subject in the first of `BASES` that accepts the kind.

        Raises:
            ConfigError: no model accepts it, with the reason of the first.
        """
        refusals = []
        for base in BASES:
            subject = cls(kind, settings or {}, {path: value for path, value in base.items() if path != kind.path})
            try:
                subject.config()
                return subject
            except ConfigError as error:
                refusals.append(error)
        raise refusals[0]

    @property
    def in_model(self) -> bool:
        """Returns whether the kind is a part of the model, and no objective, optimizer or schedule."""
        return self.kind.path in OF_MODELS

    @property
    def architecture(self) -> str:
        """Returns the architecture of the models."""
        return self.config().model.architecture

    def config(self, changes: Mapping[str, Any] | None = None) -> ResolvedConfig:
        """Returns the resolved config of a small model with the kind.

        Raises:
            ConfigError: the changes are refused.
        """
        changes = {**self.base, self.kind.path: self.kind.name, **self.settings, **(changes or {})}
        return self.once(("config", *changes.items()), lambda: small_config(changes))

    def applicable(self, changes: Mapping[str, Any]) -> ResolvedConfig:
        """Returns the same; a refusal is the reason why a property does not apply.

        Raises:
            NotApplicable: with the first line of the refusal.
        """
        try:
            return self.config(changes)
        except ConfigError as error:
            raise NotApplicable(error.problems[0]) from None

    def require_model(self, what: str) -> None:
        """Refuses kinds that are no part of the model.

        Raises:
            NotApplicable: `what` does not depend on the kind.
        """
        if not self.in_model:
            raise NotApplicable(f"{what} does not depend on {self.kind.path}")

    def model(self, config: ResolvedConfig) -> tuple[nnx.Module, Params, Stats]:
        """Returns (abstract model, random parameters, random statistics) of one of its configs."""
        model = make_model(config)
        return model, random_values(model, 1), random_statistics(model, 2)

    def objective(self, config: ResolvedConfig) -> Objective:
        """Returns the objective of one of its configs, over bytes."""
        return make_objective(config, ByteTokenizer())

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns what `make` returned when it was first called with this key."""
        if key not in self._found:
            self._found[key] = make()
        return self._found[key]


def once(function: Callable[[Subject], Any]) -> Callable[[Subject], Any]:
    """Decorates a function of a subject that several properties read."""

    @functools.wraps(function)
    def shared(subject: Subject) -> Any:
        return subject.once(function, lambda: function(subject))

    return shared
