"""Lets runs with equal configs share their compiled programs, as the arms of a sweep share the
compilation cache.
"""

import contextlib
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from zoo import config as configs
from zoo.layers.platform import ROWS_FROM
from zoo.nested import flatten
from zoo.training import program_cache, step, trained_run

ORIGINAL, JIT, PROGRAMS = step.make_program, jax.jit, {}
# Compiled programs do not depend on these: the seed and hyperparameters are arguments, and the text
# only changes the batches.
IRRELEVANT = {*configs.NOT_RESULT_RELEVANT, "seed", "data.source", "data.held_out"} - {"objective.chunk_tokens"}
IRRELEVANT |= {"training.start_from", "training.start_layers"}


def shared_program(config, model, objective, mesh, rows_from=ROWS_FROM):
    """Returns the program of the first run with an equal config, objective, teacher and mesh that
    was compiled with the same `jax.jit`.
    """
    if jax.jit is not JIT:
        return ORIGINAL(config, model, objective, mesh, rows_from)
    fields = tuple(
        (path, bool(value) if configs.is_traced(path) else value)
        for path, value in flatten(config).items()
        if path not in IRRELEVANT and not path.startswith("data.tokenizer.")
    )
    ids = tuple((name, value) for name, value in vars(objective).items() if isinstance(value, int | str))
    tables = tuple((name, np.asarray(table).tobytes()) for name, table in objective.constants.items())
    # A program holds the weights of its teacher.
    teacher = Path(config.objective.distillation.teacher or "/nowhere").rglob("*")
    key = fields, ids, tables, mesh, rows_from, tuple(sorted((path, path.stat().st_mtime_ns) for path in teacher))
    if key not in PROGRAMS:
        PROGRAMS[key] = ORIGINAL(config, model, objective, mesh, rows_from)
    constants = PROGRAMS[key].constants
    # Without its config a run would train with the hyperparameters of the first run.
    return replace(PROGRAMS[key], constants=lambda seed, of=None: constants(seed, config if of is None else of))


@contextlib.contextmanager
def share_programs():
    """Makes `zoo.training` share programs inside the context."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (program_cache, trained_run):
            patch.setattr(module, "make_program", shared_program)
        yield
