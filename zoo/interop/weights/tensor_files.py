"""Tensors of a checkpoint, in one file or in shards, read one at a time.

A safetensors file (https://huggingface.co/docs/safetensors) is a header of names, types, shapes and
offsets, followed by the numbers: nothing in it is executed, whereas unpickling `pytorch_model.bin`
runs any code that its author put there. Such a file is read by `zoo.interop.weights.torch_files`
alone, and where there are safetensors, these are read. No other format is ever opened.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from safetensors import SafetensorError, safe_open

from zoo.errors import ConfigError, DataError, one_line
from zoo.files import read_json
from zoo.interop.weights import torch_files
from zoo.interop.weights.torch_files import TorchFile

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
# Types of stored parameters; all are converted to float32 without loss.
FLOATS = ("F32", "F16", "BF16")
# Weights in other formats, all of which are pickles or need another library.
OTHER_FORMATS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.msgpack", "*.h5", "*.gguf", "*.onnx")
# Parts of names that wrappers of a module add: torch.compile, FSDP and its checkpointing, DeepSpeed.
WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module")
# The name of a module within DataParallel.
PARALLEL = "module"
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
    """The tensors of files, by name; without what wrappers of the module have added to the names.

    Args:
        paths: safetensors files, or files that torch reads.

    Attributes:
        paths: the file of each tensor.
        stored: the name of each tensor in its file.

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
                described = _described(path)
            except (SafetensorError, OSError, ValueError) as error:
                kind = "file that torch reads without running code" if _is_pickle(path) else "safetensors file"
                problems.append(f"{path}: not a whole {kind}: {one_line(error)}")
                continue
            problems += [
                f"{path}: tensor {name} is in {self.paths[name].name} too" for name in described if name in self.paths
            ]
            self.paths |= dict.fromkeys(described, path)
            self.tensors |= {name: StoredTensor(name, *values, self) for name, values in described.items()}
        if problems:
            raise DataError(problems)
        self.stored = without_wrappers(self.tensors)
        self.paths = {name: self.paths[stored] for name, stored in self.stored.items()}
        self.tensors = {name: replace(self.tensors[stored], name=name) for name, stored in self.stored.items()}

    @property
    def note(self) -> str:
        """A line that says what was left out of the names; empty if nothing was."""
        changed = [stored for name, stored in self.stored.items() if name != stored]
        parts = [part for part in (PARALLEL, *WRAPPERS) if any(part in stored.split(".") for stored in changed)]
        shown = " and ".join(f'"{part}."' for part in parts)
        line = f"{shown} was left out of the names of {len(changed)} tensors: wrappers of a module add it"
        return line if changed else ""

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
        # A pickle is read as a whole when it is opened again.
        full = self._mapped > MAPPED_BYTES and not _is_pickle(path)
        if self._open is None or self._open[0] != path or full:
            self.close()
            self._open = path, TorchFile(path) if _is_pickle(path) else safe_open(path, "np")
        array = self._open[1].get_tensor(self.stored[tensor.name])
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


def _is_pickle(path: Path) -> bool:
    return path.suffix == ".bin"


def _described(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Returns shape and type of each tensor of a file."""
    if _is_pickle(path):
        return TorchFile(path).described()
    with safe_open(path, "np") as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, this is no dict
        return {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in parts.items()}


def without_wrappers(names: Iterable[str]) -> dict[str, str]:
    """Returns {name without what wrappers of a module add to it: name}.

    "module." is left out where all names begin with it. Nothing is where two names would coincide.
    """
    names = list(names)
    found = {stored: [part for part in stored.split(".") if part not in WRAPPERS] for stored in names}
    while found and all(len(parts) > 1 and parts[0] == PARALLEL for parts in found.values()):
        found = {stored: parts[1:] for stored, parts in found.items()}
    unwrapped = {".".join(parts): stored for stored, parts in found.items()}
    return unwrapped if len(unwrapped) == len(names) else {name: name for name in names}


def weight_files(folder: Path) -> list[Path]:
    """Returns the files of a folder's weights.

    They are `model.safetensors`, or the shards that `model.safetensors.index.json` names; without
    these, where torch is installed, `pytorch_model.bin` or the shards of its index.

    Raises:
        ConfigError: there are none.
        DataError: a damaged index, or missing shards.
    """
    whole, index = _whole_and_index(folder)
    if whole.is_file():
        return [whole]
    if not index.is_file():
        _refuse_other_formats(folder)
    names = _index(index)
    shards = sorted(set(names.values()))
    missing = [name for name in shards if not (folder / name).is_file()]
    if missing:
        raise DataError([f"{index} names {name}, which is not there" for name in missing])
    return [folder / name for name in shards]


def _whole_and_index(folder: Path) -> tuple[Path, Path]:
    """Returns the paths of a single file and of an index of shards, in the format that is read."""
    safe, others = (WHOLE, INDEX), (torch_files.WHOLE, torch_files.INDEX)
    is_safe = any((folder / name).is_file() for name in safe)
    is_other = any((folder / name).is_file() for name in others)
    names = others if is_other and not is_safe and torch_files.can_read_pickles() else safe
    return folder / names[0], folder / names[1]


def _refuse_other_formats(folder: Path) -> NoReturn:
    others = sorted({path.name for pattern in OTHER_FORMATS for path in folder.glob(pattern)})
    if not others:
        raise ConfigError(f"{folder} has no weights: expected {WHOLE}, or {INDEX} and its shards")
    reads = others[0] in (torch_files.WHOLE, torch_files.INDEX)
    oldest = ".".join(map(str, torch_files.OLDEST))
    advice = f"install torch {oldest} or newer, which reads it without running code; or, " * reads
    raise ConfigError(
        f"{folder} has no {WHOLE}, and {others[0]} is not opened, because such files can run code; {advice}if you "
        "trust it, load it with transformers and call save_pretrained(DIR, safe_serialization=True)"
    )


def _index(path: Path) -> dict[str, str]:
    try:
        names = read_json(path)["weight_map"]
        if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
            raise ValueError("weight_map is no object of file names")
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not an index of shards: {type(error).__name__}: {error}") from error
    kind, ending = ("safetensors", ".safetensors") if path.name == INDEX else (".bin", ".bin")
    outside = sorted({name for name in names.values() if Path(name).name != name or not name.endswith(ending)})
    if outside:
        raise DataError([f"{path}: {name!r} is not the name of a {kind} file in the same folder" for name in outside])
    return names


def open_tensors(folder: Path) -> TensorFiles:
    """Opens the tensors of a folder's weights.

    Raises:
        ConfigError, DataError: as `weight_files`, and for tensors that are not where the index
            says.
    """
    tensors = TensorFiles(weight_files(folder))
    whole, index = _whole_and_index(folder)
    if not whole.is_file():
        names, paths = _index(index), {stored: tensors.paths[name] for name, stored in tensors.stored.items()}
        problems = [
            f"{folder / file}: tensor {name}, which the index says is there, is not"
            for name, file in names.items()
            if name not in paths or paths[name].name != file
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
