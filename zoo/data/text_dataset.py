"""The data set of plain text: tokenised sources with their fixed split."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from zoo.data.pipeline import batches
from zoo.data.pipeline.batching import Batching
from zoo.data.pipeline.unlabelled import UnlabelledDataset
from zoo.data.rows.packed_rows import Arrays
from zoo.data.rows.token_streams import Stream
from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class TokenizedSource:
    """One source of a data set, split in two and tokenised.

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
class TextDataset(UnlabelledDataset):
    """Tokenised sources with their fixed split, and the batches that a config takes from them.

    Attributes:
        tokenizer: made the tokens.
        batching: how rows and batches are made.
        parts: the sources: one, or those of a mixture.
    """

    tokenizer: Tokenizer
    batching: Batching
    parts: tuple[TokenizedSource, ...]

    def for_config(self, config: Any) -> Self:
        """Returns the same text with the batches of another config; see `Batching.for_config`."""
        return replace(self, batching=self.batching.for_config(config))

    @property
    def train_tokens(self) -> int:
        """Number of distinct training tokens."""
        return sum(len(part.train_stream) for part in self.parts)

    @property
    def validation_tokens(self) -> int:
        """Number of held-out tokens."""
        return sum(len(part.validation_stream) for part in self.parts)

    @property
    def description(self) -> str:
        """One-line description."""
        if len(self.parts) == 1:
            return self.parts[0].source.description
        total = sum(part.weight for part in self.parts)
        return "; ".join(f"{part.weight / total:.1%} {part.source.description}" for part in self.parts)

    def training_batches(
        self, start_step: int = 0, process_index: int = 0, process_count: int = 1
    ) -> batches.TrainingBatches:
        """Returns the training batches from number `start_step` on; see `Batching.training`."""
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
        """Returns batches of the held-out text; see `Batching.evaluation`."""
        streams = [part.validation_stream for part in self.parts]
        return self.batching.evaluation(streams, length, multiple_of, process_index, process_count, limit_batches)

    def summary(self) -> dict[str, Any]:
        """Returns what identifies and measures the data, as plain JSON."""
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
            return parts[0] | {"tokenizer": self.tokenizer.summary()}
        return {
            "fingerprint": joined_fingerprint([part["fingerprint"] for part in parts]),
            "description": self.description,
            "tokenizer": self.tokenizer.summary(),
            "parts": [{"weight": part.weight} | record for part, record in zip(self.parts, parts, strict=True)],
        }


def joined_fingerprint(parts: Sequence[str]) -> str:
    """Returns the fingerprint of a source, or one for those of a mixture."""
    return parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()
