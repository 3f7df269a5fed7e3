"""The importers of all classes, by class name."""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig, default, override, resolve
from zoo.errors import ConfigError, did_you_mean
from zoo.interop.families import (
    bart,
    bert,
    bloom,
    distilbert,
    gpt,
    llama,
    longformer,
    marian,
    mpt,
    neox,
    performer_pytorch,
    roberta,
    roformer,
    t5,
)
from zoo.interop.settings.importer import Importer

_FAMILIES = (bart, bert, bloom, distilbert, gpt, llama, longformer, marian, mpt, neox, performer_pytorch, roberta,
             roformer, t5)  # fmt: skip
FAMILIES: dict[str, Importer] = {name: importer for family in _FAMILIES for name, importer in family.CLASSES.items()}


def importer_of(class_name: str | Importer) -> Importer:
    """Returns the importer of a class, e.g. "GPT2LMHeadModel"; an importer is returned as it is.

    Raises:
        ConfigError: there is none.
    """
    if isinstance(class_name, Importer):
        return class_name
    if class_name not in FAMILIES:
        raise ConfigError(
            f"no importer for {class_name}{did_you_mean(class_name, FAMILIES)}; there are {', '.join(sorted(FAMILIES))}"
        )
    return FAMILIES[class_name]


def resolve_like(
    class_name: str | Importer, hf: Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> ResolvedConfig:
    """Returns the resolved config of the model that a `config.json` describes.

    Args:
        class_name: the class that it describes.
        hf: its content.
        overrides: flat fields that take precedence, e.g. those of the data.

    Raises:
        ConfigError: settings that cannot be expressed, or fields that do not fit together.
    """
    try:
        fields = importer_of(class_name).read_config(hf)
    except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError) as error:
        name = class_name if isinstance(class_name, str) else "this class"
        raise ConfigError(
            f"the config of {name} has a value of a wrong type: {type(error).__name__}: {error}"
        ) from error
    return resolve(override(default(), fields | dict(overrides or {})))
