"""Schedules against their definitions, AdamW against its equations."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.small_runs import small
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.models.functional import ParameterTraits
from zoo.training.optimization.optimizer import make_optimizer
from zoo.training.optimization.schedules import make_schedule


def rates(**overrides):
    schedule = make_schedule(configs.resolve(small(training__steps=100, optimizer__learning_rate=2.0, **overrides)))
    return np.array([float(schedule(jnp.asarray(count))) for count in range(100)])


def test_warmup_reaches_the_peak_at_its_last_step():
    got = rates(schedule__warmup_steps=10)
    np.testing.assert_allclose(got[:10], 2.0 * np.arange(1, 11) / 10, rtol=1e-6)
    np.testing.assert_allclose(got[9:], 2.0)


@pytest.mark.parametrize("warmup", [0, 10])
def test_decay_schedules_follow_their_equations(warmup):
    update = np.arange(1, 101)
    progress = np.maximum(0, update - warmup) / (100 - warmup)
    after = update >= max(warmup, 1)
    common = {"schedule__warmup_steps": warmup, "schedule__final_fraction": 0.1}
    cosine = 2.0 * (0.1 + 0.9 * 0.5 * (1 + np.cos(math.pi * progress)))
    np.testing.assert_allclose(rates(schedule__kind="cosine", **common)[after], cosine[after], rtol=1e-5)
    linear = 2.0 * (1 - 0.9 * progress)
    np.testing.assert_allclose(rates(schedule__kind="linear", **common)[after], linear[after], rtol=1e-5)
    power = 2.0 * (0.1 + 0.9 * (1 - progress) ** 3)
    cubic = rates(schedule__kind="polynomial", schedule__power=3.0, **common)
    np.testing.assert_allclose(cubic[after], power[after], rtol=1e-4)
    root = np.where(update <= 80, 2.0, 2.0 - 1.8 * np.sqrt(np.maximum(0, update - 80) / 20))
    shaped = rates(schedule__kind="wsd", schedule__decay_shape="sqrt", **common)
    np.testing.assert_allclose(shaped[after], root[after], rtol=1e-4)
    stable = np.where(update <= 80, 2.0, 2.0 - 1.8 * (update - 80) / 20)
    np.testing.assert_allclose(rates(schedule__kind="wsd", **common)[after], stable[after], rtol=1e-5)


def test_inverse_sqrt_follows_its_equation():
    got = rates(schedule__kind="inverse_sqrt", schedule__warmup_steps=16)
    assert got[15] == pytest.approx(2.0)
    assert got[63] == pytest.approx(2.0 * math.sqrt(16 / 64))
    held = rates(schedule__kind="inverse_sqrt", schedule__warmup_steps=16, schedule__hold=True)
    np.testing.assert_allclose(held[:16], 2.0)
    np.testing.assert_array_equal(held[16:], got[16:])
    without = rates(schedule__kind="inverse_sqrt", schedule__warmup_steps=0)
    np.testing.assert_allclose(without, 2.0 / np.sqrt(np.arange(1, 101)), rtol=1e-6)


def test_the_decay_of_wsd_takes_the_nearest_number_of_updates():
    got = rates(schedule__kind="wsd", schedule__warmup_steps=0, schedule__decay_fraction=0.156)
    np.testing.assert_allclose(got[:84], 2.0)
    np.testing.assert_allclose(got[84:], 2.0 * (1 - np.arange(1, 17) / 16), atol=1e-6)


def test_hold_without_warmup_is_refused():
    with pytest.raises(ConfigError, match=r"schedule\.hold=true has no effect with schedule\.warmup_steps=0"):
        rates(schedule__kind="inverse_sqrt", schedule__hold=True)


def test_adamw_follows_its_equation_and_does_not_decay_vectors():
    config = configs.resolve(small(optimizer__weight_decay=0.1, optimizer__learning_rate=0.01, optimizer__beta2=0.98))
    params = {"kernel": jnp.full((2, 3), 2.0), "bias": jnp.full((3,), 2.0)}
    gradient = {"kernel": jnp.full((2, 3), 0.5), "bias": jnp.full((3,), -0.25)}
    optimizer = make_optimizer(config, ParameterTraits({"kernel": 2, "bias": 1}, {"kernel": True, "bias": False}))
    state = optimizer.init(params)
    first, second = {"kernel": 0.0, "bias": 0.0}, {"kernel": 0.0, "bias": 0.0}
    expected = {"kernel": 2.0, "bias": 2.0}
    for step in range(1, 4):
        updates, state = jax.jit(optimizer.update)(gradient, state, params)
        params = jax.tree.map(jnp.add, params, updates)
        for name, g in (("kernel", 0.5), ("bias", -0.25)):
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.98 * second[name] + 0.02 * g * g
            direction = first[name] / (1 - 0.9**step) / (math.sqrt(second[name] / (1 - 0.98**step)) + 1e-8)
            decay = 0.1 * expected[name] if name == "kernel" else 0.0
            expected[name] -= 0.01 * (direction + decay)
            np.testing.assert_allclose(params[name], expected[name], rtol=1e-5)


def test_clipping_limits_the_global_gradient_norm():
    config = configs.resolve(small(optimizer__clip_norm=1.0))
    optimizer = make_optimizer(config, ParameterTraits({"a": 1, "b": 1}, {"a": False, "b": False}))
    gradient = {"a": jnp.full((4,), 30.0), "b": jnp.full((4,), 40.0)}
    _, state = optimizer.update(gradient, optimizer.init(gradient), gradient)
    moments = state["adamw"].mu
    assert float(jnp.sqrt(sum(jnp.sum(m**2) for m in moments.values()))) == pytest.approx(0.1, rel=1e-5)
