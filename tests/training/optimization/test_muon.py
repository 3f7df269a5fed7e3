"""Muon and its variants against their equations and other libraries, on stacked layers and in runs."""

import functools
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.small_runs import small
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.functional import ParameterTraits, parameter_traits, split
from zoo.models.parameter_groups import group_labels
from zoo.nested import flatten
from zoo.training.optimization.muon import orthogonalise
from zoo.training.optimization.optimizer import make_optimizer

MUON = {"optimizer__kind": "muon", "optimizer__learning_rate": 0.01, "optimizer__weight_decay": 0.1}
SHAPES = {"wide": (4, 10), "tall": (10, 4), "square": (6, 6)}


def newton_schulz(m):
    """A second implementation of the iteration, for one matrix in double precision."""
    x = m / np.linalg.norm(m)
    x = x if m.shape[0] <= m.shape[1] else x.T
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x - 4.775 * a @ x + 2.0315 * a @ a @ x
    return x if m.shape[0] <= m.shape[1] else x.T


def test_singular_values_become_1_in_each_stacked_matrix():
    draw = np.random.default_rng(0)
    # One layer is far larger than the other: normalised together, the smaller one would vanish.
    stacked = draw.normal(size=(2, 16, 32)) * np.array([1.0, 1e3])[:, None, None]
    got = np.asarray(orthogonalise(jnp.asarray(stacked, jnp.float32)))
    for layer, matrix in zip(got, stacked, strict=True):
        np.testing.assert_allclose(layer, newton_schulz(matrix), rtol=2e-4, atol=2e-5)
        values = np.linalg.svd(layer, compute_uv=False)
        assert 0.6 < values.min() < values.max() < 1.3
    assert not np.asarray(orthogonalise(jnp.zeros((3, 4)))).any()


def followed(kind, scale, start, gradients):
    """Returns one matrix after updates with the learning rate 0.01 and the decay 0.1, in double
    precision.
    """
    matrix, momentum, second = np.float64(start), 0.0, 0.0
    inputs, outputs = matrix.shape
    radius = np.linalg.norm(matrix)
    size = 0.2 * max(inputs, outputs) ** 0.5 if scale == "rms" else max(1, outputs / inputs) ** 0.5
    for gradient in np.float64(gradients):
        momentum = 0.95 * momentum + 0.05 * gradient
        direction = newton_schulz(0.95 * momentum + 0.05 * gradient)
        if kind == "muonh":
            moved = matrix - 0.01 * radius * direction / np.linalg.norm(direction)
            matrix = moved * radius / np.linalg.norm(moved)
            continue
        if kind == "normuon":
            length = 0.2 * (inputs * outputs) ** 0.5 if scale == "rms" else size * np.linalg.norm(direction)
            second = 0.95 * second + 0.05 * (direction**2).mean(0)
            evened = direction / np.sqrt(second)
            matrix = matrix - 0.01 * (length / np.linalg.norm(evened) * evened + 0.1 * matrix)
            continue
        matrix = matrix - 0.01 * (size * direction + 0.1 * matrix)
    return matrix


def updated(config, model, labels=None, steps=10):
    """Returns (parameters before, gradients, parameters after some steps) by path."""
    draw = np.random.default_rng(1)
    params = jax.tree.map(lambda leaf: jnp.asarray(draw.normal(size=leaf.shape), jnp.float32), split(model)[1])
    gradients = [
        jax.tree.map(lambda leaf: draw.normal(size=leaf.shape).astype(np.float32), params) for _ in range(steps)
    ]
    optimizer = make_optimizer(config, parameter_traits(model), labels=labels)
    before, state, step = params, optimizer.init(params), jax.jit(optimizer.update)
    for gradient in gradients:
        updates, state = step(gradient, state, params)
        params = jax.tree.map(jnp.add, params, updates)
    return flatten(before, "/"), [flatten(gradient, "/") for gradient in gradients], flatten(params, "/")


