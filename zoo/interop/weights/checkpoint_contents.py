"""The contents of another library's checkpoint, in zoo's terms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import Tokenizer

ParamsAndStats = tuple[dict[str, Any], dict[str, Any]]


@dataclass(frozen=True)
class CheckpointContents:
    """A checkpoint whose class is known; its weights are not read yet.

    Attributes:
        class_name: its class.
        settings: the content of its config file.
        fields: the settings as flat overrides of `zoo.config.default()`.
        weights: reads (parameters, statistics) for the resolved config.
        files: all files that belong to it.
        tokenizer: its tokenizer; None if it has no readable one.
        extra_metadata: further entries of the run's record of where it came from.
        notes: lines that the import prints and records.
        extra_tokenizers: further tokenizers, by the name of their file in a run.
    """

    class_name: str
    settings: Mapping[str, Any]
    fields: Mapping[str, Any]
    weights: Callable[[ResolvedConfig], ParamsAndStats]
    files: tuple[Path, ...]
    tokenizer: Tokenizer | None
    extra_metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    extra_tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)
