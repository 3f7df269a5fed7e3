"""Every config field there is: its default, its type, its meaning and its allowed values.

This table is the only place where a field or a default is defined. Validation, `--help`, error
texts, `zoo describe` and the generated configs all read it. A module takes its own part of the
resolved config and re-declares nothing.
"""

from zoo.config.field import AUTO, Field, chosen
from zoo.config.field_table import FieldTable
from zoo.config.fields.attention_fields import ATTENTION_FIELDS
from zoo.config.fields.attention_support import ATTENTION_SUPPORT, AttentionSupport
from zoo.config.fields.conditions import (
    EMBEDDED_POSITIONS,
    GATED,
    IGNORED_BY,
    KIND_FIELDS,
    OBJECTIVES_OF,
    SEQUENCE_TASKS,
    SIDE_FIELDS,
    TASKS,
    group_fields,
)
from zoo.config.fields.convolution_fields import CONVOLUTION_FIELDS
from zoo.config.fields.data_fields import DATA_FIELDS
from zoo.config.fields.layer_fields import ELMO_FIELDS, FFN_FIELDS, GENERATOR_FIELDS, HEAD_FIELDS, INIT_FIELDS
from zoo.config.fields.objective_fields import OBJECTIVE_FIELDS
from zoo.config.fields.optimizer_fields import GROUP_ONLY_FIELDS, OPTIMIZER_FIELDS
from zoo.config.fields.position_fields import POSITION_FIELDS
from zoo.config.fields.stack_fields import NORM_FIELDS, STACK_FIELDS
from zoo.config.fields.training_fields import MESH_FIELDS, PLUGIN_FIELDS, SCHEDULE_FIELDS, SEED_FIELDS, TRAINING_FIELDS

__all__ = [
    "ATTENTION_SUPPORT",
    "AUTO",
    "BY_PATH",
    "EMBEDDED_POSITIONS",
    "FIELDS",
    "GATED",
    "GROUP_ONLY",
    "IGNORED_BY",
    "KIND_FIELDS",
    "NOT_RESULT_RELEVANT",
    "OBJECTIVES_OF",
    "SEQUENCE_TASKS",
    "SIDE_FIELDS",
    "TASKS",
    "AttentionSupport",
    "Field",
    "chosen",
    "group_fields",
    "has_condition",
]

FIELDS = FieldTable(
    *SEED_FIELDS,
    *PLUGIN_FIELDS,
    *STACK_FIELDS,
    *NORM_FIELDS,
    *POSITION_FIELDS,
    *ATTENTION_FIELDS,
    *CONVOLUTION_FIELDS,
    *FFN_FIELDS,
    *INIT_FIELDS,
    *HEAD_FIELDS,
    *GENERATOR_FIELDS,
    *ELMO_FIELDS,
    *OBJECTIVE_FIELDS,
    *DATA_FIELDS,
    *OPTIMIZER_FIELDS,
    *SCHEDULE_FIELDS,
    *TRAINING_FIELDS,
    *MESH_FIELDS,
)

BY_PATH = FIELDS.by_path
# Fields that exist only inside a scope (see `zoo.config.scopes`).
GROUP_ONLY: dict[str, Field] = {field.path: field for field in GROUP_ONLY_FIELDS}


def has_condition(field: Field) -> bool:
    """Returns whether a field has a `when` that not every choice meets."""
    if field.when is None:
        return False
    path, values = field.when
    choices = BY_PATH[path].choices
    return choices is None or any(name not in values for name in choices)


# Fields that do not change the result of a run and so are no part of its identity: where and how it
# runs and how often it reports.
NOT_RESULT_RELEVANT: tuple[str, ...] = (
    "data.hub.streaming",
    "data.hub.folder",
    "objective.chunk_tokens",
    "mesh.data",
    "mesh.fsdp",
    "mesh.expert",
    "mesh.tensor",
    "training.log_every",
    "training.dynamics_every",
    "training.eval_every",
    "training.translate_every",
    "training.checkpoint_every",
    "training.keep_checkpoints",
    "training.trackers",
    "training.allow_seen_text",
)
