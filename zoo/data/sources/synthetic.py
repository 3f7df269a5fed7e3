"""Texts made by rule, whose entropy is known, and whose end is an answer to the rest.

Sources are `synthetic:copy`, `reverse`, `recall`, `multi_query_recall`, `induction`, `needle`,
`parity`, `permutations` and `addition`. Documents are generated from a fixed seed per task and do not
depend on the config's `seed`.
"""

import itertools
import math
import re
import string
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zoo.data.sources.documents import Documents, Piece
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, did_you_mean

LETTERS = np.frombuffer((string.ascii_lowercase + string.ascii_uppercase + string.digits).encode(), np.uint8)
DIGITS = np.frombuffer(string.digits.encode(), np.uint8)
# Documents that a trained run is asked to answer, of each task.
PROBE_DOCUMENTS = 1024
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
        answer: (length) -> number of symbols of an answer, which what comes before it determines.
        trailing: (length) -> for each answer, how many symbols are between it and the final line feed.
            The first one is scored, since those before an answer may help to find it.
        choices: (symbols) -> number of different symbols that there can be in an answer.
        place: (document up to the end of its first answer) -> index of the symbol that is the answer,
            in what comes before it; None where there is no such symbol.
        distinct: whether all `length` symbols of a document differ.
        likeliest: (length, symbols) -> probability of the most frequent answer; None where all are
            equally likely.
        context_only: (length, symbols) -> probability that the best answer to a document without its
            question is right; None where the question is what comes before the answer, all of it.
        least: minima of the settings, where they are not those of all tasks.
    """

    description: str
    make: Callable[[np.ndarray, int, int], np.ndarray]
    draws: Callable[[int], int]
    entropy: Callable[[int, int], float]
    length: int
    symbols: int
    answer: Callable[[int], int] = lambda length: 1
    trailing: Callable[[int], Sequence[int]] = lambda length: (0,)
    choices: Callable[[int], int] = lambda symbols: symbols
    place: Callable[[str], int] | None = None
    distinct: bool = False
    likeliest: Callable[[int, int], float] | None = None
    context_only: Callable[[int, int], float] | None = None
    least: Mapping[str, int] = field(default_factory=dict)


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
        answer=lambda length: length,
    )


def _make_recall(draws: np.ndarray, length: int, symbols: int) -> np.ndarray:
    asked = draws[:, length : length + 1] % length
    pairs = _pairs(draws[:, :length], draws[:, length + 1 : length + 1 + symbols])
    answer = np.take_along_axis(pairs, asked.astype(np.int64)[:, :, None], 1)
    return _columns(pairs.reshape(len(draws), -1), "?", answer[:, 0], "\n")


def _make_multi_query_recall(draws: np.ndarray, length: int, symbols: int) -> np.ndarray:
    order = np.argsort(draws[:, length : 2 * length], axis=1, kind="stable")
    pairs = _pairs(draws[:, :length], draws[:, 2 * length : 2 * length + symbols])
    answers = np.take_along_axis(pairs, order[:, :, None], 1)
    return _columns(pairs.reshape(len(draws), -1), "?", answers.reshape(len(draws), -1), "\n")


def _pairs(values: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Returns one different key for each value, and its digit, [documents, pairs, 2]."""
    return np.stack([_distinct(keys, values.shape[1]), DIGITS[values % len(DIGITS)]], axis=2)


def _distinct(draws: np.ndarray, length: int) -> np.ndarray:
    """Returns the first letters of a random order: none occurs twice."""
    return LETTERS[np.argsort(draws, axis=1, kind="stable")[:, :length]]


def _share_of_the_most_frequent_digit(length: int, symbols: int) -> float:
    """Returns the expected share of pairs that have the most frequent digit of their document.

    The largest of the counts of n = `length` random digits is at most m with the probability n! / 10^n
    times the coefficient of x^n in (1 + x + x^2/2! + ... + x^m/m!)^10. The expectation of the
    largest count is the sum of 1 - P(at most m) over m.
    """
    expected = 0.0
    for most in range(length):
        counts = np.array([1 / math.factorial(count) for count in range(most + 1)])
        product = np.ones(1)
        for _ in DIGITS:
            product = np.convolve(product, counts)[: length + 1]
        ways = product[length] if len(product) > length else 0.0
        expected += 1 - ways * math.factorial(length) / len(DIGITS) ** length
    return float(expected / length)


def _make_induction(draws: np.ndarray, length: int, symbols: int) -> np.ndarray:
    letters = _distinct(draws[:, 1 : 1 + symbols], length)
    first = (draws[:, :1] % (length - 1)).astype(np.int64)
    return _columns(letters, *(np.take_along_axis(letters, first + step, 1) for step in (0, 1)), "\n")


def _make_needle(draws: np.ndarray, length: int, symbols: int) -> np.ndarray:
    letters, place = LETTERS[draws[:, :length] % symbols], (draws[:, length] % (length + 1)).astype(np.int64)
    digit = DIGITS[draws[:, length + 1 :] % len(DIGITS)]
    # The letters before the needle, the needle, and those after it.
    index = np.arange(length + 2)[None] - place[:, None]
    source = np.where(index < 0, index, index - 2) + place[:, None]
    text = np.take_along_axis(letters, np.clip(source, 0, length - 1), 1)
    text = np.where(index == 0, ord("#"), np.where(index == 1, digit, text)).astype(np.uint8)
    return _columns(text, "?", digit, "\n")


