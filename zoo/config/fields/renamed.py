"""Fields that have another name now; the old name is refused with the new one."""

from collections.abc import Mapping
from typing import Any

RENAMED = {
    "model.position.values": "model.position.relative_values",
    "model.attention.kernel": "model.attention.implementation",
    "model.elmo.normalise_layers": "model.elmo.layer_norm",
    "data.rows": "data.row_format",
    "data.offsets": "data.position_offsets",
    "objective.mask_fraction": "objective.mask_token_fraction",
    "objective.random_fraction": "objective.random_token_fraction",
    "optimizer.muon_warmup": "optimizer.momentum_warmup",
}
# Their values that changed nothing: the config of a run that was stored with one is read without it.
WITHOUT_EFFECT = {"optimizer.muon_warmup": 0}


def without_unused(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a stored flat config without the renamed fields that changed nothing in its run."""
    return {path: value for path, value in flat.items() if path not in WITHOUT_EFFECT or value != WITHOUT_EFFECT[path]}
