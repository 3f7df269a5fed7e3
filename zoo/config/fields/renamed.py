"""Fields that have another name now; the old name is refused with the new one."""

RENAMED = {
    "model.position.values": "model.position.relative_values",
    "model.attention.kernel": "model.attention.implementation",
    "model.elmo.normalise_layers": "model.elmo.layer_norm",
    "data.rows": "data.row_format",
}
