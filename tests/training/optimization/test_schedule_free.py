"""Schedule-free AdamW against its equations, pytorch-optimizer's and optax's, and in runs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.support.small_runs import curves, lines, small, stop_requested_at
from zoo import config as configs
from zoo.errors import ConfigError, Preempted
from zoo.models.functional import ParameterTraits
from zoo.training.optimization.optimizer import make_optimizer
from zoo.training.optimization.schedule_free import gradient_point
from zoo.training.trainer import run

RATE, DECAY, WARMUP, STEPS = 0.02, 0.1, 4, 10
FREE = {"optimizer__kind": "schedule_free", "schedule__warmup_steps": WARMUP, "optimizer__learning_rate": RATE}
TRAITS = ParameterTraits({"x": 2}, {"x": False})
TARGET = np.linspace(-1, 1, 12).reshape(3, 4)


def gradient_at(point):
    """The gradient of a non-quadratic loss, so that the point of evaluation matters."""
    return (point - TARGET) ** 3 + 0.1 * point


def config_of(**changes):
    return configs.resolve(small(optimizer__weight_decay=DECAY, optimizer__beta2=0.9, **FREE | changes))


def trained(**changes):
    """Returns (x, y, z) after the updates, in double precision."""
    config = config_of(**changes)
    with jax.enable_x64():
        optimizer = make_optimizer(config, TRAITS)
        params = {"x": jnp.asarray(START)}
        state, step = optimizer.init(params), jax.jit(optimizer.update)
        for _ in range(STEPS):
            point = gradient_point({"params": params, "optimizer": state}, config.optimizer.beta1)
            updates, state = step({"x": gradient_at(point["x"])}, state, params)
            params = jax.tree.map(jnp.add, params, updates)
        point = gradient_point({"params": params, "optimizer": state}, config.optimizer.beta1)
        return tuple(np.asarray(each["x"]) for each in (params, point)), params["x"] + state["schedule_free"].offset[
            "x"
        ]


START = np.random.default_rng(0).normal(size=(3, 4))


def equations(beta1):
    """Defazio et al. 2024, algorithm 1, with the bias of the second moment corrected there as Adam has
    it, and a linear warm-up.
    """
    x, z, second, weights = START, START, 0.0, 0.0
    for step in range(1, STEPS + 1):
        y = (1 - beta1) * z + beta1 * x
        g = gradient_at(y)
        second = 0.9 * second + 0.1 * g**2
        rate = RATE * min(1, step / WARMUP)
        z = z - rate * (g / (np.sqrt(second / (1 - 0.9**step)) + 1e-8) + DECAY * y)
        weights += rate**2
        x = (1 - rate**2 / weights) * x + rate**2 / weights * z
    return (x, (1 - beta1) * z + beta1 * x), z


@pytest.mark.parametrize("beta1", [0.9, 0.5])
def test_ten_updates_follow_the_equations(beta1):
    for found, expected in zip(
        jax.tree.leaves(trained(optimizer__beta1=beta1)), jax.tree.leaves(equations(beta1)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def beside_pytorch_optimizer():
    """Yields (what, before, ours, theirs) of the point of the gradient and of the average."""
    import pytorch_optimizer
    import torch

    weight = torch.nn.Parameter(torch.tensor(START))
    other = pytorch_optimizer.ScheduleFreeAdamW(
        [weight], lr=RATE, betas=(0.9, 0.9), weight_decay=DECAY, warmup_steps=WARMUP, foreach=False
    )
    for _ in range(STEPS):
        weight.grad = torch.tensor(gradient_at(weight.detach().numpy()))
        other.step()
    (x, y), _ = trained()
    yield "the gradient's point", START, y, weight.detach().numpy().copy()
    other.eval()
    yield "the average", START, x, weight.detach().numpy()


@pytest.mark.parity
def test_ten_updates_equal_those_of_pytorch_optimizer():
    pytest.importorskip("torch")
    for what, _, ours, theirs in beside_pytorch_optimizer():
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7, err_msg=what)


def beside_optax():
    """Yields (what, before, ours, theirs) of both points."""
    with jax.enable_x64():
        rate = optax.linear_schedule(0.0, RATE, WARMUP)
        rule = optax.chain(
            optax.scale_by_adam(0.0, 0.9, 1e-8),
            optax.add_decayed_weights(DECAY),
            optax.scale_by_schedule(lambda count: -rate(count + 1)),
        )
        other = optax.contrib.schedule_free(rule, rate, b1=0.9)
        point = jnp.asarray(START)
        state = other.init(point)
        for _ in range(STEPS):
            updates, state = other.update(gradient_at(point), state, point)
            point = point + updates
        average = optax.contrib.schedule_free_eval_params(state, point)
    (x, y), _ = trained()
    yield "the gradient's point", START, y, np.asarray(point)
    yield "the average", START, x, np.asarray(average)


@pytest.mark.parity
def test_ten_updates_equal_those_of_optax():
    for what, _, ours, theirs in beside_optax():
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7, err_msg=what)


@pytest.mark.promise(reason="whole runs are trained")
def test_run_resumes_bit_for_bit_with_gradients_away_from_the_average(tmp_path, monkeypatch):
    made = small(**FREE)
    run(made, tmp_path / "whole", lambda line: None)
    with stop_requested_at(5, monkeypatch), pytest.raises(Preempted):
        run(made, tmp_path / "parts", lambda line: None)
    run(made, tmp_path / "parts", lambda line: None)
    assert curves(tmp_path / "whole") == curves(tmp_path / "parts")
    # With beta1 = 1 the gradient would be taken at the average, and the result would differ.
    run(small(**FREE, optimizer__beta1=0.5), tmp_path / "other", lambda line: None)
    assert lines(tmp_path / "other")[-1]["eval/loss"] != lines(tmp_path / "whole")[-1]["eval/loss"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"schedule__kind": "cosine"}, "schedule.kind=cosine must be constant"),
        (
            {
                "optimizer__groups": ("a",),
                "optimizer__group__a__select": "role:matrix",
                "optimizer__group__a__kind": "lion",
            },
            "optimizer.group.a.kind=lion cannot be combined with optimizer.kind=schedule_free",
        ),
        (
            {
                "optimizer__groups": ("a",),
                "optimizer__group__a__select": "role:matrix",
                "optimizer__group__a__beta1": 0.5,
            },
            "optimizer.group.a.beta1 has no effect",
        ),
    ],
    ids=["schedule", "kind", "beta1"],
)
def test_unsupported_combinations_are_refused(changes, line):
    with pytest.raises(ConfigError, match=line):
        configs.resolve(small(**FREE | changes))
