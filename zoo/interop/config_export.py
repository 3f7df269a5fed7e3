"""Finds the class that can express a config, and its settings.

Settings are filled in from one table; a config counts as expressed only if reading the settings
back gives an equal model.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zoo.config import BY_PATH, ResolvedConfig, layer_kind, side
from zoo.config.fields import KIND_FIELDS, SIDE_FIELDS, TASKS
from zoo.config.kinds import OBJECTIVE_KINDS, WIDTH_FIELDS
from zoo.config.kinds.expert_kinds import PUBLISHED_BIAS_RATE, TRAINING_ONLY
from zoo.config.scopes import KINDS, SIDES, split_path
from zoo.errors import ConfigError
from zoo.interop.class_registry import FAMILIES, importer_of, resolve_like
from zoo.interop.settings.equivalents import SETTINGS, ConfigView, hidden_dim
from zoo.interop.settings.importer import Importer
from zoo.nested import flatten

# Fields of execution and of initial values, which are not part of the trained model.
NOT_EXPORTED = (
    *("model.dtype", "model.scan_layers", "model.remat", "model.init."),
    *("model.attention.implementation", "model.attention.chunk_tokens"),
    # Of experts, what only training reads.
    *(f"model.ffn.experts.{name}" for name in TRAINING_ONLY),
)
# Fields of sides and layer kinds, which have no effect in a model without them.
SCOPES = (*(f"{scope}." for scope in SIDES), f"{KINDS}.")


@dataclass(frozen=True)
class ExportedConfig:
    """A config in the settings of a class.

    Attributes:
        class_name: the class.
        settings: the content of its config.json.
        problems: one line for each field that would be read back differently, or for each setting
            that the importer rejects.
        refused: problems are rejected settings.
    """

    class_name: str
    settings: Mapping[str, Any]
    problems: tuple[str, ...]
    refused: bool = False

    @property
    def distance(self) -> tuple[bool, bool, int]:
        """Measures how far the class is from the config, for comparisons."""
        other = any(line.startswith(("model.architecture=", "objective.kind=")) for line in self.problems)
        return other, self.refused, len(self.problems)


def export_settings(
    class_name: str | Importer, config: ResolvedConfig, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Returns the settings of a class that come closest to a config; see `export_config`.

    Args:
        class_name: the class.
        config: resolved.
        given: settings of the same class that the model was imported with; those that the config
            does not determine are kept.
    """
    importer, view = importer_of(class_name), ConfigView(config, given or {})
    table = SETTINGS | dict(importer.custom_settings)
    ours = {name: table[name](view) if name in table else default for name, default in importer.defaults.items()}
    ours |= {name: setting(view) for name, setting in importer.custom_settings.items() if name not in ours}
    return {**(given or {}), **ours}


def export_config(class_name: str, config: ResolvedConfig, given: Mapping[str, Any] | None = None) -> ExportedConfig:
    """Writes a config in a class's settings, and finds what the class cannot express."""
    importer, ours = importer_of(class_name), config.model.architecture
    if "causal" not in importer.defaults and (theirs := importer.read_config({})["model.architecture"]) != ours:
        return ExportedConfig(class_name, {}, (f"model.architecture={ours!r}; it would be {theirs!r}",))
    if ours == "decoder" and (kind := config.objective.kind) in OBJECTIVE_KINDS.having("prefix"):
        return ExportedConfig(
            class_name, {}, (f"objective.kind={kind!r}: its decoder would not see the prompt as a whole",)
        )
    kind, theirs = config.objective.kind, importer.read_config({}).get("objective.kind")
    # The settings of a class for classification say whether the class is a label or a number.
    if (kind in TASKS or theirs in TASKS) and {kind, theirs} != {"classification", "regression"} and kind != theirs:
        return ExportedConfig(class_name, {}, (f"objective.kind={kind!r}; it would be {theirs!r}",))
    settings = export_settings(class_name, config, given)
    try:
        theirs = resolve_like(class_name, settings, {"data.tokenizer.kind": "characters"})
    except ConfigError as error:
        if not given:
            return ExportedConfig(class_name, settings, tuple(error.problems), refused=True)
        # The settings of the import do not fit the model as it is now.
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
    """Returns the fields in which two models compute something different: (path, ours, theirs).

    Sides are compared one by one; so are layers, if they differ within either model: the names of
    layer kinds and the length of the pattern do not matter.
    """
    by_layer = bool(ours.layers.pattern or theirs.layers.pattern)
    one, other = _seen(ours, by_layer), _seen(theirs, by_layer)
    found: dict[str, tuple[str, Any, Any]] = {}
    for path in [*one, *(path for path in other if path not in one)]:
        if not _equal(one.get(path), other.get(path)):
            # One line per field: that of the first layer that differs.
            found.setdefault(path.partition(" (layer ")[0], (path, one.get(path), other.get(path)))
    # A field that only applies to another choice differs because that choice does.
    chosen = {_plain(field) for field in found}
    return [
        line
        for field, line in found.items()
        if not (condition := BY_PATH[_plain(field)].when) or condition[0] not in chosen
    ]


