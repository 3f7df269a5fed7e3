"""The data set of a task: examples in two parts, labels, batches, and scores of predictions."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from zoo.config.fields import AUTO, SEQUENCE_TASKS
from zoo.data.labelled.example_batches import ExampleBatches
from zoo.data.labelled.example_rows import RowDelimiters
from zoo.data.labelled.examples import Example, ExampleSplit, read_examples, subsample
from zoo.data.labelled.question_windows import UNANSWERABLE, Extraction
from zoo.data.labelled.sequence_tasks import Classification, EncodedExamples, Regression
from zoo.data.labelled.word_tags import Tagging
from zoo.data.pipeline.batches import TrainingBatches
from zoo.data.rows.packed_rows import PADDING, Arrays
from zoo.data.sources.documents import Documents
from zoo.data.sources.overlap import shared_lines
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.data.tokenizers.tokenizer_registry import tokenizer_class
from zoo.errors import ConfigError

TASK_CLASSES = {
    "classification": Classification,
    "regression": Regression,
    "tagging": Tagging,
    "extraction": Extraction,
}
TRAINING, HELD_OUT = "train", "validation"


@dataclass(frozen=True, eq=False)
class LabelledDataset:
    """Examples with their fixed split, and the batches that a config takes from them.

    Attributes:
        config: resolved.
        tokenizer: makes the tokens.
        examples: both parts, complete.
        train: the training examples in use.
        task: the objective's task, with the labels.
    """

    config: Any
    tokenizer: Tokenizer
    examples: ExampleSplit
    train: tuple[Example, ...]
    task: Any
    _encoded: dict[tuple[str, int], EncodedExamples] = field(default_factory=dict, repr=False)
    _batches: dict[tuple[str, int], ExampleBatches] = field(default_factory=dict, repr=False)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their ids."""
        return self.task.labels

    def part(self, name: str) -> tuple[Example, ...]:
        """Returns the examples of "train" or "validation"."""
        return self.train if name == TRAINING else self.examples.held_out

    def encoded(self, name: str, length: int | None = None) -> EncodedExamples:
        """Returns a part as arrays of rows of T = `length` tokens, computed once.

        Args:
            name: "train" or "validation".
            length: T; default: that of training.
        """
        length = length or self.config.data.sequence_length
        if (name, length) not in self._encoded:
            delimiters = RowDelimiters.of(self.tokenizer, self.config.model.vocab_size)
            self._encoded[name, length] = self.task.encode(self.part(name), self.tokenizer, delimiters, length)
        return self._encoded[name, length]

    def _tokens(self, name: str) -> int:
        return int((self.encoded(name).arrays["tokens"] != PADDING).sum())

    @property
    def train_tokens(self) -> int:
        """Number of distinct tokens of the training rows."""
        return self._tokens(TRAINING)

    @property
    def validation_tokens(self) -> int:
        """Number of tokens of the held-out rows."""
        return self._tokens(HELD_OUT)

    @property
    def description(self) -> str:
        """One-line description."""
        return self.examples.description + BadTextPolicy.describe_counts(self.examples.left_out)

    @property
    def changed_text(self) -> list[str]:
        """Lines that say where tokens do not stand for the text: none, as only labels are scored."""
        return []

    def batches(self, name: str, length: int | None = None) -> ExampleBatches:
        """Returns a part's batches of similar lengths, computed once."""
        data, key = self.config.data, (name, length or self.config.data.sequence_length)
        if key not in self._batches:
            self._batches[key] = ExampleBatches(self.encoded(*key), key[1], data.batch_size, data.buckets)
        return self._batches[key]

    def training_batches(self, start_step: int = 0, process_index: int = 0, process_count: int = 1) -> TrainingBatches:
        """Returns the training batches from number `start_step` on; see `ExampleBatches`."""
        return self.batches(TRAINING).training(self.config.seed, start_step, process_index, process_count)

    def evaluation_batches(
        self,
        length: int | None = None,
        multiple_of: int = 1,
        process_index: int = 0,
        process_count: int = 1,
        limit_batches: int | None = None,
    ) -> Iterator[Arrays]:
        """Yields every held-out row once; batches are padded to a multiple of `multiple_of` rows.

        Raises:
            ConfigError: a limit was given; a task is always scored on all of its examples.
        """
        if limit_batches:
            raise ConfigError("a task is scored on all of its examples; leave the number of batches at 0")
        return self.batches(HELD_OUT, length).evaluation(multiple_of, process_index, process_count)

    def measure(self, outputs: Mapping[str, np.ndarray], length: int | None = None) -> dict[str, float]:
        """Returns the scores of all predictions of the held-out rows.

        Args:
            outputs: the objective's outputs for each row, in the order of `evaluation_batches`,
                without padding rows.
            length: T of those rows.
        """
        encoded, order = self.encoded(HELD_OUT, length), self.batches(HELD_OUT, length).order
        for name, array in outputs.items():
            if len(array) != len(order):
                raise ValueError(f"{name} has {len(array)} rows, and {len(order)} were to be scored")
        back = np.argsort(order)
        return self.task.measure(
            {name: array[back] for name, array in outputs.items()}, self.examples.held_out, encoded
        )

    def rows_once(
        self, multiple_of: int = 1, process_index: int = 0, process_count: int = 1
    ) -> Iterator[tuple[np.ndarray, Arrays]]:
        """Yields every training row once, in batches: (row numbers over all processes, batch)."""
        batches, done = self.batches(TRAINING), 0
        for batch in batches.evaluation(multiple_of, process_index, process_count):
            size = len(batch["tokens"]) * process_count
            yield batches.order[done : done + size], batch
            done += size

    def features_shape(self, batch: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of the head's inputs for all training rows.

        Args:
            batch: their shape for one batch: [B, ...] or, per token, [B, T, ...].
        """
        whole = len(self.encoded(TRAINING).arrays["tokens"])
        by_token = self.config.objective.kind not in SEQUENCE_TASKS
        return (whole, self.config.data.sequence_length, *batch[2:]) if by_token else (whole, *batch[1:])

    def with_features(self, features: np.ndarray) -> Self:
        """Adds the head's inputs for all training rows to the training batches, as "features"."""
        encoded = self.encoded(TRAINING)
        by_token = () if self.config.objective.kind in SEQUENCE_TASKS else ("features",)
        key = TRAINING, self.config.data.sequence_length
        made = encoded._replace(arrays=encoded.arrays | {"features": features}, by_token=encoded.by_token + by_token)
        return replace(self, _encoded=self._encoded | {key: made}, _batches={})

    def summary(self) -> dict[str, Any]:
        """Returns what identifies and measures the data, as plain JSON."""
        measures = {
            f"{name}_{what}": value
            for name in (TRAINING, HELD_OUT)
            for what, value in (
                ("examples", len(self.part(name))),
                ("tokens", self._tokens(name)),
                ("tokens_sha256", hashlib.sha256(self.encoded(name).arrays["tokens"].tobytes()).hexdigest()),
                ("cut", self.encoded(name).cut),
            )
        }
        warnings = shared_lines(self.examples.held_out, self.examples.train, "examples")
        return {
            **({"warnings": warnings} if warnings else {}),
            "fingerprint": self.examples.fingerprint,
            "description": self.description,
            **measures,
            "labels": list(self.labels),
            **({UNANSWERABLE: True} if getattr(self.task, "unanswerable", False) else {}),
            "left_out": dict(self.examples.left_out),
            "tokenizer": self.tokenizer.summary(),
        }


def load_labelled(config: Any) -> LabelledDataset:
    """Reads the examples of a resolved config, and builds or loads the tokenizer.

    Raises:
        ConfigError: a bad field, or a file or column that does not exist.
        DataError: bad records; labels that do not occur in training; a single label.
    """
    examples, task = read_task(config)
    count = config.data.examples
    train = subsample(examples.train, count) if count else examples.train
    tokenizer_type = tokenizer_class(config.data.tokenizer.kind)
    whole, training = _documents(task, examples)
    return LabelledDataset(config, tokenizer_type.build(config.data.tokenizer, whole, training), examples, train, task)


def read_task(config: Any) -> tuple[ExampleSplit, Any]:
    """Returns the examples of a resolved config and its task: all that needs no tokenizer.

    Raises as `load_labelled`.
    """
    examples = read_examples(config)
    task = _task(config, examples)
    task.check(examples.held_out, "held-out")
    classes, count = config.model.head.classes, config.data.examples
    if task.labels and classes not in (AUTO, len(task.labels)):
        raise ConfigError(
            f"model.head.classes={classes} is not the number of labels of {examples.description}, {len(task.labels)}; "
            "leave it at auto"
        )
    if count > len(examples.train):
        raise ConfigError(
            f"data.examples={count}: {examples.description} has {len(examples.train)} training examples; 0 takes all "
            "of them"
        )
    return examples, task


def label_count(config: Any) -> int:
    """Returns C, the number of labels in a resolved config's training examples.

    Raises as `load_labelled`.
    """
    return len(_task(config, read_examples(config)).labels)


def task_documents(config: Any) -> tuple[Documents, Documents]:
    """Returns the texts that a tokenizer is made from: all, and those of training.

    Raises as `load_labelled`.
    """
    examples = read_examples(config)
    return _documents(_task(config, examples), examples)


def _task(config: Any, examples: ExampleSplit) -> Any:
    task = TASK_CLASSES[config.objective.kind]
    labels = task.labels_of(examples.train, tuple(config.data.labels), examples.labels)
    if task is Extraction:
        return task.of(config, examples)
    return task.of(config, labels) if config.objective.kind in SEQUENCE_TASKS else task(labels)


def _documents(task: Any, examples: ExampleSplit) -> tuple[Documents, Documents]:
    texts = [[text for example in part for text in task.texts(example)] for part in (examples.train, examples.held_out)]
    return (
        Documents.of(texts[0] + texts[1], examples.description),
        Documents.of(texts[0], f"training part of {examples.description}"),
    )
