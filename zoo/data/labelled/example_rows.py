"""Rows of examples, [CLS] A [SEP] and [CLS] A [SEP] B [SEP], in memory."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoo.data.rows.packed_rows import PADDING, Arrays
from zoo.data.tokenizers.tokenizer import Tokenizer


class RowDelimiters(NamedTuple):
    """Ids around texts: `opening` begins a row, `separator` ends each text."""

    opening: int
    separator: int

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: int) -> "RowDelimiters":
        """Returns the tokenizer's delimiters, for a model of `ids` ids.

        If the model has no separator, the token that opens documents replaces it (GPT-2).
        """
        known = tokenizer.separator_id < ids
        return cls(tokenizer.bos_id, tokenizer.separator_id if known else tokenizer.bos_id)


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
        a, b = longest_first_lengths(
            len(first), 0 if second is None else len(second), length - 2 - (second is not None)
        )
        cut += a < len(first) or (second is not None and b < len(second))
        tokens[row, 0] = delimiters.opening
        tokens[row, 1 : a + 1] = first[:a]
        tokens[row, a + 1] = delimiters.separator
        if second is not None:
            tokens[row, a + 2 : a + 2 + b] = second[:b]
            tokens[row, a + 2 + b] = delimiters.separator
            segments[row, a + 2 : a + b + 3] = 1
    return {"tokens": tokens} | ({} if seconds is None else {"segments": segments}), cut


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
