"""Rows of whole sentences, [CLS] A [SEP], and of sentence pairs, [CLS] A [SEP] B [SEP].

The kinds are those of Liu et al. 2019, section 4.2. For pairs, the model predicts whether B follows
A. [CLS] is the token that opens documents, [SEP] the tokenizer's separator.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from zoo.data.rows.masking import EVALUATION, TRAINING, row_keys, uniform_draws
from zoo.data.rows.packed_rows import BYTES, PADDING, Arrays, Rows, padding_tokens
from zoo.data.rows.token_streams import Stream
from zoo.errors import DataError

FOLLOWS, NEGATIVE = 0, 1
# The draws of a pair must differ from those of its masks, which have the same seed, epoch and row.
_PAIRS = 7919
# So must those of the lengths of runs.
_SHORT = 7927


@dataclass(frozen=True, eq=False)
class SentenceIndex:
    """Positions of sentences and documents in a stream.

    Attributes:
        stream: with `sentences`.
        opening: id of the token that opens documents.
    """

    stream: Stream
    opening: int

    @cached_property
    def starts(self) -> np.ndarray:
        """First token of each sentence, int64 [sentences]."""
        return np.asarray(self.stream.sentences, np.int64)

    @cached_property
    def stops(self) -> np.ndarray:
        """Position after the last token of each sentence, int64 [sentences]."""
        following = np.append(self.starts[1:], len(self.stream.tokens))
        # The token that opens the next document is not part of the last sentence.
        last = np.append(self.document[1:] != self.document[:-1], False)
        return following - last

    @cached_property
    def document(self) -> np.ndarray:
        """Number of each sentence's document, int64 [sentences]."""
        opens = np.flatnonzero(np.asarray(self.stream.tokens) == self.opening)
        _, numbers = np.unique(np.searchsorted(opens, self.starts), return_inverse=True)
        return numbers

    @cached_property
    def first(self) -> np.ndarray:
        """First sentence of each document, and the number of sentences: int64 [documents + 1]."""
        return np.append(np.flatnonzero(np.diff(self.document, prepend=-1)), len(self.starts))


class SentenceRows(Rows):
    """[CLS] sentences [SEP]: as many whole sentences as fit; longer sentences are split.

    Args:
        sentences: the text.
        length: T.
        separator: id of [SEP], which also separates documents.
        across: rows continue into the next document (full sentences), else each document begins a
            new row (doc sentences).
    """

    def __init__(self, sentences: SentenceIndex, length: int, separator: int, across: bool):
        self._sentences, self._length, self._separator = sentences, length, separator
        room, starts, stops = length - 2, sentences.starts, sentences.stops
        limits = np.array([len(starts)]) if across else sentences.first[1:]
        begins, ends, at = [], [], 0
        for limit in limits.tolist():
            inside, begin = stops[:limit], int(starts[at])
            while at < limit:
                after = int(np.searchsorted(inside, begin + room, side="right"))
                begins.append(begin)
                ends.append(int(inside[after - 1]) if after > at else begin + room)
                begin = ends[-1] if after == at else int(starts[min(after, len(starts) - 1)])
                at = after
        self._begins, self._ends = np.array(begins, np.int64), np.array(ends, np.int64)
        self.num_training_rows = self.num_rows = len(begins)
        self.shortage = "there is no sentence"

    def gather(self, indices: np.ndarray, epochs: np.ndarray | None, seed: int) -> Arrays:
        begins, ends = self._begins[indices][:, None], self._ends[indices][:, None]
        places = np.arange(self._length)[None]
        stream, within = self._sentences.stream, places <= ends - begins
        rows = stream.tokens.take(begins + places - 1, mode="clip").astype(np.int32)
        rows[rows == self._sentences.opening] = self._separator
        rows = np.where(within, rows, np.where(places == ends - begins + 1, self._separator, PADDING))
        rows[:, 0] = self._sentences.opening
        found = {"tokens": rows.astype(np.int32)}
        if stream.sizes is not None and epochs is None:
            found[BYTES] = np.where(within & (places > 0), stream.sizes.take(begins + places - 1, mode="clip"), 0)
        return found

    def padding_rows(self, count: int) -> Arrays:
        return padding_tokens(count, self._length, self._sentences.stream.sizes is not None)


