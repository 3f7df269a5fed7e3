"""Extractive question answering: windows of long contexts, and answers from scores."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from zoo.data.labelled.example_rows import RowDelimiters, window_starts
from zoo.data.labelled.examples import ExampleSplit, Question
from zoo.data.labelled.sequence_tasks import EncodedExamples
from zoo.data.labelled.task_scores import answer_scores
from zoo.data.pipeline.show import BatchFormatter, DisplayToken
from zoo.data.rows.packed_rows import PADDING, Arrays
from zoo.data.tokenizers.tokenizer import Tokenizer

# Entry of a run's record of its data: whether some question has no answer.
UNANSWERABLE = "unanswerable"


class Window(NamedTuple):
    """A row's part of a context.

    Attributes:
        example: number of the question.
        first: position in the row of its first context token.
        starts, stops: character offsets of these tokens, [tokens].
    """

    example: int
    first: int
    starts: np.ndarray
    stops: np.ndarray


class Answer(NamedTuple):
    """A part of a context.

    Attributes:
        text: without white space around it; empty for no answer.
        start, end: offsets of its first character and of the one after its last in the context;
            None for no answer.
    """

    text: str = ""
    start: int | None = None
    end: int | None = None


class Extraction:
    """Extractive answers: first and last token, in rows [CLS] question [SEP] context [SEP].

    The formulation is that of Devlin et al. 2019, sections 4.2 and 4.3. A long context is read in
    several rows, each beginning `stride` tokens after the previous one. A row that does not hold
    the whole answer has the answer [CLS], as does every row of a question without an answer. The
    answer to a question is the best span of all its rows. If some question of the data has no
    answer, an empty answer is given when [CLS] scores higher than the best span in every row.

    Args:
        stride: tokens.
        longest: largest number of tokens of an answer.
        unanswerable: whether answers may be empty.
    """

    labels: tuple[str, ...] = ()

    def __init__(self, stride: int, longest: int, unanswerable: bool):
        self.stride, self.longest, self.unanswerable = stride, longest, unanswerable

    @classmethod
    def of(cls, config: Any, examples: ExampleSplit) -> Self:
        """Returns the task of a resolved config."""
        unanswerable = any(not example.answers for part in (examples.train, examples.held_out) for example in part)
        return cls(config.data.stride, config.objective.longest_answer, unanswerable)

    @classmethod
    def labels_of(
        cls, examples: Sequence[Question], given: tuple[str, ...], ordered: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Returns no labels: answers are text."""
        return ()

    def check(self, examples: Sequence[Question], part: str) -> None:
        """Nothing to check."""

    def texts(self, example: Question) -> list[str]:
        """Returns the texts that a tokenizer is trained on."""
        return [example.question, example.context]

    def encode(
        self, examples: Sequence[Question], tokenizer: Tokenizer, delimiters: RowDelimiters, length: int
    ) -> EncodedExamples:
        """Encodes rows with "segments", "context", "starts" and "ends".

        "context" [N, 2] holds the position of the first context token and the one after the last;
        "starts" and "ends" are [N]. A question may take half of a row and is truncated beyond that.
        `extra` holds a `Window` per row.
        """
        questions = tokenizer.encode_batch([example.question for example in examples])
        # Many questions share a context.
        texts = list(dict.fromkeys(example.context for example in examples))
        located = dict(zip(texts, tokenizer.encode_with_offsets(texts), strict=True))
        rows, windows, cut, lost = [], [], 0, 0
        for number, (example, question) in enumerate(zip(examples, questions, strict=True)):
            half = delimiters.room(length, pairs=True) // 2
            cut += len(question) > half
            asked, context = question[:half], located[example.context]
            asks = [*delimiters.before, *asked, *delimiters.between]
            room, held = delimiters.room(length, pairs=True) - len(asked), False
            for begin in window_starts(len(context.ids), room, self.stride):
                ids = context.ids[begin : begin + room]
                window = Window(
                    number, len(asks), context.starts[begin : begin + room], context.stops[begin : begin + room]
                )
                start, end = span_in(window, example.answers[0]) if example.answers else (-1, -1)
                held |= start >= 0
                tokens = np.full(length, PADDING, np.int32)
                row = [*asks, *ids, *delimiters.after]
                tokens[: len(row)] = row
                segments = (np.arange(length) >= window.first) & (tokens != PADDING)
                rows.append((tokens, segments, (window.first, window.first + len(ids)), max(start, 0), max(end, 0)))
                windows.append(window)
            lost += bool(example.answers) and not held
        names = ("tokens", "segments", "context", "starts", "ends")
        arrays = {name: np.array(column, np.int32) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
        return EncodedExamples(arrays, {"questions cut": cut, "answers in no row": lost}, windows)

    def answers(
        self, outputs: Mapping[str, np.ndarray], examples: Sequence[Question], encoded: EncodedExamples
    ) -> list[Answer]:
        """Returns the answer to each question, from the scores of all its rows.

        Args:
            outputs: "start_scores" and "end_scores" [N, T].
            examples, encoded: the questions and their rows.
        """
        best = [(-np.inf, Answer()) for _ in examples]
        empty = np.full(len(examples), np.inf)
        for window, starts, ends in zip(encoded.extra, outputs["start_scores"], outputs["end_scores"], strict=True):
            inside = slice(window.first, window.first + len(window.starts))
            empty[window.example] = min(empty[window.example], float(starts[0]) + float(ends[0]))
            if not len(window.starts):
                continue
            score, start, end = best_span(starts[inside], ends[inside], self.longest)
            if score > best[window.example][0]:
                context = examples[window.example].context
                best[window.example] = score, _stripped(context, int(window.starts[start]), int(window.stops[end]))
        return [
            Answer() if self.unanswerable and empty[number] > score else answer
            for number, (score, answer) in enumerate(best)
        ]

    def measure(
        self, outputs: Mapping[str, np.ndarray], examples: Sequence[Question], encoded: EncodedExamples
    ) -> dict[str, float]:
        """Returns the scores of the answers; see `answer_scores`."""
        found = [answer.text for answer in self.answers(outputs, examples, encoded)]
        return answer_scores(found, [[text for text, _ in example.answers] for example in examples])

    def format_row(self, row: Arrays, formatter: BatchFormatter) -> Iterator[tuple[str, list[DisplayToken]]]:
        """Yields one row as (name, tokens)."""
        tokens, (first, _) = formatter.tokens(row["tokens"]), row["context"].tolist()
        yield "question", tokens[:first]
        yield "context", tokens[first:]
        start, end = int(row["starts"]), int(row["ends"])
        yield "answer", tokens[start : end + 1] if start else [DisplayToken("none in this row", special=True)]


def _stripped(context: str, start: int, end: int) -> Answer:
    """Returns a part of a context without white space around it."""
    text = context[start:end]
    start += len(text) - len(text.lstrip())
    stripped = text.strip()
    return Answer(stripped, start, start + len(stripped)) if stripped else Answer()


def span_in(window: Window, answer: tuple[str, int]) -> tuple[int, int]:
    """Returns the positions in the row of an answer's first and last token.

    They are (-1, -1) if the row does not hold the whole answer.
    """
    text, begin = answer
    end = begin + len(text)
    touched = np.flatnonzero((window.stops > begin) & (window.starts < end) & (window.stops > window.starts))
    if not len(touched) or window.starts[touched[0]] > begin or window.stops[touched[-1]] < end:
        return -1, -1
    return window.first + int(touched[0]), window.first + int(touched[-1])


def best_span(starts: np.ndarray, ends: np.ndarray, longest: int) -> tuple[float, int, int]:
    """Returns (score, first, last) of the span with the largest starts[first] + ends[last].

    Spans satisfy first <= last < first + longest.
    """
    count = len(starts)
    sums = starts[:, None].astype(np.float64) + ends[None]
    apart = np.arange(count)[None] - np.arange(count)[:, None]
    sums[(apart < 0) | (apart >= longest)] = -np.inf
    first, last = divmod(int(sums.argmax()), count)
    return float(sums[first, last]), first, last
