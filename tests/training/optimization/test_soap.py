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
SHAPES = {"square": (2, 5, 5), "wide": (2, 3, 6), "tall": (6, 3), "vector": (2, 4), "long": (7, 7)}
DECAY = 0.1
SETTINGS = {"soap_refresh": 4, "soap_max_dim": 5, "soap_beta": 0.8, "beta1": 0.9, "beta2": 0.7, "epsilon": 1e-6}


def traits_of(names):
    """Two layers of some parameters are stacked."""
    ndim = {name: len(SHAPES[name]) - (name in ("square", "wide", "vector")) for name in names}
    return ParameterTraits(ndim, dict.fromkeys(names, False))


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
        optimizer = make_optimizer(config, traits_of(params))
        params = jax.tree.map(jnp.asarray, params)
        state, step = optimizer.init(params), jax.jit(optimizer.update)
        for gradient in gradients:
            updates, state = step(jax.tree.map(jnp.asarray, gradient), state, params)
            params = jax.tree.map(jnp.add, params, updates)
        return jax.tree.map(np.asarray, (params, state))


ROTATED = {"soap_max_dim": 7}  # Every side of a matrix.
WITH_REFERENCE = {
    "soap": {},
    "soap with decay": {"weight_decay": DECAY},
    "soap, every side": ROTATED,
    "soap with decay, every side": {"weight_decay": DECAY, **ROTATED},
}


def library_decay(config, leaf):
    """Returns the rate and the decay with which pytorch-optimizer makes the same updates.

    It decays the parameter after it has moved, and vectors too; W - r u - r d W is
    (1 - r d) (W - r / (1 - r d) u).
    """
    decay = 0.0 if leaf == "vector" else config.optimizer.weight_decay
    left = 1 - RATE * decay
    return {"lr": RATE / left, "weight_decay": decay * left}


def beside_pytorch_optimizer(**changes):
    """Yields (what, before, ours, theirs) of each parameter and layer after the updates.

    The eigenvalues of a side that is longer than the other are partly 0 after the first gradient, and
    their vectors arbitrary; the library gets ours.
    """
    import pytorch_optimizer
    import torch

    config, (params, gradients) = config_of(**changes), draw()
    found, _ = updated(config, params, gradients)
    first = updated(config, params, gradients[:1])[1]["soap"]
    for leaf, start in params.items():
        for layer in [slice(None)] if leaf in ("tall", "long") else [0, 1]:
            weight = torch.nn.Parameter(torch.tensor(start[layer]))
            other = pytorch_optimizer.SOAP(
                [weight],
                betas=(0.9, 0.7),
                shampoo_beta=0.8,
                precondition_frequency=4,
                max_precondition_dim=config.optimizer.soap_max_dim,
                eps=1e-6,
                **library_decay(config, leaf),
            )
            for number, gradient in enumerate(gradients):
                weight.grad = torch.tensor(gradient[leaf][layer])
                # The library decomposes in single precision.
                with mock.patch.object(torch.Tensor, "to", lambda tensor, *_: tensor):
                    other.step()
                if number == 0:
                    state = other.state[weight]
                    for side, ours in enumerate((first.left_basis[leaf], first.right_basis[leaf])):
                        if side < len(state["Q"]) and len(state["Q"][side]):
                            state["Q"][side] = torch.tensor(ours[layer])
            yield f"{leaf} {layer}", start[layer], found[leaf][layer], weight.detach().numpy()


@pytest.mark.parity
@pytest.mark.parametrize("name", WITH_REFERENCE)
def test_updates_equal_those_of_pytorch_optimizer_in_each_layer(name):
    pytest.importorskip("torch")
    for what, _, ours, theirs in beside_pytorch_optimizer(**WITH_REFERENCE[name]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8, err_msg=what)


@pytest.mark.parametrize("form", ["decoupled", "independent", "cautious"])
def test_first_update_moves_nothing_by_decay_either(form):
    params, gradients = ([{"tall": one["tall"]} for one in each] for each in ([draw()[0]], draw()[1]))
    config = config_of(weight_decay=DECAY, weight_decay_form=form, soap_max_dim=1)
    moved = [updated(config, params[0], gradients[:number])[0]["tall"] for number in (1, 2)]
    np.testing.assert_array_equal(moved[0], params[0]["tall"])
    without = updated(config_of(soap_max_dim=1), params[0], gradients[:2])[0]["tall"]
    assert np.abs(moved[1] - without).max() > 1e-5


def test_first_bases_are_eigenvectors_on_every_side_of_matrices_that_are_not_square():
    params, gradients = draw()
    soap = updated(config_of(**ROTATED), params, gradients[:1])[1]["soap"]
    for leaf in ("square", "wide", "tall", "long"):
        for basis, average in ((soap.left_basis, soap.left), (soap.right_basis, soap.right)):
            turned = basis[leaf].mT @ average[leaf] @ basis[leaf]
            values = np.diagonal(turned, axis1=-2, axis2=-1)
            np.testing.assert_allclose(turned, values[..., None] * np.eye(values.shape[-1]), atol=1e-12)
            np.testing.assert_allclose(basis[leaf].mT @ basis[leaf], 0 * turned + np.eye(values.shape[-1]), atol=1e-12)
            assert (np.diff(values, axis=-1) < 1e-12).all()


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
    optimizer = make_optimizer(config_of(), traits_of(SHAPES))
    params = {name: jnp.zeros((3, *shape)) for name, shape in SHAPES.items()}
    state = jax.eval_shape(jax.vmap(optimizer.init), params)
    program = jax.jit(jax.vmap(optimizer.update)).lower(params, state, params).as_text()
    assert lapack_calls(program) == {("geqrf", 2), ("orgqr", 2), ("syevd", 2)}
