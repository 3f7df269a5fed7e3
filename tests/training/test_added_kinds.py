"""An added optimizer and an added schedule in a run, a group and a population."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.added_kinds import both_kinds_registered
from tests.support.small_runs import curves, lines, small
from zoo import config as configs
from zoo.files import read_json
from zoo.models.functional import ParameterTraits
from zoo.training.optimization.optimizer import make_optimizer
from zoo.training.optimization.schedules import make_schedule
from zoo.training.startup import RunRequest
from zoo.training.trainer import run, train_runs

RULE = {"optimizer__kind": "heavy_ball", "optimizer__momentum": 0.5, "optimizer__learning_rate": 0.1}
CHANGES = RULE | {
    "schedule__kind": "halving",
    "schedule__halvings": 2.0,
    "schedule__warmup_steps": 2,
    "training__steps": 6,
    "training__checkpoint_every": 0,
}
OTHER = {"optimizer__momentum": 0.8, "schedule__halvings": 4.0}


@pytest.fixture(autouse=True)
def added():
    with both_kinds_registered():
        yield


def expected_rates(halvings=2.0, stairs=0, final=0.0):
    """Learning rates of the 6 updates of `CHANGES`, computed independently."""
    progress = np.maximum(0, np.arange(1, 7) - 2) / 4
    progress = np.floor(progress * stairs) / stairs if stairs else progress
    return 0.1 * np.where(np.arange(1, 7) < 2, 0.5, np.maximum(2.0 ** (-halvings * progress), final))


@pytest.mark.parametrize("numbers", [{}, {"halvings": 3.5}, {"stairs": 2}, {"final": 0.4}], ids=str)
def test_added_schedule_gives_the_expected_rates(numbers):
    own = {f"schedule__{'final_fraction' if name == 'final' else name}": value for name, value in numbers.items()}
    schedule = make_schedule(configs.resolve(small(**CHANGES | own)))
    np.testing.assert_allclose([schedule(jnp.asarray(n)) for n in range(6)], expected_rates(**numbers), rtol=1e-6)


def updated(params, labels=None, **changes):
    """Returns the parameters after updates with the gradients 1, 2 and 3."""
    config = configs.resolve(small(**RULE | changes))
    optimizer = make_optimizer(config, ParameterTraits(jax.tree.map(jnp.ndim, params), {}), labels=labels)
    state = optimizer.init(params)
    for gradient in (1.0, 2.0, 3.0):
        updates, state = optimizer.update(jax.tree.map(lambda leaf, g=gradient: 0 * leaf + g, params), state, params)
        params = jax.tree.map(jnp.add, params, updates)
    return params


@pytest.mark.parametrize(("nesterov", "momentum"), [(False, 0.5), (True, 0.5), (False, 0.25)])
def test_added_optimizer_reads_its_own_fields(nesterov, momentum):
    g1, g2, g3 = (0.75, 1.5, 2.25) if nesterov else (1, 2, 3)
    m1, m2, m3 = g1, g2 + momentum * g1, g3 + momentum * (g2 + momentum * g1)
    directions = [g1 + momentum * m1, g2 + momentum * m2, g3 + momentum * m3] if nesterov else [m1, m2, m3]
    found = updated({"x": jnp.zeros(2)}, optimizer__nesterov=nesterov, optimizer__momentum=momentum)
    np.testing.assert_allclose(found["x"], -0.1 * sum(directions), rtol=1e-6)


def test_group_uses_the_optimizer_of_its_kind():
    params, labels = {"x": jnp.zeros(2), "y": jnp.zeros(2)}, {"x": "a", "y": "rest"}
    group = {"optimizer__groups": ("a",), "optimizer__group__a__select": "role:vector"}
    own = {f"optimizer__group__a__{name}": value for name, value in {"kind": "heavy_ball", "momentum": 0.25}.items()}
    heavy_ball_alone = updated(params, optimizer__momentum=0.25)["x"]
    adamw_alone = updated(params, optimizer__kind="adamw", optimizer__momentum=0.9)["x"]
    assert not np.allclose(heavy_ball_alone, adamw_alone)
    mixed = updated(params, labels, **{"optimizer__kind": "adamw", "optimizer__momentum": 0.9}, **group, **own)
    np.testing.assert_allclose((mixed["x"], mixed["y"]), (heavy_ball_alone, adamw_alone), rtol=1e-6)
    # A group of the same kind differs only in its own field.
    factor = updated(params, labels, optimizer__momentum=0.5, **group, optimizer__group__a__momentum=0.25)
    np.testing.assert_allclose(factor["x"], heavy_ball_alone, rtol=1e-6)
    assert not np.allclose(factor["y"], heavy_ball_alone)


@pytest.mark.promise(reason="programs of a population and of a run alone are compiled")
def test_runs_alone_and_in_a_population_are_bit_identical(tmp_path):
    members = [small(**CHANGES), small(**CHANGES | OTHER)]
    requests = [RunRequest(one, tmp_path / str(index), lambda line: None) for index, one in enumerate(members)]
    assert [outcome["state"] for outcome in train_runs(requests, "map")] == ["done", "done"]
    digests = set()
    for index, member in enumerate(members):
        alone = tmp_path / f"alone {index}"
        run(member, alone, lambda line: None)
        assert curves(alone) == curves(tmp_path / str(index))
        digests.add(read_json(alone / "status.json")["parameters_sha256"])
        assert read_json(tmp_path / str(index) / "status.json")["parameters_sha256"] in digests
        rates = [line["train/learning_rate"] for line in lines(alone) if "train/learning_rate" in line]
        np.testing.assert_allclose(rates, expected_rates(**({"halvings": 4.0} if index else {})), rtol=1e-6)
        losses = [line["train/loss"] for line in lines(alone) if "train/loss" in line]
        assert losses[-1] < losses[0]
    assert len(digests) == 2
