"""Hashes of all byte windows of documents, from which copied passages are found."""

from collections.abc import Iterable, Iterator

import numpy as np

_BYTES_AT_ONCE = 1 << 20
_MULTIPLIER, _OFFSET = np.uint64(0x9E3779B97F4A7C15), np.uint64(0x632BE59BD9B4E019)


def window_hashes(content: bytes, width: int) -> np.ndarray:
    """Returns a hash of each window of `width` bytes, uint64 [bytes - width + 1] or [0].

    The hash of a window of 2k bytes is h(first k) m_k + h(last k) modulo 2^64, so all windows take
    log2(width) passes; a last mixing step spreads them evenly.

    Args:
        content: the text.
        width: a power of two.
    """
    with np.errstate(over="ignore"):
        hashes = _mixed((np.frombuffer(content, np.uint8).astype(np.uint64) + np.uint64(1)) * _OFFSET)
        covered, factor = 1, _MULTIPLIER
        while covered < width:
            hashes = hashes[:-covered] * factor + hashes[covered:]
            covered, factor = 2 * covered, factor * factor
        return _mixed(hashes)


def _mixed(values: np.ndarray) -> np.ndarray:
    values = (values ^ (values >> np.uint64(32))) * _MULTIPLIER
    return values ^ (values >> np.uint64(29))


def document_hashes(pieces: Iterable[tuple[bool, str]], width: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields (hashes, number of the document of each) for the windows within each piece of text.

    Many small documents are hashed at once. A window that spans two pieces is left out.

    Args:
        pieces: (whether a document begins, text).
        width: bytes of a window, a power of two.
    """
    waiting: list[bytes] = []
    numbers: list[int] = []
    number, size = -1, 0
    for opens, text in pieces:
        number += opens
        waiting.append(text.encode())
        numbers.append(number)
        size += len(waiting[-1])
        if size >= _BYTES_AT_ONCE:
            yield _hashes_of(waiting, numbers, width)
            waiting, numbers, size = [], [], 0
    if waiting:
        yield _hashes_of(waiting, numbers, width)


def _hashes_of(contents: list[bytes], numbers: list[int], width: int) -> tuple[np.ndarray, np.ndarray]:
    hashes = window_hashes(b"".join(contents), width)
    sizes = np.array([len(content) for content in contents])
    # Places at which a window ends within the text in which it begins.
    left = np.repeat(np.cumsum(sizes), sizes) - np.arange(sizes.sum())
    whole = left[: len(hashes)] >= width
    return hashes[whole], np.repeat(np.array(numbers, np.int32), sizes)[: len(hashes)][whole]
