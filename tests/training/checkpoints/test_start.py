"""Runs that start from the parameters of another run: what is copied, what is recorded, and what is
refused.
"""

import shutil

import jax
import numpy as np
import pytest

from tests.support.small_runs import lines, small
from zoo import config as configs
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError, DataError, Preempted
from zoo.files import read_json
from zoo.models.architectures import make_model
from zoo.models.functional import initialise_statistics
from zoo.objectives import make_objective
from zoo.training.checkpoints import warm_start
from zoo.training.checkpoints.warm_start import read_weights, replaceable_parts
from zoo.training.mesh import make_mesh
from zoo.training.records.ancestry import seen_tokens
from zoo.training.runtime.signals import StopSignal
from zoo.training.step import make_program
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run

BATCHNORM = {
    "model__norm__kind": "batchnorm",
    "model__norm__momentum": 0.5,
    "optimizer__learning_rate": 1e-2,
    "training__checkpoint_every": 0,
}

# Parameters do not change visibly with this rate.
STILL = {"optimizer__learning_rate": 1e-9}


def quiet(line):
    del line


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first") / "run"
    run(small(**BATCHNORM), folder, quiet)
    return folder


def test_starts_from_the_parameters_and_statistics_of_another_run(first, tmp_path):
    printed = []
    run(small(**BATCHNORM | STILL, seed=3, training__start_from=str(first)), tmp_path / "next", printed.append)
    assert any(f"starting from the parameters of {first} at step 12" in line for line in printed)
    before, after = load_trained(first), load_trained(tmp_path / "next")
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-6), before.params, after.params))
    # An evaluation uses the statistics, and the first one comes before any update.
    start, end = lines(tmp_path / "next")[0], lines(first)[-1]
    assert (start["step"], start["eval/loss"]) == (0, pytest.approx(end["eval/loss"], rel=1e-6))
    fresh = make_model(before.config)
    assert not jax.tree.all(
        jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-2), before.stats, initialise_statistics(fresh, 3))
    )
    origin = read_json(tmp_path / "next" / "meta.json")["started_from"]
    assert origin == {
        "folder": str(first),
        "step": 12,
        "parameters_sha256": read_json(first / "status.json")["parameters_sha256"],
        "tokens": lines(first)[-1]["tokens"],
    }
    assert any(f"which have seen {origin['tokens']:,} tokens" in line for line in printed)
    assert read_json(tmp_path / "next" / "status.json")["step"] == 12
    assert [line["step"] for line in lines(tmp_path / "next") if "train/loss" in line] == list(range(1, 13))


def test_a_run_that_is_stopped_before_its_first_update_keeps_its_origin(first, tmp_path, monkeypatch):
    config = small(**BATCHNORM | STILL, training__start_from=str(first))
    with monkeypatch.context() as patch:
        patch.setattr(StopSignal, "poll", lambda self: setattr(self, "requested", True) or True)
        with pytest.raises(Preempted):
            run(config, tmp_path / "next", quiet)
    begun = read_json(tmp_path / "next" / "meta.json")
    run(config, tmp_path / "next", quiet)
    meta = read_json(tmp_path / "next" / "meta.json")
    assert meta["started_from"] == begun["started_from"]
    assert meta["attention_kernels"] == begun["attention_kernels"]
    assert [entry["step"] for entry in meta["resumed"]] == [0]
    assert seen_tokens(tmp_path / "next") == 2 * seen_tokens(first)


def test_start_from_is_part_of_the_identity(first):
    one, other = (configs.resolve(small(training__start_from=folder)) for folder in ("", str(first)))
    assert configs.identity(one) != configs.identity(other)


@pytest.mark.promise(reason="the origin is trained again")
def test_changed_origin_is_refused_before_the_first_checkpoint(first, tmp_path):
    origin, config = tmp_path / "origin", small(**BATCHNORM, training__start_from=str(tmp_path / "origin"))
    shutil.copytree(first, origin)
    run(config, tmp_path / "next", quiet)
    shutil.rmtree(tmp_path / "next" / "checkpoints")
    (tmp_path / "next" / "status.json").unlink()
    # The state of the folder after a kill before the first checkpoint.
    metrics = tmp_path / "next" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().partition("\n")[0] + "\n")
    shutil.rmtree(origin)
    run(small(**BATCHNORM, seed=9), origin, quiet)
    with pytest.raises(ConfigError, match="have changed since the run"):
        run(config, tmp_path / "next", quiet)


