"""Faults in the loop, the update, the optimizer, checkpoints, the mesh and populations."""

from tests.mutants.mutant import Mutant

ACCUMULATION, SHARDING = "zoo/training/accumulation.py", "zoo/layers/activation_sharding.py"
SHARDED_TESTS = ("tests/training/sharding/test_sharded_programs.py",)
LOOP, RUN_GROUP = "zoo/training/loop.py", "zoo/training/run_group.py"
UPDATE, OPTIMIZER = "zoo/training/update.py", "zoo/training/optimization/optimizer.py"
SCHEDULES, MUON = "zoo/training/optimization/schedules.py", "zoo/training/optimization/muon.py"
ADAFACTOR, RULES = "zoo/training/optimization/adafactor.py", "zoo/training/optimization/update_rules.py"
DECAY = "zoo/training/optimization/weight_decay.py"
LAMB, MOMENTUM = "zoo/training/optimization/lamb.py", "zoo/training/optimization/momentum.py"
RULE_TESTS = ("tests/training/optimization/test_update_rules.py",)
DECAY_TESTS = ("tests/training/optimization/test_weight_decay.py",)
EVALUATION, MESH = "zoo/training/evaluation/held_out.py", "zoo/training/mesh.py"
INTEGRITY, CHECKPOINT = "zoo/training/checkpoints/integrity.py", "zoo/training/checkpoints/checkpoint.py"
EXECUTOR, STREAMS = "zoo/training/population/population_executor.py", "zoo/training/population/batch_streams.py"
RUN_TESTS, STEP_TESTS = ("tests/training/test_run.py",), ("tests/training/test_step.py",)
GROUP_TESTS = ("tests/training/optimization/test_parameter_groups.py",)
MUON_TESTS = ("tests/training/optimization/test_muon.py",)
OPTIMIZER_TESTS, MESH_TESTS = (
    ("tests/training/optimization/test_optimizer.py",),
    ("tests/training/sharding/test_mesh.py",),
)
CHECKPOINT_TESTS = ("tests/training/checkpoints/test_checkpoint.py",)
POPULATION_TESTS = ("tests/training/test_population.py",)

