"""From documents to one flat array of tokens, which is cached.

The stream is [document] text [document] text ...; if rows consist of sentences, a second array
holds where each sentence begins.
"""

import hashlib
import itertools
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from zoo.data.rows.sentences import split_sentences
from zoo.data.sources.documents import Documents, Piece
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.errors import not_writable
from zoo.files import cache_directory, read_json, write_json

# Batch of a tokenizer: large enough to keep its threads busy, small enough to bound its memory.
_CHARACTERS_AT_ONCE, _PIECES_AT_ONCE = 1 << 22, 1 << 14
_HEADER_BYTES = 128


@dataclass(frozen=True, eq=False)
class Stream:
    """Tokens of documents, concatenated.

    Attributes:
        tokens: [tokens].
        sentences: index of each sentence's first token, [sentences]; None if not requested.
        text_bytes: number of UTF-8 bytes of the documents; None if it was not kept.
    """

    tokens: np.ndarray
    sentences: np.ndarray | None = None
    text_bytes: int | None = None

    def __len__(self) -> int:
        return len(self.tokens)


def tokenize(tokenizer: Tokenizer, documents: Documents, with_sentences: bool = False) -> Stream:
    """Returns the token stream of documents, in memory: uint16 if V <= 65536, else int32."""
    parts = list(_arrays(tokenizer, documents.pieces(), with_sentences))
    tokens = np.concatenate([ids for ids, _ in parts])
    return Stream(tokens, np.concatenate([starts for _, starts in parts]) if with_sentences else None)


def cached_streams(
    tokenizer: Tokenizer, parts: dict[str, Documents], with_sentences: bool = False
) -> dict[str, Stream]:
    """Returns the token streams of named parts, memory-mapped from the cache.

    Missing or damaged files are rebuilt. The cache folder is named by the content of all parts and
    the tokenizer's definition. Files are written atomically, so processes may race and may be
    killed at any time. Neither text nor tokens are ever in memory as a whole.

    Args:
        tokenizer: the tokenizer.
        parts: documents by name.
        with_sentences: also find sentences.

    Raises:
        ConfigError: the cache folder cannot be written.
        ZooError: its disk is full.
        DataError: bad text.
    """
    content = " ".join(
        [*(part.fingerprint for part in parts.values()), tokenizer.fingerprint, "sentences" * with_sentences]
    ).strip()
    folder = cache_directory() / "tokens" / hashlib.sha256(content.encode()).hexdigest()[:32]
    return {name: _cached(folder, name, tokenizer, documents, with_sentences) for name, documents in parts.items()}


def _arrays(
    tokenizer: Tokenizer, pieces: Iterable[Piece], with_sentences: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields tokens, and the positions in the whole stream at which their sentences begin."""
    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32
    opening, done = np.array([tokenizer.bos_id], dtype), 0
    for batch in _batches(split_sentences(pieces) if with_sentences else pieces):
        arrays, starts = [], []
        for piece, ids in zip(batch, tokenizer.encode_batch([piece.text for piece in batch]), strict=True):
            if piece.opens:
                arrays.append(opening)
                done += 1
            if len(ids):
                starts.append(done)
                arrays.append(ids.astype(dtype))
                done += len(ids)
        yield np.concatenate([opening[:0], *arrays]), np.array(starts, np.int64)


def _batches(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    batch, characters = [], 0
    for piece in itertools.chain(pieces, [None]):
        if batch and (
            piece is None or characters + len(piece.text) > _CHARACTERS_AT_ONCE or len(batch) == _PIECES_AT_ONCE
        ):
            yield batch
            batch, characters = [], 0
        if piece is not None:
            batch.append(piece)
            characters += len(piece.text)


def _cached(folder: Path, name: str, tokenizer: Tokenizer, documents: Documents, with_sentences: bool) -> Stream:
    names = [f"{name}.npy", *([f"{name}.sentences.npy"] if with_sentences else [])]
    found = [_read(folder / name) for name in names]
    if any(array is None for array in found):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write([folder / name for name in names], tokenizer, documents)
        except OSError as error:
            raise not_writable(folder, error, "the cache", "; set ZOO_CACHE to another folder") from error
        found = [_read(folder / name) for name in names]
    return Stream(*found)


def _read(path: Path) -> np.ndarray | None:
    """Returns the array in `path`, or None if it is missing or damaged."""
    try:
        checksum = read_json(path.with_suffix(".json"))["sha256"]
        # Hashed through a buffer: reading the mapping would count the whole file as memory.
        if _checksum(path) != checksum:
            return None
        # A plain array over the mapping: the memmap class makes small reads several times slower.
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError, KeyError, TypeError):
        return None


def _write(paths: list[Path], tokenizer: Tokenizer, documents: Documents) -> None:
    dtypes = [np.dtype(np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32), np.dtype(np.int64)]
    with ExitStack() as stack:
        files = [stack.enter_context(_array_file(path, dtype)) for path, dtype in zip(paths, dtypes, strict=False)]
        for arrays in _arrays(tokenizer, documents.pieces(), len(paths) > 1):
            for file, array in zip(files, arrays, strict=False):
                file.write(array.data)


@contextmanager
def _array_file(path: Path, dtype: np.dtype) -> Iterator[BinaryIO]:
    """Opens a one-dimensional `.npy` file for appending values.

    It gets its name, and a checksum file, when it is complete.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(bytes(_HEADER_BYTES))
            yield file
            count = (file.tell() - _HEADER_BYTES) // dtype.itemsize
            file.seek(0)
            np.lib.format.write_array_header_1_0(file, {"descr": dtype.str, "fortran_order": False, "shape": (count,)})
            if file.tell() != _HEADER_BYTES:
                raise AssertionError(f"the header of {path} takes {file.tell()} bytes instead of {_HEADER_BYTES}")
            file.flush()
            os.fsync(file.fileno())
        checksum = _checksum(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    write_json(path.with_suffix(".json"), {"values": count, "sha256": checksum})


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