def refused(origin, **fields):
    """Returns the problems of a model that does not fit to the parameters of `origin`."""
    config = configs.resolve(small(training__start_from=str(origin), **fields))
    objective = make_objective(config, ByteTokenizer())
    program = make_program(config, make_model(config), objective, make_mesh(config, jax.devices()[:1]))
    with pytest.raises(ConfigError) as caught:
        read_weights(origin, program.abstract_state, replaceable=replaceable_parts(config, ()))
    return caught.value.problems


def test_different_model_is_refused_with_the_parameters_that_differ(first):
    problems = refused(first, **BATCHNORM, model__tie_embeddings=False, model__ffn__hidden_dim=40)
    assert any("params/head/weights is missing from the checkpoint" in line for line in problems)
    assert any(
        "params/stack/layers/ffn/up/kernel has shape (1, 32, 128)" in line and "expected (1, 32, 40)" in line
        for line in problems
    )
    assert any("stats/final_norm/mean does not exist in this model" in line for line in refused(first))


def test_different_tokenizer_is_refused_and_that_of_the_origin_accepted(first, tmp_path):
    with pytest.raises(ConfigError, match=f"data.tokenizer.path={first}"):
        run(
            small(
                **BATCHNORM, training__start_from=str(first), data__tokenizer__kind="characters", model__vocab_size=257
            ),
            tmp_path / "next",
            quiet,
        )
    taken = small(
        **BATCHNORM, training__start_from=str(first), data__tokenizer__kind="file", data__tokenizer__path=str(first)
    )
    run(taken, tmp_path / "taken", quiet)
    assert load_trained(tmp_path / "taken").tokenizer.fingerprint == load_trained(first).tokenizer.fingerprint


@pytest.mark.parametrize("name", ["config.json", "checkpoints", "tokenizer.json"])
def test_folder_without_a_run_is_refused_before_anything_is_written(first, tmp_path, name):
    broken = tmp_path / "broken"
    shutil.copytree(first, broken)
    shutil.rmtree(broken / name) if name == "checkpoints" else (broken / name).unlink()
    with pytest.raises(ConfigError, match=r"training\.start_from"):
        run(small(**BATCHNORM, training__start_from=str(broken)), tmp_path / "next", quiet)
    assert not (tmp_path / "next").exists()


def test_damaged_origin_checkpoint_is_refused(first, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(first, broken)
    victim = max(
        (
            path
            for path in (broken / "checkpoints" / "12").rglob("*")
            if path.is_file() and path.name != "manifest.json"
        ),
        key=lambda path: path.stat().st_size,
    )
    victim.write_bytes(victim.read_bytes()[:-1])
    with pytest.raises(DataError, match="checkpoint 12 of"):
        run(small(**BATCHNORM, training__start_from=str(broken)), tmp_path / "next", quiet)


@pytest.mark.parametrize(("replaced", "looks"), [(True, 2), (False, 1)])
def test_a_checkpoint_that_is_replaced_while_it_is_read_is_looked_for_again(replaced, looks, tmp_path, monkeypatch):
    """A run in training removes the checkpoint that another process reads, and has a newer one."""
    (checkpoints := tmp_path / "checkpoints").mkdir()
    (checkpoints / "4" / "state").mkdir(parents=True)
    calls = []

    def reading(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            if replaced:
                (checkpoints / "4").rename(checkpoints / "5")
            raise DataError("checkpoint 4 cannot be read")
        return {}, 5

    monkeypatch.setattr(warm_start, "_read_step", reading)
    if replaced:
        assert read_weights(tmp_path, {}) == ({}, 5)
    else:
        with pytest.raises(DataError, match="cannot be read"):
            read_weights(tmp_path, {})
    assert len(calls) == looks
