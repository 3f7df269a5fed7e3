"""Word tagging: the first token of each word predicts its tag."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from zoo.data.labelled.example_rows import RowDelimiters, build_rows
from zoo.data.labelled.examples import TaggedWords
from zoo.data.labelled.sequence_tasks import EncodedExamples, check_known, ordered_labels
from zoo.data.labelled.task_scores import OUTSIDE, are_entity_tags, entity_scores
from zoo.data.pipeline.show import BatchFormatter, DisplayToken
from zoo.data.rows.packed_rows import PADDING, Arrays
from zoo.data.tokenizers.tokenizer import Tokenizer


class Tagging:
    """Tagging: one of C tags for each word.

    A sentence is read as its words separated by spaces. A word that was truncated, or that has no
    token, has no prediction: it counts as "O" if that tag exists, else as wrong.
    """

    def __init__(self, labels: tuple[str, ...]):
        self.labels = labels

    @classmethod
    def labels_of(
        cls, examples: Sequence[TaggedWords], given: tuple[str, ...], ordered: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Returns the tags; the index of a tag is its class id (see `ordered_labels`)."""
        return ordered_labels([tag for example in examples for tag in example.tags], given, ordered)

    def check(self, examples: Sequence[TaggedWords], part: str) -> None:
        """Checks that examples have no other tags.

        Raises:
            DataError: naming one.
        """
        check_known([tag for example in examples for tag in example.tags], self.labels, part)

    def texts(self, example: TaggedWords) -> list[str]:
        """Returns the texts that a tokenizer is trained on."""
        return [" ".join(example.words)]

    def encode(
        self, examples: Sequence[TaggedWords], tokenizer: Tokenizer, delimiters: RowDelimiters, length: int
    ) -> EncodedExamples:
        """Encodes rows and "labels" [N, T], -1 where no word begins.

        `extra` holds the position of each word in its row, -1 if it has none.
        """
        located = tokenizer.encode_with_offsets([" ".join(example.words) for example in examples])
        arrays, _ = build_rows([tokens.ids for tokens in located], None, delimiters, length)
        number = {label: place for place, label in enumerate(self.labels)}
        labels, places, lost = np.full(arrays["tokens"].shape, PADDING, np.int32), [], 0
        for row, (example, tokens) in enumerate(zip(examples, located, strict=True)):
            first = first_token_of_words(example.words, tokens.starts, tokens.stops)
            fits = (first >= 0) & (first < delimiters.room(length, pairs=False))
            place = np.where(fits, first + len(delimiters.before), -1)
            lost += int((place < 0).sum())
            labels[row, place[place >= 0]] = [
                number[tag] for tag, there in zip(example.tags, place >= 0, strict=True) if there
            ]
            places.append(place)
        return EncodedExamples(
            arrays | {"labels": labels}, {"words cut off or unseen": lost}, places, ("tokens", "labels")
        )

    def predicted(self, tags: np.ndarray, examples: Sequence[TaggedWords], encoded: EncodedExamples) -> list[list[str]]:
        """Returns the tag of every word, from the predicted numbers at every position, [N, T]."""
        missing = OUTSIDE if OUTSIDE in self.labels else ""
        return [
            [self.labels[row[place]] if place >= 0 else missing for place in places.tolist()]
            for row, places in zip(np.minimum(tags, len(self.labels) - 1), encoded.extra, strict=True)
        ]

    def measure(
        self, outputs: Mapping[str, np.ndarray], examples: Sequence[TaggedWords], encoded: EncodedExamples
    ) -> dict[str, float]:
        """Returns "word_accuracy" over all words, and for entity tags also `entity_scores`."""
        predicted = self.predicted(outputs["predicted"], examples, encoded)
        true = [list(example.tags) for example in examples]
        right = sum(one == other for a, b in zip(true, predicted, strict=True) for one, other in zip(a, b, strict=True))
        scores = {"word_accuracy": right / sum(map(len, true))}
        return scores | (entity_scores(true, predicted) if are_entity_tags(self.labels) else {})

    def format_row(self, row: Arrays, formatter: BatchFormatter) -> Iterator[tuple[str, list[DisplayToken]]]:
        """Yields one row as (name, tokens)."""
        tokens = formatter.tokens(row["tokens"])
        names = [self.labels[label] if label >= 0 else None for label in row["labels"].tolist()]
        yield (
            "reads",
            [DisplayToken(token.text, name, token.special) for token, name in zip(tokens, names, strict=False)],
        )


def first_token_of_words(words: Sequence[str], starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Returns the first token of each word, int [words].

    It is -1 if no token stands for a part of that word alone.

    Args:
        words: words of a text with single spaces between them.
        starts, stops: character offsets of the tokens.
    """
    begins = np.cumsum([0, *(len(word) + 1 for word in words)])
    found = np.full(len(words), -1)
    for token in np.flatnonzero(stops > starts)[::-1].tolist():
        # A token may include the space before a word.
        word = int(np.searchsorted(begins, int(stops[token]) - 1, side="right")) - 1
        if (
            0 <= word < len(words)
            and stops[token] - 1 < begins[word] + len(words[word])
            and starts[token] >= begins[word] - 1
        ):
            found[word] = token
    return found