@pytest.mark.parametrize("scale", ["rms", "spectral"])
def test_ten_updates_of_a_model_follow_the_equations(scale):
    config = configs.resolve(small(model__vocab_size=257, model__dim=8, optimizer__muon_scale=scale, **MUON))
    model = make_model(config)
    before, gradients, after = updated(config, model)
    hidden = flatten(parameter_traits(model).is_hidden_matrix, "/")
    assert {path.split("/")[-2] for path in hidden if hidden[path]} >= {"query", "output", "down"}
    assert not hidden["embedding"]
    adam = configs.resolve(
        small(model__vocab_size=257, model__dim=8, optimizer__learning_rate=0.01, optimizer__weight_decay=0.1)
    )
    others = updated(adam, model)[2]
    for path, start in before.items():
        if not hidden[path]:
            np.testing.assert_array_equal(after[path], others[path], err_msg=path)
            continue
        for layer in range(start.shape[0]):
            expected = followed("muon", scale, start[layer], [gradient[path][layer] for gradient in gradients])
            np.testing.assert_allclose(after[path][layer], expected, rtol=1e-3, atol=2e-5, err_msg=path)


ADJUSTED = {"rms": "match_rms_adamw", "spectral": "original"}
UPDATE_SCALES = {"rms": "match_rms", "spectral": "preserve_norm"}


def beside_pytorch(shape, scale):
    """(before, ours, theirs) of a matrix after ten updates."""
    import torch

    draw = np.random.default_rng(2)
    kernel = draw.normal(size=shape).astype(np.float32)
    gradients = draw.normal(size=(10, *shape)).astype(np.float32)
    # PyTorch's weights are (outputs, inputs).
    weight = torch.nn.Parameter(torch.tensor(kernel.T.copy()))
    reference = torch.optim.Muon([weight], lr=0.01, weight_decay=0.1, adjust_lr_fn=ADJUSTED[scale])
    config = configs.resolve(small(optimizer__muon_scale=scale, **MUON))
    traits = parameter_traits(make_model(configs.resolve(small(model__vocab_size=257))))
    traits = traits._replace(ndim={"kernel": 2}, is_hidden_matrix={"kernel": True})
    optimizer = make_optimizer(config, traits)
    params = {"kernel": jnp.asarray(kernel)}
    state = optimizer.init(params)
    for gradient in gradients:
        updates, state = optimizer.update({"kernel": jnp.asarray(gradient)}, state, params)
        params = jax.tree.map(jnp.add, params, updates)
        weight.grad = torch.tensor(gradient.T.copy())
        # PyTorch iterates in bfloat16, which would hide all but large errors.
        with mock.patch.object(torch.Tensor, "bfloat16", lambda tensor: tensor.float()):
            reference.step()
    return kernel, np.asarray(params["kernel"]), weight.detach().numpy().T


@pytest.mark.parity
@pytest.mark.parametrize("scale", ADJUSTED)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_ten_updates_equal_those_of_pytorch(shape, scale):
    pytest.importorskip("torch")
    _, ours, theirs = beside_pytorch(shape, scale)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def single(kind, kernel, gradients, **changes):
    """Returns one hidden matrix after some updates."""
    config = configs.resolve(small(**MUON | {"optimizer__kind": kind} | changes))
    optimizer = make_optimizer(config, ParameterTraits({"kernel": kernel.ndim}, {"kernel": True}))
    params = {"kernel": jnp.asarray(kernel, jnp.float32)}
    state, step, seen = optimizer.init(params), jax.jit(optimizer.update), []
    for gradient in gradients:
        updates, state = step({"kernel": jnp.asarray(gradient, jnp.float32)}, state, params)
        params = jax.tree.map(jnp.add, params, updates)
        seen.append(np.asarray(params["kernel"]))
    return seen


