"""Words in rows of tokens: which tokens form one, and a random choice of whole ones."""

from collections.abc import Collection, Sequence

import numpy as np

WordJoins = tuple[np.ndarray, np.ndarray]
"""(joins_left, joins_right), bool [V]: neighbours a and b belong to one word where joins_right[a]
and joins_left[b].
"""

# What a token begins with where a space stands before it: in SentencePiece, and in byte-level BPE's
# symbols.
SPACES = ("▁", "Ġ")


def joins_by_white_space(texts: Sequence[str], special_ids: Collection[int]) -> WordJoins:
    """Tokens that hold their own white space: a word ends where that begins.

    Args:
        texts: what each id stands for.
        specials: ids that join nothing.
    """
    left = [not text[:1].isspace() for text in texts]
    right = [not text[-1:].isspace() for text in texts]
    return _without(left, right, texts, special_ids)


def joins_by_marker(
    texts: Sequence[str], special_ids: Collection[int], continues: str = "", ends: str = ""
) -> WordJoins:
    """Tokens that tell by a mark where they stand in a word: `continues` ("##") or `ends` ("</w>"),
    else `SPACES` where one begins.

    Args:
        texts: as the vocabulary writes each id.
        specials: ids that join nothing.
        continues: what a token begins with that is not a word's first.
        ends: what a word's last token ends with.
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
    """Where words begin, bool [B, T].

    Args:
        rows: ids, [B, T].
        joins: which of them join.
        candidates: bool [B, T]; a token that is none is no part of a word and separates its
            neighbours.
    """
    left, right = (table.take(rows, mode="clip") & candidates for table in joins)
    first = candidates.copy()
    first[:, 1:] &= ~(left[:, 1:] & right[:, :-1])
    return first


def choose_words(first: np.ndarray, candidates: np.ndarray, draws: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """Whole words in random order, as long as their tokens are within a budget; a word that would
    exceed it is passed over.

    A row none of whose words is within it has nothing chosen.

    Args:
        first, candidates: of `first_tokens`.
        draws: random numbers in [0, 1), [B, T]; the order is that of the draws of the words' first
            tokens.
        budget: most tokens of each row, [B].

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
    # What is left only shrinks, so a word that does not fit never will. Each turn takes all words
    # up to the next that does not fit.
    while (waiting := waiting & (sizes <= left[:, None])).any():
        taken = waiting & (np.where(waiting, sizes, 0).cumsum(axis=1) <= left[:, None])
        left = left - np.where(taken, sizes, 0).sum(axis=1)
        chosen, waiting = chosen | taken, waiting & ~taken
    words = np.zeros_like(first)
    np.put_along_axis(words, order, chosen, axis=1)
    return np.take_along_axis(words, start, axis=1) & candidates