MUTANTS = (
    Mutant("loop: no evaluation at the end", RUN_GROUP, "due = step == training.steps or (", "due = (", RUN_TESTS),
    Mutant("loop: nothing is saved at the end", LOOP, "last or is_multiple(", "is_multiple(", RUN_TESTS),
    Mutant("loop: a stop does not save", LOOP, "if save or stop.requested:", "if save:", RUN_TESTS),
    Mutant(
        "loop: metrics have the previous step number",
        RUN_GROUP,
        "Dispatched(batch.step + 1, ",
        "Dispatched(batch.step, ",
        RUN_TESTS,
    ),
    Mutant(
        "loop: the last metrics are lost",
        LOOP,
        '                previous = run.pause(previous)\n                stop.doing = "compiling"',
        '                previous, stop.doing = None, "compiling"',
        ("tests/training/test_run.py", "tests/training/test_dynamics.py"),
    ),
    Mutant(
        "resume: batches start again from the first",
        RUN_GROUP,
        "self._batches.take(step, active)",
        "self._batches.take(step - min(run.start_step for run in self._runs), active)",
        RUN_TESTS,
    ),
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
        "update: dropout is the same in every step",
        UPDATE,
        "key = jax.random.fold_in(jax.random.key(seed, impl=generator), step)",
        "key = jax.random.fold_in(jax.random.key(seed, impl=generator), 0)",
        STEP_TESTS,
    ),
    Mutant(
        "accumulation: microbatches are normalised separately",
        UPDATE,
        "return sum_of_means(losses, normalizers), (",
        "return sum_of_means(losses, objective.all_normalizers(part)), (",
        STEP_TESTS,
    ),
    Mutant(
        "accumulation: statistics of the last microbatch are lost",
        ACCUMULATION,
        "(jax.tree.map(jnp.add, total, (loss, sums, gradient)), stats), None",
        "(jax.tree.map(jnp.add, total, (loss, sums, gradient)), carry[1]), None",
        STEP_TESTS,
    ),
    Mutant(
        "freezing: decay moves frozen parameters",
        UPDATE,
        "return mask_updates(updates, self._mask), optimizer_state",
        "return updates, optimizer_state",
        ("tests/training/test_freezing.py",),
    ),
    Mutant("schedule: counts from 0", SCHEDULES, "update = count + 1", "update = count", OPTIMIZER_TESTS),
    Mutant(
        "schedule: half a cosine",
        SCHEDULES,
        "jnp.cos(jnp.pi * step.since / step.remaining)",
        "jnp.cos(jnp.pi / 2 * step.since / step.remaining)",
        OPTIMIZER_TESTS,
    ),
    Mutant(
        "Muon: stacked layers are one matrix", MUON, "norm(x, axis=(-2, -1), keepdims", "norm(x, keepdims", MUON_TESTS
    ),
    Mutant("Muon: inverted aspect ratio", MUON, "outputs / inputs", "inputs / outputs", MUON_TESTS),
    Mutant("Muon: a head is every n-th column", MUON, "number, -1), -2, -3)", "-1, number), -1, -3)", MUON_TESTS),
    Mutant(
        "LAMB: stacked layers are one matrix", LAMB, "= axes_of(path)", "= tuple(range(-parameter.ndim, 0))", RULE_TESTS
    ),
    Mutant(
        "Adam: bias correction assumes a constant decay",
        MOMENTUM,
        "product = state.product * now",
        "product = now**count",
        RULE_TESTS,
    ),
    Mutant("Muon: plain momentum", MUON, "jax.tree.map(averaged, momentum, gradient)", "momentum", MUON_TESTS),
    Mutant("AdamW: vectors decay", OPTIMIZER, "ndim >= 2", "ndim >= 1", OPTIMIZER_TESTS),
    Mutant(
        "groups: rate factors are ignored",
        OPTIMIZER,
        "lambda count: factor * schedule(count)",
        "lambda count: schedule(count)",
        GROUP_TESTS,
    ),
    Mutant(
        "groups: hyperparameters of groups are ignored", OPTIMIZER, "values_in(scope, values)", "values", GROUP_TESTS
    ),
    Mutant(
        "groups: biases never decay",
        OPTIMIZER,
        'None if "optimizer.weight_decay" in scopes.get(scope, {}) else matrices',
        "matrices",
        GROUP_TESTS,
    ),
    Mutant(
        "groups: the last matching group wins",
        "zoo/models/parameter_groups.py",
        "fitting[0] if fitting",
        "fitting[-1] if fitting",
        ("tests/models/test_parameter_groups.py",),
    ),
    Mutant(
        "AdamW: decay before clipping",
        OPTIMIZER,
        'if static["optimizer.clip_norm"]:\n        stages',
        'if static["optimizer.clip_norm"] < 0:\n        stages',
        OPTIMIZER_TESTS,
    ),
    Mutant(
        "evaluation: mean of the batches' means",
        EVALUATION,
        "np.sum([np.float64(sums[name]) for sums",
        "np.mean([np.float64(sums[name] / max(sums['weight'], 1)) for sums",
        ("tests/training/test_run.py", "tests/cli/test_single.py"),
    ),
    Mutant(
        "evaluation: bits are nats",
        EVALUATION,
        'ratio("loss", "bytes") / float(np.log(2))',
        'ratio("loss", "bytes") / 1.0',
        ("tests/training/test_run.py", "tests/cli/test_single.py"),
    ),
    Mutant("mesh: tensor axis unused", MESH, '"mlp": TENSOR_AXIS', '"mlp": None', MESH_TESTS),
    Mutant("mesh: rows are not split", MESH, "PartitionSpec(BATCH_AXES)", "PartitionSpec()", MESH_TESTS),
    Mutant(
        "mesh: activations are not constrained",
        SHARDING,
        "        return self._constrained(x, self.batch_axes)",
        "        return x",
        SHARDED_TESTS,
    ),
    Mutant(
        "mesh: gradients are reduced for every microbatch",
        ACCUMULATION,
        "if mesh is None or parts == 1 or mesh.shape[DATA_AXIS] == 1:",
        "if True:",
        SHARDED_TESTS,
    ),
    Mutant(
        "mesh: head gradients are reduced for every chunk",
        "zoo/objectives/cross_entropy.py",
        "static = _Static(prediction.softcap, 0.0, chunk_tokens, sharding, prediction.ids)",
        "static = _Static(prediction.softcap, 0.0, chunk_tokens, None, prediction.ids)",
        SHARDED_TESTS,
    ),
    Mutant(
        "checkpoints: changed bytes pass",
        INTEGRITY,
        "if found[name] != digest:",
        "if found[name] is None:",
        CHECKPOINT_TESTS,
    ),
    Mutant("checkpoints: missing files pass", INTEGRITY, "if name not in found:", "if name is None:", CHECKPOINT_TESTS),
    Mutant(
        "checkpoints: a garbled manifest passes",
        INTEGRITY,
        'return "its manifest is not JSON"',
        "return None",
        CHECKPOINT_TESTS,
    ),
    Mutant(
        "checkpoints: the worst is kept instead of the best",
        CHECKPOINT,
        "reverse=True",
        "reverse=False",
        CHECKPOINT_TESTS,
    ),
    Mutant(
        "checkpoints: NaN counts as a score",
        CHECKPOINT,
        'if metrics is not None and not math.isfinite(metrics["eval/loss"]):',
        "if False:",
        CHECKPOINT_TESTS,
    ),
    Mutant(
        "populations: all runs read the first one's batch",
        STREAMS,
        "np.stack([batch[name] for batch in batches])",
        "np.stack([first[name] for batch in batches])",
        POPULATION_TESTS,
    ),
    Mutant(
        "populations: inactive runs go on",
        EXECUTOR,
        "jax.lax.cond(run[1], compute, skip, run[0])",
        "compute(run[0])",
        POPULATION_TESTS,
    ),
    Mutant(
        "populations: all runs have the first one's seed",
        EXECUTOR,
        "for constant in constants]",
        "for constant in [constants[0]] * len(constants)]",
        POPULATION_TESTS,
    ),
    Mutant(
        "adafactor: a stack of layers is clipped as one",
        ADAFACTOR,
        "axes_of = layer_axes(traits)",
        "axes_of = lambda path: tuple(range(-len(layer_axes(traits)(path)) - 1, 0))",
        RULE_TESTS,
    ),
    Mutant(
        "adafactor: rows are not relative to their mean",
        ADAFACTOR,
        "relative = rows / rows.mean(-1, keepdims=True)",
        "relative = rows",
        RULE_TESTS,
    ),
    Mutant(
        "ademamix: counts from 0",
        RULES,
        "(count + 1) / jnp.maximum(warmup, 1)",
        "count / jnp.maximum(warmup, 1)",
        RULE_TESTS,
    ),
    Mutant("nadamw: no Nesterov momentum", RULES, ", nesterov=True)", ")", RULE_TESTS),
    Mutant(
        "decay: cautious decay has the wrong sign",
        DECAY,
        "direction * parameter >= 0",
        "direction * parameter < 0",
        DECAY_TESTS,
    ),
    Mutant(
        "decay: not divided by the learning rate",
        DECAY,
        'decay = decay / values["optimizer.learning_rate"]',
        "decay = decay",
        DECAY_TESTS,
    ),
    Mutant(
        "checkpoint: dtypes are compared by order instead of path",
        "zoo/training/checkpoints/tree_differences.py",
        "{path: str(leaf.dtype) for path, leaf in _leaves(tree).items()}",
        "{str(place): str(leaf.dtype) for place, leaf in enumerate(jax.tree.leaves(tree))}",
        CHECKPOINT_TESTS,
    ),
)
