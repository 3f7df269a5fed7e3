"""Files of token ids that another program has written, memory-mapped.

| format | file | ids |
|---|---|---|
| nanoGPT | ids alone | uint16 or uint32, as `data.token_dtype` says |
| llm.c, modded-nanogpt | 256 int32 (magic number, version, number of ids), ids | uint16 or uint32 |
| Megatron | `.bin` has the ids, `.idx` where sequences and documents begin | any integers |
| NumPy | `.npy` of one dimension | any integers |
"""

import mmap
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zoo.data.sources.file_content import HEAD_BYTES, compression_of, format_of
from zoo.errors import ConfigError, DataError, one_line

LLMC_HEADER = 256
# Magic number and version -> type of the ids (llm.c, dev/data/data_common.py).
LLMC_TYPES = {(20240520, 1): "<u2", (20240801, 7): "<u4"}
_LLMC_QUESTIONS = 20240522
MEGATRON_MAGIC = b"MMIDIDX\0\0"
_OLD_MEGATRON_MAGIC = b"TNTIDX\0\0"
# Magic, version, type of the ids, number of sequences, number of documents + 1.
MEGATRON_HEADER = struct.Struct("<9sQBQQ")
# The number of a type in an index. 9 and 10 are those of fairseq and DeepSpeed.
MEGATRON_TYPES = {
    1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2", 9: "<u4", 10: "<u8",
}  # fmt: skip
_CHECKED_SEQUENCES = 1 << 20
# Upper halves of ids are below the second number, and this many of them are no chance.
_TELLING_IDS, _LARGEST_HALF = 32, 16
# A smaller file is read as a whole sooner or later.
_READ_AHEAD_BYTES = 1 << 26


class TokenFile(NamedTuple):
    """Token ids of one file.

    Attributes:
        path: the file.
        tokens: [tokens], memory-mapped, of any type of integers.
        starts: index of the first token of each document, int64 [documents]; None where the file
            does not tell.
    """

    path: Path
    tokens: np.ndarray
    starts: np.ndarray | None = None


def open_token_file(path: Path, dtype: str) -> TokenFile:
    """Opens a file of token ids, whose format its first bytes tell; reads none of them.

    Args:
        path: the file; of Megatron's two files, either.
        dtype: "uint16" or "uint32", the type of ids in a file without header.

    Raises:
        ConfigError: the file cannot be read, or `dtype` is not that of its header.
        DataError: it is no file of token ids, or not a complete one.
    """
    try:
        index = path.with_suffix(".idx")
        if path.suffix in (".bin", ".idx") and index.is_file():
            return _megatron(path.with_suffix(".bin"), index)
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
        size = path.stat().st_size
        if head.startswith(b"\x93NUMPY"):
            return TokenFile(path, _numpy(path))
        magic, version, count = struct.unpack("<3i", head[:12]) if len(head) >= 12 else (0, 0, 0)
        if (magic, version) in LLMC_TYPES:
            return TokenFile(path, _with_header(path, size, LLMC_TYPES[magic, version], count, dtype))
        if magic == _LLMC_QUESTIONS:
            raise DataError(f'"{path}": questions of llm.c with several answers, not a stream of tokens')
        if magic in (known for known, _ in LLMC_TYPES):
            raise DataError(f'"{path}": version {version} of the format of llm.c is not known; known are 1 and 7')
        _check_raw(path, head)
        _check_width(path, head, dtype)
        return TokenFile(path, _mapped(path, np.dtype(dtype).newbyteorder("<"), 0, size, "of the file"))
    except OSError as error:
        raise ConfigError(f'cannot read "{path}": {error.strerror or error}') from error


