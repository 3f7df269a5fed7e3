"""Writes token ids as files of other programs, which `zoo.data.sources.token_files` reads too."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from zoo.data.sources.token_files import LLMC_HEADER, LLMC_TYPES, MEGATRON_HEADER, MEGATRON_MAGIC, MEGATRON_TYPES
from zoo.errors import ConfigError
from zoo.files import new_file

_BLOCK_TOKENS = 1 << 20
# Token counts of llm.c are int32.
LARGEST_SHARD = 2**31 - 1


class Tokens(NamedTuple):
    """Tokens to write.

    Attributes:
        ids: anything with a length that can be sliced into arrays of ids.
        vocab_size: V.
        document_id: the token that opens a document; None if unknown.
    """

    ids: Any
    vocab_size: int
    document_id: int | None

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[np.ndarray]:
        """Yields the ids from `first` to before `last`, a million at a time."""
        last = len(self.ids) if last is None else last
        return (
            np.asarray(self.ids[place : min(place + _BLOCK_TOKENS, last)])
            for place in range(first, last, _BLOCK_TOKENS)
        )


def write_nanogpt(folder: Path, name: str, tokens: Tokens, shard: int) -> list[Path]:
    """Writes `NAME.bin`: uint16 ids alone, as nanoGPT's prepare.py.

    Raises:
        ConfigError: more than 65,536 ids.
    """
    if tokens.vocab_size > 1 << 16:
        raise ConfigError(
            f"--format nanogpt has two bytes for an id, and the tokenizer has {tokens.vocab_size:,} ids; take llmc, "
            "megatron or npy"
        )
    with new_file(folder / f"{name}.bin") as file:
        _write(file, tokens.blocks(), "<u2")
    return [folder / f"{name}.bin"]


def write_llmc(folder: Path, name: str, tokens: Tokens, shard: int) -> list[Path]:
    """Writes `tokens_NAME_000000.bin` and so on, of at most `shard` tokens: 256 int32, then the ids.

    The ids are uint16 (magic number 20240520, version 1), or uint32 (20240801, 7) where the
    tokenizer has more than 65,536.
    """
    (magic, version), dtype = list(LLMC_TYPES.items())[tokens.vocab_size > 1 << 16]
    paths = []
    for number, first in enumerate(range(0, len(tokens.ids), shard)):
        last = min(first + shard, len(tokens.ids))
        paths.append(folder / f"tokens_{name}_{number:06d}.bin")
        header = np.zeros(LLMC_HEADER, "<i4")
        header[:3] = magic, version, last - first
        with new_file(paths[-1]) as file:
            file.write(header.tobytes())
            _write(file, tokens.blocks(first, last), dtype)
    return paths


def write_megatron(folder: Path, name: str, tokens: Tokens, shard: int) -> list[Path]:
    """Writes `NAME.bin` and `NAME.idx` of Megatron's `IndexedDataset`: one sequence per document.

    The ids are uint16, or int32 where the tokenizer has 65,500 or more, as Megatron chooses.

    Raises:
        ConfigError: a document of 2^31 tokens or more.
    """
    dtype = np.dtype("<u2" if tokens.vocab_size < 65500 else "<i4")
    starts, place = [np.zeros(1, np.int64)], 0
    with new_file(folder / f"{name}.bin") as file:
        for block in _written(file, tokens.blocks(), dtype.str):
            if tokens.document_id is not None:
                starts.append(np.flatnonzero(block == tokens.document_id) + place)
            place += len(block)
    first = np.unique(np.concatenate(starts))
    lengths = np.diff(np.append(first, place))
    if (longest := int(lengths.max())) > LARGEST_SHARD:
        raise ConfigError(f"--format megatron: a document of {longest:,} tokens is too long for its index")
    code = {np.dtype(kind): code for code, kind in MEGATRON_TYPES.items()}[dtype]
    with new_file(folder / f"{name}.idx") as file:
        file.write(MEGATRON_HEADER.pack(MEGATRON_MAGIC, 1, code, len(first), len(first) + 1))
        file.write(lengths.astype("<i4").tobytes())
        file.write((first * dtype.itemsize).astype("<i8").tobytes())
        file.write(np.arange(len(first) + 1, dtype="<i8").tobytes())
    return [folder / f"{name}.bin"]


def write_npy(folder: Path, name: str, tokens: Tokens, shard: int) -> list[Path]:
    """Writes `NAME.npy`: uint16 ids, or uint32 where the tokenizer has more than 65,536."""
    dtype = "<u2" if tokens.vocab_size <= 1 << 16 else "<u4"
    with new_file(folder / f"{name}.npy") as file:
        header = {"descr": dtype, "fortran_order": False, "shape": (len(tokens.ids),)}
        np.lib.format.write_array_header_1_0(file, header)
        _write(file, tokens.blocks(), dtype)
    return [folder / f"{name}.npy"]


WRITERS: dict[str, Callable[[Path, str, Tokens, int], list[Path]]] = {
    "nanogpt": write_nanogpt,
    "llmc": write_llmc,
    "megatron": write_megatron,
    "npy": write_npy,
}


def _write(file: BinaryIO, blocks: Iterator[np.ndarray], dtype: str) -> None:
    for _ in _written(file, blocks, dtype):
        pass


def _written(file: BinaryIO, blocks: Iterator[np.ndarray], dtype: str) -> Iterator[np.ndarray]:
    """Yields each block after it is written."""
    for block in blocks:
        file.write(block.astype(dtype).data)
        yield block
