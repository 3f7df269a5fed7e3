"""Configs of a chosen size: sizes that a model does not read are left out."""

from collections.abc import Mapping
from typing import Any

from zoo.config.fields import FIELDS, IGNORED_BY
from zoo.config.loading import override_fields
from zoo.config.resolve import resolve_fields
from zoo.config.scopes import field_at

# The size at which shapes are read. No two dimensions are equal, so that a number has one letter.
SHAPES = {
    "model.dim": 40,
    "model.num_layers": 4,
    "model.attention.num_heads": 12,
    "model.attention.head_dim": 8,
    "model.attention.value_gate_channels": 10,
    "model.ffn.hidden_dim": 160,
    "model.vocab_size": 500,
    "data.sequence_length": 28,
}


def resolved_fields(changes: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the flat resolved config of the default with changes and the sizes that it reads.

    Raises:
        ConfigError: the changes are refused.
    """
    unread = IGNORED_BY.get(changes.get("model.architecture", ""), ())
    defaults = {field.path: field.default for field in FIELDS}
    read = {
        path: value
        for path, value in sizes.items()
        if not path.startswith(unread) and field_at(path).is_read(defaults | dict(changes))
    }
    return resolve_fields(override_fields(defaults, {**read, **changes}))
