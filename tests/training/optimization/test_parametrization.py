"""Rates, decays and epsilons under muP and CompleteP, against PyTorch's AdamW with one group of
parameters for each row of the published table.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.small_runs import small
from zoo import config as configs
from zoo.models.functional import ParameterTraits
from zoo.training.optimization.optimizer import make_optimizer

RATE, DECAY, EPSILON, STEPS = 0.01, 0.1, 0.3, 10
M, D = 4.0, 3.0
SHAPES = {"hidden": (2, 6, 4), "norm": (2, 4), "embedding": (5, 4), "final": (4,)}
TRAITS = ParameterTraits(
    {"hidden": 2, "norm": 1, "embedding": 2, "final": 1}, {name: name == "hidden" for name in SHAPES}
)
# Dey et al. 2025, table 1: factors on rate, decay and epsilon.
ROWS = {
    "mup": {name: (1, 1, 1 / M) for name in SHAPES} | {"hidden": (1 / M, M, 1 / M)},
    "completep": {
        "hidden": (1 / M, M, 1 / (M * D)),
        "norm": (1, 1, 1 / (M * D)),
        "embedding": (1, 1, 1 / M),
        "final": (1, 1, 1 / M),
    },
}


def config_of(name, **changes):
    depth = {"model__base_num_layers": 1, "model__num_layers": 3} if name == "completep" else {}
    return configs.resolve(
        small(
            model__parametrization=name,
            model__base_dim=8,
            optimizer__learning_rate=RATE,
            **{"optimizer__weight_decay": DECAY, "optimizer__epsilon": EPSILON} | depth | changes,
        )
    )


def draw():
    numbers = np.random.default_rng(0)
    params = {name: numbers.normal(size=shape) for name, shape in SHAPES.items()}
    return params, [{name: numbers.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(STEPS)]


def updated(config, params, gradients, labels=None):
    with jax.enable_x64():
        optimizer = make_optimizer(config, TRAITS, labels=labels)
        params = jax.tree.map(jnp.asarray, params)
        state, step = optimizer.init(params), jax.jit(optimizer.update)
        for gradient in gradients:
            updates, state = step(jax.tree.map(jnp.asarray, gradient), state, params)
            params = jax.tree.map(jnp.add, params, updates)
        return jax.tree.map(np.asarray, params)


def beside_pytorch(name):
    """Yields (what, before, ours, theirs) of each parameter after the updates."""
    import torch

    params, gradients = draw()
    found = updated(config_of(name), params, gradients)
    weights = {leaf: torch.nn.Parameter(torch.tensor(value)) for leaf, value in params.items()}
    other = torch.optim.AdamW(
        [
            {
                "params": [weights[leaf]],
                "lr": RATE * rate,
                "weight_decay": DECAY * decay if leaf in ("hidden", "embedding") else 0.0,
                "eps": EPSILON * epsilon,
            }
            for leaf, (rate, decay, epsilon) in ROWS[name].items()
        ]
    )
    for gradient in gradients:
        for leaf, weight in weights.items():
            weight.grad = torch.tensor(gradient[leaf])
        other.step()
    for leaf, weight in weights.items():
        yield leaf, params[leaf], found[leaf], weight.detach().numpy()


@pytest.mark.parity
@pytest.mark.parametrize("name", ROWS)
def test_ten_updates_equal_those_of_pytorch_with_one_group_per_row(name):
    pytest.importorskip("torch")
    for leaf, _, ours, theirs in beside_pytorch(name):
        # Learning rates are computed in single precision.
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7, err_msg=leaf)


def test_group_factor_multiplies_the_scaled_rate():
    params, gradients = draw()
    plain = {"optimizer__weight_decay": 0.0}
    own = {
        "optimizer__groups": ("half",),
        "optimizer__group__half__select": "role:matrix",
        "optimizer__group__half__rate_factor": 0.5,
    }
    labels = {name: "half" if name == "hidden" else "rest" for name in SHAPES}
    one = updated(config_of("mup", **plain), params, gradients)
    half = updated(config_of("mup", **plain, **own), params, gradients, labels)
    np.testing.assert_allclose(half["hidden"] - params["hidden"], (one["hidden"] - params["hidden"]) / 2, rtol=1e-6)
    np.testing.assert_allclose(half["norm"], one["norm"], rtol=1e-12)


def test_lion_updates_scale_with_width():
    params, gradients = draw()
    found = updated(
        config_of("mup", optimizer__kind="lion", optimizer__weight_decay=0.0, optimizer__epsilon=1e-8),
        params,
        gradients[:1],
    )
    np.testing.assert_allclose(np.abs(found["hidden"] - params["hidden"]), RATE / M, rtol=1e-6)
    np.testing.assert_allclose(np.abs(found["norm"] - params["norm"]), RATE, rtol=1e-6)
