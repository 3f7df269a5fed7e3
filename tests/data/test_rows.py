import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.data import rows
from zoo.data.rows import all_rows, cached_tokens, full_rows, gather_rows, tokenize
from zoo.data.sources import Documents
from zoo.data.tokenizers import ByteTokenizer, CharacterTokenizer
from zoo.errors import ConfigError

TRAIN = Documents(("one text", "another text"), "train")
VALIDATION = Documents(("a third text",), "validation")
PROGRAM = """
import numpy as np
from zoo.data import rows
from zoo.data.sources import Documents
from zoo.data.tokenizers import ByteTokenizer
parts = Documents(("one text", "another text"), "train"), Documents(("a third text",), "validation")
"""


def build():
    return cached_tokens(ByteTokenizer(), TRAIN, VALIDATION)


def expected():
    return tokenize(ByteTokenizer(), TRAIN), tokenize(ByteTokenizer(), VALIDATION)


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
    tokens = tokenize(ByteTokenizer(), Documents(("ab", "c"), "test"))
    assert tokens.tolist() == [256, 97, 98, 256, 99]
    assert tokens.dtype == np.uint16


def test_large_vocabularies_take_wider_tokens():
    class Many(ByteTokenizer):
        def __init__(self, size):
            super().__init__()
            self.vocab_size = size

    assert tokenize(Many(1 << 16), TRAIN).dtype == np.uint16
    assert tokenize(Many((1 << 16) + 1), TRAIN).dtype == np.int32


@given(n=st.integers(0, 200), length=st.integers(1, 40))
def test_rows_hold_every_target_exactly_once(n, length):
    tokens = np.arange(n, dtype=np.uint16)
    count = all_rows(tokens, length)
    result = gather_rows(tokens, np.arange(count), length)
    assert result.dtype == np.int32
    assert result.shape == (count, length + 1)
    targets = result[:, 1:].ravel()
    assert targets[targets >= 0].tolist() == list(range(1, n))
    inputs = result[:, :-1][result[:, 1:] >= 0]
    assert inputs.tolist() == list(range(n - 1))
    assert (result[:, 1:] >= 0).any(axis=1).all()
    full = full_rows(tokens, length)
    assert full == sum((row >= 0).all() for row in result)
    for number in range(full):
        assert result[number].tolist() == list(range(number * length, number * length + length + 1))


@given(n=st.integers(0, 200), length=st.integers(1, 20))
def test_rows_that_predict_nothing_ahead_share_nothing(n, length):
    tokens = np.arange(n, dtype=np.uint16)
    count = all_rows(tokens, length, ahead=0)
    if n:
        result = gather_rows(tokens, np.arange(count), length, ahead=0)
        assert result.shape == (count, length)
        assert result[result >= 0].tolist() == list(range(n))
        assert (result >= 0).any(axis=1).all()
        assert full_rows(tokens, length, ahead=0) == sum((row >= 0).all() for row in result)
    assert (count == 0) == (n == 0)


def test_second_call_maps_the_files_of_the_first(cache, monkeypatch):
    assert_right(build())
    assert files_of(cache) == ["train.json", "train.npy", "validation.json", "validation.npy"]
    monkeypatch.setattr(rows, "tokenize", None)
    arrays = build()
    assert_right(arrays)
    assert isinstance(arrays[0].base, np.memmap)
    assert not arrays[0].flags.writeable


def test_other_content_or_tokenizer_is_another_entry(cache):
    build()
    cached_tokens(CharacterTokenizer("abcdefghijklmnopqrstuvwxyz "), TRAIN, VALIDATION)
    cached_tokens(ByteTokenizer(), TRAIN, Documents(("a fourth text",), "validation"))
    cached_tokens(ByteTokenizer(), Documents(("one text another text",), "train"), VALIDATION)
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


@pytest.mark.parametrize("moment", ["half the array", "before the rename", "before the checksum"])
def test_killed_while_writing(cache, moment):
    kill = "import os, signal; die = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
    patches = {
        "half the array": "rows.np.save = lambda file, array, **_: (file.write(b'\\x93NUMPY half'), file.flush(), die())",
        "before the rename": "rows.os.replace = die",
        "before the checksum": "rows.write_json = die",
    }
    killed = run(kill + patches[moment] + "\nrows.cached_tokens(ByteTokenizer(), *parts)")
    assert killed.returncode == -9
    finished = "train.npy" in files_of(cache)
    assert finished == (moment == "before the checksum")
    assert_right(build())


def test_an_error_while_writing_leaves_nothing(cache, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rows.os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left on device; set ZOO_CACHE"):
        build()
    assert files_of(cache) == []


def test_processes_that_race_all_read_the_same(cache):
    program = "print(*[array.tolist() for array in rows.cached_tokens(ByteTokenizer(), *parts)])"
    command = [sys.executable, "-c", PROGRAM + program]
    racing = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate() for process in racing]
    right = " ".join(str(array.tolist()) for array in expected()) + "\n"
    assert outputs == [(right, "")] * 4
    assert files_of(cache) == ["train.json", "train.npy", "validation.json", "validation.npy"]


def test_cache_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="set ZOO_CACHE to a writable folder"):
        build()
