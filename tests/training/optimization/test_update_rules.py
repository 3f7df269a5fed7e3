"""Update rules against their equations in double precision and against other libraries."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.support.small_runs import curves, small, stop_requested_at
from zoo import config as configs
from zoo.errors import ConfigError, Preempted
from zoo.models.functional import ParameterTraits
from zoo.training.optimization.optimizer import make_optimizer
from zoo.training.trainer import run

RATE, STEPS = 0.01, 10
# Two layers of a matrix, two of a vector, and a matrix that is not stacked.
SHAPES = {"stacked": (2, 6, 4), "vectors": (2, 4), "table": (5, 4)}
TRAITS = ParameterTraits({"stacked": 2, "vectors": 1, "table": 2}, dict.fromkeys(SHAPES, False))
FIELDS = {
    "adamw": {},
    "sgd": {"sgd_momentum": 0.8},
    "sgd with Nesterov": {"sgd_nesterov": True},
    "nadamw": {"beta1": 0.8, "epsilon": 1e-3},
    "lion": {"lion_beta1": 0.7},
    "adagrad": {"adagrad_initial": 0.2},
    "adafactor": {"adafactor_min_factored": 2},
    "adafactor, whole": {"adafactor_decay": 0.6, "adafactor_clip": 0.5, "adafactor_scaled": False},
    "ademamix": {"ademamix_beta3": 0.999, "ademamix_alpha": 3.0, "ademamix_warmup": 6},
    "ademamix at once": {"ademamix_warmup": 0, "beta2": 0.99},
    "adopt": {"beta2": 0.9},
    "stable_adamw": {"beta2": 0.99, "epsilon": 1e-3},
}
FIELDS |= {"lamb": {"epsilon": 1e-12}, "lamb with decay": {"weight_decay": 0.1, "beta2": 0.99}}
SCHEDULE = {"momentum_warmup": 4, "momentum_cooldown": 3, "momentum_start": 0.5}
SCHEDULED = {
    f"{name}, scheduled": {**FIELDS[name], **SCHEDULE}
    for name in ("adamw", "nadamw", "stable_adamw", "lamb", "sgd", "sgd with Nesterov", "lion")
}
FIELDS |= SCHEDULED | {"adamw, cooled": {"momentum_cooldown": 4}}
# Progress of the first moment's decay from `momentum_start` before each update and after the last
# one.
SHARES = {
    "scheduled": (0, 1 / 4, 2 / 4, 3 / 4, 1, 1, 1, 1, 2 / 3, 1 / 3, 0),
    "cooled": (1, 1, 1, 1, 1, 1, 1, 3 / 4, 2 / 4, 1 / 4, 0),
}


def kind_of(name):
    return name.split(",")[0].split()[0]


def draw():
    """Returns (initial values, gradients of every step) by name; each layer's gradients have their
    own scale.
    """
    numbers = np.random.default_rng(0)
    params = {name: numbers.normal(size=shape) for name, shape in SHAPES.items()}
    params["stacked"][1] *= 10
    scale = {"stacked": np.array([1.0, 30.0])[:, None, None], "vectors": 0.1, "table": 1.0}
    gradients = [
        {name: scale[name] * numbers.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(STEPS)
    ]
    return params, gradients


def config_of(name, **changes):
    own = {f"optimizer__{field}": value for field, value in FIELDS[name].items()}
    return configs.resolve(
        small(
            optimizer__kind=kind_of(name), optimizer__learning_rate=RATE, **own | {"training__steps": STEPS} | changes
        )
    )


def updated(name, params, gradients, traits=TRAITS, **changes):
    """Returns the parameters after the updates, in float32."""
    optimizer = make_optimizer(config_of(name, **changes), traits)
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
    state, step = optimizer.init(params), jax.jit(optimizer.update)
    for gradient in gradients:
        updates, state = step(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), gradient), state, params)
        params = jax.tree.map(jnp.add, params, updates)
    return params


def followed(name, start, gradients):
    """Returns one parameter of one layer after the updates, in double precision."""
    values = configs.resolve(config_of(name)).optimizer
    shares = SHARES.get(name.partition(", ")[2], (1,) * (STEPS + 1))

    def momentum_of(own, step):
        return values.momentum_start + shares[step - 1] * (own - values.momentum_start)

    first = second = slow = 0.0
    product = 1.0
    total = values.adagrad_initial if kind_of(name) == "adagrad" else 0.0
    kind, parameter = kind_of(name), start
    for step, g in enumerate(gradients, 1):
        if kind in ("adamw", "nadamw", "ademamix", "stable_adamw", "lamb"):
            b1, b2 = momentum_of(values.beta1, step), values.beta2
            product *= b1
            first, second = b1 * first + (1 - b1) * g, b2 * second + (1 - b2) * g**2
            root = np.sqrt(second / (1 - b2**step)) + values.epsilon
        if kind == "adamw":
            direction = first / (1 - product) / root
        elif kind == "stable_adamw":
            relative = g**2 / np.maximum(second / (1 - b2**step), values.epsilon**2)
            direction = first / (1 - product) / root / max(1, np.sqrt(relative.mean()))
        elif kind == "lamb":
            direction = first / (1 - product) / root
            if g.ndim == 2:
                direction = direction + values.weight_decay * parameter
                direction = direction * np.linalg.norm(parameter) / np.linalg.norm(direction)
        elif kind == "nadamw":
            ahead = momentum_of(values.beta1, step + 1)
            direction = (ahead * first / (1 - ahead * product) + (1 - b1) * g / (1 - product)) / root
        elif kind == "ademamix":
            share = min(1, step / max(values.ademamix_warmup, 1))
            half_life = (1 - share) / np.log(b1) + share / np.log(values.ademamix_beta3)
            decay = np.exp(1 / half_life)
            slow = decay * slow + (1 - decay) * g
            direction = (first / (1 - product) + share * values.ademamix_alpha * slow) / root
        elif kind == "sgd":
            momentum = momentum_of(values.sgd_momentum, step)
            first = momentum * first + g
            direction = g + momentum * first if values.sgd_nesterov else first
        elif kind == "lion":
            direction = np.sign(values.lion_beta1 * first + (1 - values.lion_beta1) * g)
            momentum = momentum_of(values.lion_beta2, step)
            first = momentum * first + (1 - momentum) * g
        elif kind == "adagrad":
            total = total + g**2
            direction = g / np.sqrt(total)
        elif kind == "adopt":
            if step > 1:
                clipped = np.clip(
                    g / np.maximum(np.sqrt(second), values.epsilon), -((step - 1) ** 0.25), (step - 1) ** 0.25
                )
                first = values.beta1 * first + (1 - values.beta1) * clipped
            direction = first
            second = values.beta2 * second + (1 - values.beta2) * g**2 if step > 1 else g**2
        elif kind == "adafactor":
            decay = 1 - step**-values.adafactor_decay
            square = g**2 + 1e-30
            total = decay * total + (1 - decay) * square
            whole = total
            if g.ndim == 2 and min(g.shape) >= values.adafactor_min_factored:
                whole = np.outer(total.mean(1), total.mean(0)) / total.mean()
            direction = g / np.sqrt(whole)
            direction = direction / max(1, np.sqrt((direction**2).mean()) / values.adafactor_clip)
            if values.adafactor_scaled:
                direction = direction * max(1e-3, np.sqrt((parameter**2).mean()))
        parameter = parameter - RATE * direction
    return parameter


@pytest.mark.parametrize("name", FIELDS)
def test_ten_updates_follow_the_equations_in_each_layer(name):
    params, gradients = draw()
    found = updated(name, params, gradients)
    for leaf, start in params.items():
        layers = [()] if leaf == "table" else [0, 1]
        for layer in layers:
            expected = followed(name, start[layer], [gradient[leaf][layer] for gradient in gradients])
            np.testing.assert_allclose(found[leaf][layer], expected, rtol=2e-4, atol=2e-5, err_msg=f"{leaf} {layer}")


def test_adafactor_moves_small_parameters_as_if_they_were_a_thousandth():
    params, gradients = draw()
    small_ones = {key: 1e-7 * value for key, value in params.items()}
    found = updated("adafactor", small_ones, gradients[:1])
    expected = followed("adafactor", small_ones["table"], [gradients[0]["table"]])
    np.testing.assert_allclose(found["table"], expected, rtol=1e-3, atol=1e-9)
    assert np.abs(found["table"]).max() > 1e-5


def test_bias_of_a_first_moment_with_changing_decay_is_corrected():
    """The corrected average of equal gradients is that gradient for any decays."""
    params, _ = draw()
    gradients = [{leaf: np.full(shape, 2.0) for leaf, shape in SHAPES.items()}] * STEPS
    found = updated("adamw, scheduled", params, gradients)
    for leaf, start in params.items():
        np.testing.assert_allclose(found[leaf] - start, -RATE * STEPS, rtol=1e-4)


def reference(name, weight):
    """Returns the optimizer of PyTorch, transformers or pytorch-optimizer with equal settings."""
    import pytorch_optimizer
    import torch
    from transformers.optimization import Adafactor

    values = config_of(name).optimizer
    made = {
        "adamw": lambda: torch.optim.AdamW([weight], lr=RATE, weight_decay=0),
        "sgd": lambda: torch.optim.SGD([weight], lr=RATE, momentum=values.sgd_momentum, nesterov=values.sgd_nesterov),
        "lion": lambda: pytorch_optimizer.Lion(
            [weight], lr=RATE, betas=(values.lion_beta1, values.lion_beta2), weight_decay=0
        ),
        "adagrad": lambda: torch.optim.Adagrad(
            [weight], lr=RATE, initial_accumulator_value=values.adagrad_initial, eps=0
        ),
        "adafactor": lambda: Adafactor(
            [weight],
            lr=RATE,
            eps=(1e-30, 1e-3),
            clip_threshold=values.adafactor_clip,
            decay_rate=-values.adafactor_decay,
            scale_parameter=values.adafactor_scaled,
            relative_step=False,
            warmup_init=False,
        ),
        "ademamix": lambda: pytorch_optimizer.AdEMAMix(
            [weight],
            lr=RATE,
            betas=(values.beta1, values.beta2, values.ademamix_beta3),
            alpha=values.ademamix_alpha,
            t_alpha_beta3=values.ademamix_warmup or None,
            eps=values.epsilon,
        ),
        "stable_adamw": lambda: pytorch_optimizer.StableAdamW(
            [weight], lr=RATE, betas=(values.beta1, values.beta2), eps=values.epsilon, weight_decay=0
        ),
        "adopt": lambda: pytorch_optimizer.ADOPT(
            [weight], lr=RATE, betas=(values.beta1, values.beta2), eps=values.epsilon, clip_lambda=published_clip()
        ),
        "lamb": lambda: unclamped(pytorch_optimizer.Lamb([weight], lr=RATE, eps=values.epsilon, adam_debias=True)),
    }
    return made[kind_of(name)]()


def unclamped(lamb):
    """Returns the LAMB without its bound on the norm of the weights."""
    lamb.clamp = float("inf")
    return lamb


def published_clip():
    """Replaces the library's bound, which counts updates from 1, by the paper's t^(1/4), where t
    counts earlier updates.
    """
    return lambda step: (step - 1) ** 0.25


# pytorch-optimizer's LAMB corrects no bias, which makes no difference without decay and epsilon; it
# has to be told not to divide the rate by the correction.
WITH_REFERENCE = tuple(
    name
    for name in FIELDS
    if kind_of(name) != "nadamw" and name != "lamb with decay" and name.partition(", ")[2] not in SHARES
)


def beside_library(name):
    """Yields (what, before, ours, theirs) of each parameter and layer after the updates."""
    import torch

    params, gradients = draw()
    found = updated(name, params, gradients)
    for leaf, layer in (("stacked", 0), ("stacked", 1), ("vectors", 0), ("table", slice(None))):
        if name == "adafactor, whole" and leaf != "vectors":
            continue  # The library factorises every matrix by row and column.
        if name == "lamb" and leaf == "vectors":
            continue  # The library scales updates of vectors by the norm of the parameter too.
        weight = torch.nn.Parameter(torch.tensor(params[leaf][layer], dtype=torch.float32))
        other = reference(name, weight)
        for gradient in gradients:
            weight.grad = torch.tensor(gradient[leaf][layer], dtype=torch.float32)
            other.step()
        yield f"{leaf} {layer}", params[leaf][layer], found[leaf][layer], weight.detach().numpy()


def lamb_beside_optax():
    """Like `beside_library`, for matrices under LAMB with decay."""
    params, gradients = draw()
    values, found = config_of("lamb with decay").optimizer, updated("lamb with decay", *draw())
    other = optax.lamb(RATE, values.beta1, values.beta2, values.epsilon, weight_decay=values.weight_decay)
    for leaf, layer in (("stacked", 0), ("stacked", 1), ("table", slice(None))):
        theirs = jnp.asarray(params[leaf][layer], jnp.float32)
        state = other.init(theirs)
        for gradient in gradients:
            update, state = other.update(jnp.asarray(gradient[leaf][layer], jnp.float32), state, theirs)
            theirs = theirs + update
        yield f"{leaf} {layer}", params[leaf][layer], found[leaf][layer], np.asarray(theirs)


def test_lamb_with_decay_equals_optax_in_each_layer():
    for what, _, ours, theirs in lamb_beside_optax():
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6, err_msg=what)


def test_lamb_equals_adam_where_a_norm_is_0():
    params, gradients = draw()
    params["table"] *= 0
    found, adam = (updated(name, params, gradients[:1], optimizer__epsilon=1e-8) for name in ("lamb", "adamw"))
    for leaf in ("table", "vectors"):
        np.testing.assert_array_equal(found[leaf], adam[leaf])
    still = updated("lamb", *(jax.tree.map(np.zeros_like, each) for each in (params, gradients)))
    assert not any(np.asarray(leaf).any() for leaf in still.values())


@pytest.mark.parity
@pytest.mark.parametrize("name", WITH_REFERENCE)
def test_ten_updates_equal_those_of_another_library(name):
    pytest.importorskip("torch")
    for what, _, ours, theirs in beside_library(name):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5, err_msg=what)


GROUPED = {
    "tables": {"select": "role:embedding", "kind": "ademamix", "ademamix_warmup": 6},
    "down": {"select": "path:*/down/kernel", "kind": "adafactor", "adafactor_min_factored": 8},
    "up": {"select": "axes:mlp", "kind": "nadamw"},
    "attention": {"select": "path:*/query/*", "kind": "adopt"},
    "keys": {"select": "path:*/key/*", "kind": "adagrad", "rate_factor": 5.0},
    "values": {"select": "path:*/value/kernel", "kind": "muon", "muon_heads": "split"},
    "vectors": {"select": "role:vector", "kind": "lion", "weight_decay": 0.1, "weight_decay_form": "cautious"},
}


@pytest.mark.promise(reason="a run with all rules is trained")
def test_run_with_a_rule_per_group_resumes_bit_for_bit(tmp_path, monkeypatch):
    groups = {
        f"optimizer__group__{name}__{field}": value for name, own in GROUPED.items() for field, value in own.items()
    }
    made = small(
        optimizer__kind="sgd",
        optimizer__momentum_warmup=5,
        optimizer__momentum_cooldown=5,
        optimizer__learning_rate=3e-3,
        optimizer__weight_decay=0.1,
        optimizer__weight_decay_form="coupled",
        optimizer__groups=tuple(GROUPED),
        **groups,
    )
    run(made, tmp_path / "whole")
    with stop_requested_at(1, monkeypatch), pytest.raises(Preempted):
        run(made, tmp_path / "parts")
    run(made, tmp_path / "parts")
    assert curves(tmp_path / "whole") == curves(tmp_path / "parts")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"optimizer__sgd_nesterov": True, "optimizer__sgd_momentum": 0.0},
            "optimizer.sgd_nesterov=true has no effect with optimizer.sgd_momentum=0",
        ),
        (
            {"optimizer__weight_decay": 0.1, "optimizer__weight_decay_form": "coupled", "optimizer__sgd_momentum": 0.0},
            "optimizer.weight_decay_form=coupled is the same as decoupled with optimizer.sgd_momentum=0; leave it out",
        ),
        (
            {"optimizer__momentum_start": 0.5},
            "optimizer.momentum_start=0.5 has no effect with optimizer.momentum_warmup=0 and optimizer.momentum_cooldown=0",
        ),
        (
            {"optimizer__momentum_start": 0.9, "optimizer__momentum_cooldown": 3},
            "optimizer.momentum_start=0.9 is optimizer.sgd_momentum itself, so the decay of the first moment does not "
            "change",
        ),
        (
            {"optimizer__kind": "adagrad", "optimizer__momentum_warmup": 3},
            "optimizer.momentum_warmup=3 has no effect: it is read only when optimizer.kind is adamw or muon or normuon or "
            "muonh or sgd or nadamw or lion or stable_adamw or lamb, and optimizer.kind is adagrad; leave it at 0",
        ),
        (
            {"optimizer__kind": "lamb", "optimizer__weight_decay": 0.1, "optimizer__weight_decay_form": "cautious"},
            "optimizer.kind=lamb has the decay inside of the length that it gives to a direction; "
            "optimizer.weight_decay_form=cautious must be decoupled or coupled",
        ),
    ],
    ids=["nesterov", "coupled", "start", "same", "no first moment", "decay of LAMB"],
)
def test_settings_without_effect_are_refused(changes, line):
    with pytest.raises(ConfigError) as caught:
        configs.resolve(small(**{"optimizer__kind": "sgd"} | changes))
    assert caught.value.problems == [line]
