"""Moved runs keep their tokenizer: an imported run, and one that was fine-tuned from it."""

import json
import shutil

import pytest

from tests.support.checkpoints_of_others import imported, zoo
from zoo import config as configs


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text file with words of the tokenizer."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"w{number % 7} w{number % 5} w{number % 3}\n" for number in range(300)))
    return path


def fine_tune(run, folder, text):
    """Fine-tunes a run, or resumes doing so; returns the exit code and the errors."""
    return zoo("train", f"--config={run / 'config.json'}", f"--workdir={folder}", f"--config.training.start_from={run}",
               f"--config.data.source=text:{text}", "--config.training.steps=4", "--config.training.checkpoint_every=2",
               "--config.data.batch_size=2", "--config.training.eval_batches=1")[::2]  # fmt: skip


def undo_last_steps(run):
    """Makes a run look killed after its second step; returns the hash of its final parameters."""
    status = json.loads((run / "status.json").read_text())
    shutil.rmtree(run / "checkpoints" / "4")
    (run / "status.json").write_text(json.dumps(status | {"state": "running", "step": 2}))
    return status["parameters_sha256"]


@pytest.mark.slow(reason="whole runs are trained, moved and trained again")
def test_every_command_accepts_moved_runs(text, tmp_path):
    imported(tmp_path / "first", "gpt2", words=99)
    (tmp_path / "second").mkdir()
    run = (tmp_path / "first" / "run").rename(tmp_path / "second" / "moved")
    # Another model with another tokenizer takes the original place.
    imported(tmp_path / "other", "gpt2", words=60)
    (tmp_path / "other" / "run").rename(tmp_path / "first" / "run")
    assert configs.load(str(run)).data.tokenizer.path == str(run)
    assert (
        zoo("config", "show", run)[0]
        == zoo("eval", run, "--text", text)[0]
        == zoo("export", run, "--out", tmp_path / "out")[0]
        == 0
    )
    assert fine_tune(run, tmp_path / "tuned", text) == (0, [])
    # Both the run and the one that it started from are moved again.
    run = run.rename(tmp_path / "again")
    moved = (tmp_path / "tuned").rename(tmp_path / "kept")
    expected_hash = undo_last_steps(moved)
    assert configs.load(str(moved)).data.tokenizer.path == str(moved)
    code, _, errors = zoo("train", f"--config={moved / 'config.json'}", f"--workdir={moved}")
    assert (code, errors) == (0, [])
    assert json.loads((moved / "status.json").read_text())["parameters_sha256"] == expected_hash
    # Evaluation encodes the held-out text with the run's own tokenizer.
    assert zoo("eval", moved)[0] == 0


@pytest.mark.slow(reason="whole runs are trained, moved and trained again")
def test_a_moved_run_resumes_with_the_original_command(text, tmp_path):
    run = imported(tmp_path, "gpt2", words=99)
    assert fine_tune(run, tmp_path / "tuned", text) == (0, [])
    moved = (tmp_path / "tuned").rename(tmp_path / "kept")
    expected_hash = undo_last_steps(moved)
    # A copy of the same tokenizer elsewhere is the same tokenizer.
    shutil.copytree(run, tmp_path / "copy")
    command = [f"--config={moved / 'config.json'}", f"--workdir={moved}"]
    assert zoo("train", *command, f"--config.data.tokenizer.path={tmp_path / 'copy'}")[0] == 0
    assert json.loads((moved / "status.json").read_text())["parameters_sha256"] == expected_hash
    imported(tmp_path / "other", "gpt2", words=60)
    code, _, errors = zoo("train", *command, f"--config.data.tokenizer.path={tmp_path / 'other' / 'run'}")
    assert code == 2
    assert "holds a run with data.tokenizer.path=" in errors[0]
    code, _, errors = zoo("train", *command, f"--config.data.tokenizer.path={tmp_path / 'nowhere'}")
    assert (code, len(errors)) == (2, 1)
    assert f"data.tokenizer.path={tmp_path / 'nowhere'}: no such file" in errors[0]


def test_a_config_without_its_tokenizer_is_rejected(text, tmp_path):
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
