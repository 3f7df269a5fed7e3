"""Batches of runs that train together: each batch is made once, and every run reads its own."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from zoo import config as configs
from zoo.errors import ConfigError
from zoo.training.evaluation.held_out import evaluate_runs
from zoo.training.executor import make_executor
from zoo.training.mesh import make_mesh
from zoo.training.population.batch_streams import BatchStreams, StackedBatches, number_distinct, stacked
from zoo.training.run_group import held_out_batches


def maker(stream, made):
    def batch(step):
        made.append((stream, step))
        return {"tokens": np.full((2, 3), 100 * stream + step)}

    return batch


@pytest.fixture
def streams():
    """Four runs; the first, second and fourth share a stream."""
    made = []
    batches = BatchStreams((0, 0, 1, 0), [maker(0, made), maker(0, made), maker(1, made), maker(0, made)])
    yield batches, made
    batches.close()


def values(batches, runs):
    return [int(batches.of_run(index)["tokens"][0, 0]) for index in runs]


def test_shared_batch_is_made_once(streams):
    batches, made = streams
    for step in range(3):
        taken = batches.take(step, [0, 1, 2, 3])
        assert taken.arrays["tokens"].shape == (2, 2, 3)
        assert values(taken, range(4)) == [step, step, 100 + step, step]
    assert len(made) == len(set(made))


def test_single_stream_is_not_copied():
    array = np.zeros((2, 3))
    batches = BatchStreams((0, 0), [lambda step: {"tokens": array}] * 2)
    taken = batches.take(0, [0, 1])
    assert taken.arrays["tokens"].shape == (1, 2, 3)
    assert np.shares_memory(taken.of_run(1)["tokens"], array)
    batches.close()


def test_run_that_joins_later_reads_the_batch_of_its_step(streams):
    batches, made = streams
    assert values(batches.take(4, [0, 1]), [0, 1]) == [4, 4]
    assert {stream for stream, _ in made} == {0}
    assert values(batches.take(5, [0, 1, 2]), [0, 1, 2]) == [5, 5, 105]
    # All active runs have diverged, and the next one starts at step 9.
    assert values(batches.take(9, [3]), [3]) == [9]
    assert batches.take(9, [3]).arrays["tokens"].shape == (2, 2, 3)


def test_distinct_values_are_numbered_by_first_occurrence():
    assert number_distinct("abacb") == (0, 1, 0, 2, 1)


def test_stacking_batches_of_different_shapes_is_refused():
    with pytest.raises(ConfigError, match="batches of different shapes"):
        stacked([{"tokens": np.zeros((2, 3))}, {"tokens": np.zeros((2, 4))}])


def toy_program(devices):
    """A program whose state sums up its batches, times a factor of the run."""
    mesh = make_mesh(
        SimpleNamespace(
            mesh=SimpleNamespace(data=-1, fsdp=1, expert=1, tensor=1),
            data=SimpleNamespace(batch_size=8, batch_stages=()),
            training=SimpleNamespace(accumulation_steps=1),
        ),
        devices,
    )
    leaf = jax.ShapeDtypeStruct((), np.float32, sharding=NamedSharding(mesh, PartitionSpec()))

    def update(state, batch, constants, mesh):
        del mesh
        total = batch["tokens"].sum() * constants["hyperparameters"]["rate"]
        return state | {"total": state["total"] + total}, {"loss": total}

    def evaluate(params, stats, batch, constants, mesh):
        del stats, mesh
        sums = {"loss": batch["tokens"].sum() * params["weight"], "weight": jnp.float32(batch["tokens"].size)}
        return sums, {"predicted": batch["tokens"] * constants["hyperparameters"]["rate"]}

    state = {"total": leaf, "params": {"weight": leaf}, "stats": {}}
    return SimpleNamespace(mesh=mesh, abstract_state=state, update=update, evaluate=evaluate)


def toy_state(weight):
    return {"total": np.float32(0), "params": {"weight": np.float32(weight)}, "stats": {}}


@pytest.mark.parametrize("executor", ["map", "vmap"])
@pytest.mark.parametrize("streams", [(0, 0, 0), (0, 1, 0), (0, 1, 2)])
def test_every_run_reads_its_own_batch(executor, streams):
    rates = (1.0, 2.0, 3.0)
    constants = [{"seed": np.uint32(0), "hyperparameters": {"rate": np.float32(rate)}} for rate in rates]
    together = make_executor(toy_program(jax.devices()[:1]), constants, executor)
    state = together.combine([toy_state(0)] * 3)
    arrays = np.random.default_rng(0).integers(0, 9, (max(streams) + 1, 8, 4)).astype(np.int32)
    state, metrics = together.step(state, StackedBatches({"tokens": arrays}, streams), [True, False, True])
    expected = [arrays[stream].sum() * rate for stream, rate in zip(streams, rates, strict=True)]
    assert [float(together.state_of(state, index)["total"]) for index in range(3)] == [expected[0], 0, expected[2]]
    assert [one["loss"] for one in together.fetch_metrics(metrics)][::2] == expected[::2]


@pytest.mark.parametrize("executor", ["map", "vmap"])
@pytest.mark.parametrize("streams", [(0, 0, 0), (0, 1, 0)])
def test_runs_are_evaluated_in_one_call_on_their_own_rows(executor, streams):
    constants = [{"seed": np.uint32(0), "hyperparameters": {"rate": np.float32(rate)}} for rate in (1, 2, 3)]
    together = make_executor(toy_program(jax.devices()[:1]), constants, executor)
    state, calls = together.combine([toy_state(weight) for weight in (1, 10, 100)]), []
    arrays = np.random.default_rng(0).integers(0, 9, (2, max(streams) + 1, 8, 4)).astype(np.int32)
    original = together.eval_step
    together.eval_step = lambda *arguments: calls.append(1) or original(*arguments)
    batches = [StackedBatches({"tokens": part}, streams) for part in arrays]
    found = evaluate_runs(together, state, batches, [True, False, True])
    assert sorted(found) == [0, 2]
    assert len(calls) == 2
    for index, weight in ((0, 1), (2, 100)):
        rows = arrays[:, streams[index]]
        assert [float(sums["loss"]) for sums, _ in found[index]] == [part.sum() * weight for part in rows]
        predicted = np.concatenate([outputs["predicted"] for _, outputs in found[index]])
        assert np.array_equal(predicted, np.concatenate(rows) * (index + 1))


def evaluated_run(config, made):
    """A fake `TrainingRun` that counts the held-out batches it makes."""

    def evaluation_batches(*arguments):
        made.append(arguments)
        return iter([{"tokens": np.zeros((2, 3), np.int32)}] * 2)

    dataset = SimpleNamespace(evaluation_batches=evaluation_batches)
    return SimpleNamespace(config=config, dataset=dataset, program=SimpleNamespace(data_parallel_size=1))


@pytest.mark.parametrize(("masks", "streams"), [("as_trained", (0, 0, 1)), ("all", (0, 0, 0))])
def test_held_out_batches_are_shared_by_runs_with_equal_masks(masks, streams):
    changes = [{}, {"seed": 1, "data.training_fraction": 0.5}, {"objective.mask_token_fraction": 0.5}]
    made, base = [], {"model.architecture": "encoder", "objective.kind": "masked", "training.eval_masks": masks}
    runs = [
        evaluated_run(configs.resolve(configs.override(configs.default(), base | change), 60), made)
        for change in changes
    ]
    batches = list(held_out_batches(runs, 16))
    assert [batch.streams for batch in batches] == [streams] * 2
    assert {len(batch.arrays["tokens"]) for batch in batches} == {max(streams) + 1}
    assert made == [(16, 1, 0, 1)] * (max(streams) + 1)