def _make_parity(draws: np.ndarray, length: int, symbols: int) -> np.ndarray:
    bits = draws[:, :length] % 2
    return _columns(DIGITS[bits], "=", DIGITS[bits.sum(axis=1, keepdims=True) % 2], "\n")


def _make_permutations(draws: np.ndarray, length: int, symbols: int) -> np.ndarray:
    swaps = np.array(list(itertools.combinations(range(symbols), 2)))
    chosen = (draws % len(swaps)).astype(np.int64)
    place = np.zeros(len(draws), np.int64)
    for one, other in swaps[chosen].transpose(1, 2, 0):
        place = np.where(place == one, other, np.where(place == other, one, place))
    return _columns(LETTERS[chosen], "=", DIGITS[1 + place][:, None], "\n")


def _make_addition(draws: np.ndarray, length: int, symbols: int) -> np.ndarray:
    one, other = draws[:, :length] % symbols, draws[:, length:] % symbols
    digits, carry = [], np.zeros(len(draws), draws.dtype)
    for place in reversed(range(length)):
        total = one[:, place] + other[:, place] + carry
        digits.append(total % symbols)
        carry = total // symbols
    return _columns(DIGITS[one], "+", DIGITS[other], "=", DIGITS[np.stack([carry, *reversed(digits)], axis=1)], "\n")


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
        choices=lambda symbols: len(DIGITS),
        place=lambda text: text.index(text[-2]) + 1,
        distinct=True,
        context_only=_share_of_the_most_frequent_digit,
    ),
    "multi_query_recall": SyntheticTask(
        "pairs of a key and a digit, ?, and all pairs again in another order (multi-query associative recall)",
        _make_multi_query_recall,
        draws=lambda length: 2 * length + 52,
        entropy=lambda length, symbols: (
            math.log2(math.perm(symbols, length)) + length * math.log2(len(DIGITS)) + math.log2(math.factorial(length))
        ),
        length=8,
        symbols=52,
        choices=lambda symbols: len(DIGITS),
        trailing=lambda length: range(2 * (length - 1), -1, -2),
        place=lambda text: text.index(text[-2]) + 1,
        distinct=True,
        context_only=_share_of_the_most_frequent_digit,
    ),
    "induction": SyntheticTask(
        "different symbols, one of them again, and the one that followed it",
        _make_induction,
        draws=lambda length: 1 + 62,
        entropy=lambda length, symbols: math.log2(math.perm(symbols, length)) + math.log2(length - 1),
        length=16,
        symbols=len(LETTERS),
        place=lambda text: text.index(text[-2]) + 1,
        distinct=True,
        context_only=lambda length, symbols: 1 / (length - 1),
        least={"length": 2},
    ),
    "needle": SyntheticTask(
        "symbols with # and a digit among them, ?, and the digit",
        _make_needle,
        draws=lambda length: length + 2,
        entropy=lambda length, symbols: length * math.log2(symbols) + math.log2(length + 1) + math.log2(len(DIGITS)),
        length=64,
        symbols=52,
        choices=lambda symbols: len(DIGITS),
        place=lambda text: text.index("#") + 1,
    ),
    "parity": SyntheticTask(
        "bits, =, and 1 if an odd number of them is 1, else 0",
        _make_parity,
        draws=lambda length: length,
        entropy=lambda length, symbols: length,
        length=8,
        symbols=2,
    ),
    "permutations": SyntheticTask(
        "swaps of two places each, =, and the place to which they move what is at the first one",
        _make_permutations,
        draws=lambda length: length,
        entropy=lambda length, symbols: length * math.log2(math.comb(symbols, 2)),
        length=8,
        symbols=5,
        # A swap moves a given place with the probability 2 / symbols: the first is the likeliest.
        likeliest=lambda length, symbols: (1 + (symbols - 1) * (1 - 2 / (symbols - 1)) ** length) / symbols,
        least={"symbols": 3},
    ),
    "addition": SyntheticTask(
        "a number, +, another one, =, and their sum, which has one digit more",
        _make_addition,
        draws=lambda length: 2 * length,
        entropy=lambda length, symbols: 2 * length * math.log2(symbols),
        length=3,
        symbols=len(DIGITS),
        answer=lambda length: length + 1,
        # As many pairs of numbers as there are numbers have the sum 99...9.
        likeliest=lambda length, symbols: float(symbols) ** -length,
    ),
}
_LEAST = {"documents": 2, "length": 1, "symbols": 2}


