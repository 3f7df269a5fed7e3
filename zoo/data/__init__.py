"""Text in, batches of tokens out: sources, tokenizers, rows, the input pipeline.

`load(config)` is the way in. Token arrays are made once and kept in the cache (`$ZOO_CACHE` or
`~/.cache/zoo`), named by their content.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo import config as configs
from zoo.config.fields import TASKS
from zoo.data.labelled import LabelledDataset, label_count, load_labelled, read_task, training_text
from zoo.data.pipeline import batches
from zoo.data.pipeline.batching import Batching
from zoo.data.pipeline.unlabelled import Unlabelled
from zoo.data.rows.packed_rows import Arrays
from zoo.data.rows.token_streams import Stream, cached_streams, tokenize
from zoo.data.sources.documents import Documents
from zoo.data.sources.source import read_components, read_text_file
from zoo.data.tokenizers.base import Tokenizer, load_tokenizer, tokenizer_class
from zoo.data.translation.pair_dataset import Pairs, ids_of_pairs, load_pairs
from zoo.data.translation.text_pairs import read_parts
from zoo.errors import DataError

__all__ = [
    "Batching",
    "Dataset",
    "LabelledDataset",
    "Pairs",
    "Stream",
    "Tokenizer",
    "encode_text_file",
    "label_count",
    "load",
    "load_pairs",
    "load_tokenizer",
    "read",
    "vocabulary_size",
    "with_labels",
]


@dataclass(frozen=True, eq=False)
class Part:
    """One source of a data set, divided in two and tokenised.

    Attributes:
        weight: its share of the training rows, in any unit.
        source, train, validation: the documents.
        train_stream, validation_stream: their tokens, memory-mapped.
    """

    weight: float
    source: Documents
    train: Documents
    validation: Documents
    train_stream: Stream
    validation_stream: Stream


@dataclass(frozen=True, eq=False)
class Dataset(Unlabelled):
    """Tokenised sources with their fixed split, and the batches a config takes from them.

    Attributes:
        tokenizer: what made the tokens.
        batching: how rows and batches are made.
        parts: the sources: one, or those of a mixture.
    """

    tokenizer: Tokenizer
    batching: Batching
    parts: tuple[Part, ...]

    @property
    def train_tokens(self) -> int:
        """Number of tokens to train on, before any is repeated."""
        return sum(len(part.train_stream) for part in self.parts)

    @property
    def validation_tokens(self) -> int:
        """Number of tokens held out."""
        return sum(len(part.validation_stream) for part in self.parts)

    @property
    def description(self) -> str:
        """One line for people."""
        if len(self.parts) == 1:
            return self.parts[0].source.description
        total = sum(part.weight for part in self.parts)
        return "; ".join(f"{part.weight / total:.1%} {part.source.description}" for part in self.parts)

    def training_batches(
        self, start_step: int = 0, process_index: int = 0, process_count: int = 1
    ) -> batches.TrainingBatches:
        """The config's training batches from number `start_step` on; see `Batching.training`."""
        streams, weights = [part.train_stream for part in self.parts], [part.weight for part in self.parts]
        return self.batching.training(streams, weights, start_step, process_index, process_count)

    def evaluation_batches(
        self,
        length: int | None = None,
        multiple_of: int = 1,
        process_index: int = 0,
        process_count: int = 1,
        limit_batches: int | None = None,
    ) -> Iterator[Arrays]:
        """Batches of what is held out; see `Batching.evaluation`."""
        streams = [part.validation_stream for part in self.parts]
        return self.batching.evaluation(streams, length, multiple_of, process_index, process_count, limit_batches)

    def summary(self) -> dict[str, Any]:
        """What identifies and measures the data, as plain JSON."""
        tokenizer = {
            "kind": self.tokenizer.kind,
            "vocab_size": self.tokenizer.vocab_size,
            "fingerprint": self.tokenizer.fingerprint,
        }
        parts = [
            {
                "fingerprint": part.source.fingerprint,
                "description": part.source.description,
                "documents": part.source.count,
                "train_documents": part.train.count,
                "validation_documents": part.validation.count,
                "train_tokens": len(part.train_stream),
                "validation_tokens": len(part.validation_stream),
                "train_bytes": part.train.bytes,
                "validation_bytes": part.validation.bytes,
                "bad_text": dict(part.source.index.left_out),
            }
            for part in self.parts
        ]
        if len(parts) == 1:
            return parts[0] | {"tokenizer": tokenizer}
        fingerprint = hashlib.sha256(" ".join(part["fingerprint"] for part in parts).encode()).hexdigest()
        return {
            "fingerprint": fingerprint,
            "description": self.description,
            "tokenizer": tokenizer,
            "parts": [{"weight": part.weight} | record for part, record in zip(self.parts, parts, strict=True)],
        }


