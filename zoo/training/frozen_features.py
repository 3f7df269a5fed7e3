"""Features of a frozen body: computed once for each training example, before the first step."""

import time
from collections.abc import Callable

import jax
import numpy as np

from zoo.data import LabelledDataset
from zoo.training.evaluation.held_out import Dataset
from zoo.training.state import State
from zoo.training.step import Program
from zoo.training.update import Constants

# Features of all examples are kept in host memory up to this size.
MAX_FEATURE_BYTES = 2 << 30


def precompute_features(
    program: Program, dataset: Dataset, state: State, constants: Constants, log: Callable[[str], None]
) -> Dataset:
    """Returns the data set with "features" in its training batches, if only the head is trained.

    The body runs as in evaluation (see `zoo.objectives.tasks.task`), so its features are the same
    in every step. Where they are too large to keep, the same data set is returned and the body runs
    in every step, with the same results.

    Args:
        program, dataset, state, constants: those of the run.
        log: called with each line of console output.
    """
    if program.features is None or not isinstance(dataset, LabelledDataset):
        return dataset
    start, features = time.monotonic(), None
    batches = dataset.rows_once(program.data_parallel_size, jax.process_index(), jax.process_count())
    for numbers, batch in batches:
        of_batch = program.features(state["params"], state["stats"], program.put_batch(batch), constants)
        if features is None:
            shape = dataset.features_shape(of_batch.shape)
            size = int(np.prod(shape)) * of_batch.dtype.itemsize
            if size > MAX_FEATURE_BYTES:
                log(
                    f"the body runs in every step: the features of {shape[0]:,} rows take {size / 1e9:.1f} GB, more "
                    f"than {MAX_FEATURE_BYTES / 1e9:.1f} GB"
                )
                return dataset
            features = np.zeros(shape, of_batch.dtype)
        rows = np.asarray(jax.device_get(of_batch))[: len(numbers)]
        if rows.shape[1:] == features.shape[1:]:
            features[numbers] = rows
        else:
            features[numbers, : rows.shape[1]] = rows
    log(f"features of {len(features):,} rows computed once, in {time.monotonic() - start:.1f} s")
    return dataset.with_features(features)
