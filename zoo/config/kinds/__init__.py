"""Tables of kinds: the choices of the fields that pick an implementation, with what concerns each
choice alone. The field table (`zoo.config.fields`) collects their names and fields.
"""

from zoo.config.kinds.attention_kinds import ATTENTION_KINDS
from zoo.config.kinds.convolution_kinds import CONVOLUTION_KINDS
from zoo.config.kinds.description import Description, Paper
from zoo.config.kinds.feedforward_kinds import (
    ACTIVATIONS,
    FEED_FORWARD_KINDS,
    WIDTH_FIELDS,
    activation_of,
    hidden_width,
    unit_field,
    unit_kind,
)
from zoo.config.kinds.kind import Kind, KindTable, code_of
from zoo.config.kinds.norm_kinds import NORM_KINDS
from zoo.config.kinds.objective_kinds import OBJECTIVE_KINDS, is_prefix_decoder
from zoo.config.kinds.optimizer_kinds import OPTIMIZER_KINDS
from zoo.config.kinds.placement_kinds import PLACEMENT_KINDS
from zoo.config.kinds.position_kinds import POSITION_KINDS
from zoo.config.kinds.schedule_kinds import SCHEDULE_KINDS

__all__ = [
    "ACTIVATIONS",
    "ATTENTION_KINDS",
    "CONVOLUTION_KINDS",
    "FEED_FORWARD_KINDS",
    "KIND_TABLES",
    "NORM_KINDS",
    "OBJECTIVE_KINDS",
    "OPTIMIZER_KINDS",
    "PLACEMENT_KINDS",
    "POSITION_KINDS",
    "SCHEDULE_KINDS",
    "WIDTH_FIELDS",
    "Description",
    "Kind",
    "KindTable",
    "Paper",
    "activation_of",
    "code_of",
    "hidden_width",
    "is_prefix_decoder",
    "unit_field",
    "unit_kind",
]

KIND_TABLES: dict[str, KindTable] = {
    table.path: table
    for table in (
        NORM_KINDS,
        PLACEMENT_KINDS,
        POSITION_KINDS,
        ATTENTION_KINDS,
        CONVOLUTION_KINDS,
        FEED_FORWARD_KINDS,
        OBJECTIVE_KINDS,
        OPTIMIZER_KINDS,
        SCHEDULE_KINDS,
    )
}
