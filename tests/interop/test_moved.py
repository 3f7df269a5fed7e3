"""Runs that were moved: an imported one, and one that was tuned from it, each with the tokenizer
that it keeps.
"""

import json
import shutil

import pytest

from tests.support.checkpoints_of_others import imported, zoo
from zoo import config as configs


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text in the tokenizer's words."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"w{number % 7} w{number % 5} w{number % 3}\n" for number in range(300)))
    return path


def tuned(run, folder, text):
    """Exit code and errors of tuning a run, or of going on with that."""
    return zoo("train", f"--config={run / 'config.json'}", f"--workdir={folder}", f"--config.training.start_from={run}",
               f"--config.data.source=text:{text}", "--config.training.steps=4", "--config.training.checkpoint_every=2",
               "--config.data.batch_size=2", "--config.training.eval_batches=1")[::2]  # fmt: skip


def cut_off(run):
    """As if a run had been killed after its second step; returns what its parameters were at the
    end.
    """
    status = json.loads((run / "status.json").read_text())
    shutil.rmtree(run / "checkpoints" / "4")
    (run / "status.json").write_text(json.dumps(status | {"state": "running", "step": 2}))
    return status["parameters_sha256"]


@pytest.mark.slow
def test_every_command_takes_runs_that_were_moved(text, tmp_path):
    imported(tmp_path / "first", "gpt2", words=99)
    (tmp_path / "second").mkdir()
    run = (tmp_path / "first" / "run").rename(tmp_path / "second" / "moved")
    # Another model lies where it was made, with another tokenizer.
    imported(tmp_path / "other", "gpt2", words=60)
    (tmp_path / "other" / "run").rename(tmp_path / "first" / "run")
    assert configs.load(str(run)).data.tokenizer.path == str(run)
    assert (
        zoo("config", "show", run)[0]
        == zoo("eval", run, "--text", text)[0]
        == zoo("export", run, "--out", tmp_path / "out")[0]
        == 0
    )
    assert tuned(run, tmp_path / "tuned", text) == (0, [])
    # The run that it started from is moved again, and so is it itself.
    run = run.rename(tmp_path / "again")
    after = (tmp_path / "tuned").rename(tmp_path / "kept")
    ended = cut_off(after)
    assert configs.load(str(after)).data.tokenizer.path == str(after)
    code, _, errors = zoo("train", f"--config={after / 'config.json'}", f"--workdir={after}")
    assert (code, errors) == (0, [])
    assert json.loads((after / "status.json").read_text())["parameters_sha256"] == ended
    # The held-out text, by its own tokenizer.
    assert zoo("eval", after)[0] == 0


@pytest.mark.slow
def test_the_original_command_goes_on_with_a_run_that_was_moved(text, tmp_path):
    run = imported(tmp_path, "gpt2", words=99)
    assert tuned(run, tmp_path / "tuned", text) == (0, [])
    after = (tmp_path / "tuned").rename(tmp_path / "kept")
    ended = cut_off(after)
    # A copy of the same tokenizer elsewhere is the same tokenizer.
    shutil.copytree(run, tmp_path / "copy")
    command = [f"--config={after / 'config.json'}", f"--workdir={after}"]
    assert zoo("train", *command, f"--config.data.tokenizer.path={tmp_path / 'copy'}")[0] == 0
    assert json.loads((after / "status.json").read_text())["parameters_sha256"] == ended
    imported(tmp_path / "other", "gpt2", words=60)
    code, _, errors = zoo("train", *command, f"--config.data.tokenizer.path={tmp_path / 'other' / 'run'}")
    assert code == 2
    assert "holds a run with data.tokenizer.path=" in errors[0]
    code, _, errors = zoo("train", *command, f"--config.data.tokenizer.path={tmp_path / 'nowhere'}")
    assert (code, len(errors)) == (2, 1)
    assert f"data.tokenizer.path={tmp_path / 'nowhere'}: no such file" in errors[0]


def test_a_config_file_without_a_tokenizer_beside_it(text, tmp_path):
    run = imported(tmp_path, "gpt2", words=99)
    (tmp_path / "alone").mkdir()
    shutil.copy(run / "config.json", tmp_path / "alone" / "config.json")
    code, _, errors = zoo(
        "train",
        f"--config={tmp_path / 'alone' / 'config.json'}",
        f"--workdir={tmp_path / 'new'}",
        f"--config.data.source=text:{text}",
    )
    assert (code, len(errors)) == (2, 1)
    assert f"data.tokenizer.path={tmp_path / 'alone'}: the folder has no readable tokenizer" in errors[0]
