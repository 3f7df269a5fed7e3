"""Rows of examples, [CLS] A [SEP] and [CLS] A [SEP] B [SEP], in memory."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoo.data.rows.packed_rows import PADDING, Arrays
from zoo.data.tokenizers.tokenizer import Tokenizer


class RowDelimiters(NamedTuple):
    """Ids around texts: `before` begins a row, `after` ends it, and `between` separates two texts."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    between: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: int) -> "RowDelimiters":
        """Returns the tokenizer's delimiters, one each, for a model of `ids` ids.

        If the model has no separator, the token that opens documents replaces it (GPT-2).
        """
        separator = tokenizer.separator_id if tokenizer.separator_id < ids else tokenizer.bos_id
        return cls((tokenizer.bos_id,), (separator,), (separator,))

    def room(self, length: int, pairs: bool) -> int:
        """Returns the tokens of a row of T = `length` that are text."""
        return length - len(self.before) - len(self.after) - pairs * len(self.between)


def build_rows(
    firsts: Sequence[np.ndarray], seconds: Sequence[np.ndarray] | None, delimiters: RowDelimiters, length: int
) -> tuple[Arrays, int]:
    """Builds rows of T = `length` tokens, padded with -1.

    What does not fit is truncated from the end of the longer text, token by token (as in BERT's
    code).

    Args:
        firsts, seconds: ids of the texts; `seconds` is None without pairs.
        delimiters: ids around them.
        length: T.

    Returns:
        ({"tokens" [N, T], and for pairs "segments" [N, T], 0 or 1}, number of truncated rows);
            arrays are int32.
    """
    count, cut = len(firsts), 0
    tokens, segments = np.full((count, length), PADDING, np.int32), np.zeros((count, length), np.int32)
    for row in range(count):
        first = firsts[row]
        second = None if seconds is None else seconds[row]
        room = delimiters.room(length, second is not None)
        a, b = longest_first_lengths(len(first), 0 if second is None else len(second), room)
        cut += a < len(first) or (second is not None and b < len(second))
        parts = [delimiters.before, first[:a], *(() if second is None else (delimiters.between, second[:b]))]
        begin = 0
        for part in (*parts, delimiters.after):
            tokens[row, begin : begin + len(part)] = part
            begin += len(part)
        if second is not None:
            segments[row, begin - b - len(delimiters.after) : begin] = 1
    return {"tokens": tokens} | ({} if seconds is None else {"segments": segments}), cut


class TextWindows(NamedTuple):
    """Texts, or pairs, cut into parts that fit into a row each.

    Attributes:
        firsts, seconds: ids of the parts, one per row; `seconds` is None without pairs.
        examples: number of the example that a row is from, [rows].
        cut: number of pairs whose shorter text was truncated.
    """

    firsts: list[np.ndarray]
    seconds: list[np.ndarray] | None
    examples: np.ndarray
    cut: int


def split_into_windows(
    firsts: Sequence[np.ndarray], seconds: Sequence[np.ndarray] | None, room: int, stride: int
) -> TextWindows:
    """Cuts texts that do not fit into the `room` of a row into overlapping parts.

    Each part begins `stride` tokens after the one before. Of a pair, the longer text is cut into
    parts, and every row has the whole shorter one; this may take half of the row and is truncated
    beyond that.
    """
    found: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    numbers, cut = [], 0
    for number, first in enumerate(firsts):
        texts = [first] if seconds is None else [first, seconds[number]]
        longer, left = int(len(texts[-1]) > len(first)), room
        if len(texts) == 2:
            # Half a row or less is what the shorter text of a pair that fits takes anyway.
            cut += len(texts[1 - longer]) > room // 2
            texts[1 - longer] = texts[1 - longer][: room // 2]
            left -= len(texts[1 - longer])
        for begin in window_starts(len(texts[longer]), left, stride):
            parts = [*texts]
            parts[longer] = texts[longer][begin : begin + left]
            numbers.append(number)
            for column, part in zip(found, parts, strict=False):
                column.append(part)
    return TextWindows(found[0], None if seconds is None else found[1], np.array(numbers, np.int32), cut)


def window_starts(tokens: int, room: int, stride: int) -> list[int]:
    """Returns the first tokens of the rows of a long text: every `stride` tokens, without gaps."""
    step, starts = min(stride, room), [0]
    while starts[-1] + room < tokens:
        starts.append(starts[-1] + step)
    return starts


def longest_first_lengths(first: int, second: int, room: int) -> tuple[int, int]:
    """Returns the lengths of two texts after truncation to `room` tokens in total.

    Single tokens are removed from the longer text; from the second, if both are equally long.
    """
    if first + second <= room:
        return first, second
    half = room // 2
    if first <= room - half:
        return first, room - first
    if second <= half:
        return room - second, second
    return room - half, half
