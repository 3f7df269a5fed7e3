"""Configs: the field table, validation, files and presets; imports neither JAX nor Flax."""

from zoo.config.distillation_configs import distilled, spaced_layers, teacher_config, without_teacher
from zoo.config.fields import ATTENTION_SUPPORT, AUTO, BY_PATH, FIELDS, GATED, NOT_RESULT_RELEVANT, Field
from zoo.config.finetuning_configs import finetuned, with_body_of
from zoo.config.hyperparameters import check_one_program, is_traced, program_key, traced_hyperparameters
from zoo.config.loading import (
    call_with_argument,
    import_file,
    load,
    override,
    override_fields,
    parse_argument,
    parse_overrides,
    split_spec,
)
from zoo.config.parameter_selection import LOGICAL_AXES, REST, ROLES, is_selected
from zoo.config.presets import shrink, sized
from zoo.config.resolve import (
    ResolvedConfig,
    default,
    difference,
    from_flat,
    identity,
    parse_value,
    resolve,
    resolve_fields,
    result_relevant,
    to_plain,
)
from zoo.config.scopes import GROUPS, derivable, field_at, known_paths, layer_kind, side, unknown_field

__all__ = [
    "ATTENTION_SUPPORT",
    "AUTO",
    "BY_PATH",
    "FIELDS",
    "GATED",
    "GROUPS",
    "LOGICAL_AXES",
    "NOT_RESULT_RELEVANT",
    "REST",
    "ROLES",
    "Field",
    "ResolvedConfig",
    "call_with_argument",
    "check_one_program",
    "default",
    "derivable",
    "difference",
    "distilled",
    "field_at",
    "finetuned",
    "from_flat",
    "identity",
    "import_file",
    "is_selected",
    "is_traced",
    "known_paths",
    "layer_kind",
    "load",
    "override",
    "override_fields",
    "parse_argument",
    "parse_overrides",
    "parse_value",
    "program_key",
    "resolve",
    "resolve_fields",
    "result_relevant",
    "shrink",
    "side",
    "sized",
    "spaced_layers",
    "split_spec",
    "teacher_config",
    "to_plain",
    "traced_hyperparameters",
    "unknown_field",
    "with_body_of",
    "without_teacher",
]
