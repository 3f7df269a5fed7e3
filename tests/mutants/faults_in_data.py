"""Faults in the order of data, rows, corruption and sampling."""

from tests.mutants.mutant import Mutant

ROWS, MASKING, BATCHES = "zoo/data/rows/packed_rows.py", "zoo/data/rows/masking.py", "zoo/data/pipeline/batches.py"
ROW_TESTS, MASKING_TESTS = ("tests/data/rows/test_rows.py",), ("tests/data/rows/test_masking.py",)
PIPELINE_TESTS, SAMPLING_TESTS = ("tests/data/pipeline/test_pipeline.py",), ("tests/decoding/test_choosing.py",)

MUTANTS = (
    Mutant(
        "order: adjacent seeds share epochs",
        ROWS,
        "np.random.SeedSequence((seed, epoch))",
        "np.random.SeedSequence(seed + epoch)",
        PIPELINE_TESTS,
    ),
    Mutant(
        "rows: a row repeats its neighbour's first token",
        ROWS,
        "np.asarray(indices)[:, None] * self.length + np.arange",
        "np.asarray(indices)[:, None] * (self.length - 1) + np.arange",
        ROW_TESTS,
    ),
    Mutant(
        "processes: all read the first slice",
        BATCHES,
        "return slice(process_index * size, (process_index + 1) * size)",
        "return slice(0, size)",
        PIPELINE_TESTS,
    ),
    Mutant(
        "resume: batches start at 0",
        BATCHES,
        "set_next_index(iterator, start_step)",
        "set_next_index(iterator, 0)",
        PIPELINE_TESTS,
    ),
    Mutant(
        "masking: depends on the index in the batch",
        MASKING,
        "epochs % self.copies if self.copies else epochs, indices)",
        "epochs % self.copies if self.copies else epochs, np.arange(len(indices)))",
        MASKING_TESTS,
    ),
    Mutant(
        "masking: one token too few",
        MASKING,
        "np.floor(self.select_fraction * tokens + 0.5)",
        "np.floor(self.select_fraction * tokens)",
        MASKING_TESTS,
    ),
    Mutant(
        "sampling: top-p ignores top-k",
        "zoo/decoding/sampling.py",
        "jax.nn.softmax(jnp.where(kept, logits, -jnp.inf), axis=-1)",
        "jax.nn.softmax(logits, axis=-1)",
        SAMPLING_TESTS,
    ),
)