def normuon_beside_pytorch_optimizer(shape, scale):
    """(before, ours, theirs) of a matrix after ten updates."""
    import torch
    from pytorch_optimizer.optimizer.muon import normuon

    # The library iterates in bfloat16, which would hide all but large errors.
    iterate = functools.partial(normuon.zero_power_via_newton_schulz_5, dtype=torch.float32)
    draw = np.random.default_rng(2)
    kernel, gradients = draw.normal(size=shape), draw.normal(size=(10, *shape))
    weight = torch.nn.Parameter(torch.tensor(kernel.T.copy(), dtype=torch.float32))
    reference = normuon.NorMuon(
        [{"params": [weight], "use_muon": True}],
        lr=0.01,
        weight_decay=0.1,
        beta2=0.8,
        update_scale=UPDATE_SCALES[scale],
        foreach=False,
    )
    for gradient in gradients:
        weight.grad = torch.tensor(gradient.T.copy(), dtype=torch.float32)
        with mock.patch.object(normuon, "zero_power_via_newton_schulz_5", iterate):
            reference.step()
    found = single("normuon", kernel, gradients, optimizer__muon_scale=scale, optimizer__normuon_beta2=0.8)[-1]
    return kernel, found, weight.detach().numpy().T


@pytest.mark.parity
@pytest.mark.parametrize("scale", UPDATE_SCALES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_ten_updates_of_normuon_equal_those_of_pytorch_optimizer(shape, scale):
    pytest.importorskip("torch")
    _, ours, theirs = normuon_beside_pytorch_optimizer(shape, scale)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def test_ten_updates_of_muonh_follow_the_equations_and_keep_every_norm():
    draw = np.random.default_rng(3)
    # Two layers with different norms: each keeps its own.
    kernel = draw.normal(size=(2, 4, 10)) * np.array([1.0, 5.0])[:, None, None]
    gradients = draw.normal(size=(10, 2, 4, 10))
    config = configs.resolve(small(**MUON | {"optimizer__kind": "muonh"}))
    optimizer = make_optimizer(config, ParameterTraits({"kernel": 2}, {"kernel": True}))
    params = {"kernel": jnp.asarray(kernel, jnp.float32)}
    state = optimizer.init(params)
    for gradient in gradients:
        updates, state = optimizer.update({"kernel": jnp.asarray(gradient, jnp.float32)}, state, params)
        params = jax.tree.map(jnp.add, params, updates)
    for layer in (0, 1):
        expected = followed("muonh", None, kernel[layer], gradients[:, layer])
        np.testing.assert_allclose(params["kernel"][layer], expected, rtol=1e-3, atol=2e-5)
        radius = np.linalg.norm(kernel[layer])
        assert np.linalg.norm(params["kernel"][layer]) == pytest.approx(radius, rel=1e-5)


# Two stacked layers, and two query heads per key head.
STACKED = {
    "model__vocab_size": 257,
    "model__dim": 8,
    "model__num_layers": 2,
    "model__attention__num_kv_heads": 2,
    "optimizer__muon_heads": "split",
}
TWO_SIDES = STACKED | {
    "model__architecture": "encoder_decoder",
    "objective__kind": "prefix",
    "objective__prefix_length": 6,
}
HEADS = {"query": 4, "key": 2, "value": 2}


@pytest.mark.parametrize(
    ("kind", "scale", "sides"),
    [("muon", "rms", TWO_SIDES), ("normuon", "rms", STACKED), ("normuon", "spectral", STACKED), ("muonh", "", STACKED)],
    ids=["muon", "normuon-rms", "normuon-spectral", "muonh"],
)
def test_heads_can_be_orthogonalised_separately(kind, scale, sides):
    sized = {"optimizer__muon_scale": scale} if scale else {}
    config = configs.resolve(small(**sides | MUON | sized | {"optimizer__kind": kind}))
    model = make_model(config)
    before, gradients, after = updated(config, model, steps=3)
    hidden = flatten(parameter_traits(model).is_hidden_matrix, "/")
    projections = [path for path in before if hidden[path] and path.split("/")[-2] in (*HEADS, "output")]
    assert len(projections) == (12 if sides is TWO_SIDES else 4)
    for path in projections:
        heads = HEADS.get(path.split("/")[-2], 1)
        for layer in range(2):
            parts = [
                followed(kind, scale, start, [np.split(each[path][layer], heads, -1)[head] for each in gradients])
                for head, start in enumerate(np.split(before[path][layer], heads, -1))
            ]
            expected = np.concatenate(parts, -1)
            np.testing.assert_allclose(after[path][layer], expected, rtol=1e-3, atol=2e-5, err_msg=path)


def test_separate_heads_without_attention_matrices_are_refused():
    own = {
        "optimizer__groups": ("ffn", "tables"),
        "optimizer__group__ffn__select": "axes:mlp",
        "optimizer__group__ffn__muon_heads": "split",
        "optimizer__group__tables__select": "role:embedding",
        "optimizer__group__tables__kind": "adamw",
    }
    line = "has no effect: no projection to queries, keys or values of several heads follows it; leave it out"
    for changes, path in (
        (own, "optimizer.group.ffn.muon_heads"),
        ({"model__attention__num_heads": 1, "optimizer__muon_heads": "split"}, "optimizer.muon_heads"),
    ):
        config = configs.resolve(small(**MUON, model__vocab_size=257, **changes))
        with pytest.raises(ConfigError) as refusal:
            group_labels(config, make_model(config))
        assert refusal.value.problems == [f"{path}=split {line}"]


def test_matrix_of_zeros_is_refused_by_muonh():
    config = configs.resolve(small(model__vocab_size=257, optimizer__kind="muonh", model__init__zero_outputs=True))
    with pytest.raises(ConfigError) as refusal:
        group_labels(config, make_model(config))
    assert refusal.value.problems == [
        f"optimizer.kind=muonh keeps the norm of the initial values, and those of stack/layers/{path}/kernel are 0; give "
        "it another kind in a group of its own"
        for path in ("attention/output", "ffn/down")
    ]


def test_momentum_rises_from_0_85_during_warmup():
    kernel, gradients = np.eye(3), np.random.default_rng(4).normal(size=(6, 3, 3))
    plain = MUON | {"optimizer__weight_decay": 0.0}
    found = single("muon", kernel, gradients, **plain, optimizer__momentum_warmup=4)[-1]
    momentum, expected = 0.0, kernel
    for step, gradient in enumerate(gradients):
        mu = 0.85 + 0.1 * min(1, step / 4)
        momentum = mu * momentum + (1 - mu) * gradient
        expected = expected - 0.01 * 0.2 * 3**0.5 * newton_schulz(mu * momentum + (1 - mu) * gradient)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-5)


