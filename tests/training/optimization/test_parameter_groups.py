"""Parameter groups in training: each group is updated with its own hyperparameters, and runs with
groups resume like others.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.small_runs import curves, small, stop_requested_at
from zoo.config.resolve import resolve
from zoo.errors import ConfigError, Preempted
from zoo.files import read_json
from zoo.models.architectures import make_model
from zoo.models.functional import logical_axes, parameter_traits, split
from zoo.models.parameter_groups import group_labels
from zoo.training.mesh import parameter_shardings
from zoo.training.optimization.optimizer import make_optimizer
from zoo.training.optimization.schedules import make_schedule
from zoo.training.state import abstract_state
from zoo.training.trainer import run

COMMON = {
    "optimizer__learning_rate": 0.01,
    "optimizer__beta2": 0.98,
    "optimizer__weight_decay": 0.1,
    "optimizer__clip_norm": 1.0,
    "schedule__kind": "linear",
    "schedule__warmup_steps": 2,
}
GROUPS = {
    "optimizer__groups": ("tables", "vectors", "slow"),
    # The optimizer's decay, which applies only to parameters of two dimensions.
    "optimizer__group__tables__select": "role:embedding,path:*/query/bias",
    "optimizer__group__tables__rate_factor": 0.25,
    "optimizer__group__tables__beta1": 0.8,
    # The group's own decay, which applies to all its parameters.
    "optimizer__group__vectors__select": "role:vector",
    "optimizer__group__vectors__weight_decay": 0.3,
    "optimizer__group__vectors__epsilon": 1e-3,
    "optimizer__group__slow__select": "path:*/ffn/up/kernel",
    "optimizer__group__slow__beta2": 0.9,
    "optimizer__group__slow__weight_decay": 0.0,
}
KINDS = {
    "model__num_layers": 3,
    "model__layers__pattern": ("near", "far"),
    "model__layers__kinds__near__attention__window": 4,
    "model__layers__kinds__far__attention__window": 0,
}


def paths(tree):
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree, is_leaf=lambda node: isinstance(node, str))
    }


def numbers(path, label):
    """Returns (factor, beta1, beta2, epsilon, decay) of a parameter, derived from GROUPS
    independently.
    """
    matrix = path.endswith("kernel") or path in ("embedding", "position/table")
    return {
        "tables": (0.25, 0.8, 0.98, 1e-8, 0.1 * matrix),
        "vectors": (1.0, 0.9, 0.98, 1e-3, 0.3),
        "slow": (1.0, 0.9, 0.9, 1e-8, 0.0),
        "rest": (1.0, 0.9, 0.98, 1e-8, 0.1 * matrix),
    }[label]


@functools.cache
def updated(groups=(), steps=4):
    """Returns (labels, parameters before, gradients, parameters after some steps) of a small model
    by path.
    """
    config = resolve(small(model__vocab_size=257, model__dim=8, **COMMON, **KINDS, **dict(groups)))
    model = make_model(config)
    labels = group_labels(config, model)
    draw = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: jnp.asarray(draw.normal(size=leaf.shape), jnp.float32), split(model)[1])
    gradients = [
        jax.tree.map(lambda leaf: draw.normal(size=leaf.shape).astype(np.float32), params) for _ in range(steps)
    ]
    optimizer = make_optimizer(config, parameter_traits(model), labels=labels)

    @jax.jit
    def step(params, state, gradient):
        updates, state = optimizer.update(gradient, state, params)
        return jax.tree.map(jnp.add, params, updates), state

    after, state = params, optimizer.init(params)
    for gradient in gradients:
        after, state = step(after, state, gradient)
    return paths(labels), paths(params), [paths(gradient) for gradient in gradients], paths(after)


def test_each_group_is_updated_with_its_own_hyperparameters():
    labels, before, gradients, after = updated(tuple(GROUPS.items()))
    assert set(labels.values()) == {"tables", "vectors", "slow", "rest"}
    schedule = make_schedule(resolve(small(**COMMON)))
    norms = [np.sqrt(sum(np.sum(np.float64(leaf) ** 2) for leaf in gradient.values())) for gradient in gradients]
    for path, label in labels.items():
        factor, beta1, beta2, epsilon, decay = numbers(path, label)
        expected, first, second = np.float64(before[path]), 0.0, 0.0
        for number, (gradient, norm) in enumerate(zip(gradients, norms, strict=True), start=1):
            g = np.float64(gradient[path]) / max(norm, 1.0)
            first, second = beta1 * first + (1 - beta1) * g, beta2 * second + (1 - beta2) * g * g
            root = np.sqrt(second / (1 - beta2**number)) + epsilon
            rate = factor * float(schedule(jnp.asarray(number - 1)))
            expected = expected - rate * (first / (1 - beta1**number) / root + decay * expected)
        np.testing.assert_allclose(after[path], expected, rtol=2e-5, atol=2e-6, err_msg=path)
        assert np.abs(after[path] - before[path]).max() > 1e-3, path


def test_group_of_all_parameters_with_equal_values_changes_nothing():
    everything = {
        "optimizer__groups": ("all",),
        "optimizer__group__all__select": "path:*",
        "optimizer__group__all__rate_factor": 1.0,
    }
    _, _, _, expected = updated()
    labels, _, _, found = updated(tuple(everything.items()))
    assert set(labels.values()) == {"all"}
    for path, values in expected.items():
        np.testing.assert_array_equal(found[path], values, err_msg=path)


def test_rate_factor_of_0_keeps_the_initial_values():
    still = {
        "optimizer__groups": ("still",),
        "optimizer__group__still__select": "axes:mlp",
        "optimizer__group__still__rate_factor": 0.0,
    }
    labels, before, _, after = updated(tuple(still.items()))
    for path, label in labels.items():
        assert np.array_equal(before[path], after[path]) == (label == "still"), path
    assert sum(label == "still" for label in labels.values()) > 4


def test_moments_are_sharded_like_their_parameters():
    config = resolve(small(model__vocab_size=264, **COMMON, **GROUPS))
    model = make_model(config)
    mesh = jax.sharding.AbstractMesh((2, 2, 1, 2), ("data", "fsdp", "expert", "tensor"))
    optimizer = make_optimizer(config, parameter_traits(model), labels=group_labels(config, model))
    state = abstract_state(config, model, optimizer, mesh)
    wanted = paths(parameter_shardings(mesh, logical_axes(model), split(model)[1]))
    groups, seen = state["optimizer"]["groups"].inner_states, []
    for group in groups.values():
        moments = group.inner_state["adamw"]
        for path, leaf in paths(moments.mu).items():
            assert leaf.sharding == wanted[path] == paths(moments.nu)[path].sharding
            seen.append(path)
    # Each parameter has moments in one group.
    assert sorted(seen) == sorted(wanted)
    assert any("tensor" in sharding.spec for sharding in wanted.values())


def test_group_without_parameters_is_refused_before_data_are_read(tmp_path):
    config = small(**GROUPS | {"optimizer__group__slow__select": "role:scalar"})
    with pytest.raises(ConfigError, match=r"optimizer.group.slow.select=role:scalar: no parameter is left"):
        run(config, tmp_path / "run", lambda line: None)
    assert not (tmp_path / "run" / "checkpoints").exists()


def sha256(folder):
    return read_json(folder / "status.json")["parameters_sha256"]


def trained(folder, **changes):
    run(small(**COMMON | GROUPS | changes), folder, lambda line: None)
    return sha256(folder)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """An uninterrupted run with groups."""
    folder = tmp_path_factory.mktemp("alone")
    trained(folder)
    return folder


@pytest.mark.promise(reason="whole runs are trained")
def test_stopped_run_with_groups_resumes_bit_for_bit(alone, tmp_path, monkeypatch):
    with stop_requested_at(5, monkeypatch), pytest.raises(Preempted):
        trained(tmp_path)
    assert read_json(tmp_path / "status.json")["step"] in (5, 6)
    assert trained(tmp_path) == sha256(alone)
    assert curves(tmp_path) == curves(alone)


@pytest.mark.promise(reason="whole runs are trained")
def test_scan_and_accumulation_give_the_same_run(alone, tmp_path):
    scanned = {"model__scan_layers": True, "training__accumulation_steps": 2}
    trained(tmp_path, **scanned)
    for one, two in zip(curves(tmp_path), curves(alone), strict=True):
        pair = [dict(line)["train/loss"] for line in (one, two) if "train/loss" in dict(line)]
        np.testing.assert_allclose(pair[:1], pair[1:], rtol=1e-4)
