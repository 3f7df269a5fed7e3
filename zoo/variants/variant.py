"""Variants, and the models that they change."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zoo import config as configs
from zoo.config.kinds import KIND_TABLES, Description, Kind
from zoo.config.scopes import scopes_in

# The models that variants change: a GPT, and the same modules in the other architectures.
BASELINES: dict[str, dict[str, Any]] = {
    "decoder": {},
    "encoder": {"model.architecture": "encoder", "objective.kind": "masked"},
    "encoder_decoder": {"model.architecture": "encoder_decoder", "objective.kind": "prefix"},
    "elmo": {"model.architecture": "elmo", "objective.kind": "bidirectional"},
}
# The size at which costs are counted, that of GPT-2 small.
SIZE = {
    "model.dim": 768,
    "model.num_layers": 12,
    "model.attention.num_heads": 12,
    "model.vocab_size": 50257,
    "data.sequence_length": 1024,
}


@dataclass(frozen=True)
class Variant(Description):
    """One way to build a part of a model: a kind, or a setting of other fields.

    Attributes:
        name: in commands and file names.
        part: heading under which it is listed.
        chosen: the fields that choose it, also where that is the baseline's choice; empty for what
            every model of its baseline has.
    """

    name: str
    part: str
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def changes(self) -> Mapping[str, Any]:
        """The fields that turn its baseline into it; empty for a choice of the baseline itself."""
        baseline = BASELINES[self.baseline]
        defaults = {path: one.default for path, one in configs.BY_PATH.items() if path in self.chosen}
        return {
            **self.needs,
            **{
                path: value
                for path, value in self.chosen.items()
                if path not in defaults or value != baseline.get(path, defaults[path])
            },
        }


def has_page(kind: Kind) -> bool:
    """Returns whether a kind is a variant of a model's part, with a page."""
    return bool(KIND_TABLES[kind.path].part) and kind.description is not None


def of_kind(kind: Kind) -> Variant:
    """Returns the variant that a kind with a page is."""
    described = kind.description
    named = {
        "name": described.name or str(kind.name).replace("_", "-"),
        "part": described.part or KIND_TABLES[kind.path].part,
        "source": described.source or kind.code,
    }
    return Variant(chosen={kind.path: kind.name}, **{**vars(described), **named})


def is_architecture(variant: Variant) -> bool:
    """Returns whether a variant is an architecture, whose baseline is the decoder."""
    return "model.architecture" in variant.changes


def has_variant(flat: Mapping[str, Any], variant: Variant) -> bool:
    """Returns whether a config, or one of its sides or kinds of layers, has the variant.

    Numbers need not be those of the page: any window is a window.

    Args:
        flat: {path: value} of a config, resolved or not.
        variant: the variant.
    """
    wanted = {**variant.changes, **dict(variant.chosen)} or BASELINES[variant.baseline]
    whole = {path: value for path, value in flat.items() if path in configs.BY_PATH}
    # A window looks back in a decoder and to both sides in an encoder: two variants of one field.
    if "model.attention.window" in wanted and whole["model.architecture"] != _architecture(variant):
        return False
    parts = [whole, *(whole | scope for scope in scopes_in(dict(flat)).values())]
    # A variant of one kind of layers is present if any part of the model has it.
    plain = {path: value for path, value in wanted.items() if path in configs.BY_PATH}
    return all(
        any(all(_same(part, path, value) for path, value in changes.items()) for part in parts)
        for changes in (plain, *scopes_in(wanted).values())
    )


def _architecture(variant: Variant) -> str:
    return BASELINES[variant.baseline].get("model.architecture", "decoder")


def _same(part: Mapping[str, Any], path: str, value: Any) -> bool:
    found, default = part[path], configs.BY_PATH[path].default
    if path == "model.layers.pattern":
        return len(set(found)) > 1
    if path == "model.attention.keys_from":
        return bool(found) == bool(value)
    if path.endswith(("num_kv_heads", "num_query_heads", "cross_kv_heads")):
        heads = part["model.attention.num_heads"]
        return isinstance(found, int) and (found == 1 if value == 1 else 1 < found < heads)
    if path == "model.head.classes":
        return True  # The data set decides their number.
    if path in ("model.attention.num_heads", "model.attention.scale") or isinstance(value, bool | str):
        return found == value
    if isinstance(value, tuple):
        return bool(found)
    return (found == default) == (value == default)
