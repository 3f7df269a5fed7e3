"""A task head learns from the features of a frozen ELMo that was trained only on text."""

from collections import Counter

import pytest

from tests.support.small_library import small_standard_library
from tests.support.small_runs import lines, small
from zoo import config as configs
from zoo import data
from zoo.data import resolve_with_data
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run


def quiet(line):
    del line


@pytest.fixture(autouse=True, scope="module")
def library(tmp_path_factory):
    with small_standard_library(tmp_path_factory.mktemp("library")):
        yield


@pytest.mark.promise(reason="a model is trained, and a task on its features")
def test_task_head_learns_from_frozen_features(tmp_path):
    elmo = {
        "model__architecture": "elmo",
        "objective__kind": "bidirectional",
        "model__elmo__cell_dim": 64,
        "model__elmo__character_dim": 8,
        "model__elmo__characters": 12,
        "model__elmo__filters": (1, 16, 2, 32, 3, 32),
        "model__dim": 32,
        "data__tokenizer__kind": "bpe",
        "data__tokenizer__vocab_size": 1000,
        "data__source": "stdlib:docstrings",
        "data__sequence_length": 24,
        "data__batch_size": 32,
        "training__steps": 40,
        "training__eval_every": 0,
        "training__checkpoint_every": 0,
    }
    run(small(**elmo), tmp_path / "elmo", quiet)
    changes = "data.sequence_length=64,training.steps=240,schedule.kind=linear,schedule.warmup_steps=10,training.eval_every=0,optimizer.learning_rate=0.02"
    made = configs.finetuned(f"from={tmp_path / 'elmo'},{changes}", {"objective.kind": "tagging"})
    assert configs.resolve(made).training.trained_layers == 0
    printed = []
    run(made, tmp_path / "tags", printed.append)
    assert any("fresh values for classifier, mix" in line for line in printed)
    assert any("computed once" in line for line in printed)
    held_out = data.load(resolve_with_data(made)).examples.held_out
    tags = Counter(tag for example in held_out for tag in example.tags)
    majority = tags.most_common(1)[0][1] / tags.total()
    assert lines(tmp_path / "tags")[-1]["eval/word_accuracy"] > majority + 0.1
    before, after = load_trained(tmp_path / "elmo"), load_trained(tmp_path / "tags")
    assert (
        before.params["forward"]["layers"]["input"]["kernel"] == after.params["forward"]["layers"]["input"]["kernel"]
    ).all()
    assert abs(after.params["mix"]["weights"]).max() > 0.01
