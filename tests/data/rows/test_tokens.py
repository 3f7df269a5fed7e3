import json
import os
import subprocess
import sys

import numpy as np
import pytest

from zoo.data.rows import token_streams
from zoo.data.rows.token_streams import cached_streams, tokenize
from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.data.tokenizers.character_level import CharacterTokenizer
from zoo.errors import ConfigError, ZooError

TRAIN = Documents.of(("one text", "another text"), "train")
VALIDATION = Documents.of(("a third text",), "validation")
PROGRAM = """
import numpy as np
from zoo.data.rows import token_streams as tokens
from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
parts = {"train": Documents.of(("one text", "another text"), "train")}
parts["validation"] = Documents.of(("a third text",), "validation")
"""


def arrays_of(tokenizer, train, validation):
    return [stream.tokens for stream in cached_streams(tokenizer, {"train": train, "validation": validation}).values()]


def build():
    return arrays_of(ByteTokenizer(), TRAIN, VALIDATION)


def expected():
    return tokenize(ByteTokenizer(), TRAIN).tokens, tokenize(ByteTokenizer(), VALIDATION).tokens


def assert_right(arrays):
    for array, right in zip(arrays, expected(), strict=True):
        assert array.dtype == right.dtype
        np.testing.assert_array_equal(array, right)


def run(program, **environment):
    command = [sys.executable, "-c", PROGRAM + program]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def files_of(cache):
    return sorted(path.name for path in cache.glob("tokens/*/*"))


def test_stream_is_document_token_then_text():
    tokens = tokenize(ByteTokenizer(), Documents.of(("ab", "c"), "test")).tokens
    assert tokens.tolist() == [256, 97, 98, 256, 99]
    assert tokens.dtype == np.uint16


def test_large_vocabularies_take_wider_tokens():
    class Many(ByteTokenizer):
        def __init__(self, size):
            super().__init__()
            self.vocab_size = size

    assert tokenize(Many(1 << 16), TRAIN).tokens.dtype == np.uint16
    assert tokenize(Many((1 << 16) + 1), TRAIN).tokens.dtype == np.int32


def test_second_call_maps_the_files_of_the_first(cache, monkeypatch):
    assert_right(build())
    assert files_of(cache) == ["train.json", "train.npy", "validation.json", "validation.npy"]
    with monkeypatch.context() as patched:
        patched.setattr(token_streams, "_arrays", None)
        arrays = build()
    assert_right(arrays)
    assert isinstance(arrays[0].base, np.memmap)
    assert not arrays[0].flags.writeable


def test_cache_entries_depend_on_content_and_tokenizer(cache):
    build()
    arrays_of(CharacterTokenizer("abcdefghijklmnopqrstuvwxyz "), TRAIN, VALIDATION)
    arrays_of(ByteTokenizer(), TRAIN, Documents.of(("a fourth text",), "validation"))
    arrays_of(ByteTokenizer(), Documents.of(("one text another text",), "train"), VALIDATION)
    assert len(list(cache.glob("tokens/*"))) == 4


def truncate(path):
    path.write_bytes(path.read_bytes()[:-3])


def empty(path):
    path.write_bytes(b"")


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def other_array(path):
    np.save(path, np.arange(5, dtype=np.float32))


def objects(path):
    np.save(path, np.array([{"a": 1}], dtype=object))


def remove(path):
    path.unlink()


@pytest.mark.parametrize("name", ["train.npy", "validation.npy"])
@pytest.mark.parametrize("damage", [truncate, empty, flip, other_array, objects, remove])
def test_damaged_arrays_are_rebuilt(cache, name, damage):
    build()
    (path,) = cache.glob(f"tokens/*/{name}")
    damage(path)
    assert_right(build())
    assert_right([np.load(path) for path in sorted(cache.glob("tokens/*/*.npy"))])


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"sha256": null}'])
def test_damaged_checksums_are_rebuilt(cache, content):
    build()
    (path,) = cache.glob("tokens/*/train.json")
    path.write_text(content)
    assert_right(build())
    assert len(json.loads(path.read_text())["sha256"]) == 64


@pytest.mark.parametrize("lost", ["tokens_sha256", "difference"])
def test_files_of_an_earlier_version_are_rebuilt(cache, lost):
    build()
    (path,) = cache.glob("tokens/*/train.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in record.items() if name != lost}))
    assert_right(build())
    assert json.loads(path.read_text()) == record


@pytest.mark.parametrize("moment", ["half the array", "before the rename", "before the checksum"])
@pytest.mark.faults
def test_tokens_are_rebuilt_after_a_kill_while_writing(cache, moment):
    kill = "import os, signal; die = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
    patches = {
        "half the array": "tokens.np.lib.format.write_array_header_1_0 = lambda file, *_: (file.write(b'\\x93NUMPY half'), file.flush(), die())",
        "before the rename": "os.replace = die",
        "before the checksum": "tokens.write_json = die",
    }
    killed = run(kill + patches[moment] + "\ntokens.cached_streams(ByteTokenizer(), parts)")
    assert killed.returncode == -9
    finished = "train.npy" in files_of(cache)
    assert finished == (moment == "before the checksum")
    assert_right(build())


def test_an_error_while_writing_leaves_no_files(cache, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        ZooError, match=r"the cache .* No space left on device \(.* MB free on its disk\); set ZOO_CACHE"
    ):
        build()
    assert files_of(cache) == []


@pytest.mark.promise(reason="several processes read the same tokens")
def test_racing_processes_read_the_same_tokens(cache):
    program = "print(*[stream.tokens.tolist() for stream in tokens.cached_streams(ByteTokenizer(), parts).values()])"
    command = [sys.executable, "-c", PROGRAM + program]
    racing = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate() for process in racing]
    right = " ".join(str(array.tolist()) for array in expected()) + "\n"
    assert outputs == [(right, "")] * 4
    assert files_of(cache) == ["train.json", "train.npy", "validation.json", "validation.npy"]


def test_an_unusable_cache_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="set ZOO_CACHE to another folder"):
        build()