def test_adamw_group_has_its_own_learning_rate():
    own = {
        "optimizer__groups": ("tables",),
        "optimizer__group__tables__select": "role:embedding,role:head",
        "optimizer__group__tables__kind": "adamw",
        "optimizer__group__tables__rate_factor": 0.5,
        "optimizer__group__tables__weight_decay": 0.0,
    }
    config = configs.resolve(small(model__vocab_size=257, model__dim=8, **MUON, **own))
    model = make_model(config)
    before, _, after = updated(config, model, group_labels(config, model), steps=1)
    hidden = flatten(parameter_traits(model).is_hidden_matrix, "/")
    # The first step of Adam is the sign of the gradient.
    np.testing.assert_allclose(np.abs(after["embedding"] - before["embedding"]), 0.005, rtol=1e-3)
    assert all((after[path] != before[path]).any() for path in hidden)


def test_group_without_matrices_is_refused():
    own = {
        "optimizer__groups": ("tables",),
        "optimizer__group__tables__select": "role:embedding",
        "optimizer__group__tables__kind": "muon",
    }
    config = configs.resolve(small(model__vocab_size=257, **own))
    with pytest.raises(ConfigError, match=r"tables\.kind=muon: the group has no matrix of a hidden layer"):
        group_labels(config, make_model(config))
