"""Hyperparameters that a program takes as traced arguments, so that runs that differ only in these
share one program.

The compiled program depends on such a value only through whether it is 0: a 0 removes a term
(clipping, weight decay, dropout) from the program. In the fields of the schedule it removes nothing.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from zoo.config.fields import BY_PATH
from zoo.config.kinds import KIND_TABLES, OBJECTIVE_KINDS
from zoo.config.scopes import field_at, is_group, scoped, scopes_in, split_path, values_in
from zoo.errors import ConfigError
from zoo.nested import flatten

# The terms that layers add to the loss (`Context.add_loss`): by name, the field with the weight,
# which is below "model" and may be overridden in scopes.
LOSS_TERMS: dict[str, str] = {
    name: path
    for table in KIND_TABLES.values()
    for kind in table.by_name.values()
    for name, path in kind.loss_terms.items()
}


def loss_weight_paths(name: str, flat: Mapping[str, Any]) -> list[str]:
    """Returns the paths in a flat config at which the weight of a term is set: that of the whole
    model first, then those in scopes.
    """
    return [path for path in flat if _field_of(path) == LOSS_TERMS[name]]


def loss_weight_path(name: str, scope: str, flat: Mapping[str, Any]) -> str:
    """Returns the path in a flat config of the weight of a term that holds inside a scope, or in
    the whole model.
    """
    own = scoped(scope, LOSS_TERMS[name])
    return own if own in flat else LOSS_TERMS[name]


def used_loss_terms(flat: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the terms of the loss that have a weight in some part of the model.

    There is none where only the head is trained: no layer could follow its gradient.
    """
    if flat["training.trained_layers"] == 0:
        return ()
    return tuple(name for name in LOSS_TERMS if any(flat[path] for path in loss_weight_paths(name, flat)))


def declared_loss_terms(flat: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the terms of the loss that some part of the model computes, whatever their weights:
    those that the kinds in use declare. They are evaluated in every run, so that arms that differ in
    a weight have the same metrics.

    There is none where only the head is trained: the body may not run in an evaluation.
    """
    if flat["training.trained_layers"] == 0:
        return ()
    parts = [flat, *(values_in(scope, flat) for scope in scopes_in(flat) if not is_group(scope))]
    fields = {name: field for name, path in LOSS_TERMS.items() if (field := BY_PATH.get(path)) is not None}
    return tuple(name for name, field in fields.items() if any(field.is_read(part) for part in parts))


def _field_of(path: str) -> str:
    """Returns the field that a path sets, inside a scope or not."""
    return found[1] if (found := split_path(path)) else path


def is_dropout_rate(path: str) -> bool:
    """Returns whether a field is a dropout rate of the model."""
    return path.startswith("model.") and path.endswith(".dropout")


def is_random_rate(path: str) -> bool:
    """Returns whether random numbers are drawn in training where a field is above 0: it is a dropout
    rate, or the jitter or noise of a router.
    """
    return is_dropout_rate(path) or (path.startswith("model.") and path.endswith((".jitter", ".noise")))


def is_traced(path: str) -> bool:
    """Returns whether a program takes the value of a field as an argument.

    These are the fields of the table that say so (`Field.traced`), in a group of parameters too;
    dropout rates; and the weights of terms of the loss (`LOSS_TERMS`).
    """
    field = field_at(path) if path in BY_PATH or is_group(path) else None
    return (field is not None and field.traced) or is_dropout_rate(path) or _field_of(path) in LOSS_TERMS.values()


def traced_hyperparameters(flat: Mapping[str, Any]) -> dict[str, float]:
    """Returns {path: value} of the traced hyperparameters of a flat config, in its order."""
    return {path: float(value) for path, value in flat.items() if is_traced(path)}


# Fields that change the values in batches or the initial state of a run, but neither its program
# nor the shape of a batch.
BATCH_FIELDS = (
    "seed",
    "training.start_from",
    "training.start_layers",
    "data.training_fraction",
    "objective.mask_token_fraction",
    "objective.random_token_fraction",
    "objective.mask_copies",
    "objective.rare_token_exponent",
)


def batch_key(flat: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns what runs of one program must also have in common to have the same training batches.

    Args:
        flat: flat values of a resolved config.
    """
    fields = (*BATCH_FIELDS, "objective.select_fraction")
    return tuple(flat[path] for path in fields if path in flat and not path.startswith("training.start_"))


def held_out_key(flat: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns what runs of one program must also have in common to have the same evaluation batches.

    Args:
        flat: flat values of a resolved config.
    """
    fields = ["objective.select_fraction"]
    if flat.get("training.eval_masks") != "all":
        fields += ["objective.mask_token_fraction", "objective.random_token_fraction"]
    return tuple(flat[path] for path in fields if path in flat)


def program_key(flat: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Returns what runs must have in common to be trained by one program in one loop.

    They may differ in their seed, in traced hyperparameters, in the run that they start from, and
    in fields that only change the tokens of a batch. Where batches have several widths, whose order
    depends on the seed, they may differ only in traced hyperparameters.

    Args:
        flat: flat values of a resolved config.
    """
    tokens = flat["objective.kind"] not in OBJECTIVE_KINDS.having("examples")
    key = dict(flat)
    for path in flat:
        if is_traced(path):
            key[path] = bool(flat[path]) or path.startswith("schedule.")
        elif (tokens and path in BATCH_FIELDS) or path.startswith("training.start_"):
            del key[path]
    if tokens and "objective.select_fraction" in key:
        # The number of masked positions of a row that `zoo.data.rows.masking` chooses.
        key["objective.select_fraction"] = max(
            1, math.floor(flat["objective.select_fraction"] * flat["data.sequence_length"] + 0.5)
        )
    return tuple(key.items())


def check_one_program(resolved: Sequence[Any], names: Sequence[Any]) -> None:
    """Refuses configs that cannot share one program.

    Args:
        resolved: the configs.
        names: their names, for the message.

    Raises:
        ConfigError: one line for each config that differs from the first, with the fields.
    """
    first, *others = (dict(program_key(flatten(one))) for one in resolved)
    problems = []
    for name, other in zip(names[1:], others, strict=True):
        if differing := [path for path in first | other if first.get(path) != other.get(path)]:
            problems.append(
                f"{name} cannot train with {names[0]} as one program: they differ in {', '.join(differing)}"
            )
    if problems:
        raise ConfigError(problems)
