"""From documents to one flat array of tokens, which is cached.

The stream is [document] text [document] text ...; if rows consist of sentences, a second array
holds where each sentence begins.
"""

import hashlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from zoo.data.rows.sentences import split_sentences
from zoo.data.sources.documents import Documents, Piece
from zoo.data.tokenizers.document_bytes import ByteCount, encode_with_bytes
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.errors import not_writable
from zoo.files import cache_directory, new_file, read_json, write_json

# Batch of a tokenizer: large enough to keep its threads busy, small enough to bound its memory.
_CHARACTERS_AT_ONCE, _PIECES_AT_ONCE = 1 << 22, 1 << 14
_TOKENS_AT_ONCE = 1 << 20
_HEADER_BYTES = 128


@dataclass(frozen=True, eq=False)
class Stream:
    """Tokens of documents, concatenated.

    Attributes:
        tokens: [tokens].
        sentences: index of each sentence's first token, [sentences]; None if not requested.
        sizes: bytes of the documents that each token has (`bytes_of_tokens`), int32 [tokens]; None if
            they were not requested, or if they are those of the tokenizer's pieces.
        sha256: hash of the ids; empty if it is not known.
        difference: where the documents are not what their tokens are decoded to (`ByteCount.record`).
    """

    tokens: np.ndarray
    sentences: np.ndarray | None = None
    sizes: np.ndarray | None = None
    sha256: str = ""
    difference: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def counts(self, vocab_size: int) -> np.ndarray:
        """Returns how often each id occurs, int64 [V]."""
        found = np.zeros(vocab_size, np.int64)
        for start in range(0, len(self), _TOKENS_AT_ONCE):
            found += np.bincount(self.tokens[start : start + _TOKENS_AT_ONCE], minlength=vocab_size)
        return found

    def record(self) -> dict[str, Any]:
        """Returns what identifies the tokens beside their number, and what the tokenizer changed, as
        plain JSON.
        """
        return {
            **({"tokens_sha256": self.sha256} if self.sha256 else {}),
            **({"difference": self.difference} if self.difference else {}),
        }


def tokenize(tokenizer: Tokenizer, documents: Documents, with_sentences: bool = False) -> Stream:
    """Returns the token stream of documents, in memory: uint16 if V <= 65536, else int32."""
    for with_sizes in (not tokenizer.lossless, True):
        count, columns = ByteCount(), ([], [], [])
        for arrays in _arrays(tokenizer, documents.pieces(), count, with_sentences, with_sizes):
            for column, array in zip(columns, arrays, strict=True):
                column.append(array)
        if with_sizes or not count.record():
            break
    tokens, starts, sizes = (np.concatenate(column) for column in columns)
    return Stream(
        tokens,
        starts if with_sentences else None,
        sizes if with_sizes else None,
        hashlib.sha256(tokens.tobytes()).hexdigest(),
        count.record(),
    )


def cached_streams(
    tokenizer: Tokenizer, parts: dict[str, Documents], with_sentences: bool = False, scored: Collection[str] = ()
) -> dict[str, Stream]:
    """Returns the token streams of named parts, memory-mapped from the cache.

    Missing or damaged files are rebuilt. The cache folder is named by the content of all parts and
    the tokenizer's definition. Files are written atomically, so processes may race and may be
    killed at any time. Neither text nor tokens are ever in memory as a whole.

    Args:
        tokenizer: the tokenizer.
        parts: documents by name.
        with_sentences: also find sentences.
        scored: names of parts whose streams have `sizes` where the tokenizer's pieces do not say them.

    Raises:
        ConfigError: the cache folder cannot be written.
        ZooError: its disk is full.
        DataError: bad text.
    """
    content = " ".join(
        [
            *(part.fingerprint for part in parts.values()),
            tokenizer.fingerprint,
            *(["sentences"] if with_sentences else []),
            # Streams of earlier versions may have a space before each sentence.
            *([] if tokenizer.lossless else ["within text"]),
        ]
    )
    folder = cache_directory() / "tokens" / hashlib.sha256(content.encode()).hexdigest()[:32]
    return {
        name: _cached(_StreamFiles(folder, name, with_sentences), tokenizer, documents, name in scored)
        for name, documents in parts.items()
    }


