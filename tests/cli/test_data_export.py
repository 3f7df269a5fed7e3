"""`zoo data export`: the tokens of a config as files of other programs, which are also read again."""

import json
import shlex
import struct

import numpy as np
import pytest

from zoo import config as configs
from zoo import data
from zoo.cli import data_export
from zoo.cli.main import main
from zoo.data.sources import token_writers
from zoo.data.sources.token_writers import WRITERS, Tokens, write_llmc, write_megatron, write_npy
from zoo.errors import ConfigError

SMALL = {"data.sequence_length": 8, "data.batch_size": 4, "data.document_separator": "\n\n"}
EOD = 256


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "corpus.txt"
    path.write_text("\n\n".join(f"document {number} of {number * number} words" for number in range(60)))
    return {"data.source": f"text:{path}", **SMALL}


def resolve(changes):
    return configs.resolve(configs.override(configs.default(), changes))


def export(capsys, text, *arguments, code=0):
    flags = [f"--config.{path}={value}" for path, value in text.items()]
    assert main(["data", "export", "gpt2:tiny", *arguments, *flags]) == code
    return capsys.readouterr()


@pytest.mark.parametrize("name", data_export.FORMATS)
@pytest.mark.parametrize("kind", ["bytes", "bpe"])
def test_exported_tokens_give_the_same_batches(tmp_path, capsys, text, name, kind):
    text |= {"data.tokenizer.kind": kind, "data.tokenizer.vocab_size": 300} if kind == "bpe" else {}
    before = data.load(resolve(text))
    shards = ("--shard-tokens", "700") if name == "llmc" else ()
    shown = export(capsys, text, "--output", str(tmp_path / "my out"), "--format", name, *shards).out
    flags = dict(flag.removeprefix("--config.").split("=", 1) for flag in shlex.split(shown.splitlines()[-1]))
    after = data.load(resolve({**flags, "data.sequence_length": 8, "data.batch_size": 4}))
    assert after.tokenizer.fingerprint == before.tokenizer.fingerprint
    for made, read in zip(
        (before.parts[0].train_stream, before.held_out_texts[0].stream),
        (after.parts[0].train_stream, after.held_out_texts[0].stream),
        strict=True,
    ):
        assert np.array_equal(made.tokens, read.tokens[:])
    for step in (0, 7):
        one, other = (dataset.training_batches().batch(step)["tokens"] for dataset in (before, after))
        assert np.array_equal(one, other)
    assert json.loads((tmp_path / "my out" / "data.json").read_text())["fingerprint"] == before.summary()["fingerprint"]
    if name == "llmc" and kind == "bytes":
        assert "files" in shown
        assert len(after.parts[0].source.files) > 1


def test_an_unknown_tokenizer_is_exported_with_what_is_known(tmp_path, capsys, text):
    export(capsys, text, "--output", str(tmp_path / "out"))
    stored = {
        "data.source": f"tokens:{tmp_path}/out/train.bin",
        "data.tokenizer.kind": "unknown",
        "data.tokenizer.ids": 257,
        "data.tokenizer.document_id": EOD,
        "model.vocab_size": "auto",
    }
    shown = export(capsys, stored, "--output", str(tmp_path / "again"), "--format", "megatron").out
    assert "--config.data.tokenizer.ids=257 --config.data.tokenizer.document_id=256" in shown
    assert data.load(resolve(stored)).parts[0].source.count == 54


# What each program checks when it opens a file (nanoGPT has no header).


def test_shards_are_those_of_llmc(tmp_path):
    ids = np.arange(1000)
    for size, magic, version, kind in ((50257, 20240520, 1, "<u2"), (128256, 20240801, 7, "<u4")):
        paths = write_llmc(tmp_path, f"train{size}", Tokens(ids, size, None), 400)
        assert [path.name for path in paths] == [f"tokens_train{size}_{number:06d}.bin" for number in range(3)]
        headers = [np.fromfile(path, "<i4", 256).tolist() for path in paths]
        assert [header[:3] for header in headers] == [[magic, version, count] for count in (400, 400, 200)]
        assert not any(any(header[3:]) for header in headers)
        assert np.array_equal(np.concatenate([np.fromfile(path, kind, offset=1024) for path in paths]), ids)


@pytest.mark.parametrize(("size", "code", "kind"), [(50257, 8, "<u2"), (65500, 4, "<i4")])
def test_an_index_is_that_of_megatron(tmp_path, monkeypatch, size, code, kind):
    monkeypatch.setattr(token_writers, "_BLOCK_TOKENS", 7)
    ids = np.array([5, EOD, 1, 2, 3, EOD, EOD, *range(20)])
    (path,) = write_megatron(tmp_path, "train", Tokens(ids, size, EOD), 1)
    content = path.with_suffix(".idx").read_bytes()
    assert content[:9] == b"MMIDIDX\0\0"
    assert struct.unpack("<QBQQ", content[9:34]) == (1, code, 4, 5)
    lengths, pointers = np.frombuffer(content, "<i4", 4, 34), np.frombuffer(content, "<i8", 4, 50)
    assert lengths.tolist() == [1, 4, 1, 21]
    assert (pointers // np.dtype(kind).itemsize).tolist() == [0, 1, 5, 6]
    assert np.frombuffer(content, "<i8", offset=82).tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(np.fromfile(path, kind), ids)


def test_an_array_is_that_of_numpy(tmp_path):
    for size, kind in ((50257, np.uint16), (128256, np.uint32)):
        (path,) = write_npy(tmp_path, f"train{size}", Tokens(np.arange(300), size, None), 1)
        found = np.load(path)
        assert found.dtype == kind
        assert np.array_equal(found, np.arange(300))


def test_what_cannot_be_exported_is_refused(tmp_path, capsys, text):
    assert tuple(WRITERS) == data_export.FORMATS
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    problem = export(capsys, text, "--output", str(tmp_path / "full"), code=2).err
    assert "exists already; name a new or empty folder" in problem
    problem = export(capsys, text, "--output", str(tmp_path / "new"), "--shard-tokens", "9", code=2).err
    assert "--shard-tokens has no effect with --format nanogpt" in problem
    shards = ("--format", "llmc", "--shard-tokens", "0")
    problem = export(capsys, text, "--output", str(tmp_path / "new"), *shards, code=2).err
    assert "--shard-tokens 0 must be from 1 to 2,147,483,647" in problem
    mixture = {"data.source": "mixture", "data.mixture": f'"1*{text["data.source"]}","1*{text["data.source"]}"'}
    problem = export(capsys, mixture, "--output", str(tmp_path / "new"), code=2).err
    assert "data.source=mixture has several sources" in problem
    assert not (tmp_path / "new").exists()
    with pytest.raises(ConfigError, match="two bytes for an id"):
        WRITERS["nanogpt"](tmp_path, "x", Tokens(np.arange(9), 70000, None), 1)
