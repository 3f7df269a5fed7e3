"""Tensor files: every supported type and layout, and every kind of damaged file."""

import json
import os

import ml_dtypes
import numpy as np
import pytest

from zoo.errors import ConfigError, DataError
from zoo.interop.weights import tensor_files as reading
from zoo.interop.weights import torch_files
from zoo.interop.weights.tensor_files import TensorFiles, open_tensors, write_tensors

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1.5, -2.0], np.float32)


def write(path, **arrays):
    write_tensors(path, arrays)
    return path


def sharded(folder, **changes):
    """Writes two shards and their index; `changes` replace entries of the index."""
    write(folder / "model-1.safetensors", a=A)
    write(folder / "model-2.safetensors", b=B)
    index = {"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"} | changes}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def test_tensor_files_round_trip(tmp_path):
    write(tmp_path / "model.safetensors", a=A, b=B.T, c=A.T)
    tensors = open_tensors(tmp_path)
    assert sorted(tensors) == ["a", "b", "c"]
    assert (tensors["a"].shape, tensors["c"].shape, len(tensors)) == ((2, 3), (3, 2), 3)
    for name, array in {"a": A, "b": B, "c": A.T}.items():
        np.testing.assert_array_equal(np.asarray(tensors[name]), array)
    tensors.finish()
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    os.umask(mask := os.umask(0))
    return mask


def test_shards_are_read_as_one_file(tmp_path):
    tensors = open_tensors(sharded(tmp_path))
    np.testing.assert_array_equal(np.asarray(tensors["b"]), B)
    np.testing.assert_array_equal(np.asarray(tensors["a"]), A)
    tensors.finish()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_read_as_float32(tmp_path, dtype):
    values = np.array([1.0, -0.1, 3e-5, 60000.0]).astype(dtype)
    read = np.asarray(open_tensors(write(tmp_path / "model.safetensors", x=values).parent)["x"])
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read.astype(dtype), values)


def test_the_mapped_memory_is_limited(tmp_path, monkeypatch):
    opened, closed = [], []
    real = reading.safe_open

    class Spy:
        def __init__(self, path, framework):
            self.file = real(path, framework)
            self.keys, self.get_slice, self.get_tensor = self.file.keys, self.file.get_slice, self.file.get_tensor
            opened.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            closed.append(self)
            return self.file.__exit__(*error)

    monkeypatch.setattr(reading, "safe_open", Spy)
    monkeypatch.setattr(reading, "MAPPED_BYTES", A.nbytes)
    tensors = open_tensors(write(tmp_path / "model.safetensors", **{f"x{i}": A for i in range(6)}).parent)
    header = len(opened)
    for name in tensors:
        np.asarray(tensors[name])
    # The file is reopened after every two tensors, because the second one exceeds the limit.
    assert len(opened) - header == 3
    tensors.close()
    assert len(closed) == len(opened)


def test_non_finite_values_and_wrong_dtypes_are_reported_together(tmp_path):
    infinite, whole = np.array([1.0, np.inf, np.nan], np.float32), np.arange(3)
    tensors = open_tensors(
        write(tmp_path / "model.safetensors", bad=infinite, whole=whole, wide=A.astype(np.float64), good=A).parent
    )
    for name in tensors:
        np.asarray(tensors[name])
    with pytest.raises(DataError) as refused:
        tensors.finish()
    assert sorted(refused.value.problems) == [
        "tensor bad holds 2 numbers that are infinite or not a number", "tensor whole is of type I64, expected F32, F16, BF16",
        "tensor wide is of type F64, expected F32, F16, BF16"]  # fmt: skip


@pytest.fixture
def without_torch(monkeypatch):
    """No torch is installed, whatever the environment has."""
    monkeypatch.setattr(torch_files, "can_read_pickles", lambda: False)


def whole(folder):
    return write(folder / "model.safetensors", a=A).read_bytes()


@pytest.mark.parametrize(("make", "error", "problem"), [
    (lambda folder: None, ConfigError, "has no weights: expected model.safetensors, or model.safetensors.index.json"),
    (lambda folder: (folder / "pytorch_model.bin").write_bytes(b"x"), ConfigError, "pytorch_model.bin is not opened.*save_pretrained"),
    (lambda folder: (folder / "model.safetensors").write_bytes(b""), DataError, "not a whole safetensors file"),
    (lambda folder: (folder / "model.safetensors").write_bytes(whole(folder)[:-4]), DataError, "not a whole safetensors file"),
    (lambda folder: (folder / "model.safetensors").write_bytes(b"PK\x03\x04" + bytes(200)), DataError, "not a whole safetensors file"),
    (lambda folder: (folder / "model.safetensors.index.json").write_text("{"), DataError, "not an index of shards: JSONDecodeError"),
    (lambda folder: (folder / "model.safetensors.index.json").write_text("[]"), DataError, "not an index of shards: TypeError"),
    (lambda folder: (folder / "model.safetensors.index.json").write_text('{"weight_map": {}}'), DataError, "weight_map is no object"),
    (lambda folder: sharded(folder, c="../x.safetensors"), DataError, "'../x.safetensors' is not the name of a safetensors file in the same folder"),
    (lambda folder: sharded(folder, c="pytorch_model.bin"), DataError, "'pytorch_model.bin' is not the name of a safetensors file"),
    (lambda folder: sharded(folder, c="model-3.safetensors"), DataError, "names model-3.safetensors, which is not there"),
    (lambda folder: sharded(folder, a="model-2.safetensors", b="model-1.safetensors"), DataError, "tensor a, which the index says"),
    (lambda folder: write(sharded(folder) / "model-2.safetensors", a=A, b=B), DataError, "tensor a is in model-1.safetensors too"),
    (lambda folder: (sharded(folder) / "model-2.safetensors").write_bytes(b"x"), DataError, "model-2.safetensors: not a whole safetensors"),
])  # fmt: skip
def test_unreadable_weight_files_are_rejected(tmp_path, make, error, problem, without_torch):
    make(tmp_path)
    with pytest.raises(error, match=problem) as refused:
        open_tensors(tmp_path)
    assert all("\n" not in line for line in refused.value.problems)


def test_all_damaged_files_are_named_at_once(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError) as refused:
        TensorFiles([tmp_path / "a", tmp_path / "b"])
    assert len(refused.value.problems) == 2
