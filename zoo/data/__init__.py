"""Text in, batches of tokens out: sources, tokenizers, rows, the input pipeline.

`load(config)` is the way in. Token arrays are made once and kept in the cache (`$ZOO_CACHE` or
`~/.cache/zoo`), named by their content.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.data import pipeline
from zoo.data.rows import cached_tokens, tokenize
from zoo.data.sources import read_documents, read_text_file, split
from zoo.data.tokenizers import Tokenizer, load_tokenizer, tokenizer_class
from zoo.errors import DataError

__all__ = ["Dataset", "Tokenizer", "load", "load_tokenizer", "vocabulary_size"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A tokenised source with its fixed split, and the batches a config takes from it.

    Attributes:
        tokenizer: what made the tokens.
        train, validation: token streams, [tokens], memory-mapped.
        fingerprint: sha256 (hex) of the source's content.
        description: one line for people.
        documents, train_documents, validation_documents: counts; a cut document counts on both sides.
        train_bytes, validation_bytes: UTF-8 bytes of the text behind each stream.
        sequence_length, batch_size, document_separator, seed, eval_batches: as in the config.
    """

    tokenizer: Tokenizer
    train: np.ndarray
    validation: np.ndarray
    fingerprint: str
    description: str
    documents: int
    train_documents: int
    validation_documents: int
    train_bytes: int
    validation_bytes: int
    sequence_length: int
    batch_size: int
    document_separator: str
    seed: int
    eval_batches: int

    @property
    def train_tokens(self) -> int:
        """Length of the training stream."""
        return len(self.train)

    @property
    def validation_tokens(self) -> int:
        """Length of the validation stream."""
        return len(self.validation)

    def training_batches(
        self, start_step: int = 0, process_index: int = 0, process_count: int = 1
    ) -> pipeline.TrainingBatches:
        """The config's training batches from number `start_step` on; see `pipeline.training_batches`."""
        shape = self.sequence_length, self.batch_size
        return pipeline.training_batches(self.train, *shape, self.seed, start_step, process_index, process_count)

    def evaluation_batches(
        self,
        length: int | None = None,
        batch_size: int | None = None,
        tokens: np.ndarray | None = None,
        limit_batches: int | None = None,
        process_index: int = 0,
        process_count: int = 1,
    ) -> Iterator[dict[str, np.ndarray]]:
        """Evaluation batches; see `pipeline.evaluation_batches`.

        Args:
            length: T; by default the one trained with.
            batch_size: B; by default as many rows as keep the tokens per batch about constant, at least
                one per process.
            tokens: another stream (`encode_text_file`); by default the validation stream.
            limit_batches: at most this many; by default `training.eval_batches`; 0 = all rows.
            process_index, process_count: this process's part of each batch.
        """
        length = length or self.sequence_length
        if batch_size is None:
            per_process = self.batch_size * self.sequence_length // length // process_count
            batch_size = max(1, per_process) * process_count
        return pipeline.evaluation_batches(
            self.validation if tokens is None else tokens,
            length,
            batch_size,
            self.eval_batches if limit_batches is None else limit_batches,
            process_index,
            process_count,
        )

    def encode_text_file(self, path: str | Path) -> np.ndarray:
        """The token stream of another text file (plain or .gz), [tokens]: `tokens` of `evaluation_batches`.

        Raises:
            ConfigError: no such file.
            DataError: not UTF-8, empty, or with a character the tokenizer does not know.
        """
        documents = read_text_file(path, self.document_separator)
        try:
            return tokenize(self.tokenizer, documents)
        except DataError as error:
            raise DataError([f'"{path}": {problem}' for problem in error.problems]) from error

    def summary(self) -> dict[str, Any]:
        """What identifies and measures the data, as plain JSON."""
        return {
            "fingerprint": self.fingerprint,
            "description": self.description,
            "tokenizer": {
                "kind": self.tokenizer.kind,
                "vocab_size": self.tokenizer.vocab_size,
                "fingerprint": self.tokenizer.fingerprint,
            },
            "documents": self.documents,
            "train_documents": self.train_documents,
            "validation_documents": self.validation_documents,
            "train_tokens": self.train_tokens,
            "validation_tokens": self.validation_tokens,
            "train_bytes": self.train_bytes,
            "validation_bytes": self.validation_bytes,
        }


def load(config: Any) -> Dataset:
    """Reads the source of a config, splits and tokenises it, or takes the tokens from the cache.

    Args:
        config: a resolved config; `data`, `seed` and `training.eval_batches` are used.

    Raises:
        ConfigError: a bad field, or a file that does not exist.
        DataError: text that is empty, too short or not UTF-8.
    """
    data = config.data
    tokenizer_type = tokenizer_class(data.tokenizer.kind)
    source = read_documents(data)
    train, validation = split(source, data.validation_fraction)
    tokenizer = tokenizer_type.build(data.tokenizer, source, train)
    train_tokens, validation_tokens = cached_tokens(tokenizer, train, validation)
    return Dataset(
        tokenizer=tokenizer,
        train=train_tokens,
        validation=validation_tokens,
        fingerprint=source.fingerprint,
        description=source.description,
        documents=len(source.texts),
        train_documents=len(train.texts),
        validation_documents=len(validation.texts),
        train_bytes=train.bytes,
        validation_bytes=validation.bytes,
        sequence_length=data.sequence_length,
        batch_size=data.batch_size,
        document_separator=data.document_separator,
        seed=config.seed,
        eval_batches=config.training.eval_batches,
    )


def vocabulary_size(config: Any) -> int:
    """V of the config's tokenizer; reads the source only where V depends on it (characters).

    Raises:
        ConfigError: unknown tokenizer or a size it cannot have; where the source is read, as `load`.
    """
    settings = config.data.tokenizer
    tokenizer_type = tokenizer_class(settings.kind)
    size = tokenizer_type.size_in_advance(settings)
    if size is None:
        source = read_documents(config.data)
        size = tokenizer_type.build(settings, source, source).vocab_size
    return size
