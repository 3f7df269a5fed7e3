"""Training of mixtures of experts: biases of the choice, and what must not change an update."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.small_runs import curves, small, stop_requested_at
from tests.training.test_step import one_step, program_of, ragged_batch
from zoo import config as configs
from zoo.errors import Preempted
from zoo.models.architectures import make_model
from zoo.models.functional import balanced
from zoo.training.trainer import run

RATE = 0.25
MIXTURE = {
    "model__ffn__kind": "moe",
    "model__ffn__hidden_dim": 16,
    "model__num_layers": 2,
    "model__ffn__experts__number": 4,
    "model__ffn__experts__scores": "sigmoid",
    "model__ffn__experts__shared_dim": 8,
    "model__ffn__experts__bias_rate": RATE,
    "model__ffn__experts__sequence_balance_weight": 0.01,
}


def biases(state):
    return np.asarray(state["stats"]["stack"]["layers"]["ffn"]["choice_bias"])


def steps_of(loads):
    """Returns the steps of the biases [L, E] that follow from loads by label."""
    loads = np.asarray(list(loads.values())).reshape(-1, 4)
    return RATE * np.sign(loads.mean(1, keepdims=True) - loads)


def loads(program, batch, seed=0):
    found = program.dynamics_step(program.initial_state(seed), program.put_batch(batch), program.constants(seed))
    return program.dynamics_step.fetch(found)["expert_load"]


def test_biases_follow_the_counts_of_the_whole_batch_however_it_is_processed():
    batch, program = ragged_batch(), program_of(**MIXTURE)
    expected = steps_of(loads(program, batch))
    state, metrics = one_step(program, batch)
    np.testing.assert_array_equal(biases(state), expected)
    assert not np.asarray(state["stats"]["stack"]["layers"]["ffn"]["sent"]).any()
    # Part 3 of 4 has the rows 3 and 7.
    part = {"tokens": np.where(np.isin(np.arange(8), (3, 7))[:, None], batch["tokens"], -1)}
    assert (steps_of(loads(program, part)) != expected).any()
    parts, other = one_step(
        program_of(**MIXTURE, training__accumulation_steps=4, model__scan_layers=True, model__remat="full"), batch
    )
    np.testing.assert_array_equal(biases(parts), expected)
    np.testing.assert_allclose(other["loss"], metrics["loss"], rtol=1e-6)
    np.testing.assert_allclose(other["gradient_norm"], metrics["gradient_norm"], rtol=1e-5)


def test_layers_that_share_their_weights_share_their_counts():
    batch, program = ragged_batch(), program_of(**MIXTURE, model__layers__distinct=1)
    of_layers = np.asarray(list(loads(program, batch).values())).reshape(2, 4)
    state, _ = one_step(program, batch)
    np.testing.assert_array_equal(biases(state), RATE * np.sign(1 - of_layers.mean(0))[None])


def test_two_runs_of_a_population_are_those_two_runs():
    batch, program = ragged_batch(), program_of(**MIXTURE)
    batch = program.put_batch(batch)
    states, constants = ([make(seed) for seed in (0, 1)] for make in (program.initial_state, program.constants))
    together = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *each) for each in (states, constants)]
    both, _ = jax.jit(jax.vmap(lambda state, constants: program.update(state, batch, constants)))(*together)
    for index in range(2):
        alone, _ = program.train_step(states[index], batch, constants[index])
        for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(both), strict=True):
            np.testing.assert_allclose(one, other[index], rtol=2e-4, atol=2e-5)
        # Counts are whole numbers, and of the batch of this member alone.
        np.testing.assert_array_equal(biases(alone), biases(both)[index])


def test_biases_of_layers_that_are_not_trained_stay():
    model = make_model(configs.resolve(small(**MIXTURE), 257))
    stats = {
        "stack": {"layers": {"ffn": {"choice_bias": jnp.zeros((2, 4)), "sent": jnp.asarray([[3.0, 1, 0, 0]] * 2)}}}
    }
    mask = {"stack": {"layers": {"ffn": {"router": {"kernel": np.array([False, True])}}}}}
    found = balanced(model, stats, mask)["stack"]["layers"]["ffn"]
    np.testing.assert_array_equal(found["choice_bias"], [[0, 0, 0, 0], [-RATE, 0, RATE, RATE]])
    assert not np.asarray(found["sent"]).any()


def test_loads_are_relative_to_the_mean_of_few_assignments_too():
    batch, program = ragged_batch(), program_of(**MIXTURE | {"model__ffn__experts__number": 512})
    found = np.asarray(list(loads(program, batch).values())).reshape(2, 512)
    np.testing.assert_allclose(found.mean(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("number", [7, 60])
def test_biases_stay_where_loads_are_equal(number):
    """A mean in float32 is made by a factor of 1 / E: 60 loads of 6 have a mean below 6."""
    model = make_model(configs.resolve(small(**MIXTURE | {"model__ffn__experts__number": number}), 257))
    moved = []
    for equal in (np.full((2, number), 6.0), np.full((2, number), 1249.0)):
        ffn = {"choice_bias": jnp.zeros((2, number)), "sent": jnp.asarray(equal, jnp.float32)}
        found = balanced(model, {"stack": {"layers": {"ffn": ffn}}})
        moved.append(np.abs(found["stack"]["layers"]["ffn"]["choice_bias"]).max())
    assert moved == [0, 0]


def test_a_resumed_run_goes_on_with_its_biases(tmp_path, monkeypatch):
    config = small(**MIXTURE, training__steps=6, training__eval_every=3)
    run(config, tmp_path / "whole", lambda line: None)
    with stop_requested_at(3, monkeypatch), pytest.raises(Preempted):
        run(config, tmp_path / "parts", lambda line: None)
    run(config, tmp_path / "parts", lambda line: None)
    assert curves(tmp_path / "parts") == curves(tmp_path / "whole")
