"""Reads another library's config.

Every setting is used, known to be irrelevant, or rejected.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zoo.config import ResolvedConfig
from zoo.errors import ConfigError, shown
from zoo.interop.settings.equivalents import ConfigView, Setting
from zoo.interop.settings.inert_settings import inert_settings
from zoo.interop.weights.mapping import Rules


@dataclass(frozen=True)
class Importer:
    """Describes one class of models of Hugging Face's transformers.

    Attributes:
        read_config: from a `config.json` as a dict to flat overrides of `zoo.config.default()`;
            raises ConfigError.
        rules: from the `model` part of the resolved config to the rules of its weights.
        defaults: the class's settings and their default values.
        statistics: as `rules`, for what modules hold besides parameters (running averages, random
            features).
        renamed_suffixes: old and current endings of tensor names.
        model_type: name of the family in `config.json`; empty for a class outside transformers.
        prefix: prefix of all tensors except those of the heads; files may omit it.
        zero_if_missing: tensors that a file may lack and that are 0 then.
        note: a line that the import prints and records.
        deviations: from a `config.json` to lines about settings that are deliberately read otherwise
            than some version of the class reads them, which the import prints and records.
        arranged: (the config, tensors of a file) -> the same tensors under the names and in the shapes
            of the rules, for a class whose files differ in them; they are read one at a time.
        custom_settings: settings that `zoo.interop.settings.equivalents.SETTINGS` lacks or defines
            differently.
    """

    read_config: Callable[[Mapping[str, Any]], dict[str, Any]]
    rules: Callable[[ResolvedConfig], Rules]
    defaults: Mapping[str, Any]
    statistics: Callable[[ResolvedConfig], Rules] = lambda config: ()
    renamed_suffixes: Mapping[str, str] = field(default_factory=dict)
    model_type: str = ""
    prefix: str = ""
    zero_if_missing: tuple[str, ...] = ()
    custom_settings: Mapping[str, Setting] = field(default_factory=dict)
    note: str = ""
    deviations: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda settings: ()
    arranged: Callable[[ConfigView, Mapping[str, Any]], Mapping[str, Any]] = lambda view, tensors: tensors


QUANTISED = (
    "quantised weights are not read; dequantise them and save them without this setting, or pass --ignore "
    "quantization_config if the tensors are plain numbers"
)


class SettingsError(ConfigError):
    """Settings that cannot be expressed.

    Attributes:
        unknown: names of settings that the importer does not know.
    """

    def __init__(self, problems: list[str], unknown: frozenset[str]):
        super().__init__(problems)
        self.unknown = unknown


ACTIVATIONS: dict[str, dict[str, str]] = {
    "relu": {"model.ffn.kind": "relu"},
    "gelu": {"model.ffn.kind": "gelu", "model.ffn.gelu_approximation": "none"},
    "gelu_python": {"model.ffn.kind": "gelu", "model.ffn.gelu_approximation": "none"},
    "gelu_new": {"model.ffn.kind": "gelu", "model.ffn.gelu_approximation": "tanh"},
    "gelu_fast": {"model.ffn.kind": "gelu", "model.ffn.gelu_approximation": "tanh"},
    "gelu_pytorch_tanh": {"model.ffn.kind": "gelu", "model.ffn.gelu_approximation": "tanh"},
    "silu": {"model.ffn.kind": "silu"},
    "swish": {"model.ffn.kind": "silu"},
}
GATED = {"relu": "reglu", "gelu": "geglu", "silu": "swiglu"}
GATED_ACTIVATIONS = {
    name: fields | {"model.ffn.kind": GATED[fields["model.ffn.kind"]]} for name, fields in ACTIVATIONS.items()
}


class SettingsReader:
    """The settings of a `config.json`; records which ones were read.

    Args:
        given: the file's content.
        defaults: values of settings that the file lacks.
        model_type: whose settings these are, which decides what is inert (`INERT_SETTINGS`); None
            if nothing is.
        prefix: prefix of a setting's name in messages, for a config within a config.

    Attributes:
        unknown: names, with the prefix, of settings that `close` found nowhere.
    """

    def __init__(
        self, given: Mapping[str, Any], defaults: Mapping[str, Any], model_type: str | None = None, prefix: str = ""
    ):
        self.given, self.values, self.prefix = frozenset(given), {**defaults, **given}, prefix
        self.inert = {} if model_type is None else inert_settings(model_type)
        self.read: set[str] = set()
        self.problems: list[str] = []
        self.unknown: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self.values[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a setting that the class may not have."""
        self.read.add(name)
        return self.values.get(name, default)

    def reject(self, name: str, why: str) -> None:
        """Records that a setting cannot be expressed."""
        self.problems.append(f"{self.prefix}{name}={shown(self.values.get(name))}: {why}")

    def expect(self, *allowed: Any, **names_and_reasons: str) -> None:
        """Rejects each named setting, with its reason, unless its value is one of `allowed`."""
        for name, why in names_and_reasons.items():
            if self.get(name) not in allowed:
                self.reject(name, why)

    def choose(self, name: str, table: Mapping[Any, Any]) -> Any:
        """Looks up a setting's value in a table; an unknown value is rejected."""
        value = self[name]
        if not isinstance(value, Hashable) or value not in table:
            self.reject(name, f"expected one of {', '.join(map(str, table))}")
            return next(iter(table.values()))
        return table[value]

    def same(self, *names: str) -> Any:
        """Returns the common value of several settings; different values are rejected."""
        values = [self[name] for name in names]
        if any(value != values[0] for value in values):
            self.problems.append(
                f"{', '.join(f'{self.prefix}{name}={self.values[name]!r}' for name in names)}: must be equal"
            )
        return values[0]

    def close(self) -> list[str]:
        """Rejects settings that were neither read nor are known to be inert.

        Returns:
            everything that was rejected, one line each.
        """
        for name, value in self.values.items():
            if name in self.read or value is None:
                continue
            if (entry := self.inert.get(name)) is None:
                self.unknown.add(self.prefix + name)
                self.reject(name, QUANTISED if name == "quantization_config" else "not known to this importer")
            elif entry.values is not None and value not in entry.values:
                expected = f"expected {entry.values[0]}; " if entry.values else ""
                self.reject(name, f"{expected}{entry.why}")
        return self.problems

    def include(self, inner: "SettingsReader") -> None:
        """Closes the reader of a config within this one and takes over its problems."""
        self.problems += inner.close()
        self.unknown |= inner.unknown

    def finish(self) -> None:
        """Ends the reading.

        Raises:
            SettingsError: with a line for every rejected setting.
        """
        if problems := self.close():
            raise SettingsError(problems, frozenset(self.unknown))
