"""Frozen parameters do not change by a bit, even with weight decay; the others get the same update
as in full training.
"""

import jax
import numpy as np
import pytest

from tests.support.small_runs import small
from zoo import config as configs
from zoo.config.resolve import resolve
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program

TASK = {
    "data__source": "stdlib",
    "model__architecture": "encoder",
    "objective__kind": "classification",
    "model__head__classes": 3,
    "model__dim": 16,
    "model__head__pooler": True,
    "model__num_layers": 3,
    "training__eval_batches": "auto",
    "data__batch_size": 2,
    "optimizer__weight_decay": 0.1,
}
BATCH = {
    "tokens": np.random.default_rng(0).integers(0, 256, (2, 16)).astype(np.int32),
    "labels": np.array([0, 2], np.int32),
}


def step(**fields):
    """Returns (parameters before, parameters after one step, the program's floating-point
    operations).
    """
    config = resolve(small(**TASK | fields))
    program = make_program(
        config, make_model(config), make_objective(config, ByteTokenizer()), make_mesh(config, jax.devices()[:1])
    )
    state, constants = program.initial_state(0), program.constants(0)
    before = jax.device_get(state["params"])
    compiled = program.train_step.lower(state, program.put_batch(BATCH), constants).compile()
    after, metrics = compiled(state, program.put_batch(BATCH), constants)
    return before, jax.device_get(after["params"]), metrics, compiled.cost_analysis()["flops"]


def moved(before, after):
    """Returns {path: which entries of its first dimension changed}."""
    flat = jax.tree_util.tree_leaves_with_path(
        jax.tree.map(lambda a, b: (a != b).reshape(len(a), -1).any(axis=1), before, after)
    )
    return {jax.tree_util.keystr(path, simple=True, separator="/"): entries for path, entries in flat}


@pytest.fixture(scope="module")
def whole():
    return step()


@pytest.mark.promise(reason="a program is compiled for each number of trained layers")
@pytest.mark.parametrize(("count", "scanned"), [(1, False), (0, False), (2, True)])
def test_only_the_last_layers_and_the_head_are_trained(whole, count, scanned):
    before, after, metrics, flops = step(training__trained_layers=count, model__scan_layers=scanned)
    for path, entries in moved(before, after).items():
        if path.startswith("stack/layers"):
            assert not entries[: 3 - count].any(), path
            # A bias of keys changes no score.
            assert entries[3 - count :].all() or path.endswith("key/bias"), path
        else:
            assert entries.any() == (
                path.startswith(("classifier", "pooler")) or (path.startswith("final_norm") and count > 0)
            ), path
    # The gradient equals that of full training; the first step takes its sign.
    for path, one, other in zip(
        moved(before, after),
        jax.tree.leaves(after["classifier"]),
        jax.tree.leaves(whole[1]["classifier"]),
        strict=False,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7, err_msg=path)
    assert metrics["gradient_norm"] < whole[2]["gradient_norm"]
    if not scanned:
        # The forward pass and the trained layers' backward pass; without trained layers about a
        # third of all.
        assert flops < (0.5, 0.7)[count] * whole[3]


@pytest.mark.promise(reason="a program is compiled for each number of trained layers")
def test_frozen_parameters_do_not_change_in_a_group_with_decay():
    group = {
        "optimizer__groups": ("all",),
        "optimizer__group__all__select": "path:stack*,role:embedding",
        "optimizer__group__all__weight_decay": 0.5,
    }
    before, after, _, _ = step(training__trained_layers=1, **group)
    for path, entries in moved(before, after).items():
        if path.startswith("stack/layers"):
            # The group's decay applies to biases without a gradient too, but 0 stays 0.
            assert (list(entries) == [False, False, True]) or path.endswith("key/bias"), path
        else:
            assert entries.any() == path.startswith(("classifier", "pooler", "final_norm")), path


def test_training_more_layers_than_exist_is_refused():
    with pytest.raises(ConfigError, match="there are 3 layers"):
        configs.resolve(small(**TASK, training__trained_layers=4))


def test_layers_with_shared_weights_are_trained_together():
    with pytest.raises(
        ConfigError, match=r"trained_layers=1: 3 consecutive layers .*distinct=1\); use a multiple of 3"
    ):
        configs.resolve(small(**TASK, model__layers__distinct=1, training__trained_layers=1))
    assert configs.resolve(small(**TASK, model__layers__distinct=1, training__trained_layers=0))
