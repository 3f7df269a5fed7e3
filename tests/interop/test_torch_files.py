"""Weights in pickles are read by torch, which runs no code of theirs."""

import json
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from zoo.errors import DataError
from zoo.interop.weights import torch_files
from zoo.interop.weights.tensor_files import open_tensors, without_wrappers

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1.5, -2.0], np.float32)


class Tensor:
    """What is used of torch's tensors."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, f"torch.{array.dtype}"

    def detach(self):
        return self

    def float(self):
        return Tensor(self.array.astype(np.float32))

    def numpy(self):
        return self.array


@pytest.fixture
def stand_in(monkeypatch):
    """A stand-in for torch, and the contents of its files by name."""
    contents, asked = {}, []

    def load(path, **options):
        asked.append(options)
        return contents[path.name]

    module = SimpleNamespace(load=load, is_tensor=lambda value: isinstance(value, Tensor))
    monkeypatch.setitem(__import__("sys").modules, "torch", module)
    monkeypatch.setattr(torch_files, "can_read_pickles", lambda: True)
    yield contents
    assert all(options["weights_only"] is True for options in asked)


def test_a_file_and_shards_of_torch_are_read(stand_in, tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    stand_in["pytorch_model.bin"] = {
        "state_dict": {"module.a": Tensor(A.astype(np.float16)), "module.b": Tensor(B)},
        "epoch": 3,
    }
    tensors = open_tensors(tmp_path)
    assert {name: np.asarray(each).tolist() for name, each in tensors.items()} == {"a": A.tolist(), "b": B.tolist()}
    assert tensors.note == '"module." was left out of the names of 2 tensors: wrappers of a module add it'
    (tmp_path / "pytorch_model.bin").unlink()
    index = {"weight_map": {"a": "pytorch_model-1.bin", "b": "pytorch_model-2.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    for name, value in (("pytorch_model-1.bin", {"a": Tensor(A)}), ("pytorch_model-2.bin", {"b": Tensor(B)})):
        (tmp_path / name).write_bytes(b"")
        stand_in[name] = value
    assert sorted(open_tensors(tmp_path)) == ["a", "b"]
    stand_in["pytorch_model-2.bin"] = {"epoch": 3}
    with pytest.raises(DataError, match=r"pytorch_model-2.bin: not a whole file that torch reads.*holds no tensors"):
        open_tensors(tmp_path)


@pytest.mark.parametrize(("names", "found"), [
    (["module.a", "module.b"], ["a", "b"]),
    (["module.a", "b"], ["module.a", "b"]),
    (["module._orig_mod.a.weight"], ["a.weight"]),
    (["model._orig_mod.layers.0.w", "head.w"], ["model.layers.0.w", "head.w"]),
    (["a._fsdp_wrapped_module.w"], ["a.w"]),
    (["_orig_mod.a", "a"], ["_orig_mod.a", "a"]),
    (["module"], ["module"]),
    ([], []),
])  # fmt: skip
def test_what_wrappers_add_to_names_is_left_out(names, found):
    assert without_wrappers(names) == dict(zip(found, names, strict=True))


class Sprung:
    """Creates a folder when it is unpickled."""

    def __reduce__(self):
        return __import__("os").mkdir, ("sprung",)


@pytest.mark.parity
def test_torch_reads_its_own_files_and_runs_no_code(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    assert torch_files.can_read_pickles()
    state = {"a": torch.tensor(A, dtype=torch.bfloat16), "b": torch.tensor(B), "count": torch.tensor(3)}
    for zipped in (True, False):
        torch.save(state, "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
        tensors = open_tensors(tmp_path)
        np.testing.assert_array_equal(np.asarray(tensors["a"]), A)
        np.testing.assert_array_equal(np.asarray(tensors["b"]), B)
        assert tensors["count"].type == "int64"
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Sprung()}))
    with pytest.raises(DataError, match="not a whole file that torch reads without running code"):
        open_tensors(tmp_path)
    assert not (tmp_path / "sprung").exists()