class PairRows(Rows):
    """[CLS] A [SEP] B [SEP]: B follows A, or with probability 1/2 is from another document.

    This is next-sentence prediction (Devlin et al. 2019, section 3.1). With segments, a row is a
    run of at least two sentences that fills T, and A ends after one of them, each equally likely; a
    random B consists of as many whole sentences as reach the length of the run, from a random place of
    a random other document. What does not fit is truncated from the longer of the two, whichever kind
    the pair is: A's beginning or B's end.
    Without segments, A and B are one sentence each. The kind of pair and the end of A are drawn
    anew in every epoch; text that a random B replaces is not read in that epoch. Documents of one
    sentence yield no pair.

    With `swapped` B is never from another document: with probability 1/2 the two segments change
    places instead, before they are truncated, so only the order tells the kinds of pairs apart
    (sentence-order prediction, Lan et al. 2020, section 3.1).

    With `short`, some runs end with the sentence that reaches a shorter length, drawn evenly from 2 to
    the text of a full row (BERT's code, `short_seq_prob`), which a random B reaches too. The run after
    it begins where it ends. The lengths are those of the text and T, the same in every epoch and for
    every seed.

    Args:
        sentences: the text.
        length: T.
        separator: id of [SEP].
        segments: A and B are runs of sentences, else single ones.
        swapped: pairs that do not follow are consecutive segments in the other order.
        short: share of the runs that are shorter.

    Raises:
        DataError: there is no second document to draw from.
    """

    def __init__(
        self,
        sentences: SentenceIndex,
        length: int,
        separator: int,
        segments: bool,
        swapped: bool = False,
        short: float = 0.0,
    ):
        self._sentences, self._length, self._separator, self._segments = sentences, length, separator, segments
        self._swapped, self._short = swapped, short
        if len(sentences.first) < 3 and not swapped:
            raise DataError(
                "data.row_format: pairs need at least two documents, for a random second one; set "
                "data.document_separator, take another data.source, or data.row_format=full_sentences"
            )
        self._first, self._last, self._wanted = self._runs() if segments else self._neighbours()
        self.num_training_rows = self.num_rows = len(self._first)
        self.shortage = "no document has two sentences"

    def _neighbours(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        document = self._sentences.document
        first = np.flatnonzero(document[1:] == document[:-1])
        return first, first + 2, np.full(len(first), self._length - 3)

    def _runs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns runs of sentences that reach a length: first sentence, the one after the last, and
        the length in tokens.
        """
        sentences, wanted = self._sentences, self._wanted_lengths()
        first, last = [], []
        for begin, end in zip(sentences.first[:-1].tolist(), sentences.first[1:].tolist(), strict=True):
            at = begin
            while end - at >= 2:
                full = int(np.searchsorted(sentences.stops, sentences.starts[at] + wanted[len(first)])) + 1
                stop = min(max(full, at + 2), end)
                # A last single sentence joins this run.
                stop = end if end - stop == 1 else stop
                first.append(at)
                last.append(stop)
                at = stop
        return np.array(first, np.int64), np.array(last, np.int64), wanted[: len(first)]

    def _wanted_lengths(self) -> np.ndarray:
        """Returns the length that each run must reach, for as many runs as there can be."""
        runs, room = len(self._sentences.starts) // 2 + 1, self._length - 3
        if not self._short:
            return np.full(runs, room)
        draws = uniform_draws(row_keys(EVALUATION, _SHORT, np.arange(runs)), 2)
        shorter = 2 + np.floor(draws[:, 1] * (room - 1)).astype(np.int64)
        return np.where(draws[:, 0] < self._short, shorter, room)

    def gather(self, indices: np.ndarray, epochs: np.ndarray | None, seed: int) -> Arrays:
        keys = (
            row_keys(EVALUATION, _PAIRS, indices)
            if epochs is None
            else row_keys(TRAINING, _PAIRS, seed, epochs, indices)
        )
        draws = uniform_draws(np.broadcast_to(keys, len(indices)), 4)
        text, room = self._sentences, self._length - 3
        first, last, wanted = self._first[indices], self._last[indices], self._wanted[indices]
        border = first + 1 + np.floor(draws[:, 0] * (last - first - 1)).astype(np.int64)
        a_start, a_stop, b_start, b_stop = (
            text.starts[first],
            text.stops[border - 1],
            text.starts[border],
            text.stops[last - 1],
        )
        negative = draws[:, 1] < 0.5
        if self._swapped:
            b_start, a_start = np.where(negative, a_start, b_start), np.where(negative, b_start, a_start)
            b_stop, a_stop = np.where(negative, a_stop, b_stop), np.where(negative, b_stop, a_stop)
        else:
            # Whole sentences that reach the length of the run, as the true segment does. Both are cut
            # alike: where a text begins and ends in a sentence would otherwise tell the pairs apart.
            start, stop = self._elsewhere(first, draws[:, 2:], wanted - (a_stop - a_start))
            b_start, b_stop = np.where(negative, start, b_start), np.where(negative, stop, b_stop)
        a_length, b_length = a_stop - a_start, b_stop - b_start
        half = room // 2
        a_kept = np.minimum(a_length, np.maximum(room - b_length, room - half))
        b_kept = np.minimum(b_length, room - a_kept)
        sizes = self._sentences.stream.sizes if epochs is None else None
        return self._assembled(a_stop - a_kept, a_kept, b_start, b_kept, negative, sizes)

    def _elsewhere(self, first: np.ndarray, draws: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns where a text of another document than that of sentence `first` starts and stops: as
        many sentences as reach `wanted` tokens, if there are as many.
        """
        text = self._sentences
        documents = len(text.first) - 1
        other = (text.document[first] + 1 + np.floor(draws[:, 0] * (documents - 1)).astype(np.int64)) % documents
        begin, end = text.first[other], text.first[other + 1]
        chosen = begin + np.floor(draws[:, 1] * (end - begin)).astype(np.int64)
        if not self._segments:
            return text.starts[chosen], text.stops[chosen]
        last = np.searchsorted(text.stops, text.starts[chosen] + np.maximum(wanted, 1))
        return text.starts[chosen], text.stops[np.minimum(last, end - 1)]

    def _assembled(
        self,
        a_start: np.ndarray,
        a_length: np.ndarray,
        b_start: np.ndarray,
        b_length: np.ndarray,
        negative: np.ndarray,
        sizes: np.ndarray | None,
    ) -> Arrays:
        places = np.arange(self._length)[None]
        a, b = a_length[:, None], b_length[:, None]
        in_a, in_b = (places >= 1) & (places <= a), (places >= a + 2) & (places < a + 2 + b)
        source = np.where(in_a, a_start[:, None] + places - 1, b_start[:, None] + places - a - 2)
        rows = self._sentences.stream.tokens.take(source, mode="clip").astype(np.int32)
        separators = (places == a + 1) | (places == a + b + 2)
        rows = np.where(in_a | in_b, rows, np.where(separators, self._separator, PADDING))
        rows[:, 0] = self._sentences.opening
        segments = (places >= a + 2) & (places < a + b + 3)
        arrays = {"tokens": rows, "segments": segments, "next": np.where(negative, NEGATIVE, FOLLOWS)}
        if sizes is not None:
            arrays[BYTES] = np.where(in_a | in_b, sizes.take(source, mode="clip"), 0)
        return {name: array.astype(np.int32) for name, array in arrays.items()}

    def padding_rows(self, count: int) -> Arrays:
        empty = np.zeros((count, self._length), np.int32)
        tokens = padding_tokens(count, self._length, self._sentences.stream.sizes is not None)
        return {**tokens, "segments": empty, "next": np.full(count, PADDING, np.int32)}
