"""Groups tokens into words, and chooses whole words in rows."""

from collections.abc import Collection, Sequence

import numpy as np

WordJoins = tuple[np.ndarray, np.ndarray]
"""(joins_left, joins_right), bool [V]: neighbours a and b belong to one word where joins_right[a]
and joins_left[b].
"""

# The first character of a token that follows a space: in SentencePiece, and in byte-level BPE's
# symbols.
SPACES = ("▁", "Ġ")


def joins_by_white_space(texts: Sequence[str], special_ids: Collection[int]) -> WordJoins:
    """Returns the joins of tokens that contain their white space: a word ends where it begins.

    Args:
        texts: what each id stands for.
        special_ids: ids that join nothing.
    """
    left = [not text[:1].isspace() for text in texts]
    right = [not text[-1:].isspace() for text in texts]
    return _without(left, right, texts, special_ids)


def joins_by_marker(
    texts: Sequence[str], special_ids: Collection[int], continues: str = "", ends: str = ""
) -> WordJoins:
    """Returns the joins of tokens that mark their place in a word.

    Markers are `continues` ("##") or `ends` ("</w>"); without both, `SPACES` mark the beginning of
    a word.

    Args:
        texts: each id as the vocabulary writes it.
        special_ids: ids that join nothing.
        continues: prefix of tokens that do not begin a word.
        ends: suffix of a word's last token.
    """
    left = [text.startswith(continues) if continues else bool(ends) or not text.startswith(SPACES) for text in texts]
    right = [continues != "" or not ends or not text.endswith(ends) for text in texts]
    return _without(left, right, texts, special_ids)


def _without(
    left: Sequence[bool], right: Sequence[bool], texts: Sequence[str], special_ids: Collection[int]
) -> WordJoins:
    written = np.array([text != "" and id not in special_ids for id, text in enumerate(texts)], bool)
    return np.array(left, bool) & written, np.array(right, bool) & written


def first_tokens(rows: np.ndarray, joins: WordJoins, candidates: np.ndarray) -> np.ndarray:
    """Returns where words begin, bool [B, T].

    Args:
        rows: ids, [B, T].
        joins: which of them join.
        candidates: bool [B, T]; other tokens are not part of a word and separate their neighbours.
    """
    left, right = (table.take(rows, mode="clip") & candidates for table in joins)
    first = candidates.copy()
    first[:, 1:] &= ~(left[:, 1:] & right[:, :-1])
    return first


def choose_words(first: np.ndarray, candidates: np.ndarray, draws: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """Chooses whole words in random order within a budget of tokens.

    A word that would exceed the budget is skipped. If every word of a row exceeds it, nothing is
    chosen.

    Args:
        first, candidates: result and argument of `first_tokens`.
        draws: random numbers in [0, 1), [B, T]; those of the words' first tokens determine the
            order.
        budget: largest number of tokens per row, [B].

    Returns:
        the tokens of the chosen words, bool [B, T].
    """
    batch, length = first.shape
    start = np.maximum.accumulate(np.where(first, np.arange(length), 0), axis=1)
    flat = (np.arange(batch)[:, None] * length + start)[candidates]
    sizes = np.bincount(flat, minlength=batch * length).reshape(batch, length)
    order = np.argsort(np.where(first, draws, 2.0), axis=1, kind="stable")
    sizes = np.take_along_axis(np.where(first, sizes, 0), order, axis=1)
    waiting, chosen, left = sizes > 0, np.zeros_like(first), budget.copy()
    # The budget only shrinks, so a word that does not fit never will. Each iteration takes all
    # words up to the next that does not fit.
    while (waiting := waiting & (sizes <= left[:, None])).any():
        taken = waiting & (np.where(waiting, sizes, 0).cumsum(axis=1) <= left[:, None])
        left = left - np.where(taken, sizes, 0).sum(axis=1)
        chosen, waiting = chosen | taken, waiting & ~taken
    words = np.zeros_like(first)
    np.put_along_axis(words, order, chosen, axis=1)
    return np.take_along_axis(words, start, axis=1) & candidates
