"""Numbers of loops that are drawn in training follow from the seed and the step alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.shared_programs import shared_program
from tests.support.small_runs import curves, lines, small, stop_requested_at
from zoo import config as configs
from zoo.checks.batches import ragged_rows
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import Preempted
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.trainer import run

LOOP = {
    "model__num_layers": 2,
    "model__layers__distinct": 1,
    "model__layers__sharing": "cycle",
    "model__layers__reinjection": True,
    "model__layers__loop_draws": "uniform",
}


def quiet(line):
    del line


def program_of(**overrides):
    config = configs.resolve(small(**LOOP, **overrides))
    return shared_program(
        config, make_model(config), make_objective(config, ByteTokenizer()), make_mesh(config, jax.devices()[:1])
    )


def assert_close(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@pytest.mark.promise(reason="a population is a program of its own")
def test_two_runs_of_a_population_draw_numbers_of_their_own_and_are_those_two_runs():
    program = program_of()
    batch = program.put_batch({"tokens": ragged_rows()})
    seeds = (3, 4)
    states, constants = ([make(seed) for seed in seeds] for make in (program.initial_state, program.constants))
    together = [jax.tree.map(lambda *leaves: jnp.stack(leaves), *each) for each in (states, constants)]
    both, metrics = jax.jit(jax.vmap(lambda state, constants: program.update(state, batch, constants)))(*together)
    drawn = []
    for index in range(2):
        alone, own = program.train_step(states[index], batch, constants[index])
        assert_close(alone, jax.tree.map(lambda leaf, i=index: leaf[i], both))
        drawn.append(int(own["loops"]))
    assert drawn == metrics["loops"].tolist()
    assert drawn[0] != drawn[1]


@pytest.mark.promise(reason="the parts of a batch are a program of their own")
def test_all_parts_of_a_batch_have_the_number_of_the_update():
    states = []
    for parts in (1, 4):
        program = program_of(training__accumulation_steps=parts)
        batch = program.put_batch({"tokens": ragged_rows()})
        states.append(program.train_step(program.initial_state(0), batch, program.constants(0))[0])
    assert_close(*states)


def test_a_resumed_run_draws_the_numbers_of_one_that_was_not_interrupted(tmp_path, monkeypatch):
    def trained(name, loops=0):
        config = small(**LOOP, model__layers__eval_loops=loops, training__steps=6, training__eval_every=3)
        run(config, tmp_path / name, quiet)
        return lines(tmp_path / name)

    whole = trained("whole")
    assert {line["train/loops"] for line in whole if "train/loops" in line} > {1.0}
    with stop_requested_at(3, monkeypatch), pytest.raises(Preempted):
        trained("parts")
    trained("parts")
    assert curves(tmp_path / "parts") == curves(tmp_path / "whole")
    # The number of evaluation changes what is evaluated, and nothing else.
    other = trained("other", 3)

    def curve(found, part):
        return [
            (line["step"], name, value)
            for line in found
            for name, value in line.items()
            if name.startswith(part) and name != "train/tokens_per_second"
        ]

    assert curve(other, "train/") == curve(whole, "train/")
    assert curve(other, "eval/") != curve(whole, "eval/")
