"""Feed-forward layers against their equations."""

import math

import jax
import numpy as np
import pytest

from tests import reference
from tests.building import as_float64, call, close, random_values, tiny, with_values
from zoo.layers.feedforward import hidden_dim, make_feed_forward
from zoo.models.functional import split

PLAIN, GATED = ("relu", "gelu", "silu"), ("swiglu", "geglu", "reglu")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [*PLAIN, *GATED, "gelu tanh", "geglu tanh"])
def test_a_layer_is_its_equation(kind, bias):
    name, _, form = kind.partition(" ")
    config = tiny(
        {"model.ffn.kind": name, "model.ffn.bias": bias, "model.ffn.gelu_approximation": form or "none"}
    ).model
    module, values = make_feed_forward(config), random_values(make_feed_forward(config), 1)
    assert set(values) == ({"gate", "up", "down"} if name in GATED else {"up", "down"})
    assert all(("bias" in part) == bias for part in values.values())
    x = 2 * np.random.default_rng(2).standard_normal((2, 5, 16))
    close(call(with_values(module, values), np.float32(x)), reference.feed_forward(config, as_float64(values), x), 2e-6)


def test_the_two_forms_of_gelu_are_told_apart():
    x = np.linspace(-4, 4, 81)
    assert 1e-4 < abs(reference.activation("gelu", x) - reference.activation("gelu_tanh", x)).max() < 1e-3


def weights(kind, hidden, bias):
    config = tiny(
        {
            "model.ffn.kind": kind,
            "model.ffn.hidden_dim": hidden,
            "model.ffn.match_parameters": True,
            "model.ffn.bias": bias,
        }
    ).model
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(split(make_feed_forward(config))[1]))


@pytest.mark.parametrize("kind", GATED)
def test_matched_gated_kinds_have_as_many_parameters(kind):
    for hidden in (24, 96, 300):
        assert weights(kind, hidden, bias=False) == weights("gelu", hidden, bias=False)
    for hidden in (64, 128, 1000, 4096):
        assert weights(kind, hidden, bias=False) == pytest.approx(weights("gelu", hidden, bias=False), rel=0.01)
        # Two biases of 2/3 F against one of F: less than one part in 2 D of the whole.
        assert weights(kind, hidden, bias=True) == pytest.approx(weights("gelu", hidden, bias=True), rel=0.02)


def test_the_hidden_width_is_what_the_config_says_unless_matched():
    for match, gated in ((False, 24), (True, 16)):
        for kind in (*PLAIN, *GATED):
            width = hidden_dim(tiny({"model.ffn.kind": kind, "model.ffn.match_parameters": match}).model)
            assert width == (gated if kind in GATED else 24)
