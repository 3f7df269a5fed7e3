"""Numbers of a config that a program takes as arguments, so that runs which differ in nothing else
share one program.

A program depends on whether such a number is 0, where that leaves a part out, and on nothing else
of it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from zoo.config.fields import TASKS
from zoo.errors import ConfigError
from zoo.nested import flatten

# Beside these, every dropout rate there is. Those of the schedule leave nothing out where they are
# 0.
TRACED = (
    "optimizer.learning_rate",
    "optimizer.weight_decay",
    "optimizer.beta1",
    "optimizer.beta2",
    "optimizer.epsilon",
    "optimizer.clip_norm",
    "schedule.warmup_steps",
    "schedule.final_fraction",
    "objective.label_smoothing",
    "objective.z_loss",
    "objective.distillation.kl",
    "objective.distillation.temperature",
)


def is_dropout_rate(path: str) -> bool:
    """Whether a field is a dropout rate of a model."""
    return path.startswith("model.") and path.endswith(".dropout")


def is_traced(path: str) -> bool:
    """Whether a program takes the field's value as an argument."""
    return path in TRACED or is_dropout_rate(path)


def traced_hyperparameters(flat: Mapping[str, Any]) -> dict[str, float]:
    """{path: value} of the numbers in a flat config, in its order."""
    return {path: float(value) for path, value in flat.items() if is_traced(path)}


# What changes the values in batches or the first state of a run, but neither its program nor the
# shape of a batch.
BATCH_FIELDS = (
    "seed",
    "training.start_from",
    "training.start_layers",
    "data.training_fraction",
    "objective.mask_fraction",
    "objective.random_fraction",
    "objective.mask_copies",
)


def program_key(flat: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What runs have to have in common to be trained by one program, in one loop with the same
    cadences.

    They may differ in their seed, in numbers, in whose parameters they start from, and in what only
    changes the tokens of a batch. Where batches are of several widths, which of them comes when
    depends on the seed, and they may differ in numbers alone.

    Args:
        flat: of a resolved config.
    """
    tokens = flat["objective.kind"] not in (*TASKS, "translation")
    key = dict(flat)
    for path in flat:
        if is_traced(path):
            key[path] = bool(flat[path]) or path.startswith("schedule.")
        elif (tokens and path in BATCH_FIELDS) or path.startswith("training.start_"):
            del key[path]
    if tokens and "objective.select_fraction" in key:
        # As many places of a row as `zoo.data.rows.masking` makes.
        key["objective.select_fraction"] = max(
            1, math.floor(flat["objective.select_fraction"] * flat["data.sequence_length"] + 0.5)
        )
    return tuple(key.items())


def check_one_program(resolved: Sequence[Any], names: Sequence[Any]) -> None:
    """Refuses configs that are not of one program.

    Args:
        resolved: the configs.
        names: what each is called.

    Raises:
        ConfigError: a line for each that differs from the first, with what differs.
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
