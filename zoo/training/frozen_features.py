"""Of a body that is not trained, what the head reads of each training example: computed once,
before the first step.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from zoo.data import LabelledDataset
from zoo.training.step import Program, State

# Bytes of all examples' features up to which they are kept in the host's memory.
LIMIT = 2 << 30


def with_features(
    program: Program, dataset: Any, state: State, constants: Any, rows: int, log: Callable[[str], None]
) -> Any:
    """The data set whose training batches have "features" beside their tokens, where the head alone
    is trained; else the same one.

    The body runs as in evaluation (see `zoo.objectives.tasks.task`), so that these are what it
    would give in every step. Where they are too large to keep, it does run in every step, with the
    same results.

    Args:
        program, state, constants: of the run.
        dataset: the run's.
        rows: a batch's rows must be a multiple of this.
        log: takes a line for people.
    """
    if program.features is None or not isinstance(dataset, LabelledDataset):
        return dataset
    begun, made, batches = time.monotonic(), None, dataset.rows_once(rows, jax.process_index(), jax.process_count())
    for numbers, batch in batches:
        found = program.features(state["params"], state["stats"], program.put_batch(batch), constants)
        if made is None:
            shape = dataset.features_shape(found.shape)
            size = int(np.prod(shape)) * found.dtype.itemsize
            if size > LIMIT:
                log(
                    f"the body runs in every step: what the head reads of {shape[0]:,} rows takes {size / 1e9:.1f} GB, more than "
                    f"{LIMIT / 1e9:.1f} GB"
                )
                return dataset
            made = np.zeros(shape, found.dtype)
        part = np.asarray(jax.device_get(found))[: len(numbers)]
        if part.shape[1:] == made.shape[1:]:
            made[numbers] = part
        else:
            made[numbers, : part.shape[1]] = part
    log(f"the body has read {len(made):,} rows, once and for all, in {time.monotonic() - begun:.1f} s")
    return dataset.with_features(made)
