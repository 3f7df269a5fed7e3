"""Each form of weight decay against its equation and PyTorch, with and without groups."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.small_runs import small
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.functional import ParameterTraits, parameter_traits
from zoo.nested import flatten
from zoo.training.optimization.optimizer import make_optimizer

RATE, DECAY, STEPS = 0.01, 0.3, 8
TRAITS = ParameterTraits({"kernel": 2, "bias": 1}, {"kernel": False, "bias": False})
FORMS = ("decoupled", "coupled", "independent", "cautious")


def draw():
    numbers = np.random.default_rng(0)
    start = {"kernel": numbers.normal(size=(4, 3)), "bias": numbers.normal(size=3)}
    return start, [{name: numbers.normal(size=leaf.shape) for name, leaf in start.items()} for _ in range(STEPS)]


def updated(labels=None, **changes):
    common = {
        "optimizer__learning_rate": RATE,
        "optimizer__weight_decay": DECAY,
        "schedule__kind": "linear",
        "training__steps": STEPS + 1,
    }
    optimizer = make_optimizer(configs.resolve(small(**common | changes)), TRAITS, labels=labels)
    start, gradients = draw()
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), start)
    state = optimizer.init(params)
    for gradient in gradients:
        updates, state = optimizer.update(
            jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), gradient), state, params
        )
        params = jax.tree.map(jnp.add, params, updates)
    return params


def adam(start, gradients, form, decay, schedule="constant"):
    """AdamW with a linearly falling learning rate and one form of weight decay."""
    whole = decay
    value, first, second = start, 0.0, 0.0
    for step, g in enumerate(gradients, 1):
        share = 1 - step / (STEPS + 1)
        decay = whole * {"constant": 1, "linear": 1 - (step - 1) / (STEPS + 1), "rate": share}[schedule]
        g = g + decay * value if form == "coupled" else g
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        u = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        shrunk = {
            "decoupled": RATE * share * decay * value,
            "coupled": 0.0,
            "independent": share * decay * value,
            "cautious": RATE * share * decay * np.where(u * value >= 0, value, 0),
        }
        value = value - RATE * share * u - shrunk[form]
    return value


@pytest.mark.parametrize("form", FORMS)
def test_only_matrices_decay_and_follow_the_equation(form):
    start, gradients = draw()
    found = updated(optimizer__weight_decay_form=form)
    for name, decay in (("kernel", DECAY), ("bias", 0.0)):
        expected = adam(start[name], [gradient[name] for gradient in gradients], form, decay)
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("schedule", ["linear", "rate"])
@pytest.mark.parametrize("form", FORMS)
def test_decay_schedule_follows_the_run_or_the_rate(form, schedule):
    start, gradients = draw()
    found = updated(optimizer__weight_decay_form=form, optimizer__weight_decay_schedule=schedule)
    for name, decay in (("kernel", DECAY), ("bias", 0.0)):
        expected = adam(start[name], [gradient[name] for gradient in gradients], form, decay, schedule)
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_group_can_have_its_own_form_of_decay():
    group = {
        "optimizer__groups": ("a",),
        "optimizer__group__a__select": "role:vector",
        "optimizer__group__a__weight_decay": 0.5,
        "optimizer__group__a__weight_decay_form": "cautious",
    }
    start, gradients = draw()
    found = updated({"kernel": "rest", "bias": "a"}, optimizer__weight_decay_form="coupled", **group)
    for name, form, decay in (("kernel", "coupled", DECAY), ("bias", "cautious", 0.5)):
        expected = adam(start[name], [gradient[name] for gradient in gradients], form, decay)
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parity
@pytest.mark.parametrize(("form", "name"), [("coupled", "Adam"), ("decoupled", "AdamW")])
def test_forms_equal_adam_and_adamw_of_pytorch(form, name):
    torch = pytest.importorskip("torch")
    start, gradients = draw()
    weight = torch.nn.Parameter(torch.tensor(start["kernel"], dtype=torch.float32))
    reference = getattr(torch.optim, name)([weight], lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(reference, lambda step: 1 - (step + 1) / (STEPS + 1))
    for gradient in gradients:
        weight.grad = torch.tensor(gradient["kernel"], dtype=torch.float32)
        reference.step()
        schedule.step()
    found = updated(optimizer__weight_decay_form=form)
    np.testing.assert_allclose(found["kernel"], weight.detach().numpy(), rtol=1e-5, atol=1e-6)


def refused(**changes):
    with pytest.raises(ConfigError) as caught:
        configs.resolve(small(**changes))
    return caught.value.problems


def test_decay_form_without_decay_is_refused():
    line = "optimizer.weight_decay_form=cautious has no effect with optimizer.weight_decay=0"
    assert refused(optimizer__weight_decay_form="cautious") == [line]
    group = {"optimizer__groups": ("a",), "optimizer__group__a__select": "role:vector"}
    own = group | {"optimizer__group__a__weight_decay_form": "cautious"}
    assert refused(**own) == [
        "optimizer.group.a.weight_decay_form=cautious has no effect with optimizer.weight_decay=0; leave it out"
    ]
    # With the decay of a group, the form has an effect there.
    configs.resolve(small(optimizer__weight_decay_form="cautious", optimizer__group__a__weight_decay=0.1, **group))


def test_decay_schedule_without_effect_is_refused():
    line = "optimizer.weight_decay_schedule=linear has no effect with optimizer.weight_decay=0"
    assert refused(optimizer__weight_decay_schedule="linear") == [line]
    assert refused(optimizer__weight_decay=0.1, optimizer__weight_decay_schedule="rate") == [
        "optimizer.weight_decay_schedule=rate has no effect: the learning rate is constant"
    ]


def test_norms_of_single_heads_are_not_decayed():
    """Their scales have two dimensions, as matrices do."""
    changes = {"model__attention__qk_norm": "head_layernorm", "model__attention__output_norm": True}
    model = make_model(configs.resolve(small(**changes)))
    decays = flatten(parameter_traits(model).decays, "/")
    scales = {path for path in decays if path.endswith("/scale")}
    assert {path.split("/")[-2] for path in scales} >= {"query_norm", "key_norm", "output_norm"}
    assert not any(decays[path] for path in scales)
    assert {path for path, decay in decays.items() if decay} == {
        path for path in decays if path.endswith(("kernel", "embedding")) or path == "position/table"
    }