def _arrays(
    tokenizer: Tokenizer, pieces: Iterable[Piece], count: ByteCount, with_sentences: bool, with_sizes: bool
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yields tokens, the positions in the whole stream at which their sentences begin, and the bytes
    of the documents that tokens have, which are those of the tokens before.

    Args:
        tokenizer: the tokenizer.
        pieces: the texts.
        count: counts their bytes and those of the tokens.
        with_sentences: divide them into sentences.
        with_sizes: find the bytes of each token; else there are none.
    """
    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32
    opening, done, pending = np.array([tokenizer.bos_id], dtype), 0, np.zeros(0, np.int32)
    for batch in _batches(split_sentences(pieces) if with_sentences else pieces):
        arrays, starts, sizes = [], [], [pending]
        for piece, (ids, bytes_each) in zip(batch, _encoded(tokenizer, batch, count, with_sizes), strict=True):
            if piece.opens:
                arrays.append(opening)
                sizes.append(np.zeros(1, np.int32))
                done += 1
            if len(ids):
                starts.append(done)
                arrays.append(ids.astype(dtype))
                sizes.append(bytes_each)
                done += len(ids)
            elif with_sizes:
                # Text without a token belongs to the token before it.
                last = next(array for array in reversed(sizes) if len(array))
                last[-1] += len(piece.text.encode())
        ready = np.concatenate(sizes) if with_sizes else pending
        pending = ready[-1:].copy()
        yield np.concatenate([opening[:0], *arrays]), np.array(starts, np.int64), ready[:-1]
    yield opening[:0], np.zeros(0, np.int64), pending


def _encoded(
    tokenizer: Tokenizer, batch: Sequence[Piece], count: ByteCount, with_sizes: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the ids of each piece, and the bytes of each token if they are asked for."""
    parts = {
        opens: _encoded_texts(
            tokenizer if opens else tokenizer.within_text,
            [piece.text for piece in batch if piece.opens == opens],
            with_sizes,
        )
        for opens in {piece.opens for piece in batch}
    }
    found = []
    for piece in batch:
        ids, bytes_each, size, decoded = next(parts[piece.opens])
        count.add(piece.opens, piece.text, size, decoded)
        found.append((ids, bytes_each))
    return found


def _encoded_texts(
    tokenizer: Tokenizer, texts: Sequence[str], with_sizes: bool
) -> Iterator[tuple[np.ndarray, np.ndarray, int, str | None]]:
    """Yields the ids of each text, the bytes of each token, the text's bytes, and what its tokens are
    decoded to: None if that is the text.
    """
    if with_sizes:
        found = encode_with_bytes(tokenizer, texts)
    else:
        found = [(ids, np.zeros(0, np.int32)) for ids in tokenizer.encode_batch(texts)]
    table, contents = tokenizer.token_bytes(), [len(text.encode()) for text in texts]
    # The pieces of a lossless tokenizer were found to be the bytes of any text: here, their number is
    # enough.
    exact = [
        tokenizer.lossless and int(table[ids].sum()) == size for (ids, _), size in zip(found, contents, strict=True)
    ]
    others = iter(tokenizer.decode_batch([ids for (ids, _), same in zip(found, exact, strict=True) if not same]))
    for (ids, sizes), size, same in zip(found, contents, exact, strict=True):
        yield ids, sizes, size, None if same else next(others)


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


@dataclass(frozen=True)
class _StreamFiles:
    """The files of a stream in the cache.

    Attributes:
        folder: where they are.
        name: of the stream.
        with_sentences: whether the stream has sentences.
    """

    folder: Path
    name: str
    with_sentences: bool

    def path(self, column: str) -> Path:
        """Returns the file of a column: "" for tokens, "sentences" or "sizes"."""
        return self.folder / f"{self.name}{f'.{column}' if column else ''}.npy"

    def columns(self, with_sizes: bool) -> list[str]:
        """Returns the columns that are kept."""
        return ["", *(["sentences"] if self.with_sentences else []), *(["sizes"] if with_sizes else [])]

    def read(self, tokenizer: Tokenizer, scored: bool) -> Stream | None:
        """Returns the stream, or None if a file is missing or damaged, or lacks sizes or hashes that
        are needed.
        """
        found = _read(self.path(""))
        if found is None:
            return None
        tokens, record = found
        # Files of earlier versions lack these.
        if not {"tokens_sha256", "difference"} <= record.keys():
            return None
        with_sizes = scored and (not tokenizer.lossless or bool(record["difference"]))
        others = {column: _read(self.path(column)) for column in self.columns(with_sizes)[1:]}
        if None in others.values() or any(len(others[name][0]) != len(tokens) for name in others if name == "sizes"):
            return None
        arrays = {column: array for column, (array, _) in others.items()}
        return Stream(
            tokens, arrays.get("sentences"), arrays.get("sizes"), record["tokens_sha256"], record["difference"]
        )

    def write(self, tokenizer: Tokenizer, documents: Documents, with_sizes: bool) -> None:
        """Tokenises documents into the files."""
        dtypes = {
            "": np.dtype(np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32),
            "sentences": np.dtype(np.int64),
            "sizes": np.dtype(np.int32),
        }
        count, digest, record, columns = ByteCount(), hashlib.sha256(), {}, self.columns(with_sizes)
        with ExitStack() as stack:
            # Of two processes the last one's files stay, and those of tokens are complete last.
            files = [
                stack.enter_context(_array_file(self.path(name), dtypes[name], record if name == "" else {}))
                for name in columns
            ]
            for arrays in _arrays(tokenizer, documents.pieces(), count, self.with_sentences, with_sizes):
                of = dict(zip(dtypes, arrays, strict=True))
                digest.update(of[""].data)
                for name, file in zip(columns, files, strict=True):
                    file.write(of[name].data)
            record |= {"tokens_sha256": digest.hexdigest(), "difference": count.record()}


def _cached(files: _StreamFiles, tokenizer: Tokenizer, documents: Documents, scored: bool) -> Stream:
    # A second pass finds the bytes of tokens that differ from their pieces against all measurements.
    for with_sizes in (scored and not tokenizer.lossless, scored):
        if stream := files.read(tokenizer, scored):
            return stream
        try:
            files.folder.mkdir(parents=True, exist_ok=True)
            files.write(tokenizer, documents, with_sizes)
        except OSError as error:
            raise not_writable(files.folder, error, "the cache", "; set ZOO_CACHE to another folder") from error
    return files.read(tokenizer, scored)


def _read(path: Path) -> tuple[np.ndarray, dict[str, Any]] | None:
    """Returns the array in `path` and its record, or None if it is missing or damaged."""
    try:
        record = read_json(path.with_suffix(".json"))
        # Hashed through a buffer: reading the mapping would count the whole file as memory.
        if _checksum(path) != record["sha256"]:
            return None
        # A plain array over the mapping: the memmap class makes small reads several times slower.
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False)), record
    except (OSError, ValueError, EOFError, KeyError, TypeError):
        return None


@contextmanager
def _array_file(path: Path, dtype: np.dtype, record: Mapping[str, Any]) -> Iterator[BinaryIO]:
    """Opens a one-dimensional `.npy` file for appending values.

    It gets its name when it is complete, and a file with its checksum and what `record` then holds.
    """
    with new_file(path) as file:
        file.write(bytes(_HEADER_BYTES))
        yield file
        count = (file.tell() - _HEADER_BYTES) // dtype.itemsize
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, {"descr": dtype.str, "fortran_order": False, "shape": (count,)})
        if file.tell() != _HEADER_BYTES:
            raise AssertionError(f"the header of {path} takes {file.tell()} bytes instead of {_HEADER_BYTES}")
    write_json(path.with_suffix(".json"), {"values": count, "sha256": _checksum(path), **record})


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
