"""When a row ends: an automaton that reads the tokens as they are made, on the device."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int

from zoo.errors import ConfigError

START, STOPPED = 0, 1


def stop_table(
    vocab_size: int, ids: Iterable[int] = (), texts: Iterable[str] = (), pieces: Sequence[bytes] = ()
) -> Int[np.ndarray, "V Q"]:
    """The automaton that stops after any of some tokens, and as soon as the bytes of the tokens
    contain any of some texts.

    However a text is cut into tokens, and wherever in a token it begins or ends, it is found: the
    states are how far each text has been read (Aho & Corasick 1975), and a token takes all its
    bytes' steps at once.

    Args:
        vocab_size: V.
        ids: tokens that stop.
        texts: texts that stop.
        pieces: the bytes of each token, for `texts`.

    Returns:
        The state after a token (row) in a state (column); `START` and `STOPPED` are states. The
        number of states Q is a power of two, so that few programs are compiled.

    Raises:
        ConfigError: for an empty text.
    """
    patterns = [text.encode() for text in texts]
    if not all(patterns):
        raise ConfigError("an empty text to stop at would stop before the first token")
    of_byte = _byte_table(patterns)
    table = np.broadcast_to(np.arange(len(of_byte), dtype=np.int32), (vocab_size, len(of_byte))).copy()
    if patterns:
        width = max(map(len, pieces), default=0)
        # One byte further in all tokens that have one.
        for place in range(width):
            long = [number for number, piece in enumerate(pieces[:vocab_size]) if len(piece) > place]
            table[long] = of_byte[table[long], np.array([pieces[number][place] for number in long])[:, None]]
    table[list(ids)] = STOPPED
    return np.pad(table, [(0, 0), (0, (1 << (len(of_byte) - 1).bit_length()) - len(of_byte))])


def _byte_table(patterns: Sequence[bytes]) -> Int[np.ndarray, "Q 256"]:
    """The state after a byte: how many first bytes of each text the bytes so far end with."""
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
    """How many first bytes of the text the bytes end with after one more, if they ended with
    `length` before.
    """
    seen = pattern[:length] + bytes([byte])
    return next(size for size in range(len(seen), -1, -1) if pattern.startswith(seen[len(seen) - size :]))
