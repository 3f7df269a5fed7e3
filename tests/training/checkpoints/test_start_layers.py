"""Models that start from selected layers of another run get exactly these layers, bit for bit."""

import jax
import numpy as np
import pytest

from tests.support.small_runs import small
from tests.support.untrained import untrained
from zoo import config as configs
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.functional import initialise
from zoo.objectives import make_objective
from zoo.training.checkpoints.layer_transfer import read_layers
from zoo.training.checkpoints.warm_start import check_start_from, replaceable_parts
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run

BERT = {
    "model__architecture": "encoder",
    "objective__kind": "masked",
    "model__embedding__segments": 2,
    "model__head__pooler": True,
    "model__head__next_sentence": True,
    "model__dim": 16,
    "model__norm__kind": "batchnorm",
    "model__tie_embeddings": False,
}
LOCAL_GLOBAL = {
    "model__dim": 16,
    "model__layers__pattern": "local,global",
    "model__layers__kinds__local__attention__window": 3,
    "model__layers__kinds__global__ffn__hidden_dim": 40,
}


def made(tmp_path_factory, **fields):
    return untrained(tmp_path_factory.mktemp("teacher") / "run", small(**fields))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return made(tmp_path_factory, **BERT, model__num_layers=6)


def started(folder, layers, **fields):
    """Returns (initial values of a model with that many layers, the trained run of the folder)."""
    config = configs.resolve(
        small(**fields, model__num_layers=len(layers), training__start_from=str(folder), training__start_layers=layers)
    )
    check_start_from(config)
    program = make_program(
        config, make_model(config), make_objective(config, ByteTokenizer()), make_mesh(config, jax.devices()[:1])
    )
    weights, step = read_layers(config, program.abstract_state, replaceable_parts(config, ()))
    assert step == 2
    return weights, load_trained(folder)


def equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize(
    "layers", [(0, 2, 4), (0, 1), (4, 5), (5, 0, 0, 3)], ids=["every other", "first", "last", "any"]
)
def test_layers_are_those_that_are_named_bit_for_bit(bert, layers):
    weights, there = started(bert, layers, **BERT)
    for name in ("params", "stats"):
        its = getattr(there, name)
        equal(weights[name]["stack"], jax.tree.map(lambda leaf: np.asarray(leaf)[list(layers)], its["stack"]))
        equal(
            {part: tree for part, tree in weights[name].items() if part != "stack"},
            {part: tree for part, tree in its.items() if part != "stack"},
        )
    # Layers differ, so that a wrong selection would be noticed.
    kernels = np.asarray(there.params["stack"]["layers"]["ffn"]["up"]["kernel"])
    assert all((kernels[0] != kernels[layer]).any() for layer in range(1, 6))
    assert {"embedding", "position", "segments", "head", "pooler", "next_sentence"} <= set(weights["params"])


@pytest.mark.promise(reason="a whole run is trained")
def test_run_starts_with_the_layers_and_records_them(bert, tmp_path):
    printed = []
    run(
        small(
            **BERT,
            model__num_layers=2,
            training__steps=1,
            training__start_from=str(bert),
            training__start_layers="1,4",
            training__eval_batches=1,
            training__log_every=1,
            optimizer__learning_rate=1e-12,
        ),
        tmp_path / "run",
        printed.append,
    )
    assert any(line.startswith(f"starting from the parameters of {bert} at step 2") for line in printed)
    after, before = load_trained(tmp_path / "run").params, load_trained(bert).params
    kernels, its = (np.asarray(params["stack"]["layers"]["ffn"]["up"]["kernel"]) for params in (after, before))
    np.testing.assert_allclose(kernels, its[[1, 4]], atol=1e-6)


def test_parameters_for_segment_pairs_may_be_left_out(bert):
    weights, _ = started(
        bert,
        (0, 3),
        **BERT | {"model__head__pooler": False, "model__head__next_sentence": False, "model__embedding__segments": 0},
    )
    assert not {"pooler", "next_sentence", "segments"} & set(weights["params"])


def test_each_kind_of_layers_takes_layers_of_its_kind(tmp_path_factory):
    folder = made(tmp_path_factory, **LOCAL_GLOBAL, model__num_layers=4)
    weights, there = started(folder, (2, 1), **LOCAL_GLOBAL)
    its = there.params["stack"]["layers"]
    for kind, index in (("local", 1), ("global", 0)):
        equal(
            weights["params"]["stack"]["layers"][kind],
            jax.tree.map(lambda leaf, i=index: np.asarray(leaf)[[i]], its[kind]),
        )
    # Kinds of different widths cannot replace each other.
    with pytest.raises(ConfigError) as refused:
        started(folder, (1, 1), **LOCAL_GLOBAL)
    assert any(
        "local/ffn/up/kernel has shape (1, 16, 40)" in line and "expected (1, 16, 64)" in line
        for line in refused.value.problems
    )


def test_pattern_layers_of_one_kind_start_a_uniform_stack(tmp_path_factory):
    plain = {path: value for path, value in LOCAL_GLOBAL.items() if "layers__" not in path}
    alike = plain | {
        "model__layers__pattern": "local,global",
        "model__layers__kinds__local__attention__window": 3,
        "model__layers__kinds__global__attention__window": 0,
    }
    folder = made(tmp_path_factory, **alike, model__num_layers=4)
    weights, there = started(folder, (0, 1, 2, 3), **plain)
    its = there.params["stack"]["layers"]
    kernels = [np.asarray(its[kind]["ffn"]["up"]["kernel"][index]) for index in (0, 1) for kind in ("local", "global")]
    np.testing.assert_array_equal(weights["params"]["stack"]["layers"]["ffn"]["up"]["kernel"], np.stack(kernels))


def test_different_model_is_refused_with_the_parameters_that_differ(bert):
    with pytest.raises(ConfigError) as refused:
        started(
            bert,
            (0, 1),
            **BERT | {"model__ffn__hidden_dim": 40, "model__head__transform": True, "model__attention__bias": False},
        )
    problems = refused.value.problems
    assert any("params/head/dense/kernel is missing from the checkpoint" in line for line in problems)
    assert any("params/stack/layers/attention/query/bias does not exist in this model" in line for line in problems)
    assert any("ffn/up/kernel has shape (2, 16, 64)" in line and "expected (2, 16, 40)" in line for line in problems)
    with pytest.raises(ConfigError, match=r"stats/.* does not exist in this model"):
        started(bert, (0, 1), **BERT | {"model__norm__kind": "layernorm"})


@pytest.mark.parametrize(
    ("layers", "words"), [((0, 6), "has 6 layers, 0 to 5"), ((0, 1, 2, 9), "start_layers=0,1,2,9")]
)
def test_missing_layers_are_refused(bert, layers, words):
    with pytest.raises(ConfigError, match=words):
        started(bert, layers, **BERT)


def test_copied_values_differ_from_fresh_ones(bert):
    weights, there = started(bert, (0, 2), **BERT)
    fresh = initialise(there.model, 0)
    assert (np.asarray(weights["params"]["embedding"]) != np.asarray(fresh["embedding"])).any()


def test_layers_of_a_run_with_shared_weights_cannot_be_selected(tmp_path_factory):
    folder = made(tmp_path_factory, model__dim=16, model__num_layers=4, model__layers__distinct=2)
    with pytest.raises(ConfigError, match=r"training\.start_layers=0,2 .*model\.layers\.distinct=2; leave"):
        started(folder, (0, 2), model__dim=16)
