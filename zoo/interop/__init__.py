"""Models of other libraries: their configs and their weights, read and written, one file per family.

`FAMILIES` finds the importer of a class by its name, which a `config.json` gives under `architectures`.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig, default, override, resolve
from zoo.errors import ConfigError, did_you_mean
from zoo.interop import gpt, llama, neox
from zoo.interop.mapping import from_zoo, to_zoo
from zoo.interop.settings import Importer

FAMILIES: dict[str, Importer] = {name: importer for family in (gpt, llama, neox) for name, importer in family.CLASSES.items()}

__all__ = ["FAMILIES", "Importer", "from_zoo", "importer_of", "resolve_like", "to_zoo"]


def importer_of(class_name: str) -> Importer:
    """The importer of a class, e.g. "GPT2LMHeadModel".

    Raises:
        ConfigError: if there is none.
    """
    if class_name not in FAMILIES:
        raise ConfigError(f"no importer for {class_name}{did_you_mean(class_name, FAMILIES)}; there are {', '.join(sorted(FAMILIES))}")
    return FAMILIES[class_name]


def resolve_like(class_name: str, hf: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> ResolvedConfig:
    """A resolved config of the model that a `config.json` describes.

    Args:
        class_name: the class that it describes.
        hf: its content.
        overrides: flat fields on top, e.g. the data's.

    Raises:
        ConfigError: for settings that cannot be expressed, and for fields that do not fit together.
    """
    return resolve(override(default(), importer_of(class_name).config_of(hf) | dict(overrides or {})))
