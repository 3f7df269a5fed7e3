"""Optimizers see the experts of a layer as one matrix each."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.support.building import tiny
from zoo import config as configs
from zoo.layers.context import Context
from zoo.layers.feedforward import make_feed_forward
from zoo.models.architectures import make_model
from zoo.models.functional import ParameterTraits, initialise, parameter_traits, split
from zoo.models.parameter_groups import group_sizes
from zoo.nested import flatten
from zoo.training.optimization.optimizer import make_optimizer

MIXTURE = {"model.ffn.kind": "moe", "model.ffn.hidden_dim": 24, "model.ffn.experts.number": 3}
EXPERTS, ROUTER = "stack/layers/ffn/experts/up/kernel", "stack/layers/ffn/router/kernel"
KINDS = {
    "muon": {},
    "muon, rms": {"optimizer.muon_scale": "rms"},
    "normuon": {},
    "muonh": {},
    "soap": {"optimizer.soap_refresh": 2},
    "lamb": {},
    "adafactor": {"optimizer.adafactor_min_factored": 2},
}


def updated(kind, params, gradients, traits):
    """Returns parameters after an update for each of some gradients."""
    name, fields = kind.split(",")[0], KINDS[kind]
    optimizer = make_optimizer(tiny({"optimizer.kind": name, "optimizer.weight_decay": 0.1} | fields), traits)

    def all_of_them(params):
        state = optimizer.init(params)
        for gradient in gradients:
            updates, state = optimizer.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
        return params

    return jax.jit(all_of_them)(params)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stack_of_experts_is_updated_like_separate_matrices(kind):
    numbers = np.random.default_rng(0)
    # Two layers of three experts; each has gradients of its own scale.
    shape, scale = (2, 3, 6, 4), np.array([1.0, 30.0, 0.1, 5.0, 100.0, 2.0]).reshape(2, 3, 1, 1)
    draws = [np.float32(numbers.normal(size=shape) * scale) for _ in range(4)]
    one = ParameterTraits({"w": 2}, {"w": True})
    together = updated(kind, {"w": draws[0]}, [{"w": draw} for draw in draws[1:]], one)["w"]
    apart = [
        updated(kind, {"w": draws[0][at]}, [{"w": draw[at]} for draw in draws[1:]], one)["w"] for at in np.ndindex(2, 3)
    ]
    np.testing.assert_allclose(together.reshape(6, 6, 4), np.stack(apart), rtol=2e-4, atol=1e-5)
    assert abs(together - draws[0]).max() > 1e-4


def test_experts_are_hidden_matrices_and_routers_are_not():
    model = make_model(tiny(MIXTURE | {"model.ffn.bias": True}))
    traits = parameter_traits(model)
    ndim, hidden = flatten(traits.ndim, "/"), flatten(traits.is_hidden_matrix, "/")
    assert flatten(split(model)[1], "/")[EXPERTS].shape == (2, 3, 16, 24)
    assert (ndim[EXPERTS], hidden[EXPERTS]) == (2, True)
    assert (ndim[ROUTER], hidden[ROUTER]) == (2, False)
    # Biases of experts are vectors, which do not decay.
    assert ndim["stack/layers/ffn/experts/up/bias"] == 1


def test_roles_select_experts_and_routers():
    groups = {
        "optimizer.groups": ("experts", "routers"),
        "optimizer.group.experts.select": "role:expert",
        "optimizer.group.experts.kind": "muon",
        "optimizer.group.routers.select": "role:router",
        "optimizer.group.routers.weight_decay": 0.0,
    }
    sizes = group_sizes(tiny(MIXTURE | groups))
    assert sizes["experts"] == 2 * 3 * 3 * 16 * 24
    assert sizes["routers"] == 2 * 16 * 3


def test_mup_scales_experts_as_hidden_matrices_and_routers_as_outputs():
    wide = {"model.dim": 256, "model.ffn.hidden_dim": 256, "model.parametrization": "mup", "model.base_dim": 16}
    config = tiny(MIXTURE | wide)
    layer = make_feed_forward(config.model)
    values = initialise(layer, 0)
    std = config.model.init.std
    assert float(np.std(np.asarray(values["router"]["kernel"]))) == pytest.approx(std, rel=0.1)
    assert float(np.std(np.asarray(values["experts"]["up"]["kernel"]))) == pytest.approx(std / 4, rel=0.02)
    from tests.support.building import with_values

    x = jnp.ones((1, 2, 256))
    logits = with_values(layer, values).logits(x, Context(jnp.zeros((1, 2), jnp.int32)))
    np.testing.assert_allclose(logits[0, 0], np.asarray(values["router"]["kernel"]).sum(0) / 16, rtol=1e-4, atol=1e-6)


def test_each_expert_has_initial_values_of_its_own():
    for kernel in ("normal", "xavier_uniform"):
        values = initialise(make_feed_forward(tiny(MIXTURE | {"model.init.kernel": kernel}).model), 0)
        up = np.asarray(values["experts"]["up"]["kernel"])
        assert abs(up[0] - up[1]).max() > 1e-3
        dense = initialise(make_feed_forward(tiny({"model.ffn.kind": "swiglu", "model.init.kernel": kernel}).model), 0)
        # The number of experts is no part of the fan.
        assert up.std() == pytest.approx(float(np.std(np.asarray(dense["up"]["kernel"]))), rel=0.1)


def test_active_parameters_and_operations_are_those_of_the_chosen_experts():
    from zoo.models import cost

    def counted(**fields):
        return cost.summary(
            tiny(MIXTURE | {"model.ffn.bias": False} | {f"model.ffn.{k}": v for k, v in fields.items()})
        )

    layers, expert = 2, 3 * 16 * 24
    one, all_of_them = counted(), counted(**{"experts.per_token": 3})
    assert one.parameters["total"] - one.parameters["active"] == layers * expert
    assert "active" not in all_of_them.parameters
    # 2 for multiply and add, 3 for forward and backward.
    assert all_of_them.flops_per_token - one.flops_per_token == pytest.approx(6 * layers * expert)
    dense = cost.summary(tiny({"model.ffn.kind": "swiglu", "model.ffn.hidden_dim": 48, "model.ffn.bias": False}))
    assert one.flops_per_token - dense.flops_per_token == pytest.approx(6 * layers * 16 * 3)
    assert one.parameters["active"] - dense.parameters["total"] == layers * 16 * 3
    pattern = tiny(MIXTURE | {"model.ffn.bias": False, "model.layers.pattern": ("dense", "sparse"),
                              "model.layers.kinds.dense.ffn.kind": "swiglu",
                              "model.layers.kinds.sparse.ffn.experts.per_token": 1,
                              "model.layers.kinds.sparse.ffn.experts.renormalise": False})  # fmt: skip
    found = cost.summary(pattern).parameters
    assert found["total"] - found["active"] == 2 * expert
    # The two numbers of xIELU are those of all experts of a layer.
    shared = counted(**{"experts.kind": "xielu"}).parameters
    assert shared["total"] - shared["active"] == layers * 2 * 16 * 24
    assert configs.is_traced("model.ffn.experts.balance_weight")
