"""When a row ends: an automaton that reads the generated tokens, on the device."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Int

from zoo.errors import ConfigError

START, STOPPED = 0, 1


class StoppingCriteria(NamedTuple):
    """When a row ends.

    Attributes:
        table: the automaton of `stop_table`.
        max_new_tokens: largest number of new tokens.
    """

    table: Int[Array, "V Q"]
    max_new_tokens: Int[Array, ""]


def stop_table(
    vocab_size: int, ids: Iterable[int] = (), strings: Iterable[str] = (), pieces: Sequence[bytes] = ()
) -> Int[np.ndarray, "V Q"]:
    """Returns the automaton that stops after given tokens, or when the bytes contain given strings.

    A stop string is found however it is tokenised, even if it begins or ends inside a token: a
    state records how much of each string has been matched (Aho & Corasick 1975), and a token
    applies the transitions of all its bytes at once.

    Args:
        vocab_size: V.
        ids: tokens that stop.
        strings: strings that stop.
        pieces: the bytes of each token, needed for `strings`.

    Returns:
        the state after a token (row) in a state (column); `START` and `STOPPED` are states. The
        number of states Q is a power of two, so that few programs are compiled.

    Raises:
        ConfigError: an empty stop string.
    """
    patterns = [string.encode() for string in strings]
    if not all(patterns):
        raise ConfigError("an empty stop string would stop before the first token")
    of_byte = _byte_table(patterns)
    table = np.broadcast_to(np.arange(len(of_byte), dtype=np.int32), (vocab_size, len(of_byte))).copy()
    if patterns:
        width = max(map(len, pieces), default=0)
        # The next byte of all tokens that have one.
        for place in range(width):
            long = [number for number, piece in enumerate(pieces[:vocab_size]) if len(piece) > place]
            table[long] = of_byte[table[long], np.array([pieces[number][place] for number in long])[:, None]]
    table[list(ids)] = STOPPED
    return np.pad(table, [(0, 0), (0, (1 << (len(of_byte) - 1).bit_length()) - len(of_byte))])


def _byte_table(patterns: Sequence[bytes]) -> Int[np.ndarray, "Q 256"]:
    """Returns the state after each byte.

    A state holds, for each stop string, the length of its longest prefix that the bytes so far end
    with.
    """
    start = (0,) * len(patterns)
    numbers: dict[tuple[int, ...], int] = {start: START}
    rows: dict[int, list[int]] = {STOPPED: [STOPPED] * 256}
    waiting = [start]
    while waiting:
        state = waiting.pop()
        row = rows[numbers[state]] = []
        for byte in range(256):
            after = tuple(_read(pattern, length, byte) for pattern, length in zip(patterns, state, strict=True))
            if any(length == len(pattern) for pattern, length in zip(patterns, after, strict=True)):
                row.append(STOPPED)
                continue
            if after not in numbers:
                numbers[after] = len(numbers) + 1
                waiting.append(after)
            row.append(numbers[after])
    return np.array([rows[number] for number in range(len(rows))], np.int32)


def _read(pattern: bytes, length: int, byte: int) -> int:
    """Returns the length of the matched prefix after one more byte, from `length` before it."""
    seen = pattern[:length] + bytes([byte])
    return next(size for size in range(len(seen), -1, -1) if pattern.startswith(seen[len(seen) - size :]))