@dataclass(frozen=True)
class SyntheticDocuments:
    """Documents of a task.

    Attributes:
        name: the task's, of `SYNTHETIC_TASKS`.
        documents: how many a source has.
        length, symbols: its settings.
    """

    name: str
    documents: int
    length: int
    symbols: int

    @property
    def task(self) -> SyntheticTask:
        """Returns the task."""
        return SYNTHETIC_TASKS[self.name]

    @property
    def size(self) -> int:
        """Returns the number of bytes of a document."""
        return self._make(np.zeros((1, self.task.draws(self.length)), np.uint64)).size

    @property
    def bits_per_byte(self) -> float:
        """Returns the lowest possible loss."""
        return self.task.entropy(self.length, self.symbols) / self.size

    @property
    def answer_ends(self) -> tuple[int, ...]:
        """Returns where the answers of a document end, in symbols from its beginning."""
        return tuple(self.size - 1 - trailing for trailing in self.task.trailing(self.length))

    @property
    def answer_is_apart(self) -> bool:
        """Whether the answer is of another class of characters than what comes before it, so that
        tokens of byte-level BPE, whose words have one class, begin with it.
        """
        text, start = next(self.texts(1, self.name)), self.answer_ends[0] - self.task.answer(self.length)
        before, first = text[start - 1 : start + 1]
        return (before.isalpha(), before.isdecimal()) != (first.isalpha(), first.isdecimal())

    @property
    def chance(self) -> float:
        """Returns the probability that an answer drawn at random is right."""
        return float(self.task.choices(self.symbols)) ** -self.task.answer(self.length)

    @property
    def constant(self) -> float:
        """Returns the probability that the most frequent answer is right."""
        return self.task.likeliest(self.length, self.symbols) if self.task.likeliest else self.chance

    @property
    def context_only(self) -> float | None:
        """Returns the probability that the best answer to a document without its question is right:
        the most frequent digit of pairs, any symbol of an induction but the first. None for a task
        whose question is all that comes before the answer.
        """
        return self.task.context_only(self.length, self.symbols) if self.task.context_only else None

    def texts(self, count: int, seed: str) -> Iterator[str]:
        """Yields `count` documents. Another text as the seed gives others."""
        # NumPy guarantees the raw numbers of a bit generator.
        bits = np.random.PCG64(zlib.crc32(seed.encode()))
        for start in range(0, count, _AT_ONCE):
            for row in self._make(bits.random_raw((_AT_ONCE, self.task.draws(self.length))))[: count - start]:
                yield row.tobytes().decode()

    def _make(self, draws: np.ndarray) -> np.ndarray:
        return self.task.make(draws, self.length, self.symbols)


USAGE = "synthetic:TASK,documents=20000,length=16,symbols=26"


def parse(argument: str, field: str = "data.source") -> SyntheticDocuments:
    """Reads TASK or TASK,documents=N,length=N,symbols=N (or ";" for ",").

    `length` counts the symbols that are copied, reversed or read, the pairs of a key and a digit, or
    the digits of a number; `symbols` is the number of different symbols (keys, digits).

    Args:
        argument: the text.
        field: what it is the value of, for errors.

    Raises:
        ConfigError: unknown task or argument, or a number out of range.
    """
    name, *settings = [part.strip() for part in re.split("[,;]", argument)]
    if name not in SYNTHETIC_TASKS:
        raise ConfigError(
            f'{field}: unknown task "{name}"{did_you_mean(name, SYNTHETIC_TASKS)}; one of '
            f'{", ".join(SYNTHETIC_TASKS)}, e.g. "{USAGE}"'
        )
    task = SYNTHETIC_TASKS[name]
    numbers = {"documents": 20000, "length": task.length, "symbols": min(26, task.symbols)}
    most = {"documents": 10**8, "length": 10**4, "symbols": task.symbols}
    least = _LEAST | task.least
    problems = []
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in numbers:
            problems.append(
                f'{field}: "{name}" has no argument "{key}"{did_you_mean(key, numbers)}; one of {", ".join(numbers)}'
            )
        elif not value.isdecimal() or not least[key] <= int(value) <= most[key]:
            problems.append(
                f'{field}: {key} of "{name}" must be a whole number from {least[key]} to {most[key]}, got "{value}"'
            )
        else:
            numbers[key] = int(value)
    if task.distinct and numbers["length"] > numbers["symbols"]:
        what = "keys" if "recall" in name else "symbols"
        problems.append(
            f'{field}: "{name}" of length={numbers["length"]} needs as many different {what}, and there are '
            f"symbols={numbers['symbols']}"
        )
    if problems:
        raise ConfigError(problems)
    return SyntheticDocuments(name, **numbers)


def synthetic(argument: str, data: Any) -> Documents:
    """Makes documents of a task; see `parse` for the argument.

    The description gives the lowest possible loss: bits of information per document, divided by its
    bytes. A model reaches it only if it always sees its document from the beginning.

    Raises:
        ConfigError: as `parse`.
    """
    found = parse(argument)

    def read(policy: BadTextPolicy) -> Iterator[Piece]:
        for text in found.texts(found.documents, found.name):
            yield Piece(True, text)

    return Documents(
        read,
        f"synthetic:{found.name} (length {found.length}, {found.symbols} symbols; best possible: "
        f"{found.bits_per_byte:.6f} bits per byte)",
        data.bad_text,
    )
