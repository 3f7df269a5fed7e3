"""Mixtures of experts that begin with a dense run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import call, counting, with_values
from tests.support.small_runs import small
from tests.support.untrained import untrained
from zoo import config as configs
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training import startup
from zoo.training.checkpoints.warm_start import check_start_from
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program
from zoo.training.trained_run import load_trained

DENSE = {"model__ffn__kind": "swiglu", "model__ffn__hidden_dim": 24, "model__ffn__bias": True, "model__num_layers": 4}
MIXTURE = DENSE | {
    "model__ffn__kind": "moe",
    "model__ffn__experts__kind": "swiglu",
    "model__ffn__experts__number": 4,
    "model__ffn__experts__bias_rate": 0.001,
}
# Komatsuzaki et al. 2022 give experts to every other layer.
IN_TURN = DENSE | {
    "model__layers__pattern": "dense,sparse",
    "model__layers__kinds__dense__ffn__kind": "swiglu",
    **{name.replace("model__", "model__layers__kinds__sparse__", 1): value
       for name, value in MIXTURE.items() if "ffn__kind" in name or "experts" in name},
}  # fmt: skip


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("dense") / "run", small(**DENSE))


class NoCheckpoints:
    """The checkpoints of a run before its first update."""

    def restore_latest(self, abstract):
        return None


def started(folder, **fields):
    """Returns (config, state at the start, lines that are printed)."""
    config = configs.resolve(small(**fields, training__start_from=str(folder)))
    check_start_from(config)
    program = make_program(
        config, make_model(config), make_objective(config, ByteTokenizer()), make_mesh(config, jax.devices()[:1])
    )
    printed = []
    state, _, _ = startup.restore_or_initialise(config, program, NoCheckpoints(), (), printed.append)
    return config, state, printed


def outputs(config, params, stats):
    model = make_model(config)
    tokens = jnp.asarray(np.random.default_rng(0).integers(0, 256, (2, 16)), jnp.int32)

    def scores(params, stats):
        held, context = with_values(model, params, stats), counting(16)
        return held.logits(held(tokens, context), context)

    return call(scores, params, stats)


@pytest.mark.parametrize("fields", [MIXTURE, IN_TURN], ids=["every layer", "every other layer"])
def test_outputs_are_those_of_the_dense_model_at_the_start(dense, fields):
    config, state, printed = started(dense, **fields)
    its = load_trained(dense)
    np.testing.assert_allclose(
        outputs(config, state["params"], state["stats"]), outputs(its.config, its.params, its.stats), atol=2e-5
    )
    layers = state["params"]["stack"]["layers"]
    mixture = layers["sparse"]["ffn"] if "sparse" in layers else layers["ffn"]
    there = np.asarray(its.params["stack"]["layers"]["ffn"]["up"]["kernel"])[1 if "sparse" in layers else 0 :]
    for expert in range(4):
        np.testing.assert_array_equal(np.asarray(mixture["experts"]["up"]["kernel"])[0, expert], there[0])
    assert np.asarray(mixture["router"]["kernel"]).std() > 1e-3
    assert any("ffn/router" in line for line in printed)


def test_experts_of_another_kind_or_width_are_refused(dense):
    with pytest.raises(ConfigError, match=r"experts\.kind=gelu: experts begin as copies .* which are swiglu"):
        started(dense, **MIXTURE | {"model__ffn__experts__kind": "gelu"})
    with pytest.raises(ConfigError, match=r"experts/up/kernel has shape \(4, 4, 32, 24\).*expected \(4, 4, 32, 12\)"):
        started(dense, **MIXTURE | {"model__ffn__hidden_dim": 12})


def test_only_what_was_dense_begins_afresh(dense, tmp_path):
    """Chosen layers of a mixture are read whole: a part that it lacks is missing."""
    sparse = untrained(tmp_path / "sparse", small(**MIXTURE))
    chosen = {"model__num_layers": 2, "training__start_layers": (0, 3)}
    _, state, _ = started(sparse, **MIXTURE | chosen)
    its = load_trained(sparse).params["stack"]["layers"]["ffn"]["router"]["kernel"]
    np.testing.assert_array_equal(state["params"]["stack"]["layers"]["ffn"]["router"]["kernel"], its[np.array([0, 3])])
    shared = {"model__ffn__experts__shared_dim": 8}
    with pytest.raises(ConfigError, match=r"ffn/shared/\S+ is missing from the checkpoint"):
        started(sparse, **MIXTURE | chosen | shared)
    started(dense, **MIXTURE | chosen | shared)
