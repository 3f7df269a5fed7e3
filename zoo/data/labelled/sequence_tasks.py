"""Classification and regression of texts and pairs: labels as numbers, rows and scores."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from zoo.config.fields import AUTO
from zoo.data.labelled.example_rows import RowDelimiters, build_rows, split_into_windows
from zoo.data.labelled.examples import LabelledText
from zoo.data.labelled.task_scores import class_loss, class_scores, correlations
from zoo.data.pipeline.show import BatchFormatter, DisplayToken
from zoo.data.rows.packed_rows import Arrays
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.errors import DataError


class EncodedExamples(NamedTuple):
    """Examples as arrays.

    Attributes:
        arrays: rows are gathered from these, [N, ...].
        cut: counts of what did not fit, by name.
        extra: what scoring needs in addition to the examples.
        by_token: names of the arrays with a token dimension, [N, T, ...].
    """

    arrays: Arrays
    cut: dict[str, int]
    extra: object = None
    by_token: tuple[str, ...] = ("tokens", "segments")


class Classification:
    """Classification: one of C labels for a text or a pair.

    With a stride, a text that does not fit into a row is read in several ones, its windows. In
    training each of them is a row with the label of its text. The scores of a text are the mean of
    its windows' scores s before the softmax,

        s(text) = 1/W sum_w s(window w)

    Args:
        labels: names of the classes.
        stride: tokens between the beginnings of windows; None: a text is truncated to one row.
    """

    def __init__(self, labels: tuple[str, ...], stride: int | None = None):
        self.labels, self.stride = labels, stride

    @classmethod
    def of(cls, config: Any, labels: tuple[str, ...]) -> Self:
        """Returns the task of a resolved config."""
        return cls(labels, None if config.data.stride == AUTO else config.data.stride)

    @classmethod
    def labels_of(
        cls, examples: Sequence[LabelledText], given: tuple[str, ...], ordered: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Returns the labels; the index of a label is its class id.

        Args:
            examples: those of training.
            given: `data.labels`.
            ordered: the order of the source, if it has one.

        Raises:
            DataError: a single label; a label that `given` lacks.
        """
        return ordered_labels([example.label for example in examples], given, ordered)

    def check(self, examples: Sequence[LabelledText], part: str) -> None:
        """Checks that examples have no other labels.

        Raises:
            DataError: naming one.
        """
        check_known([example.label for example in examples], self.labels, part)

    def texts(self, example: LabelledText) -> list[str]:
        """Returns the texts that a tokenizer is trained on."""
        return [example.text, *([example.second] if example.second is not None else [])]

    def encode(
        self, examples: Sequence[LabelledText], tokenizer: Tokenizer, delimiters: RowDelimiters, length: int
    ) -> EncodedExamples:
        """Encodes rows and "labels" [N]: int32 label numbers, or float32 values for regression.

        `extra` holds the number of the example that each row is from, [N].
        """
        firsts = tokenizer.encode_batch([example.text for example in examples])
        pairs = examples[0].second is not None
        seconds = tokenizer.encode_batch([example.second for example in examples]) if pairs else None
        targets, owners = self.targets(examples), np.arange(len(examples))
        if self.stride is None:
            arrays, cut = build_rows(firsts, seconds, delimiters, length)
            return EncodedExamples(arrays | {"labels": targets}, {"rows cut to the sequence length": cut}, owners)
        windows = split_into_windows(firsts, seconds, delimiters.room(length, pairs), self.stride)
        arrays, _ = build_rows(windows.firsts, windows.seconds, delimiters, length)
        several = int((np.bincount(windows.examples) > 1).sum())
        counts = {"texts read in several windows": several, "shorter texts of pairs cut to half a row": windows.cut}
        return EncodedExamples(arrays | {"labels": targets[windows.examples]}, counts, windows.examples)

    def targets(self, examples: Sequence[LabelledText]) -> np.ndarray:
        """Returns the numbers of the labels, int32 [N]."""
        number = {label: place for place, label in enumerate(self.labels)}
        return np.array([number[example.label] for example in examples], np.int32)

    def measure(
        self, outputs: Mapping[str, np.ndarray], examples: Sequence[LabelledText], encoded: EncodedExamples
    ) -> dict[str, float]:
        """Returns the scores that are not means over rows; see `class_scores`.

        If some text has several windows, these include "loss" and "accuracy", as means over texts.

        Args:
            outputs: "scores" [N, C] of the rows.
            examples, encoded: the texts and their rows.
        """
        scores, labels = mean_of_windows(outputs["scores"], encoded), self.targets(examples)
        predicted = scores.argmax(axis=1)
        found = class_scores(predicted, labels, len(self.labels))
        if len(scores) < len(outputs["scores"]):
            found |= {"loss": class_loss(scores, labels), "accuracy": float((predicted == labels).mean())}
        return found

    def format_row(self, row: Arrays, formatter: BatchFormatter) -> Iterator[tuple[str, list[DisplayToken]]]:
        """Yields one row as (name, tokens)."""
        yield "reads", formatter.tokens(row["tokens"])
        yield "label", [DisplayToken(self.label_name(row["labels"]))]

    def label_name(self, label: np.ndarray) -> str:
        """Returns the label of a row as text for display."""
        return self.labels[int(label)]


