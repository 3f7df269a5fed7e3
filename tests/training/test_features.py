"""A body that is not trained is run once over the examples: the same curve as run in every step,
the same again after an interruption.
"""

import json

import jax
import numpy as np
import pytest

from tests.support.sample_data import table, tagged
from tests.support.small_runs import curves, small
from zoo import data
from zoo.cli import evaluate as command
from zoo.data import resolve_with_data
from zoo.files import read_json
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training import frozen_features
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run

pytestmark = pytest.mark.promise(reason="whole runs are trained, with and without stored features")
FROZEN = {
    "training__trained_layers": 0,
    "training__eval_batches": "auto",
    "training__steps": 6,
    "training__checkpoint_every": 3,
    "training__eval_every": 0,
    "data__sequence_length": 72,
    "data__batch_size": 8,
    "model__dim": 16,
    "model__num_layers": 1,
    "model__dropout": 0.2,
    "optimizer__learning_rate": 0.01,
}
# A body whose statistics would move if it ran as in training.
ROWS = FROZEN | {
    "model__architecture": "encoder",
    "objective__kind": "classification",
    "data__source": table("train"),
    "data__held_out": table("dev"),
    "model__norm__kind": "batchnorm",
}
TOKENS = FROZEN | {
    "model__architecture": "elmo",
    "objective__kind": "tagging",
    "data__source": tagged(),
    "model__elmo__cell_dim": 24,
    "model__elmo__character_dim": 4,
    "model__elmo__characters": 6,
    "model__elmo__filters": (1, 8, 2, 8),
}


def quiet(line):
    del line


@pytest.fixture(scope="module", params=[pytest.param(ROWS, id="rows"), pytest.param(TOKENS, id="tokens")])
def whole(request, tmp_path_factory):
    """(fields, the folder of a run with features, what it said)."""
    folder, said = tmp_path_factory.mktemp("whole") / "run", []
    run(small(**request.param), folder, said.append)
    return request.param, folder, said


def test_the_curve_is_that_of_a_body_that_runs_in_every_step(whole, tmp_path, monkeypatch):
    fields, folder, said = whole
    assert sum("computed once" in line for line in said) == 1
    monkeypatch.setattr(frozen_features, "MAX_FEATURE_BYTES", 1000)
    run(small(**fields), tmp_path / "run", said.append)
    assert any("the body runs in every step: the features of" in line for line in said)
    for one, other in zip(curves(folder), curves(tmp_path / "run"), strict=True):
        assert dict(other) == pytest.approx(dict(one), rel=1e-4)


def test_only_the_head_has_moved(whole):
    fields, folder, _ = whole
    config = resolve_with_data(small(**fields))
    program = make_program(
        config,
        make_model(config),
        make_objective(config, data.load(config).tokenizer),
        make_mesh(config, jax.devices()[:1]),
    )
    before, after = program.initial_state(config.seed), load_trained(folder)
    for name, values in before["params"].items():
        same = jax.tree.map(np.array_equal, values, after.params[name])
        assert not any(jax.tree.leaves(same)) if name in ("classifier", "mix") else all(jax.tree.leaves(same)), name
    assert jax.tree.all(jax.tree.map(np.array_equal, before["stats"], after.stats))


def test_an_interrupted_run_ends_as_it_would_have(whole, tmp_path):
    fields, folder, _ = whole

    def stop(line):
        if line.startswith("step 5/"):
            raise OSError("stopped by hand")

    with pytest.raises(OSError, match="by hand"):
        run(small(**fields), tmp_path / "run", stop)
    said = []
    run(small(**fields), tmp_path / "run", said.append)
    assert any("continuing from step 3" in line for line in said)
    assert curves(tmp_path / "run") == curves(folder)
    assert (
        read_json(tmp_path / "run" / "status.json")["parameters_sha256"]
        == read_json(folder / "status.json")["parameters_sha256"]
    )


def test_the_folder_is_scored_as_any_other(whole, capsys):
    _, folder, _ = whole
    written = {
        name.removeprefix("eval/"): value
        for name, value in dict(curves(folder)[-1]).items()
        if name.startswith("eval/")
    }
    assert command.main([str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"] == pytest.approx(written, rel=1e-5)


@pytest.mark.parametrize("fields", [pytest.param(ROWS, id="rows"), pytest.param(TOKENS, id="tokens")])
def test_a_step_runs_the_head_alone(fields):
    config = resolve_with_data(small(**fields))
    dataset = data.load(config)
    program = make_program(
        config, make_model(config), make_objective(config, dataset.tokenizer), make_mesh(config, jax.devices()[:1])
    )
    state, constants, flops = program.initial_state(0), program.constants(0), []
    for one in (dataset, frozen_features.precompute_features(program, dataset, state, constants, quiet)):
        with one.training_batches() as batches:
            batch = next(batches)
        compiled = program.train_step.lower(state, program.put_batch(batch), constants).compile()
        flops.append(compiled.cost_analysis()["flops"])
    assert flops[1] < 0.4 * flops[0]
