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
from zoo.data.corruption import Corruption, make_corruption
from zoo.data.rows import cached_tokens, tokenize
from zoo.data.sources import read_documents, read_text_file, split
from zoo.data.tokenizers import Tokenizer, load_tokenizer, tokenizer_class
from zoo.errors import DataError

__all__ = ["Dataset", "Tokenizer", "encode_text_file", "evaluation_batches", "load", "load_tokenizer", "make_corruption",
           "vocabulary_size"]


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
        corruption: how rows are corrupted, where the objective asks for it.
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
    corruption: Corruption | None = None

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
        return pipeline.training_batches(self.train, *shape, self.seed, start_step, process_index, process_count, self.corruption)

    def evaluation_batches(
        self,
        length: int | None = None,
        multiple_of: int = 1,
        process_index: int = 0,
        process_count: int = 1,
        limit_batches: int | None = None,
    ) -> Iterator[dict[str, np.ndarray]]:
        """Batches of the validation stream; see `evaluation_batches` of this module.

        Args:
            length: T; by default the one trained with.
            multiple_of: rows of a batch are filled up to a multiple of this.
            process_index, process_count: this process's part of each batch.
            limit_batches: by default `training.eval_batches`.
        """
        limit = self.eval_batches if limit_batches is None else limit_batches
        shape = self.sequence_length, self.batch_size
        return evaluation_batches(self.validation, shape, length, limit, multiple_of, process_index, process_count, self.corruption)

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


def evaluation_batches(
    tokens: np.ndarray,
    trained_shape: tuple[int, int],
    length: int | None = None,
    limit_batches: int = 0,
    multiple_of: int = 1,
    process_index: int = 0,
    process_count: int = 1,
    corruption: Corruption | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Evaluation batches of a token stream at any length, all with about as many tokens as a training batch.

    Which rows are scored depends on the stream, the length and the limit, and not on the devices: `multiple_of` only fills up.

    Args:
        tokens: the stream.
        trained_shape: (T, B) of training.
        length: T here; by default that of training.
        limit_batches: at most as many rows as this many batches have; 0 = all.
        multiple_of: rows of a batch are filled up with padding to a multiple of this.
        process_index, process_count: this process's part of each batch.
        corruption: how rows are corrupted, if they are; see `make_corruption`.
    """
    trained_length, batch_size = trained_shape
    length = length or trained_length
    rows = max(1, batch_size * trained_length // length)
    filled = -(-rows // multiple_of) * multiple_of
    return pipeline.evaluation_batches(tokens, length, filled, limit_batches * rows, process_index, process_count, corruption)


def encode_text_file(path: str | Path, tokenizer: Tokenizer, document_separator: str) -> np.ndarray:
    """The token stream of a text file (plain or .gz), [tokens].

    Raises:
        ConfigError: no such file.
        DataError: not UTF-8, empty, or with a character the tokenizer does not know.
    """
    documents = read_text_file(path, document_separator)
    try:
        return tokenize(tokenizer, documents)
    except DataError as error:
        raise DataError([f'"{path}": {problem}' for problem in error.problems]) from error


def load(config: Any) -> Dataset:
    """Reads the source of a config, splits and tokenises it, or takes the tokens from the cache.

    Args:
        config: a resolved config; `data`, `objective`, `seed` and `training.eval_batches` are used.

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
        corruption=make_corruption(config, tokenizer),
    )


def vocabulary_size(config: Any) -> int:
    """Number of ids that a model of the config needs; reads the source only where it depends on that (characters).

    Raises:
        ConfigError: unknown tokenizer or a size it cannot have; where the source is read, as `load`.
    """
    settings = config.data.tokenizer
    tokenizer_type = tokenizer_class(settings.kind)
    needed = tokenizer_type.ids_in_advance(settings, config.objective)
    if needed is None:
        source = read_documents(config.data)
        needed = tokenizer_type.build(settings, source, source).ids_needed(config.objective)
    return needed
