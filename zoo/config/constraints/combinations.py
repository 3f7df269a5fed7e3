"""Checks whether the values of a config can be combined.

Each problem is one line that names the fields, says why, and what would work.
"""

from collections.abc import Iterator
from typing import Any

from zoo.config.constraints.attention_constraints import check_cross
from zoo.config.constraints.data_constraints import check_examples, check_offsets, check_stages, check_stored_tokens
from zoo.config.constraints.generator_constraints import check_generator
from zoo.config.constraints.group_constraints import check_groups, check_kinds
from zoo.config.constraints.layer_constraints import check_layers
from zoo.config.constraints.objective_constraints import check_objective
from zoo.config.constraints.parametrization_constraints import check_parametrization
from zoo.config.constraints.scope_constraints import check_scopes
from zoo.config.constraints.shared_key_constraints import check_shared_keys
from zoo.config.constraints.sharing_constraints import check_sharing
from zoo.config.constraints.task_constraints import check_task
from zoo.config.constraints.teacher_constraints import check_teacher
from zoo.config.constraints.training_constraints import check_training
from zoo.config.fields import TASKS
from zoo.config.scopes import SIDES, is_group


def validate_combination(
    flat: dict[str, Any], scopes: dict[str, dict[str, Any]], vocab_size: int | None
) -> Iterator[str]:
    """Yields the problems of a flat config whose `auto` values are derived.

    Args:
        flat: every field, without the scopes.
        scopes: overrides by scope.
        vocab_size: ids that the data need, or None where only the data know.
    """
    architecture = flat["model.architecture"]
    groups = {scope: changes for scope, changes in scopes.items() if is_group(scope)}
    scopes = {scope: changes for scope, changes in scopes.items() if scope not in groups}
    yield from check_groups(flat, groups)
    yield from check_kinds(flat, groups)
    yield from check_scopes(flat, scopes)
    yield from check_sharing(flat, scopes)
    yield from check_shared_keys(flat, scopes)
    if architecture == "elmo":
        yield from _check_elmo(flat)
    else:
        yield from check_cross(flat, scopes.get("model.decoder", {}))
        everywhere = list(check_layers(flat, architecture))
        yield from everywhere
        for scope, changes in scopes.items():
            if scope in SIDES and architecture != "encoder_decoder":
                continue
            lines = check_layers(flat | changes, scope.removeprefix("model.") if scope in SIDES else architecture)
            yield from (f"{scope}: {line}" for line in lines if line not in everywhere)
    yield from check_parametrization(flat, scopes | groups)
    yield from check_objective(flat, scopes)
    yield from check_generator(flat, scopes)
    yield from check_teacher(flat)
    yield from check_examples(flat)
    yield from check_stored_tokens(flat)
    yield from check_task(flat)
    yield from check_offsets(flat)
    yield from check_stages(flat)
    yield from check_training(flat, scopes, vocab_size)


def _check_elmo(flat: dict[str, Any]) -> Iterator[str]:
    filters = flat["model.elmo.filters"]
    if flat["model.elmo.layer_norm"] and flat["objective.kind"] not in TASKS:
        yield (
            f"model.elmo.layer_norm=True has no effect: objective.kind={flat['objective.kind']} reads only "
            "the last layer; leave it at False"
        )
    if flat["model.head.pooling"] in ("first", "last"):
        yield (
            f"model.head.pooling={flat['model.head.pooling']} selects a token that one direction of an ELMo reads "
            "without any context; set it to mean"
        )
    if len(filters) % 2:
        yield f"model.elmo.filters={filters} must be pairs: width, number, width, number, ..."
    if not filters:
        yield "model.elmo.filters is empty; it needs at least one pair: width, number"
    if any(width > flat["model.elmo.characters"] for width in filters[::2]):
        yield f"model.elmo.filters={filters} has a width above model.elmo.characters={flat['model.elmo.characters']}"
