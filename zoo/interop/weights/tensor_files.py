"""Tensors of safetensors files, in one file or in shards, read one at a time.

No other format of weights is ever opened. A safetensors file
(https://huggingface.co/docs/safetensors) is a header of names, types, shapes and offsets, followed
by the numbers: nothing in it is executed, whereas unpickling `pytorch_model.bin` runs any code that
its author put there.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from zoo.errors import ConfigError, DataError, one_line
from zoo.files import read_json

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
# Types of stored parameters; all are converted to float32 without loss.
FLOATS = ("F32", "F16", "BF16")
# Weights in other formats, all of which are pickles or need another library.
OTHER_FORMATS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.msgpack", "*.h5", "*.gguf", "*.onnx")
# A file is reopened after this many bytes: pages that were read stay in memory while it is open.
MAPPED_BYTES = 1 << 26


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file: its shape and, when converted to an array, its numbers as float32."""

    name: str
    shape: tuple[int, ...]
    type: str
    owner: "TensorFiles"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.owner.read(self)
        return array if dtype is None else array.astype(dtype)


class TensorFiles(Mapping[str, StoredTensor]):
    """The tensors of safetensors files, by name.

    Args:
        paths: the files.

    Raises:
        DataError: naming every file that cannot be read, and tensors that occur twice.
    """

    def __init__(self, paths: list[Path]):
        self.paths: dict[str, Path] = {}
        self.tensors: dict[str, StoredTensor] = {}
        self.problems: list[str] = []
        self._open: tuple[Path, Any] | None = None
        self._mapped = 0
        problems = []
        for path in paths:
            try:
                with safe_open(path, "np") as file:
                    parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, this is no dict
                    described = {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in parts.items()}
            except (SafetensorError, OSError, ValueError) as error:
                problems.append(f"{path}: not a whole safetensors file: {one_line(error)}")
                continue
            problems += [
                f"{path}: tensor {name} is in {self.paths[name].name} too" for name in described if name in self.paths
            ]
            self.paths |= dict.fromkeys(described, path)
            self.tensors |= {name: StoredTensor(name, *values, self) for name, values in described.items()}
        if problems:
            raise DataError(problems)

    def __getitem__(self, name: str) -> StoredTensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def read(self, tensor: StoredTensor) -> np.ndarray:
        """Returns the numbers of a tensor as float32.

        Problems are collected and raised by `finish`.
        """
        if tensor.type not in FLOATS:
            self.problems.append(f"tensor {tensor.name} is of type {tensor.type}, expected {', '.join(FLOATS)}")
            return np.zeros(tensor.shape, np.float32)
        path = self.paths[tensor.name]
        if self._open is None or self._open[0] != path or self._mapped > MAPPED_BYTES:
            self.close()
            self._open = path, safe_open(path, "np")
        array = self._open[1].get_tensor(tensor.name)
        self._mapped += array.nbytes
        array = array.astype(np.float32, copy=False)
        if not np.isfinite(array).all():
            self.problems.append(
                f"tensor {tensor.name} holds {int((~np.isfinite(array)).sum())} numbers that are infinite or not a "
                "number"
            )
        return array

    def close(self) -> None:
        """Closes the file that was read last."""
        if self._open is not None:
            self._open[1].__exit__(None, None, None)
        self._open, self._mapped = None, 0

    def finish(self) -> None:
        """Ends the reading.

        Raises:
            DataError: with a line for every tensor whose numbers cannot be parameters.
        """
        self.close()
        if self.problems:
            raise DataError(list(dict.fromkeys(self.problems)))


def weight_files(folder: Path) -> list[Path]:
    """Returns the files of a folder's weights.

    They are `model.safetensors`, or the shards that `model.safetensors.index.json` names.

    Raises:
        ConfigError: there are none.
        DataError: a damaged index, or missing shards.
    """
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    if not (folder / INDEX).is_file():
        others = sorted({path.name for pattern in OTHER_FORMATS for path in folder.glob(pattern)})
        if others:
            raise ConfigError(
                f"{folder} has no {WHOLE}, and {others[0]} is not opened, because such files can run code; if you "
                "trust it, load it with transformers and call save_pretrained(DIR, safe_serialization=True)"
            )
        raise ConfigError(f"{folder} has no weights: expected {WHOLE}, or {INDEX} and its shards")
    names = _index(folder / INDEX)
    shards = sorted(set(names.values()))
    missing = [name for name in shards if not (folder / name).is_file()]
    if missing:
        raise DataError([f"{folder / INDEX} names {name}, which is not there" for name in missing])
    return [folder / name for name in shards]


def _index(path: Path) -> dict[str, str]:
    try:
        names = read_json(path)["weight_map"]
        if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
            raise ValueError("weight_map is no object of file names")
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not an index of shards: {type(error).__name__}: {error}") from error
    outside = sorted({name for name in names.values() if Path(name).name != name or not name.endswith(".safetensors")})
    if outside:
        raise DataError(
            [f"{path}: {name!r} is not the name of a safetensors file in the same folder" for name in outside]
        )
    return names


def open_tensors(folder: Path) -> TensorFiles:
    """Opens the tensors of a folder's weights.

    Raises:
        ConfigError, DataError: as `weight_files`, and for tensors that are not where the index
            says.
    """
    tensors = TensorFiles(weight_files(folder))
    if not (folder / WHOLE).is_file():
        names = _index(folder / INDEX)
        problems = [
            f"{folder / file}: tensor {name}, which the index says is there, is not"
            for name, file in names.items()
            if name not in tensors or tensors.paths[name].name != file
        ]
        if problems:
            tensors.close()
            raise DataError(problems)
    return tensors


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes arrays as one safetensors file of the kind that transformers reads."""
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path, metadata={"format": "pt"})
    # The library makes its files unreadable for other users.
    os.umask(mask := os.umask(0))
    path.chmod(0o666 & ~mask)


def read_object(path: Path, what: str) -> dict[str, Any]:
    """Reads the JSON object of a file.

    Args:
        path: path of the file.
        what: describes it in errors.

    Raises:
        ConfigError: no such file.
        DataError: the file is not a JSON object.
    """
    if not path.is_file():
        raise ConfigError(f"{path.parent} has no {path.name}: {what} is expected there")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {one_line(error)}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: not a JSON object")
    return content
