"""Where `zoo import` looks: folders, the hub and its cache; and what it never asks for."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.checkpoints_of_others import write_checkpoint
from zoo.errors import ConfigError
from zoo.interop import checkpoint_source as sources

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cached(folder, ref="main"):
    """A cache of the hub with one repository, as its client lays it out."""
    repository = folder / "models--somebody--tiny-gpt2"
    write_checkpoint(repository / "snapshots" / COMMIT, "gpt2", words=99)
    (repository / "refs").mkdir()
    (repository / "refs" / ref).write_text(COMMIT)
    return folder


@pytest.mark.slow
def test_a_name_is_taken_from_the_cache_without_a_network(tmp_path):
    """In a process of its own: the hub's client reads its settings when it is imported."""
    cached(tmp_path / "hub")
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    for number, name in enumerate(("somebody/tiny-gpt2", f"somebody/tiny-gpt2@{COMMIT}")):
        run = tmp_path / f"run{number}"
        done = subprocess.run(
            [sys.executable, "-m", "zoo.cli.main", "import", f"hf:{name}", "--out", str(run)],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        about = json.loads((run / "meta.json").read_text())["imported"]
        assert (about["source"], about["revision"]) == ("hf:somebody/tiny-gpt2", COMMIT)


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """The hub's client with a cache of its own and no network behind it."""
    import huggingface_hub
    import huggingface_hub.constants

    calls = []

    def unreachable(*arguments, **named):
        calls.append(named)
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cached(tmp_path / "hub", "v1")))
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
def test_what_looks_like_a_path_is_never_looked_for_in_the_network(text, offline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    with pytest.raises(ConfigError, match="there is no folder"):
        sources.find_checkpoint(f"hf:{text}")
    assert offline == []


def test_only_weights_settings_and_vocabularies_are_fetched(monkeypatch):
    """No code, and no format that can hold any."""
    import huggingface_hub
    from huggingface_hub.utils import filter_repo_objects

    asked = {}
    monkeypatch.setattr(
        huggingface_hub, "snapshot_download", lambda name, **named: asked.update(named) or f"/cache/{COMMIT}"
    )
    assert sources.fetch_repository("somebody/model", "v2").revision == COMMIT
    assert asked["revision"] == "v2"
    offered = ["config.json", "model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json",
               "modeling_custom.py", "pytorch_model.bin", "tf_model.h5", "onnx/model.onnx", "model.fp16.safetensors", "README.md",
               "rust_model.ot", "tokenizer.model"]  # fmt: skip
    taken = list(filter_repo_objects(offered, allow_patterns=asked["allow_patterns"]))
    assert taken == [*offered[:5], "tokenizer.model"]
