"""Renders batches as readable text: what a model reads and predicts, token by token."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.rows.packed_rows import PADDING
from zoo.data.tokenizers.tokenizer import Tokenizer

_VISIBLE = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\0": "␀"}


def token_name(tokenizer: Tokenizer, token: int, ends_rows: bool, sentinels: int = 0) -> str:
    """Returns the text of a token, or the name that papers give to a special one.

    Args:
        tokenizer: its tokenizer.
        token: its id.
        ends_rows: a row ends with a separator, so the token that opens it is [CLS].
        sentinels: number of sentinels, whose ids follow the tokenizer's; there is no mask then.
    """
    size = tokenizer.vocab_size
    if size <= token < size + sentinels:
        return f"<{size + sentinels - 1 - token}>"
    names = {tokenizer.separator_id: "[SEP]", tokenizer.bos_id: "[CLS]" if ends_rows else "[BOS]"}
    if not sentinels:
        names = {tokenizer.mask_id: "[MASK]"} | names
    if token in names:
        return names[token]
    if token >= size or token in tokenizer.special_ids:
        return f"[{token}]"
    return tokenizer.pieces[token].decode(errors="replace")


class TextRow(NamedTuple):
    """A text, or a pair of texts, as a model reads it.

    Attributes:
        ids: ids of the tokens, special ones included.
        segments: 0 for the tokens of the first text, 1 for those of the second.
        names: their texts.
        ends_rows: a row ends with a separator, so the token that opens it is [CLS].
        sentinels: number of sentinels of the objective.
    """

    ids: list[int]
    segments: list[int]
    names: list[str]
    ends_rows: bool
    sentinels: int

    @classmethod
    def of(cls, config: ResolvedConfig, tokenizer: Tokenizer, text: str, second: str | None = None) -> "TextRow":
        """Encodes a text, and the second one of a pair.

        Raises:
            DataError: the tokenizer cannot encode a text.
        """
        ends = config.data.row_format != "packed" or config.objective.kind in TASKS
        has_separator = config.data.row_format != "packed" or tokenizer.separator_id < tokenizer.vocab_size
        separators = [tokenizer.separator_id] if has_separator else []
        ids = [*tokenizer.opening_ids, *tokenizer.encode(text).tolist(), *(separators if ends or second else [])]
        segments = [0] * len(ids)
        if second is not None:
            ids += [*tokenizer.encode(second).tolist(), *separators]
            segments += [1] * (len(ids) - len(segments))
        sentinels = config.objective.sentinels if config.objective.kind in OBJECTIVE_KINDS.having("spans") else 0
        return cls(ids, segments, [token_name(tokenizer, id, ends, sentinels) for id in ids], ends, sentinels)


@dataclass(frozen=True)
class DisplayToken:
    """One token for display.

    Attributes:
        text: what the model sees, with white space made visible.
        target: what the model predicts there; None if nothing.
        special: whether it is a special token, which stands for no text.
    """

    text: str
    target: str | None = None
    special: bool = False

    def __str__(self) -> str:
        if self.target is None:
            return self.text
        # [MASK→b] and not [[MASK]→b].
        return f"[{self.text.strip('[]') if self.special else self.text}→{self.target}]"


class BatchFormatter:
    """Turns the arrays of batches into tokens for display.

    Args:
        tokenizer: the tokenizer that made the tokens.
        ends_rows: a row ends with a separator, so the token that opens it is [CLS].
        num_sentinels: number of sentinels, whose ids follow the tokenizer's.
        swapped: whether the second segment of a negative pair precedes the first (`swapped_pairs`).
    """

    def __init__(self, tokenizer: Tokenizer, ends_rows: bool, num_sentinels: int = 0, swapped: bool = False):
        self._tokenizer, self._ends_rows, self._sentinels = tokenizer, ends_rows, num_sentinels
        self._negative = "comes before it" if swapped else "does not follow"
        special = {tokenizer.bos_id, tokenizer.separator_id, *tokenizer.special_ids}
        self._special = special if num_sentinels else special | {tokenizer.mask_id}

    def token(self, id: int, target: int | None = None) -> DisplayToken:
        """Formats one id, and the id to predict there."""
        aim = None if target is None else self.token(target).text
        if id >= self._tokenizer.vocab_size or id in self._special:
            name = token_name(self._tokenizer, id, self._ends_rows, self._sentinels)
            return DisplayToken(name, aim, special=True)
        text = self._tokenizer.pieces[id].decode(errors="backslashreplace")
        return DisplayToken("".join(_VISIBLE.get(character, character) for character in text), aim)

    def tokens(self, ids: np.ndarray, targets: dict[int, int] | None = None) -> list[DisplayToken]:
        """Formats the tokens of a row without padding; `targets` maps positions to ids."""
        targets = targets or {}
        return [self.token(id, targets.get(place)) for place, id in enumerate(ids.tolist()) if id != PADDING]

    def row(self, batch: dict[str, np.ndarray], number: int) -> Iterator[tuple[str, list[DisplayToken]]]:
        """Yields one row of a batch as (name, tokens)."""
        if "source" in batch:
            yield "reads", self.tokens(batch["source"][number])
            yield "writes", self.tokens(batch["targets"][number])
            return
        tokens, targets = batch["tokens"][number], {}
        if "masked_positions" in batch:
            chosen = zip(batch["masked_positions"][number].tolist(), batch["targets"][number].tolist(), strict=True)
            targets = {place: target for place, target in chosen if target != PADDING}
        shown = self.tokens(tokens, targets)
        if "segments" not in batch:
            yield "tokens", shown
            return
        border = int((batch["segments"][number][: len(shown)] == 0).sum())
        follows = {0: "follows", 1: self._negative, PADDING: "is padding"}[int(batch["next"][number])]
        yield "segment 0", shown[:border]
        yield f"segment 1, which {follows}", shown[border:]


@dataclass(frozen=True)
class RowStatistics:
    """Statistics of a sample of rows.

    Attributes:
        rows: their number.
        lengths: tokens without padding, [rows], over all arrays that a model reads or writes.
        slots: capacity of a row in tokens.
        predicted: mean number of targets per row.
    """

    rows: int
    lengths: np.ndarray
    slots: int
    predicted: float

    @property
    def padding(self) -> float:
        """Share of padding."""
        return 1 - float(self.lengths.mean()) / self.slots

    @classmethod
    def of(cls, batches: list[dict[str, np.ndarray]], next_token: bool) -> "RowStatistics":
        """Measures batches.

        With `next_token`, the targets of a row are all its tokens but the first.
        """
        read = [
            [batch[name] for name in (("source", "targets") if "source" in batch else ("tokens",))] for batch in batches
        ]
        lengths = np.concatenate([sum((array != PADDING).sum(axis=1) for array in arrays) for arrays in read])
        targets = (
            np.concatenate([(batch["targets"] != PADDING).sum(axis=1) for batch in batches])
            if not next_token
            else lengths - 1
        )
        return cls(len(lengths), lengths, sum(array.shape[1] for array in read[0]), float(targets.mean()))


def histogram(lengths: np.ndarray, bins: int = 12) -> list[tuple[int, int, int]]:
    """Returns (smallest, largest, count) of lengths in bins of equal ratio.

    There are no more bins than different lengths.
    """
    low, high = max(int(lengths.min()), 1), int(lengths.max())
    edges = np.unique(np.geomspace(low, high + 1, bins + 1).round().astype(np.int64))
    if len(edges) < 2:
        return [(int(lengths.min()), high, len(lengths))]
    edges[0] = min(edges[0], lengths.min())
    counts, _ = np.histogram(lengths, edges)
    return [(int(a), int(b) - 1, int(count)) for a, b, count in zip(edges[:-1], edges[1:], counts, strict=True)]