def _plain(path: str) -> str:
    """Returns the field of a path, without its side or layer kind."""
    return scoped_field[1] if (scoped_field := split_path(path)) else path


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12)
    return one == other


def _seen(model: ResolvedConfig, by_layer: bool) -> dict[str, Any]:
    """Returns fields by path; those of sides or layers as each side or layer sees them."""
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
    """Returns what a model, a side or a layer computes, by path.

    The feed-forward width is the actual one.
    """
    flat = {f"model.{path}": value for path, value in flatten(model).items()}
    flat = {
        path: value
        for path, value in flat.items()
        if not path.startswith((*NOT_EXPORTED, *SCOPES, "model.layers.pattern"))
    }
    if flat["model.layers.distinct"] == model.num_layers:
        flat["model.layers.distinct"] = 0
    if flat["model.ffn.experts.bias_rate"]:
        # There are biases of the choice; only training reads how fast they move.
        flat["model.ffn.experts.bias_rate"] = PUBLISHED_BIAS_RATE
    flat["model.attention.norm_epsilon"] = flat["model.attention.norm_epsilon"] or flat["model.norm.epsilon"]
    plain = {path: BY_PATH[path].default for path in (f"model.ffn.{name}" for name in WIDTH_FIELDS[2:])}
    return flat | plain | {"model.ffn.hidden_dim": hidden_dim(model)}


def choose_class(
    config: ResolvedConfig, wanted: str | None, recorded: str | None, given: Mapping[str, Any] | None = None
) -> ExportedConfig:
    """Chooses the class that a config is exported as.

    This is the one wanted, else the one that the model was imported as, else the first that can
    express the config.

    Args:
        config: resolved.
        wanted, recorded: names of classes.
        given: settings that the model was imported with, of the class `recorded`.

    Raises:
        ConfigError: naming every field that the class (or the closest class) cannot express.
    """
    if config.model.architecture == "elmo":
        raise ConfigError("no class can express model.architecture=elmo")
    first = export_config(name, config, given if name == recorded else None) if (name := wanted or recorded) else None
    if first is not None and not first.problems:
        return first
    if wanted:
        raise ConfigError([f"{wanted} cannot express {problem}" for problem in first.problems])
    # Classes of the family that the model is from come first.
    own = importer_of(recorded).model_type if recorded else None
    names = sorted(FAMILIES, key=lambda name: FAMILIES[name].model_type != own)
    every = [export_config(name, config) for name in names]
    if (fits := next((found for found in every if not found.problems), None)) is not None:
        return fits
    closest = min(every, key=lambda found: found.distance)
    if first is not None and not first.distance[0]:
        closest = first
    how = "as which it was imported" if closest is first else "which comes closest"
    raise ConfigError(
        [
            f"no class can express this config; {closest.class_name}, {how}, cannot express {problem}"
            for problem in closest.problems
        ]
    )
