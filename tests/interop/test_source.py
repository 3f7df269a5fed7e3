"""Checkpoints that `zoo import` finds (in folders, on the hub, in its cache), and its downloads."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.checkpoints_of_others import write_checkpoint
from zoo.errors import ConfigError
from zoo.interop import checkpoint_source as sources

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def write_hub_cache(folder, ref="main"):
    """Makes a hub cache with one repository, in the layout of the hub's client."""
    repository = folder / "models--somebody--tiny-gpt2"
    write_checkpoint(repository / "snapshots" / COMMIT, "gpt2", words=99)
    (repository / "refs").mkdir()
    (repository / "refs" / ref).write_text(COMMIT)
    return folder


@pytest.mark.slow(reason="another process is started for each name of a repository")
def test_a_cached_repository_needs_no_network(tmp_path):
    """Uses a subprocess, because the hub's client reads its settings when it is imported."""
    write_hub_cache(tmp_path / "hub")
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    for number, name in enumerate(("somebody/tiny-gpt2", f"somebody/tiny-gpt2@{COMMIT}")):
        run = tmp_path / f"run{number}"
        completed = subprocess.run(
            [sys.executable, "-m", "zoo.cli.main", "import", f"hf:{name}", "--out", str(run)],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert completed.returncode == 0, completed.stderr
        about = json.loads((run / "meta.json").read_text())["imported"]
        assert (about["source"], about["revision"]) == ("hf:somebody/tiny-gpt2", COMMIT)


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """Gives the hub's client a temporary cache and no network; returns the list of its calls."""
    import huggingface_hub
    import huggingface_hub.constants

    calls = []

    def unreachable(*arguments, **named):
        calls.append(named)
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(write_hub_cache(tmp_path / "hub", "v1")))
    monkeypatch.setattr(huggingface_hub.HfApi, "repo_info", unreachable)
    return calls


def test_a_revision_is_pinned(offline):
    assert sources.find_checkpoint("hf:somebody/tiny-gpt2@v1").revision == COMMIT
    assert len(offline) == 1
    with pytest.raises(
        ConfigError, match=r"tiny-gpt2 is no folder, is not in the hub's cache, and cannot be fetched: .*no route"
    ):
        sources.find_checkpoint("hf:somebody/tiny-gpt2")


PATHS = ["./models/gpt2", "./gpt2", "../gpt2", "/nowhere/gpt2", "~/nowhere/gpt2", "a/b/c", "here/gpt2", "with space"]


@pytest.mark.parametrize("text", PATHS)
def test_paths_are_never_looked_up_on_the_hub(text, offline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with pytest.raises(ConfigError, match="there is no folder"):
        sources.find_checkpoint(f"hf:{text}")
    assert offline == []


def test_only_safe_files_are_downloaded(monkeypatch):
    """Neither code nor formats that can contain code are downloaded."""
    import huggingface_hub
    from huggingface_hub.utils import filter_repo_objects

    download = {}
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, **named: download.update(named) or f"/cache/{COMMIT}"
    )
    assert sources.fetch_repository("somebody/model", "v2").revision == COMMIT
    assert download["revision"] == "v2"
    available = ["config.json", "model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json",
               "modeling_custom.py", "pytorch_model.bin", "tf_model.h5", "onnx/model.onnx", "model.fp16.safetensors", "README.md",
               "rust_model.ot", "tokenizer.model", "source.spm", "target.spm", "vocab.json", "target_vocab.json"]  # fmt: skip
    downloaded = list(filter_repo_objects(available, allow_patterns=download["allow_patterns"]))
    assert downloaded == [*available[:5], *available[12:]]
