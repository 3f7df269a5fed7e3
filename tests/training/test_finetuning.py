"""From a pre-trained run to one of a task: what is taken over, what is fresh, what is scored, and
that `eval.py` says the same.
"""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.support.sample_data import table
from tests.support.small_runs import lines, small
from zoo import config as configs
from zoo.cli import evaluate as command
from zoo.cli.main import main
from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run

ROOT = Path(__file__).parents[2]
BODY = {
    "model__architecture": "encoder",
    "model__embedding__segments": 2,
    "model__dim": 16,
    "data__sequence_length": 32,
    "data__batch_size": 8,
    "training__steps": 4,
    "training__checkpoint_every": 0,
    "training__eval_every": 0,
}
STILL = {"optimizer__learning_rate": 1e-9}


def quiet(line):
    del line


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained") / "run"
    run(
        small(
            **BODY,
            objective__kind="masked",
            model__tie_embeddings=False,
            model__head__pooler=True,
            training__eval_batches=2,
        ),
        folder,
        quiet,
    )
    return folder


def task(start, **fields):
    own = {
        "objective__kind": "classification",
        "data__source": table("train"),
        "data__held_out": table("dev"),
        "data__tokenizer__kind": "file",
        "data__tokenizer__path": str(start),
        "model__vocab_size": 258,
        "training__start_from": str(start),
        "model__head__pooler": True,
    }
    return small(**BODY | {"training__eval_batches": "auto"} | own | fields)


@pytest.fixture(scope="module")
def tuned(pretrained, tmp_path_factory):
    folder, said = tmp_path_factory.mktemp("tuned") / "run", []
    run(task(pretrained, **STILL), folder, said.append)
    assert any("fresh values for classifier" in line for line in said)
    return folder


@pytest.mark.promise(reason="whole runs are trained, before and after")
def test_the_body_and_the_pooler_are_taken_and_the_classes_are_fresh(pretrained, tuned):
    before, after = load_trained(pretrained), load_trained(tuned)
    assert set(before.params) - set(after.params) == {"head"}
    assert set(after.params) - set(before.params) == {"classifier"}
    same = jax.tree.map(
        lambda a, b: np.allclose(a, b, atol=1e-6),
        {name: before.params[name] for name in set(before.params) - {"head"}},
        {name: after.params[name] for name in set(after.params) - {"classifier"}},
    )
    assert jax.tree.all(same)
    assert after.params["classifier"]["kernel"].shape == (16, 3)
    assert read_json(tuned / "meta.json")["data"]["labels"] == ["a", "b", "c"]


@pytest.mark.promise(reason="whole runs are trained, before and after")
def test_the_command_scores_as_the_run_did(tuned, capsys):
    written = {
        name.removeprefix("eval/"): value for name, value in lines(tuned)[-1].items() if name.startswith("eval/")
    }
    assert set(written) == {"loss", "accuracy", "macro_f1", "matthews"}
    assert command.main([str(tuned), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["examples"] == 30
    assert told["labels"] == ["a", "b", "c"]
    assert told["scores"] == pytest.approx(written, rel=1e-5)
    assert command.main([str(tuned), "--lengths", "8"]) == 2
    assert "--lengths: only for text" in capsys.readouterr().err


@pytest.mark.promise(reason="whole runs are trained, before and after")
def test_the_same_task_goes_on_with_its_classes_and_another_does_not(tuned, tmp_path):
    said = []
    run(task(tuned, **STILL), tmp_path / "same", said.append)
    assert not any("fresh values" in line for line in said)
    # As many labels in another order are other classes.
    run(task(tuned, **STILL, data__labels=("b", "c", "a")), tmp_path / "other", said.append)
    assert any("fresh values for classifier" in line for line in said)
    kernels = [
        load_trained(folder).params["classifier"]["kernel"] for folder in (tuned, tmp_path / "same", tmp_path / "other")
    ]
    assert np.allclose(kernels[0], kernels[1], atol=1e-6)


@pytest.mark.promise(reason="whole runs are trained, before and after")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ["generate", "--prompt", "a"],
            "objective.kind=classification: the run has a head for its task and none for tokens",
        ),
        (["export", "--out"], "no class can express this config; BertForSequenceClassification, which comes closest"),
    ],
)
def test_commands_that_need_a_token_head_are_refused_in_one_line(tuned, tmp_path, capsys, command, message):
    name, *rest = command
    assert main([name, str(tuned), *rest, *([str(tmp_path / "out")] if name == "export" else [])]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.promise(reason="whole runs are trained, before and after")
def test_another_body_is_refused_by_name(pretrained, tmp_path):
    with pytest.raises(ConfigError, match="stack/layers/ffn/up/kernel has shape"):
        run(task(pretrained, model__ffn__hidden_dim=40), tmp_path / "next", quiet)


@pytest.mark.promise(reason="whole runs are trained, before and after")
@pytest.mark.parametrize("classes", [2, 4])
def test_another_number_of_classes_is_refused(pretrained, tmp_path, classes):
    with pytest.raises(ConfigError, match=rf"model\.head\.classes={classes} is not the number of labels of .*, 3;"):
        run(task(pretrained, model__head__classes=classes), tmp_path / "next", quiet)


@pytest.mark.promise(reason="whole runs are trained, before and after")
def test_several_seeds_and_their_median(pretrained, tuned, tmp_path, capsys):
    run(task(pretrained, **STILL, seed=1), tmp_path / "one", quiet)
    run(task(pretrained, **STILL, seed=2), tmp_path / "two", quiet)
    folders = [str(tuned), str(tmp_path / "one"), str(tmp_path / "two")]
    assert command.main([*folders, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["run"] for one in told["runs"]] == folders
    losses = [one["scores"]["loss"] for one in told["runs"]]
    # Fresh classes by seed.
    assert len(set(losses)) == 3
    assert told["median"]["loss"] == sorted(losses)[1]
    assert command.main(folders) == 0
    assert "median" in capsys.readouterr().out
    assert command.main([folders[0], str(pretrained)]) == 2
    assert f"{pretrained} has objective.kind=masked" in capsys.readouterr().err


@pytest.mark.promise(reason="whole runs are trained, before and after")
def test_a_config_takes_the_body_of_a_run(pretrained):
    made = configs.resolve(
        configs.finetuned(f"from={pretrained},data.sequence_length=16", {"objective.kind": "tagging"})
    )
    assert (made.model.dim, made.model.vocab_size, made.model.head.pooler, made.model.tie_embeddings) == (
        16,
        258,
        False,
        True,
    )
    assert made.training.start_from == made.data.tokenizer.path == str(pretrained)
    # No longer than the positions that were trained.
    assert configs.finetuned(f"from={pretrained}", {"objective.kind": "classification"}).data.sequence_length == 32
    with pytest.raises(ConfigError, match="is neither tiny nor from=RUN"):
        configs.finetuned("small", {"objective.kind": "tagging"})
    with pytest.raises(ConfigError, match="is not a run"):
        configs.finetuned("from=nowhere", {"objective.kind": "tagging"})


@pytest.mark.parametrize("name", ["classification", "regression", "tagging", "extraction"])
def test_every_task_has_a_config_that_needs_no_download(name):
    made = configs.resolve(configs.load(f"{ROOT / 'configs' / 'finetune' / name}.py:tiny"))
    assert (made.objective.kind, made.data.source, made.training.eval_batches) == (name, "stdlib", 0)
