"""Which class can express a config, and the settings that do: written from one table, and believed
only when they are read back.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zoo.config import BY_PATH, GATED, ResolvedConfig, layer_kind, side
from zoo.config.fields import KIND_FIELDS, SIDE_FIELDS
from zoo.config.parts import KINDS, SIDES, split_path
from zoo.errors import ConfigError
from zoo.interop.class_registry import FAMILIES, importer_of, resolve_like
from zoo.interop.settings.equivalents import SETTINGS, ConfigView, hidden_dim
from zoo.interop.settings.importer import Importer
from zoo.nested import flatten

# How a model runs, and what its values were before the first step: nothing of the model that it has
# become.
NOT_EXPORTED = ("model.dtype", "model.scan_layers", "model.remat", "model.attention.implementation", "model.init.")
# What a config must say of a model without sides that nothing else is built on.
SCOPES = (*(f"{scope}." for scope in SIDES), f"{KINDS}.")


@dataclass(frozen=True)
class ExportedConfig:
    """A config in the settings of a class.

    Attributes:
        class_name: the class.
        settings: the content of its config.json.
        problems: fields that the class would make something else of, one line each; or settings
            that it refuses.
        refused: whether it is the latter.
    """

    class_name: str
    settings: Mapping[str, Any]
    problems: tuple[str, ...]
    refused: bool = False

    @property
    def distance(self) -> tuple[bool, bool, int]:
        """How far the class is from the config, to be compared."""
        other = any(line.startswith("model.architecture=") for line in self.problems)
        return other, self.refused, len(self.problems)


def export_settings(
    class_name: str | Importer, config: ResolvedConfig, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The settings of a class that come closest to a config; whether they say all of it, `export_config`
    finds out.

    Args:
        class_name: the class.
        config: resolved.
        given: settings of the same class that the model came with: those that change nothing of it
            are kept.
    """
    importer, view = importer_of(class_name), ConfigView(config, given or {})
    table = SETTINGS | dict(importer.custom_settings)
    ours = {name: table[name](view) if name in table else default for name, default in importer.defaults.items()}
    ours |= {name: setting(view) for name, setting in importer.custom_settings.items() if name not in ours}
    return {**(given or {}), **ours}


def export_config(class_name: str, config: ResolvedConfig, given: Mapping[str, Any] | None = None) -> ExportedConfig:
    """A config in a class's settings, and what of it the class cannot express."""
    importer, ours = importer_of(class_name), config.model.architecture
    if "causal" not in importer.defaults and (theirs := importer.read_config({})["model.architecture"]) != ours:
        return ExportedConfig(class_name, {}, (f"model.architecture={ours!r}; it would be {theirs!r}",))
    if ours == "decoder" and config.objective.kind == "prefix":
        return ExportedConfig(
            class_name, {}, ("objective.kind='prefix': its decoder would not see the prompt as a whole",)
        )
    settings = export_settings(class_name, config, given)
    try:
        theirs = resolve_like(class_name, settings, {"data.tokenizer.kind": "characters"})
    except ConfigError as error:
        if not given:
            return ExportedConfig(class_name, settings, tuple(error.problems), refused=True)
        # What the model came with does not go with what it is now.
        return export_config(class_name, config)
    return ExportedConfig(
        class_name,
        settings,
        tuple(
            f"{path}={value!r}; it would be {other!r}"
            for path, value, other in model_differences(config.model, theirs.model)
        ),
    )


def model_differences(ours: ResolvedConfig, theirs: ResolvedConfig) -> list[tuple[str, Any, Any]]:
    """The fields of two models in which what they compute differs: (path, ours, theirs).

    Sides are compared by themselves, and where layers differ in either model, layer by layer: how
    kinds of layers are called, and how long the pattern is that lays them out, is nothing that is
    computed.
    """
    by_layer = bool(ours.layers.pattern or theirs.layers.pattern)
    one, other = _seen(ours, by_layer), _seen(theirs, by_layer)
    found: dict[str, tuple[str, Any, Any]] = {}
    for path in [*one, *(path for path in other if path not in one)]:
        if not _equal(one.get(path), other.get(path)):
            # One line for a field: that of the first layer in which it differs.
            found.setdefault(path.partition(" (layer ")[0], (path, one.get(path), other.get(path)))
    # What is read only with another choice differs because that choice does.
    chosen = {_plain(field) for field in found}
    return [
        line
        for field, line in found.items()
        if not (condition := BY_PATH[_plain(field)].when) or condition[0] not in chosen
    ]


def _plain(path: str) -> str:
    """The field at a path, of a side or not."""
    return scoped_field[1] if (scoped_field := split_path(path)) else path


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12)
    return one == other


def _seen(model: ResolvedConfig, by_layer: bool) -> dict[str, Any]:
    """The fields by path, those that sides or layers may have for themselves as each of these sees
    them.
    """
    whole, parts = _fields(model), {}
    if model.architecture == "encoder_decoder":
        own, parts = SIDE_FIELDS, {f"model.{name}.{{}}": _fields(side(model, name)) for name in ("encoder", "decoder")}
    elif by_layer:
        own, pattern = KIND_FIELDS, model.layers.pattern
        kinds = {name: _fields(layer_kind(model, name)) for name in pattern}
        parts = {
            f"model.{{}} (layer {layer})": kinds[pattern[layer % len(pattern)]] if pattern else whole
            for layer in range(model.num_layers)
        }
    if not parts:
        return whole
    own = tuple(f"model.{name}" for name in own)
    return {path: value for path, value in whole.items() if not path.startswith(own)} | {
        form.format(path.removeprefix("model.")): value
        for form, fields in parts.items()
        for path, value in fields.items()
        if path.startswith(own)
    }


def _fields(model: ResolvedConfig) -> dict[str, Any]:
    """What a model, a side or a layer computes, by path; the width of the feed-forward as it is
    built.
    """
    flat = {f"model.{path}": value for path, value in flatten(model).items()}
    flat = {
        path: value for path, value in flat.items() if not path.startswith((*NOT_EXPORTED, *SCOPES, "model.layers."))
    }
    if model.ffn.kind in GATED and model.ffn.match_parameters:
        flat |= {"model.ffn.hidden_dim": hidden_dim(model), "model.ffn.match_parameters": False}
    return flat


def choose_class(
    config: ResolvedConfig, wanted: str | None, recorded: str | None, given: Mapping[str, Any] | None = None
) -> ExportedConfig:
    """The class that a config is written as: the one wanted, else the one that the model came as,
    else the first that can express it.

    Args:
        config: resolved.
        wanted, recorded: names of classes.
        given: settings that the model came with, as `recorded`.

    Raises:
        ConfigError: naming every field that the class, or the class that comes closest, cannot
            express.
    """
    if config.model.architecture == "elmo":
        raise ConfigError("no class can express model.architecture=elmo")
    first = export_config(name, config, given if name == recorded else None) if (name := wanted or recorded) else None
    if first is not None and not first.problems:
        return first
    if wanted:
        raise ConfigError([f"{wanted} cannot express {problem}" for problem in first.problems])
    every = [export_config(name, config) for name in FAMILIES]
    if (fits := next((found for found in every if not found.problems), None)) is not None:
        return fits
    closest = first or min(every, key=lambda found: found.distance)
    how = "as which it was imported" if first else "which comes closest"
    raise ConfigError(
        [
            f"no class can express this config; {closest.class_name}, {how}, cannot express {problem}"
            for problem in closest.problems
        ]
    )