def _mapped(path: Path, dtype: np.dtype, offset: int, size: int, what: str) -> np.ndarray:
    """Maps `size` bytes of ids that begin at byte `offset`."""
    if size % dtype.itemsize:
        raise DataError(
            f'"{path}": {size:,} bytes {what} are no whole number of {dtype.name} ids, so the file is cut off or of '
            "another type (data.token_dtype)"
        )
    if not size:
        raise DataError(f'"{path}": there are no tokens')
    return _plain(np.memmap(path, dtype, "r", offset, (size // dtype.itemsize,)))


def _plain(mapped: np.memmap) -> np.ndarray:
    """Returns a mapped file as a plain array: the class of mappings makes small reads slower."""
    if mapped.nbytes > _READ_AHEAD_BYTES and hasattr(mmap, "MADV_RANDOM"):
        # Rows are read in random order, and the system would read megabytes ahead of each.
        mapped._mmap.madvise(mmap.MADV_RANDOM)
    return np.asarray(mapped)


def _with_header(path: Path, size: int, kind: str, count: int, dtype: str) -> np.ndarray:
    found, offset = np.dtype(kind), 4 * LLMC_HEADER
    if dtype == "uint32" and found.name != dtype:
        raise ConfigError(f'data.token_dtype=uint32: the header of "{path}" says {found.name}; leave it at uint16')
    if (there := size - offset) != count * found.itemsize:
        raise DataError(
            f'"{path}": its header tells of {count:,} {found.name} ids, {count * found.itemsize:,} bytes, and '
            f"{there:,} bytes follow; the file is not complete"
        )
    return _mapped(path, found, offset, there, "after the header")


def _numpy(path: Path) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f'"{path}": not a complete .npy file of numbers: {one_line(error)}') from error
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f'"{path}": an array of {array.dtype} with shape {array.shape}; token ids are integers in one dimension'
        )
    if not len(array):
        raise DataError(f'"{path}": there are no tokens')
    return _plain(array)


def _check_raw(path: Path, head: bytes) -> None:
    """Raises DataError for a file that holds something else than ids without a header."""
    if compression_of(head):
        raise DataError(f'"{path}": compressed, and token ids are memory-mapped; decompress it')
    if head.startswith(_OLD_MEGATRON_MAGIC) or head.startswith(MEGATRON_MAGIC):
        raise DataError(f'"{path}": an index of Megatron; its token ids, "{path.with_suffix(".bin")}", are missing')
    if kind := format_of(head):
        raise DataError(f'"{path}" holds no token ids: it is {kind}')
    # Ids below 256 have a NUL as their second byte, so UTF-8 without one is text.
    try:
        is_text = b"\0" not in head and bool(head[:-3].decode())
    except UnicodeDecodeError:
        is_text = False
    if is_text and len(head) >= 64:
        raise DataError(f'"{path}" holds text, not token ids; text is read by text:PATH')


def _check_width(path: Path, head: bytes, dtype: str) -> None:
    """Raises DataError for a file without header whose ids are wider than `dtype`.

    The upper half of a wide id is small, because vocabularies have fewer than 2^20 tokens, and would
    be read as a token of its own: every second one would be 0, and no id out of range.
    """
    found = np.dtype(dtype).newbyteorder("<")
    ids = np.frombuffer(head, found, len(head) // (2 * found.itemsize) * 2)
    low, high = ids[::2], ids[1::2]
    if len(high) < _TELLING_IDS or high.max() >= _LARGEST_HALF:
        return
    # Narrow ids of a small vocabulary are small too, but not 0 in every second place.
    if (low >= _LARGEST_HALF).mean() < 0.25 and (high.any() or not low.any()):
        return
    wider = "uint32" if found.itemsize == 2 and ids[2::4].any() else "int64"
    advice = "set data.token_dtype=uint32" if wider == "uint32" else "write them as uint32, or as .npy"
    raise DataError(
        f'"{path}": every second {found.name} is below {_LARGEST_HALF}, so these are ids of {wider}; {advice}'
    )


def _megatron(path: Path, index: Path) -> TokenFile:
    """Opens the two files of Megatron's `IndexedDataset`."""
    with open(index, "rb") as file:
        head = file.read(MEGATRON_HEADER.size)
    if head.startswith(_OLD_MEGATRON_MAGIC):
        raise DataError(f'"{index}": the older, "lazy" or "cached" format; write the files with --dataset-impl mmap')
    if len(head) < MEGATRON_HEADER.size or not head.startswith(MEGATRON_MAGIC):
        raise DataError(f'"{index}": not an index of Megatron, as its first bytes show; move it, or "{path.name}"')
    _, version, code, sequences, ends = MEGATRON_HEADER.unpack(head)
    if version != 1 or code not in MEGATRON_TYPES or np.dtype(MEGATRON_TYPES[code]).kind == "f":
        what = f"version {version}" if version != 1 else f"ids of type {MEGATRON_TYPES.get(code, code)}"
        raise DataError(f'"{index}": {what}; version 1 with integers is read')
    expected = MEGATRON_HEADER.size + 12 * sequences + 8 * ends
    if (size := index.stat().st_size) != expected:
        modes = "; an index with modes is one of images" if size == expected + sequences else ""
        raise DataError(
            f'"{index}": {sequences:,} sequences in {ends - 1:,} documents take {expected:,} bytes, and there are '
            f"{size:,}; the file is not complete{modes}"
        )
    if not path.is_file():
        raise DataError(f'"{index}": the token ids, "{path}", are missing')
    dtype = np.dtype(MEGATRON_TYPES[code])
    tokens = _mapped(path, dtype, 0, path.stat().st_size, "of the file")
    at = MEGATRON_HEADER.size
    lengths, pointers, documents = (
        np.asarray(np.memmap(index, kind, "r", offset, (count,)))
        for kind, offset, count in (
            ("<i4", at, sequences),
            ("<i8", at + 4 * sequences, sequences),
            ("<i8", at + 12 * sequences, ends),
        )
    )
    _check_sequences(index, path, lengths, pointers // dtype.itemsize, len(tokens))
    if documents[0] or documents[-1] != sequences or (np.diff(documents) < 0).any():
        raise DataError(f'"{index}": its documents are not those of its {sequences:,} sequences')
    first = np.unique(documents[documents < sequences])
    return TokenFile(path, tokens, pointers[first] // dtype.itemsize)


def _check_sequences(index: Path, path: Path, lengths: np.ndarray, starts: np.ndarray, count: int) -> None:
    """Checks that sequences follow one another and fill the file: all of them, or a million."""
    step = max(1, len(lengths) // _CHECKED_SEQUENCES)
    ends = starts[:-1:step] + lengths[:-1:step]
    if not len(lengths) or starts[0] or (ends != starts[1::step][: len(ends)]).any():
        raise DataError(f'"{index}": its sequences do not follow one another in the file; such files are not read')
    if (end := int(starts[-1]) + int(lengths[-1])) != count:
        raise DataError(f'"{path}": {count:,} ids, and its index tells of {end:,}; one of the files is not complete')
