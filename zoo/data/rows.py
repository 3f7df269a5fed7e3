"""Documents -> one flat array of tokens, kept in the cache -> rows of T + 1 tokens.

The stream is [document] text [document] text ...; row i is stream[i*T : i*T + T + 1], so neighbours
share one token (the target of one is the input of the next) and every token but the first is a
target exactly once. Where nothing is predicted ahead, rows are stream[i*T : i*T + T].
"""

import hashlib
import os
import secrets
from pathlib import Path

import numpy as np

from zoo.data.sources import Documents
from zoo.data.tokenizers import Tokenizer
from zoo.errors import ConfigError
from zoo.files import cache_directory, read_json, write_json

PADDING = -1  # stands where a row has no token


def tokenize(tokenizer: Tokenizer, documents: Documents) -> np.ndarray:
    """The token stream of the documents: [tokens], uint16 if V <= 65536, else int32."""
    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32
    return np.concatenate([ids.astype(dtype) for ids in tokenizer.stream(documents.texts)])


def cached_tokens(
    tokenizer: Tokenizer, train: Documents, validation: Documents
) -> tuple[np.ndarray, np.ndarray]:
    """The token streams of both parts, memory-mapped from the cache; what is missing or damaged is rebuilt.

    The cache folder is named by the content of both parts and the tokenizer's definition. Files appear
    whole or not at all, so processes may race and may be killed at any instant.

    Raises:
        ConfigError: the cache folder cannot be written.
    """
    content = f"{train.fingerprint} {validation.fingerprint} {tokenizer.fingerprint}"
    folder = cache_directory() / "tokens" / hashlib.sha256(content.encode()).hexdigest()[:32]
    return (
        _cached(folder / "train.npy", tokenizer, train),
        _cached(folder / "validation.npy", tokenizer, validation),
    )


def full_rows(tokens: np.ndarray, length: int, ahead: int = 1) -> int:
    """Number of rows of T = `length` with all T + `ahead` tokens."""
    return max(len(tokens) - ahead, 0) // length


def all_rows(tokens: np.ndarray, length: int, ahead: int = 1) -> int:
    """Number of rows of T = `length` that hold at least one target, the last one perhaps padded."""
    return -(-max(len(tokens) - ahead, 0) // length)


def gather_rows(tokens: np.ndarray, indices: np.ndarray, length: int, ahead: int = 1) -> np.ndarray:
    """Rows by their number.

    Args:
        tokens: the stream, [tokens].
        indices: row numbers, [B].
        length: T.
        ahead: tokens of a row past its T: 1 where the next token is a target, 0 where targets are the row's own.

    Returns:
        int32 [B, T + ahead], padded with -1 past the end of the stream.
    """
    positions = indices[:, None] * length + np.arange(length + ahead)
    rows = tokens.take(positions, mode="clip").astype(np.int32)
    rows[positions >= len(tokens)] = PADDING
    return rows


def _cached(path: Path, tokenizer: Tokenizer, documents: Documents) -> np.ndarray:
    tokens = _read(path)
    if tokens is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, tokenize(tokenizer, documents))
        except OSError as error:
            raise ConfigError(
                f'cannot write the cache "{path.parent}": {error.strerror}; set ZOO_CACHE to a writable folder'
            ) from error
        tokens = _read(path)
    return tokens


def _read(path: Path) -> np.ndarray | None:
    """The array in `path`, or None if it is missing or not what was written."""
    try:
        checksum = read_json(path.with_suffix(".json"))["sha256"]
        # A plain array over the mapping: the memmap class makes small reads several times slower.
        tokens = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError, KeyError, TypeError):
        return None
    return tokens if _checksum(tokens) == checksum else None


def _write(path: Path, tokens: np.ndarray) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            np.save(file, tokens, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    write_json(path.with_suffix(".json"), {"tokens": len(tokens), "sha256": _checksum(tokens)})


def _checksum(tokens: np.ndarray) -> str:
    checksum = hashlib.sha256(f"{tokens.dtype.str} {tokens.shape}".encode())
    checksum.update(np.ascontiguousarray(tokens))
    return checksum.hexdigest()
