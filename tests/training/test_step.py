"""The train step: accumulation, divergence, donation, what it must not depend on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import small

from zoo import config as configs
from zoo.models.functional import split
from zoo.objectives.causal import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program


def program_of(**overrides):
    config = configs.resolve(small(**overrides))
    return make_program(config, make_objective(config, 256), make_mesh(config, jax.devices()[:1]), np.ones(257, np.int32))


def ragged_batch():
    """Rows in which ever more targets are padding, one of them empty: means of means would be wrong."""
    tokens = np.random.default_rng(0).integers(0, 256, (8, 17), np.int32)
    for row in range(8):
        tokens[row, 17 - 2 * row:] = -1
    tokens[7] = -1
    return {"tokens": tokens}


def one_step(program, batch, seed=0):
    return program.train_step(program.initial_state(seed), program.put_batch(batch), program.constants(seed))


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_accumulation_is_the_big_batch_on_ragged_rows(parts):
    # SGD-like sensitivity: with a large epsilon Adam's first update is proportional to the gradient.
    whole_state, whole = one_step(program_of(optimizer__epsilon=1.0), ragged_batch())
    state, metrics = one_step(program_of(optimizer__epsilon=1.0, training__accumulation_steps=parts), ragged_batch())
    assert float(metrics["tokens"]) == float(whole["tokens"]) == sum(max(0, 16 - 2 * row) for row in range(7))
    np.testing.assert_allclose(metrics["loss"], whole["loss"], rtol=1e-6)
    np.testing.assert_allclose(metrics["gradient_norm"], whole["gradient_norm"], rtol=1e-5)
    for a, b in zip(jax.tree.leaves(state["params"]), jax.tree.leaves(whole_state["params"]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)


def test_a_diverged_update_is_not_applied():
    program = program_of()
    state = program.initial_state(0)
    before = jax.device_get(state)
    poisoned = jax.tree.map(lambda x: x, state)
    poisoned["params"]["embedding"] = poisoned["params"]["embedding"].at[0, 0].set(np.nan)
    after, metrics = program.train_step(poisoned, program.put_batch({"tokens": np.zeros((8, 17), np.int32)}), program.constants(0))
    assert not bool(metrics["finite"])
    assert int(after["step"]) == 0
    np.testing.assert_array_equal(after["params"]["stack"]["layers"]["ffn"]["up"]["kernel"],
                                  before["params"]["stack"]["layers"]["ffn"]["up"]["kernel"])


def test_the_state_s_memory_is_taken_over():
    program = program_of()
    batch = {"tokens": jax.ShapeDtypeStruct((8, 17), np.int32)}
    constants = {"seed": jax.ShapeDtypeStruct((), np.uint32), "token_bytes": jax.ShapeDtypeStruct((257,), np.int32)}
    memory = program.train_step.lower(program.abstract_state, batch, constants).compile().memory_analysis()
    state_bytes = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(program.abstract_state))
    assert memory.alias_size_in_bytes >= state_bytes


def test_seeds_share_one_program():
    program = program_of(model__dropout=0.1)
    for seed in (0, 1):
        one_step(program, ragged_batch(), seed)
    assert program.train_step._cache_size() == 1


def test_dropout_depends_on_seed_and_step_only():
    program = program_of(model__dropout=0.5)
    losses = [float(one_step(program, ragged_batch(), seed)[1]["loss"]) for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


def test_every_step_drops_something_else():
    program = program_of(model__dropout=0.5)
    losses = []
    for step in (0, 0, 1):
        state = program.initial_state(0) | {"step": jnp.asarray(step, jnp.int32)}
        losses.append(float(program.train_step(state, program.put_batch(ragged_batch()), program.constants(0))[1]["loss"]))
    assert losses[0] == losses[1] != losses[2]


def test_the_gradient_is_that_of_the_mean_over_scored_tokens():
    config = configs.resolve(small())
    objective = make_objective(config, 256)
    program = program_of()
    params = program.initial_state(0)["params"]
    graph, _ = split(objective.model)

    def mean_loss(params):
        loss, sums = objective.sums(graph, params, ragged_batch(), jnp.ones(257, jnp.int32))
        return loss / sums["weight"]

    loss, gradient = jax.jit(jax.value_and_grad(mean_loss))(params)
    _, metrics = one_step(program, ragged_batch())
    np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-6)
    np.testing.assert_allclose(metrics["gradient_norm"], np.sqrt(sum(np.sum(np.square(g)) for g in jax.tree.leaves(gradient))), rtol=1e-5)


def test_stored_parameters_are_float32_under_bfloat16():
    program = program_of(model__dtype="bfloat16")
    assert {str(x.dtype) for x in jax.tree.leaves(program.abstract_state["params"])} == {"float32"}
    _, metrics = one_step(program, ragged_batch())
    assert np.isfinite(float(metrics["loss"]))
    wide = float(one_step(program_of(), ragged_batch())[1]["loss"])
    assert float(metrics["loss"]) == pytest.approx(wide, rel=0.01)
    assert float(metrics["loss"]) != wide
