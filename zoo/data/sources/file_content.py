"""The bytes of a file, decompressed; files that hold no text are named as what they are."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

import zstandard

from zoo.errors import ConfigError, DataError

# Large enough to keep a tokenizer's threads busy, small enough not to matter for memory.
BLOCK_BYTES = 1 << 22
_READ_BYTES = 1 << 16
# The endings of compressed files that are read.
COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
_NAMES = {".gz": "gzip", ".zst": "zstd", ".xz": "xz", ".bz2": "bzip2"}
# Bytes that tell what a file is; the mark of a tar archive lies at byte 257.
HEAD_BYTES = 4096
# Content of a frame that is appended to a zstd file.
_END = b"\0the end of the file\0"
# The window of `zstd --ultra --long=31`, the largest that the format has.
_ZSTD_WINDOW = 1 << 31
_BROKEN = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstandard.ZstdError, EOFError)
PARQUET = "a Parquet file; it is read by parquet:PATH"
# First bytes of files that hold no text.
_FORMATS = (
    (b"PAR1", PARQUET),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it"),
    (b"Rar!\x1a\x07", "a rar archive; unpack it"),
    (b"\x04\x22\x4d\x18", "compressed by lz4; decompress it, or compress it by gzip, zstd, xz or bzip2"),
    (b"ARROW1\0\0", "an Arrow file; write it as Parquet or as lines of JSON"),
    (b"\x93NUMPY", "a NumPy array; token ids are read by tokens:PATH"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"%PDF-", "a PDF; extract its text"),
    (b"MMIDIDX\0\0", "the index of a Megatron data set; its token ids are read by tokens:PATH"),
    # A clone without the objects has these in place of files, and they would pass as short texts.
    (b"version https://git-lfs.github.com/spec/", "a pointer of Git LFS; get the file itself by git lfs pull"),
    (b"/annex/objects/", "a pointer of git-annex; get the file itself by git annex get"),
)
# Byte order marks of text that is not UTF-8, longer ones first.
_ENCODINGS = (
    (b"\xff\xfe\0\0", "UTF-32; convert it to UTF-8"),
    (b"\0\0\xfe\xff", "UTF-32; convert it to UTF-8"),
    (b"\xff\xfe", "UTF-16; convert it to UTF-8"),
    (b"\xfe\xff", "UTF-16; convert it to UTF-8"),
)
# Bytes that text has no use for: control characters other than white space, backspace and escape.
_CONTROL = bytes(set(range(32)) - set(b"\b\t\n\v\f\r\x1b")) + b"\x7f"
# A shorter beginning of a file is too little to tell text from other content.
_TELLING_BYTES = 64


def file_blocks(path: Path) -> Iterator[bytes]:
    """Yields the content of a file in blocks of about `BLOCK_BYTES`, decompressed by what it holds.

    Memory stays at a few blocks, whatever the file's size and ratio of compression.

    Raises:
        ConfigError: the file cannot be read.
        DataError: compressed content that is broken, or none under the ending of a compressed file;
            content that is no text.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
            compression = compression_of(head)
            file.seek(0)
            if compression is None and path.suffix in COMPRESSED and not signature_kind(head):
                raise DataError(
                    f'"{path}": not a {_NAMES[path.suffix]} file, as its first bytes show; rename it without '
                    f'"{path.suffix}" if it is text'
                )
            first = True
            for block in _decompressed(file, compression):
                if first and (kind := binary_kind(block[:HEAD_BYTES])):
                    inside = f" compressed by {_NAMES[compression]}" if compression else ""
                    raise DataError(f'"{path}"{inside} holds no text: it is {kind}')
                first = False
                yield block
    except _BROKEN as error:
        raise DataError(f'"{path}": not a complete {_NAMES[compression]} file: {error}') from error
    except OSError as error:
        if error.errno is None:  # Of a decompressor.
            raise DataError(f'"{path}": not a complete {_NAMES[compression]} file: {error}') from error
        raise ConfigError(f'cannot read "{path}": {error.strerror or error}') from error


def with_compressed(*endings: str) -> tuple[str, ...]:
    """Returns endings of files, each plain and with that of a compressed file."""
    return tuple(ending + compressed for ending in endings for compressed in ("", *COMPRESSED))


def compression_of(head: bytes) -> str | None:
    """Returns the ending of the compression that the first bytes of a file show, or None."""
    if head.startswith(b"\x1f\x8b\x08"):
        return ".gz"
    # A zstd file may begin with a frame to be skipped, as those written in parallel do.
    if head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50):
        return ".zst"
    if head.startswith(b"\xfd7zXZ\0"):
        return ".xz"
    # The magic number of the first block, or that of the end of an empty file.
    if head.startswith(b"BZh") and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return ".bz2"
    return None