class Regression(Classification):
    """A number for a text, or a pair."""

    @classmethod
    def labels_of(
        cls, examples: Sequence[LabelledText], given: tuple[str, ...], ordered: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Returns no labels: numbers have no names."""
        return ()

    def check(self, examples: Sequence[LabelledText], part: str) -> None:
        """Nothing to check."""

    def targets(self, examples: Sequence[LabelledText]) -> np.ndarray:
        """Returns the numbers, float32 [N]."""
        return np.array([example.label for example in examples], np.float32)

    def measure(
        self, outputs: Mapping[str, np.ndarray], examples: Sequence[LabelledText], encoded: EncodedExamples
    ) -> dict[str, float]:
        """Returns correlations with the true numbers.

        If some text has several windows, also "loss", the mean squared error over texts.

        Args:
            outputs: "predicted" [N], the numbers of the rows.
            examples, encoded: the texts and their rows.
        """
        predicted, numbers = mean_of_windows(outputs["predicted"], encoded), self.targets(examples)
        several = len(predicted) < len(outputs["predicted"])
        loss = {"loss": float(((predicted - numbers) ** 2).mean())} if several else {}
        return correlations(predicted, numbers) | loss

    def label_name(self, label: np.ndarray) -> str:
        """Returns the number of a row as text for display."""
        return f"{float(label):g}"


def mean_of_windows(scores: np.ndarray, encoded: EncodedExamples) -> np.ndarray:
    """Returns the mean of the rows' scores [N, ...] over the windows of each text, [texts, ...].

    It is `scores` itself if every text has one window.
    """
    windows = np.bincount(encoded.extra)
    if len(windows) == len(scores):
        return scores
    sums = np.zeros((len(windows), *scores.shape[1:]))
    np.add.at(sums, encoded.extra, scores)
    return sums / windows.reshape(-1, *(1 for _ in scores.shape[1:]))


def in_order(labels: Sequence[str] | Mapping[str, int]) -> tuple[str, ...]:
    """Sorts labels: whole numbers by value, else by characters."""
    numeric = all(label.removeprefix("-").isdecimal() for label in labels)
    return tuple(sorted(labels, key=(lambda label: (int(label), label)) if numeric else None))


def ordered_labels(found: Sequence[str], given: tuple[str, ...], ordered: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the labels; the index of a label is its class id.

    The order is the given one, else the source's, else sorted.

    Raises:
        DataError: a single label, or one that is not given.
    """
    distinct = tuple(dict.fromkeys(found))
    check_known(found, given or ordered or distinct, "training")
    if len(distinct) < 2:
        raise DataError(
            f'all {len(found)} training examples have the label "{distinct[0]}": there is nothing to tell apart'
        )
    return given or ordered or in_order(distinct)


def check_known(found: Sequence[str], labels: tuple[str, ...], part: str) -> None:
    """Checks that there are no labels besides `labels`: no model could predict them.

    Raises:
        DataError: naming one of them.
    """
    known = set(labels)
    if unknown := Counter(label for label in found if label not in known):
        label, count = unknown.most_common(1)[0]
        raise DataError(
            f'{count} {part} example{"s have" if count > 1 else " has"} the label "{label}", and the labels are '
            f"{', '.join(labels)}: take other parts, or name every label in data.labels"
        )
