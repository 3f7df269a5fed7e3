"""Faults in the loop, the update, the optimizer, checkpoints, the mesh and populations."""

from tests.mutants.mutant import Mutant

LOOP, UPDATE, OPTIMIZER = "zoo/training/loop.py", "zoo/training/update.py", "zoo/training/optimization/optimizer.py"
EVALUATION, MESH = "zoo/training/evaluation/held_out.py", "zoo/training/mesh.py"
INTEGRITY = "zoo/training/checkpoints/integrity.py"
STREAMS = "zoo/training/population/batch_streams.py"
RUN_TESTS, STEP_TESTS = ("tests/training/test_run.py",), ("tests/training/test_step.py",)
OPTIMIZER_TESTS, MESH_TESTS = (
    ("tests/training/optimization/test_optimizer.py",),
    ("tests/training/sharding/test_mesh.py",),
)
CHECKPOINT_TESTS = ("tests/training/checkpoints/test_checkpoint.py",)
POPULATION_TESTS = ("tests/training/test_population.py",)
CONSTRAINT_TESTS = ("tests/training/optimization/test_constraint.py",)

MUTANTS = (
    Mutant(
        "unit norm: not at the start",
        "zoo/training/state.py",
        "params, stats = constrained(config, model, initialise(model, seed)), initialise_statistics(model, seed)",
        "params, stats = initialise(model, seed), initialise_statistics(model, seed)",
        CONSTRAINT_TESTS,
    ),
    Mutant(
        "unit norm: along the other dimension",
        "zoo/training/optimization/constraint.py",
        "unit_vectors(leaf, axis)",
        "unit_vectors(leaf, -3 - axis)",
        CONSTRAINT_TESTS,
    ),
    Mutant(
        "unit norm: not after updates",
        OPTIMIZER,
        'steps.append(("constraint", unit_norm(traits)))',
        "pass",
        CONSTRAINT_TESTS,
    ),
    Mutant("loop: a stop does not save", LOOP, "if save or stop.requested:", "if save:", RUN_TESTS),
    Mutant(
        "resume: the token count is reset",
        "zoo/training/training_run.py",
        '"tokens": self.progress.tokens,\n            "seconds"',
        '"tokens": 0,\n            "seconds"',
        RUN_TESTS,
    ),
    Mutant(
        "update: a diverged update is applied",
        UPDATE,
        "new = jax.tree.map(lambda after, before: jnp.where(finite, after, before), new, state)",
        "new = dict(new)",
        STEP_TESTS,
    ),
    Mutant(
        "accumulation: microbatches are normalised separately",
        UPDATE,
        "return sum_of_means(losses, normalizers), (",
        "return sum_of_means(losses, objective.all_normalizers(part)), (",
        STEP_TESTS,
    ),
    Mutant("AdamW: vectors decay", "zoo/models/functional.py", "ndim >= 2 and", "ndim >= 1 and", OPTIMIZER_TESTS),
    Mutant(
        "evaluation: mean of the batches' means",
        EVALUATION,
        "np.sum([np.float64(sums[name]) for sums",
        "np.mean([np.float64(sums[name] / max(sums['weight'], 1)) for sums",
        ("tests/training/test_run.py", "tests/cli/test_single.py"),
    ),
    Mutant("mesh: rows are not split", MESH, "PartitionSpec(BATCH_AXES)", "PartitionSpec()", MESH_TESTS),
    Mutant(
        "checkpoints: changed bytes pass",
        INTEGRITY,
        "if found[name] != digest:",
        "if found[name] is None:",
        CHECKPOINT_TESTS,
    ),
    Mutant(
        "populations: all runs read the first one's batch",
        STREAMS,
        "np.stack([batch[name] for batch in batches])",
        "np.stack([first[name] for batch in batches])",
        POPULATION_TESTS,
    ),
)
