"""Losses of a trained run where it was not trained, minus its loss where it was."""

from pathlib import Path

import ml_collections

from zoo import config as configs
from zoo import data
from zoo.data.rows.token_streams import cached_streams
from zoo.data.sources.source import read_documents
from zoo.errors import ConfigError
from zoo.lab.measures import midpoints
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training.evaluation.held_out import evaluate
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program
from zoo.training.trained_run import TrainedRun


def gap_between_offsets(run: TrainedRun, folder: Path) -> float:
    """Returns the loss half-way between the training offsets, minus that at the offsets.

    Raises:
        ConfigError: all training rows began at one position.
    """
    if not (places := midpoints(run.config.data.position_offsets)):
        raise ConfigError(
            f"{folder}: data.position_offsets={run.config.data.position_offsets} has no positions between its entries"
        )
    moved = configs.resolve(
        configs.override(run.config, {"data.position_offsets": places}), run.config.model.vocab_size
    )
    elsewhere = make_program(moved, make_model(moved), make_objective(moved, run.tokenizer), make_mesh(moved))
    dataset = data.load(run.config)
    losses = [
        evaluate(
            program,
            run.params,
            run.stats,
            dataset.evaluation_batches(multiple_of=run.program.data_parallel_size),
            run.program.constants(run.config.seed),
        )["loss"]
        for program in (elsewhere, run.program)
    ]
    return losses[0] - losses[1]


def gap_to_code(run: TrainedRun) -> float:
    """Returns the loss on held-out code of Python's standard library, minus that on the run's text.

    Both are the losses of `training.eval_batches` batches, with the run's own tokenizer and, with
    BatchNorm, its running statistics.
    """
    settings = ml_collections.ConfigDict({**run.config.data, "source": "stdlib"})
    code = read_documents(settings).split(run.config.data.validation_fraction)[1]
    batching, multiple = data.Batching(run.config, run.tokenizer), run.program.data_parallel_size
    streams = cached_streams(run.tokenizer, {"validation": code}, batching.with_sentences)
    constants = run.program.constants(run.config.seed)
    losses = [
        evaluate(run.program, run.params, run.stats, batches, constants)["loss"]
        for batches in (
            batching.evaluation([streams["validation"]], multiple_of=multiple),
            data.load(run.config).evaluation_batches(multiple_of=multiple),
        )
    ]
    return losses[0] - losses[1]
