"""SOAP against pytorch-optimizer's, on stacked layers, and the shapes of its state."""

from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.layers.test_decompositions import lapack_calls
from tests.support.small_runs import small
from zoo import config as configs
from zoo.models.functional import ParameterTraits
from zoo.training.optimization.optimizer import make_optimizer

RATE, STEPS = 0.01, 14
# The averages of gradients of a matrix that is not square have eigenvalues of 0 at first, whose
# vectors are arbitrary: there only the shorter side is rotated.
SHAPES = {"square": (2, 5, 5), "wide": (2, 3, 6), "tall": (6, 3), "vector": (2, 4), "long": (7, 7)}
TRAITS = ParameterTraits(
    {name: len(shape) - (name in ("square", "wide", "vector")) for name, shape in SHAPES.items()},
    dict.fromkeys(SHAPES, False),
)
SETTINGS = {"soap_refresh": 4, "soap_max_dim": 5, "soap_beta": 0.8, "beta1": 0.9, "beta2": 0.7, "epsilon": 1e-6}


def config_of(**changes):
    own = {f"optimizer__{name}": value for name, value in {**SETTINGS, **changes}.items()}
    return configs.resolve(small(optimizer__kind="soap", optimizer__learning_rate=RATE, **own))


def draw():
    numbers = np.random.default_rng(0)
    params = {name: numbers.normal(size=shape) for name, shape in SHAPES.items()}
    return params, [{name: numbers.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(STEPS)]


def updated(config, params, gradients):
    """(parameters, state) after the updates, in double precision."""
    with jax.enable_x64():
        optimizer = make_optimizer(config, TRAITS)
        params = jax.tree.map(jnp.asarray, params)
        state, step = optimizer.init(params), jax.jit(optimizer.update)
        for gradient in gradients:
            updates, state = step(jax.tree.map(jnp.asarray, gradient), state, params)
            params = jax.tree.map(jnp.add, params, updates)
        return jax.tree.map(np.asarray, (params, state))


def beside_pytorch_optimizer():
    """Yields (what, before, ours, theirs) of each parameter and layer after the updates."""
    import pytorch_optimizer
    import torch

    params, gradients = draw()
    found, _ = updated(config_of(), params, gradients)
    for leaf, start in params.items():
        for layer in [slice(None)] if leaf in ("tall", "long") else [0, 1]:
            weight = torch.nn.Parameter(torch.tensor(start[layer]))
            other = pytorch_optimizer.SOAP(
                [weight],
                lr=RATE,
                betas=(0.9, 0.7),
                shampoo_beta=0.8,
                weight_decay=0.0,
                precondition_frequency=4,
                max_precondition_dim=5,
                eps=1e-6,
            )
            for gradient in gradients:
                weight.grad = torch.tensor(gradient[leaf][layer])
                # The library decomposes in single precision.
                with mock.patch.object(torch.Tensor, "to", lambda tensor, *_: tensor):
                    other.step()
            yield f"{leaf} {layer}", start[layer], found[leaf][layer], weight.detach().numpy()


@pytest.mark.parity
def test_updates_equal_those_of_pytorch_optimizer_in_each_layer():
    pytest.importorskip("torch")
    for what, _, ours, theirs in beside_pytorch_optimizer():
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8, err_msg=what)


def test_first_update_only_computes_the_basis_and_long_sides_have_none():
    params, gradients = draw()
    found, state = updated(config_of(), params, gradients[:1])
    for leaf, start in params.items():
        np.testing.assert_array_equal(found[leaf], start)
    soap = state["soap"]
    shapes = {name: (soap.left_basis[name].shape, soap.right_basis[name].shape) for name in SHAPES}
    assert shapes == {
        "square": ((2, 5, 5), (2, 5, 5)),
        "wide": ((2, 3, 3), (1,)),
        "tall": ((1,), (3, 3)),
        "vector": ((1,), (1,)),
        "long": ((1,), (1,)),
    }
    basis = soap.left_basis["square"][1]
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(
        basis @ np.diag(np.diag(basis.T @ soap.left["square"][1] @ basis)) @ basis.T, soap.left["square"][1], atol=1e-12
    )


def test_refresh_frequency_changes_the_updates():
    params, gradients = draw()
    often, seldom = (updated(config_of(soap_refresh=every), params, gradients)[0] for every in (1, 10))
    assert np.abs(often["square"] - seldom["square"]).max() > 1e-4
    np.testing.assert_array_equal(often["vector"], seldom["vector"])


def test_matrices_are_decomposed_one_at_a_time_on_a_cpu():
    """In a population too (`zoo/layers/decompositions.py` says why)."""
    optimizer = make_optimizer(config_of(), TRAITS)
    params = {name: jnp.zeros((3, *shape)) for name, shape in SHAPES.items()}
    state = jax.eval_shape(jax.vmap(optimizer.init), params)
    program = jax.jit(jax.vmap(optimizer.update)).lower(params, state, params).as_text()
    assert lapack_calls(program) == {("geqrf", 2), ("orgqr", 2), ("syevd", 2)}