def encode_text_file(path: str | Path, tokenizer: Tokenizer, config: Any) -> Stream:
    """The token stream of a text file (plain or .gz), as the config reads and batches text.

    Raises:
        ConfigError: no such file.
        DataError: not UTF-8, empty, or with a character the tokenizer does not know.
    """
    documents = read_text_file(path, config.data.document_separator, config.data.bad_text)
    if not documents.count:
        raise DataError(f'"{path}": the text is empty')
    try:
        return tokenize(tokenizer, documents, Batching(config, tokenizer).with_sentences)
    except DataError as error:
        raise DataError([f'"{path}": {problem}' for problem in error.problems]) from error


def load(config: Any) -> Dataset | LabelledDataset | Pairs:
    """Reads the sources of a config, splits and tokenises them, or takes the tokens from the cache.

    Of a task they are labelled examples, of translation pairs of texts.

    Args:
        config: a resolved config; `data`, `objective`, `seed` and `training.eval_batches` are used.

    Raises:
        ConfigError: a bad field, or a file that does not exist.
        DataError: text that is empty, too short or bad.
    """
    if config.objective.kind in TASKS:
        return load_labelled(config)
    if config.objective.kind == "translation":
        return load_pairs(config)
    data = config.data
    tokenizer_type = tokenizer_class(data.tokenizer.kind)
    components = read_components(data)
    splits = [documents.split(data.validation_fraction) for _, documents in components]
    tokenizer = tokenizer_type.build(
        data.tokenizer,
        Documents.joined([documents for _, documents in components]),
        Documents.joined([train for train, _ in splits]),
    )
    batching = Batching(config, tokenizer)
    parts = []
    for (weight, source), (train, validation) in zip(components, splits, strict=True):
        train = train.share(data.training_fraction)
        streams = cached_streams(tokenizer, {"train": train, "validation": validation}, batching.with_sentences)
        parts.append(Part(weight, source, train, validation, streams["train"], streams["validation"]))
    batching.check([part.train_stream for part in parts], [part.validation_stream for part in parts])
    return Dataset(tokenizer, batching, tuple(parts))


def read(config: Any) -> None:
    """Reads the sources of a resolved config as far as that needs no tokenizer, and keeps nothing.
    Raises as `load`.
    """
    if config.objective.kind in TASKS:
        read_task(config)
    elif config.objective.kind == "translation":
        read_parts(config.data)
    else:
        for _, documents in read_components(config.data):
            _ = documents.index


def vocabulary_size(config: Any) -> int:
    """Number of ids that a model of the config needs; reads the source only where it depends on
    that (characters).

    Raises:
        ConfigError: unknown tokenizer or a size it cannot have; where the source is read, as
            `load`.
    """
    settings = config.data.tokenizer
    tokenizer_type = tokenizer_class(settings.kind)
    needed = tokenizer_type.ids_in_advance(settings, config.objective, config.data.rows)
    if needed is None and config.objective.kind == "translation":
        return ids_of_pairs(config)
    if needed is None:
        if config.objective.kind in TASKS:
            source, training = training_text(config)
        else:
            source = training = Documents.joined([documents for _, documents in read_components(config.data)])
        needed = tokenizer_type.build(settings, source, training).ids_needed(config.objective, config.data.rows)
    return needed


def with_labels(resolved: Any) -> Any:
    """A resolved config with as many classes as its training examples have labels, where only these
    tell.

    Raises:
        ConfigError, DataError: as `load`.
    """
    if resolved.objective.kind in TASKS and resolved.model.head.classes == configs.AUTO:
        return configs.resolve(configs.override(resolved, {"model.head.classes": label_count(resolved)}))
    return resolved
