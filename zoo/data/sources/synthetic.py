"""Texts made by rule, whose entropy is known.

Sources are `synthetic:copy`, `synthetic:reverse` and `synthetic:recall`. Documents are generated
from a fixed seed per task and do not depend on the config's `seed`.
"""

import math
import re
import string
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo.data.sources.documents import Documents, Piece
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, did_you_mean

LETTERS = np.frombuffer((string.ascii_lowercase + string.ascii_uppercase + string.digits).encode(), np.uint8)
DIGITS = np.frombuffer(string.digits.encode(), np.uint8)
# Documents made at once. Another number would change the documents.
_AT_ONCE = 4096


@dataclass(frozen=True)
class SyntheticTask:
    """A rule for documents that all have the same size.

    Attributes:
        description: describes a document.
        make: (raw draws, uint64 [documents, ...]; length; symbols) -> the documents' bytes, uint8
            [documents, bytes].
        draws: (length) -> number of draws per document.
        entropy: (length, symbols) -> bits of information per document; all documents are equally
            likely.
        length: default of `length`.
        symbols: maximum of `symbols`.
    """

    description: str
    make: Callable[[np.ndarray, int, int], np.ndarray]
    draws: Callable[[int], int]
    entropy: Callable[[int, int], float]
    length: int
    symbols: int


def _copy_task(reverse: bool) -> SyntheticTask:
    def make(draws: np.ndarray, length: int, symbols: int) -> np.ndarray:
        word = LETTERS[draws % symbols]
        return _columns(word, "=", word[:, ::-1] if reverse else word, "\n")

    return SyntheticTask(
        "symbols, =, and the same " + ("backwards" if reverse else "again"),
        make,
        draws=lambda length: length,
        entropy=lambda length, symbols: length * math.log2(symbols),
        length=16,
        symbols=len(LETTERS),
    )


def _make_recall(draws: np.ndarray, length: int, symbols: int) -> np.ndarray:
    values, asked = DIGITS[draws[:, :length] % len(DIGITS)], draws[:, length : length + 1] % length
    # The first keys of a random order: no key occurs twice.
    keys = LETTERS[np.argsort(draws[:, length + 1 : length + 1 + symbols], axis=1, kind="stable")[:, :length]]
    pairs = np.stack([keys, values], axis=2)
    answer = np.take_along_axis(pairs, asked.astype(np.int64)[:, :, None], 1)
    return _columns(pairs.reshape(len(draws), -1), "?", answer[:, 0], "\n")


def _columns(*parts: np.ndarray | str) -> np.ndarray:
    rows = next(len(part) for part in parts if not isinstance(part, str))
    return np.concatenate(
        [np.full((rows, 1), ord(part), np.uint8) if isinstance(part, str) else part for part in parts], axis=1
    )


SYNTHETIC_TASKS = {
    "copy": _copy_task(reverse=False),
    "reverse": _copy_task(reverse=True),
    "recall": SyntheticTask(
        "pairs of a key and a digit, ?, one of the keys and its digit (associative recall)",
        _make_recall,
        draws=lambda length: length + 1 + 52,
        entropy=lambda length, symbols: (
            math.log2(math.perm(symbols, length)) + length * math.log2(len(DIGITS)) + math.log2(length)
        ),
        length=8,
        symbols=52,
    ),
}
_LEAST = {"documents": 2, "length": 1, "symbols": 2}
USAGE = "synthetic:TASK,documents=20000,length=16,symbols=26"


def synthetic(argument: str, data: Any) -> Documents:
    """Makes documents of a task: TASK or TASK,documents=N,length=N,symbols=N (or ";" for ",").

    `length` counts the symbols that are copied or reversed, or the pairs that are recalled;
    `symbols` is the number of different symbols (keys). The description gives the lowest possible
    loss: bits of information per document, divided by its bytes. A model reaches it only if it
    always sees its document from the beginning.

    Raises:
        ConfigError: unknown task or argument, or a number out of range.
    """
    name, *settings = [part.strip() for part in re.split("[,;]", argument)]
    if name not in SYNTHETIC_TASKS:
        raise ConfigError(
            f'data.source: unknown task "{name}"{did_you_mean(name, SYNTHETIC_TASKS)}; one of '
            f'{", ".join(SYNTHETIC_TASKS)}, e.g. "{USAGE}"'
        )
    task = SYNTHETIC_TASKS[name]
    numbers = {"documents": 20000, "length": task.length, "symbols": 26}
    most = {"documents": 10**8, "length": 10**4, "symbols": task.symbols}
    problems = []
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in numbers:
            problems.append(
                f'data.source: "{name}" has no argument "{key}"{did_you_mean(key, numbers)}; one of '
                f"{', '.join(numbers)}"
            )
        elif not value.isdecimal() or not _LEAST[key] <= int(value) <= most[key]:
            problems.append(
                f'data.source: {key} of "{name}" must be a whole number from {_LEAST[key]} to {most[key]}, got '
                f'"{value}"'
            )
        else:
            numbers[key] = int(value)
    count, length, symbols = numbers.values()
    if name == "recall" and length > symbols:
        problems.append(
            f'data.source: "recall" of length={length} needs as many different keys, and there are symbols={symbols}'
        )
    if problems:
        raise ConfigError(problems)

    def read(policy: BadTextPolicy) -> Iterator[Piece]:
        # NumPy guarantees the raw numbers of a bit generator.
        bits = np.random.PCG64(zlib.crc32(name.encode()))
        for start in range(0, count, _AT_ONCE):
            draws = bits.random_raw((_AT_ONCE, task.draws(length)))
            for row in task.make(draws, length, symbols)[: count - start]:
                yield Piece(True, row.tobytes().decode())

    size = task.make(np.zeros((1, task.draws(length)), np.uint64), length, symbols).size
    best = task.entropy(length, symbols) / size
    return Documents(
        read,
        f"synthetic:{name} (length {length}, {symbols} symbols; best possible: {best:.6f} bits per byte)",
        data.bad_text,
    )
