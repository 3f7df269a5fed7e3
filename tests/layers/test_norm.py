"""LayerNorm and RMSNorm against their papers' equations, and the invariances that follow from these."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.building import as_float64, call, close, random_values, tiny, with_values
from zoo.layers.norm import NORMS, layer_norm, make_norm, rms_norm

D = 16


@pytest.fixture
def x():
    return 3 * np.random.default_rng(1).standard_normal((2, 5, D)) + 1.5


def make(kind, **fields):
    config = tiny({"model.norm.kind": kind, **{f"model.norm.{name}": value for name, value in fields.items()}}).model
    module = make_norm(config)
    values = random_values(module, 2)
    return with_values(module, values), values


@pytest.mark.parametrize("epsilon", [1e-6, 1e-5, 0.3])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_is_its_equation(x, bias, epsilon):
    norm, values = make("layernorm", bias=bias, epsilon=epsilon)
    assert set(values) == ({"scale", "bias"} if bias else {"scale"})
    wide = as_float64(values)
    close(call(norm, np.float32(x)), reference.layer_norm(np.float32(x), wide["scale"], wide.get("bias", 0.0), epsilon))


@pytest.mark.parametrize("epsilon", [1e-6, 1e-5, 0.3])
def test_rms_norm_is_its_equation(x, epsilon):
    norm, values = make("rmsnorm", epsilon=epsilon)
    assert set(values) == {"scale"}
    close(call(norm, np.float32(x)), reference.rms_norm(np.float32(x), as_float64(values)["scale"], epsilon))


def test_the_switch_for_the_bias_changes_nothing_else(x):
    without = call(lambda x: layer_norm(x, jnp.ones(D), None, 1e-5), np.float32(x))
    close(without, call(lambda x: layer_norm(x, jnp.ones(D), jnp.zeros(D), 1e-5), np.float32(x)), 1e-7)
    assert abs(without.mean(-1)).max() < 1e-6


def test_no_norm_is_the_identity_without_parameters(x):
    norm, values = make("none")
    assert values == {}
    assert norm(x) is x


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("factor", [1e-2, 7.0])
def test_scaling_the_input_changes_nothing(x, kind, factor):
    norm, _ = make(kind, epsilon=1e-12)
    close(call(norm, np.float32(factor * x)), call(norm, np.float32(x)))


def test_shifting_the_input_changes_rms_norm_only(x):
    layernorm, _ = make("layernorm")
    rmsnorm, _ = make("rmsnorm")
    close(call(layernorm, np.float32(x + 5)), call(layernorm, np.float32(x)))
    assert abs(call(rmsnorm, np.float32(x + 5)) - call(rmsnorm, np.float32(x))).max() > 0.1


def test_layer_norm_is_rms_norm_of_the_centred_input(x):
    scale = np.linspace(0.5, 2, D, dtype=np.float32)
    centred = x - x.mean(-1, keepdims=True)
    normed = call(lambda x: layer_norm(x, scale, None, 1e-5), np.float32(x))
    close(normed, call(lambda x: rms_norm(x, scale, 1e-5), np.float32(centred)))


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
def test_bfloat16_keeps_its_type_and_float32_statistics(kind):
    # Squares summed in bfloat16 would stall: above 256 the next number is 2 away. Only the rounding of the result may be lost.
    config = tiny({"model.norm.kind": kind, "model.dim": 4096}).model
    norm = with_values(make_norm(config), random_values(make_norm(config), 3))
    narrow = (10 + np.random.default_rng(4).standard_normal((3, 4096))).astype(jnp.bfloat16)
    normed = call(norm, narrow)
    assert normed.dtype == jnp.bfloat16
    np.testing.assert_array_equal(normed, call(norm, narrow.astype(np.float32)).astype(jnp.bfloat16))


def test_every_kind_can_be_made():
    for kind in NORMS:
        assert type(make(kind)[0]) is NORMS[kind]
