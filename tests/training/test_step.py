"""The train step: accumulation, divergence, buffer donation, and what it must not depend on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import by_default, compiled, random_values
from tests.support.shared_programs import shared_program
from tests.support.small_runs import OBJECTIVES, small
from zoo import config as configs
from zoo.checks import Subject, training_steps
from zoo.checks.batches import batch_of, ragged_rows
from zoo.config.kinds import ATTENTION_KINDS
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.files import write_json
from zoo.layers.attention import softmax_attention
from zoo.layers.attention.kernels.products import KERNELS
from zoo.layers.context import DropoutKey
from zoo.layers.platform import ROWS_FROM
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.objectives import make_objective
from zoo.objectives.objective import ForwardMode
from zoo.training.accumulation import accumulate_gradients, accumulation_parts
from zoo.training.mesh import make_mesh
from zoo.training.records.resume_checks import recorded_rows_from
from zoo.training.records.run_folder import RunFolder
from zoo.training.step import fast_compilation, make_program
from zoo.training.update import uses_dropout


def program_of(**overrides):
    config = configs.resolve(small(**overrides))
    return shared_program(
        config, make_model(config), make_objective(config, ByteTokenizer()), make_mesh(config, jax.devices()[:1])
    )


def ragged_batch():
    return {"tokens": ragged_rows()}


def one_step(program, batch, seed=0):
    return program.train_step(program.initial_state(seed), program.put_batch(batch), program.constants(seed))


@pytest.mark.parametrize("parts", by_default([4], [2, 4, 8], pytest.mark.slow(reason="other numbers of equal parts")))
def test_accumulation_equals_the_full_batch_on_ragged_rows(parts):
    # Masks of dropout and first positions belong to rows.
    dropout = {"model.dropout": 0.3, "model.attention.dropout": 0.3, "model.num_layers": 1}
    offsets = {"data.position_offsets": (0, 3), "model.position.kind": "learned"}
    training_steps.accumulation(Subject.of(ATTENTION_KINDS.by_name["softmax"], dropout | offsets), parts)


def test_diverged_update_is_not_applied():
    program = program_of()
    state = program.initial_state(0)
    before = jax.device_get(state)
    poisoned = jax.tree.map(lambda x: x, state)
    poisoned["params"]["embedding"] = poisoned["params"]["embedding"].at[0, 0].set(np.nan)
    after, metrics = program.train_step(
        poisoned, program.put_batch({"tokens": np.zeros((8, 17), np.int32)}), program.constants(0)
    )
    assert not bool(metrics["finite"])
    assert int(after["step"]) == 0
    np.testing.assert_array_equal(
        after["params"]["stack"]["layers"]["ffn"]["up"]["kernel"],
        before["params"]["stack"]["layers"]["ffn"]["up"]["kernel"],
    )


def test_state_buffers_are_donated():
    program = program_of()
    batch = {"tokens": jax.ShapeDtypeStruct((8, 17), np.int32)}
    memory = program.train_step.lower(program.abstract_state, batch, program.constants(0)).compile().memory_analysis()
    state_bytes = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(program.abstract_state))
    assert memory.alias_size_in_bytes >= state_bytes


@pytest.mark.parametrize(("disabled", "options"), [(False, {"xla_backend_optimization_level": 1}), (True, None)])
def test_initial_values_are_compiled_with_few_optimisations(disabled, options):
    """Where a process asks for fewer, they are not compiled with more."""
    name = "jax_disable_most_optimizations"
    before = jax.config.read(name)
    jax.config.update(name, disabled)
    try:
        assert fast_compilation(make_mesh(configs.resolve(small()), jax.devices()[:1])) == options
    finally:
        jax.config.update(name, before)


def test_seeds_share_a_compiled_program():
    program = program_of(model__dropout=0.1)
    one_step(program, ragged_batch(), 0)
    # Other tests may have compiled the shared program for other batch shapes.
    compiled_before = program.train_step._cache_size()
    one_step(program, ragged_batch(), 1)
    assert program.train_step._cache_size() == compiled_before > 0


def test_dropout_depends_only_on_seed_and_step():
    program = program_of(model__dropout=0.5)
    losses = [float(one_step(program, ragged_batch(), seed)[1]["loss"]) for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


def test_masks_of_dropout_belong_to_rows_and_differ_between_them():
    x = jnp.ones((8, 50))
    key = DropoutKey(jax.random.key(0), rows=jnp.arange(8))
    masks = key.kept(0.5, x.shape)
    assert len(np.unique(masks, axis=0)) == 8
    np.testing.assert_array_equal(key._replace(rows=jnp.array([6, 1])).kept(0.5, (2, 50)), masks[jnp.array([6, 1])])
    # Two windows for each row, and an array that has no rows.
    windows = key.kept(0.5, (16, 50)).reshape(8, 2, 50)
    np.testing.assert_array_equal(key._replace(rows=jnp.array([3])).kept(0.5, (2, 50)), windows[3])
    np.testing.assert_array_equal(key.kept(0.5, (5,)), key._replace(rows=jnp.array([3, 1])).kept(0.5, (5,)))


def test_every_step_has_another_dropout_mask():
    program = program_of(model__dropout=0.5)
    losses = []
    for step in (0, 0, 1):
        state = program.initial_state(0) | {"step": jnp.asarray(step, jnp.int32)}
        losses.append(
            float(program.train_step(state, program.put_batch(ragged_batch()), program.constants(0))[1]["loss"])
        )
    assert losses[0] == losses[1] != losses[2]


def test_gradient_is_that_of_the_mean_over_scored_tokens():
    config = configs.resolve(small())
    objective = make_objective(config, ByteTokenizer())
    program = program_of()
    params = program.initial_state(0)["params"]
    graph, *_ = split(make_model(config))

    def mean_loss(params):
        losses, (sums, _) = objective.sums(
            graph, params, {}, ragged_batch(), program.constants(0), ForwardMode(training=True)
        )
        return losses["loss"] / sums["weight"]

    loss, gradient = jax.jit(jax.value_and_grad(mean_loss))(params)
    _, metrics = one_step(program, ragged_batch())
    np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-6)
    np.testing.assert_allclose(
        metrics["gradient_norm"], np.sqrt(sum(np.sum(np.square(g)) for g in jax.tree.leaves(gradient))), rtol=1e-5
    )


def test_stored_parameters_are_float32_under_bfloat16():
    program = program_of(model__dtype="bfloat16")
    assert {str(x.dtype) for x in jax.tree.leaves(program.abstract_state["params"])} == {"float32"}
    _, metrics = one_step(program, ragged_batch())
    assert np.isfinite(float(metrics["loss"]))
    wide = float(one_step(program_of(), ragged_batch())[1]["loss"])
    assert float(metrics["loss"]) == pytest.approx(wide, rel=0.01)
    assert float(metrics["loss"]) != wide


@pytest.mark.parametrize(
    "kind", by_default(["causal"], OBJECTIVES, pytest.mark.promise(reason="a model of its own is compiled"))
)
def test_sums_of_every_objective_add_up_over_parts(kind):
    config = configs.resolve(small(**OBJECTIVES[kind], objective__z_loss=0.01, model__num_layers=1))
    objective = make_objective(config, ByteTokenizer())
    graph, *_ = split(make_model(config))
    constants, batch = jax.tree.map(jnp.asarray, (objective.constants, batch_of(config)))

    def totals(parts):
        def sums_of(params, stats, part, index):
            losses, rest = objective.sums(graph, params, stats, part, constants, ForwardMode(training=True))
            return sum(losses.values()), rest

        return compiled(lambda params, batch: accumulate_gradients(sums_of, params, {}, batch, parts))(
            random_values(make_model(config)), batch
        )

    loss, sums, _, gradient = totals(1)
    parted_loss, parted_sums, _, parted_gradient = totals(4)
    assert sums["weight"] > 8
    # The discriminator classifies tokens and encodes no text, so it counts no bytes.
    for name in ("weight", "tokens", *(["bytes"] if kind != "replaced_tokens" else [])):
        # Weights of masked diffusion are fractions; all others are whole numbers.
        np.testing.assert_allclose(parted_sums[name], sums[name], rtol=1e-6)
    np.testing.assert_allclose([parted_loss, parted_sums["loss"]], [loss, sums["loss"]], rtol=1e-5)
    assert loss > sums["loss"]
    largest = max(abs(leaf).max() for leaf in jax.tree.leaves(gradient))
    for one, other in zip(jax.tree.leaves(parted_gradient), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6 * largest)


def test_statistics_are_passed_from_part_to_part():
    def sums_of(params, stats, part, rows):
        return (params * part["x"]).sum(), (
            {"weight": part["x"].sum(), "numbered": (rows == part["x"]).sum()},
            {"seen": stats["seen"] * 10 + rows[0] + part["x"][0]},
        )

    batch = {"x": jnp.arange(6.0)}
    loss, sums, stats, gradient = jax.jit(accumulate_gradients, static_argnums=(0, 4))(
        sums_of, jnp.float32(2), {"seen": jnp.float32(0)}, batch, 3
    )
    assert (loss, sums["weight"], sums["numbered"], gradient) == (30, 15, 6, 15)
    assert stats["seen"] == (0 + 0) * 100 + (1 + 1) * 10 + (2 + 2)


BATCHNORM = {"model__norm__kind": "batchnorm", "model__norm__momentum": 0.9, "model__num_layers": 1}


def first_norm(state):
    return state["stats"]["stack"]["layers"]["attention_norm"]


def test_training_updates_running_statistics_and_evaluation_uses_them():
    program = program_of(**BATCHNORM)
    tokens = np.random.default_rng(0).integers(0, 256, (8, 17), np.int32)
    constants, batch = program.constants(0), program.put_batch({"tokens": tokens})
    state = program.initial_state(0)
    params, fresh = jax.device_get((state["params"], first_norm(state)))
    assert (fresh["mean"] == 0).all()
    assert (fresh["variance"] == 1).all()
    untrained = jax.device_get(state["stats"])
    x = (params["embedding"][tokens[:, :-1]] + params["position"]["table"][:16]).reshape(-1, 32).astype(np.float64)
    state, _ = program.train_step(state, batch, constants)
    after = jax.device_get(first_norm(state))
    np.testing.assert_allclose(after["mean"][0], 0.1 * x.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(after["variance"][0], 0.9 + 0.1 * x.var(axis=0, ddof=1), rtol=1e-5)
    before = jax.device_get(state["stats"])
    scores, _ = program.eval_step(state["params"], state["stats"], batch, constants)
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(jax.device_get(state["stats"])), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (
        abs(float(program.eval_step(state["params"], untrained, batch, constants)[0]["loss"]) - float(scores["loss"]))
        > 1e-3
    )
    # In evaluation the score of a row does not depend on the other rows.
    alone = {"tokens": np.where(np.arange(8)[:, None] == 0, tokens, -1)}
    rest = {"tokens": np.where(np.arange(8)[:, None] == 0, -1, tokens)}
    parts = [
        program.eval_step(state["params"], state["stats"], program.put_batch(part), constants)[0]
        for part in (alone, rest)
    ]
    np.testing.assert_allclose(sum(float(part["loss"]) for part in parts), float(scores["loss"]), rtol=1e-5)


def test_diverged_step_keeps_the_statistics():
    program = program_of(**BATCHNORM)
    state = program.initial_state(0)
    before = jax.device_get(state["stats"])
    state["params"]["embedding"] = state["params"]["embedding"].at[5, 0].set(np.inf)
    after, metrics = program.train_step(
        state, program.put_batch({"tokens": np.full((8, 17), 5, np.int32)}), program.constants(0)
    )
    assert not bool(metrics["finite"])
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(jax.device_get(after["stats"])), strict=True):
        np.testing.assert_array_equal(one, other)


def test_random_features_are_redrawn_by_seed_and_step():
    program = program_of(model__attention__kind="performer", model__attention__redraw_every=2, model__num_layers=1)

    def features(state):
        return jax.device_get(state["stats"]["stack"]["layers"]["attention"]["features"])

    def after(step, seed=0):
        state = program.initial_state(seed) | {"step": jnp.asarray(step, jnp.int32)}
        return features(program.train_step(state, program.put_batch(ragged_batch()), program.constants(seed))[0])

    initial = features(program.initial_state(0))
    np.testing.assert_array_equal(after(0), initial)
    np.testing.assert_array_equal(after(1), initial)
    redrawn = after(2)
    assert (redrawn != initial).all()
    np.testing.assert_array_equal(after(2), redrawn)
    assert (after(4) != redrawn).all()
    assert (after(2, seed=1) != redrawn).all()


def test_reported_loss_excludes_the_z_loss():
    reported, norms = zip(
        *(
            (float(metrics["loss"]), float(metrics["gradient_norm"]))
            for _, metrics in (
                one_step(program_of(objective__z_loss=z_loss, model__num_layers=1), ragged_batch())
                for z_loss in (0.0, 0.1)
            )
        ),
        strict=True,
    )
    assert reported[0] == pytest.approx(reported[1], rel=1e-6)
    assert norms[1] > 1.01 * norms[0]


def test_tokens_metric_counts_tokens_read_not_scored():
    program = program_of(**OBJECTIVES["masked"], model__num_layers=1)
    batch = batch_of(configs.resolve(small(**OBJECTIVES["masked"])))
    _, metrics = one_step(program, batch)
    assert metrics["tokens"] == 8 * 16
    scored = program.eval_step(program.initial_state(0)["params"], {}, program.put_batch(batch), program.constants(0))[
        0
    ]["weight"]
    assert scored == (batch["targets"] >= 0).sum() < 16


@pytest.mark.parametrize(
    ("rows", "largest", "devices", "parts"), [(8, 3, 1, 4), (8, 4, 1, 2), (8, 8, 1, 1), (12, 5, 1, 3), (8, 3, 2, 2)]
)
def test_a_device_reads_at_most_the_rows_of_a_microbatch_at_once(rows, largest, devices, parts):
    changes = {"data.batch_size": rows, "training.accumulation_steps": "auto", "training.microbatch_size": largest}
    config = configs.resolve(configs.override(configs.default(), changes))
    assert accumulation_parts(config, devices) == parts
    assert rows // devices // parts <= largest


@pytest.mark.parametrize(("changes", "expected"), [
    ({}, False), ({"model.dropout": 0.1}, True), ({"model.attention.dropout": 0.1}, True),
    ({"model.architecture": "encoder_decoder", "objective.kind": "prefix", "model.decoder.dropout": 0.1}, True),
    ({"model.layers.pattern": ("a",), "model.layers.kinds.a.attention.dropout": 0.1}, True),
    ({"model.ffn.kind": "moe", "model.ffn.experts.jitter": 0.1}, True),
    ({"model.ffn.kind": "moe", "model.ffn.experts.noise": 1.0}, True),
])  # fmt: skip
def test_program_knows_whether_it_uses_dropout(changes, expected):
    assert uses_dropout(configs.resolve(configs.override(configs.default(), changes))) is expected


@pytest.mark.parametrize(("meta", "kernel"), [
    ({"attention_kernels": [{"kernel": "rows"}]}, "rows"),
    ({"attention_kernels": [{"kernel": "einsum"}]}, "einsum"),
    ({"attention_kernels": [{"kernel": "rows"}], "short_rows_by_einsum": False}, "einsum"),
    ({}, "einsum"),
])  # fmt: skip
def test_a_resumed_run_keeps_the_kernel_of_an_earlier_version(tmp_path, monkeypatch, meta, kernel):
    """Rows of 16 tokens are short: now they would be computed by einsum."""
    config = configs.resolve(small(model__attention__implementation="auto"))
    write_json(tmp_path / "meta.json", meta)
    assert recorded_rows_from(RunFolder(tmp_path)) == ROWS_FROM  # It has no checkpoint.
    (tmp_path / "checkpoints" / "3").mkdir(parents=True)
    called = []
    monkeypatch.setattr(
        softmax_attention,
        "KERNELS",
        {name: lambda *each, name=name: called.append(name) or KERNELS[name](*each) for name in KERNELS},
    )
    model, objective, mesh = make_model(config), make_objective(config, ByteTokenizer()), make_mesh(config)
    program = make_program(config, model, objective, mesh, recorded_rows_from(RunFolder(tmp_path)))
    batch = {"tokens": jax.ShapeDtypeStruct((8, 17), jnp.int32)}
    arguments = program.abstract_state, batch, program.constants.abstract()
    jax.eval_shape(program.train_step, *arguments)
    jax.eval_shape(program.eval_step, program.abstract_state["params"], program.abstract_state["stats"], *arguments[1:])
    assert called == [kernel] * 2