def format_of(head: bytes) -> str | None:
    """Returns the file format without text that the first bytes of a file show, in words, and what to
    do with the file; None if they show none.
    """
    if head[257:262] == b"ustar":
        return "a tar archive; unpack it, and name the folder"
    return next((kind for signature, kind in _FORMATS if head.startswith(signature)), None)


def signature_kind(head: bytes) -> str | None:
    """Returns `format_of`, or the encoding that a byte order mark shows if it is not UTF-8."""
    return format_of(head) or next((kind for mark, kind in _ENCODINGS if head.startswith(mark)), None)


def binary_kind(head: bytes) -> str | None:
    """Returns what a file without text is, in words, by its first bytes; None for text.

    Content of unknown kind is binary if a twentieth of the bytes are control characters and it is
    not UTF-8, or a third of them are.
    """
    if compression := compression_of(head):
        return f"compressed by {_NAMES[compression]} once more; decompress it"
    if kind := signature_kind(head):
        return kind
    if len(head) < _TELLING_BYTES:
        return None
    even, odd = (head[place::2].count(0) / (len(head) // 2) for place in (0, 1))
    if max(even, odd) > 0.4 and min(even, odd) < 0.05:
        return "UTF-16 without a byte order mark, by its NUL bytes, or other binary data; convert text to UTF-8"
    control = len(head) - len(head.translate(None, _CONTROL))
    if control > len(head) / (3 if _is_utf8(head) else 20):
        return (
            f"binary data: {control / len(head):.0%} of its first bytes are control characters; token ids are read by "
            "tokens:PATH"
        )
    return None


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The last character may be cut off.
        return error.start >= len(head) - 3 and len(head) == HEAD_BYTES
    return True


def _decompressed(file: BinaryIO, compression: str | None) -> Iterator[bytes]:
    if compression == ".zst":
        return _zstd_blocks(file)
    if compression == ".xz":
        return _joined(_streams(file, lzma.LZMADecompressor))
    if compression == ".bz2":
        return _joined(_streams(file, bz2.BZ2Decompressor))
    opened: IO[bytes] = gzip.GzipFile(fileobj=file) if compression else file
    return iter(partial(opened.read, BLOCK_BYTES), b"")


def _streams(file: BinaryIO, decompressor: Callable[[], Any]) -> Iterator[bytes]:
    """Yields the content of all streams of a file.

    The readers of Python's library take a stream whose beginning is broken for the end of the file.

    Raises:
        LZMAError, EOFError, OSError without a number: a stream is broken or cut off.
    """
    current, rest = None, b""
    while True:
        if current is None or current.eof:
            # Between streams and at the end there may be NUL bytes.
            while not (rest := rest.lstrip(b"\0")):
                if not (rest := file.read(_READ_BYTES)):
                    return
            current = decompressor()
        elif current.needs_input and not (rest := file.read(_READ_BYTES)):
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")
        block, rest = current.decompress(rest, BLOCK_BYTES), b""
        if current.eof:
            rest = current.unused_data
        if block:
            yield block


def _joined(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the same bytes in blocks of at least `BLOCK_BYTES`, but for the last."""
    kept, size = [], 0
    for block in blocks:
        kept.append(block)
        size += len(block)
        if size >= BLOCK_BYTES:
            yield b"".join(kept)
            kept, size = [], 0
    if kept:
        yield b"".join(kept)


def _zstd_blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yields the content of all frames of a zstd file.

    The library takes a file that is cut off for one that ends there. Therefore a further frame
    follows, whose content comes out last only if the frame before it is complete.
    """
    library = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    reader, kept = library.stream_reader(_Followed(file), read_across_frames=True), b""
    while block := reader.read(BLOCK_BYTES):
        block = kept + block
        if len(block) > len(_END):
            yield block[: -len(_END)]
        kept = block[-len(_END) :]
    if kept != _END:
        raise EOFError("Compressed file ended before the end-of-stream marker was reached")


class _Followed:
    """A zstd file with one more frame at its end."""

    def __init__(self, file: BinaryIO):
        self._file, self._rest = file, zstandard.ZstdCompressor(write_checksum=True).compress(_END)

    def read(self, size: int) -> bytes:
        content = self._file.read(size)
        if not content:
            content, self._rest = self._rest, b""
        return content
