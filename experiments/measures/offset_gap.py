"""Measure of claim P11, for `experiments/position_offsets.py`: the loss of rows that begin where no
row of training began.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from zoo import config as configs
from zoo import data, plugin
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training.evaluation.held_out import evaluate
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program


def midpoints(offsets: Sequence[int]) -> tuple[int, ...]:
    """Returns the positions half-way between neighbouring offsets."""
    return tuple((one + other) // 2 for one, other in itertools.pairwise(sorted(set(offsets))) if other > one + 1)


def offset_gap(measured: plugin.MeasuredRun) -> dict[str, float]:
    """Returns the loss half-way between the training offsets, minus that at the offsets, in nats.

    Raises:
        ConfigError: all training rows began at one position.
    """
    run = measured.trained
    if not (places := midpoints(run.config.data.position_offsets)):
        raise ConfigError(
            f"{measured.folder}: data.position_offsets={run.config.data.position_offsets} has no positions between "
            "its entries"
        )
    moved = configs.resolve(
        configs.override(run.config, {"data.position_offsets": places}), run.config.model.vocab_size
    )
    elsewhere = make_program(moved, make_model(moved), make_objective(moved, run.tokenizer), make_mesh(moved))
    dataset, multiple = data.load(run.config), run.program.data_parallel_size
    constants = run.program.constants(run.config.seed)
    losses = [
        evaluate(program, run.params, run.stats, dataset.evaluation_batches(multiple_of=multiple), constants)["loss"]
        for program in (elsewhere, run.program)
    ]
    return {"": losses[0] - losses[1]}


def why_not(flat: Mapping[str, Any]) -> str:
    """Returns why a run with this flat resolved config lacks the measure; empty if it has it."""
    if midpoints(flat["data.position_offsets"]):
        return ""
    return "it needs at least two data.position_offsets with positions between them"


plugin.register_measure(
    "offset_gap",
    plugin.Measure(
        "loss of held-out rows that begin half-way between neighbouring data.position_offsets, minus that of the "
        "same rows where training had them",
        False,
        "nats",
        initial=False,
        why_not=why_not,
    ),
    offset_gap,
)
