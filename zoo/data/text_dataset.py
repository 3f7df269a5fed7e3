"""The data set of plain text: tokenised sources with their fixed split."""

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from zoo.data.pipeline import batches
from zoo.data.pipeline.batching import Batching
from zoo.data.pipeline.unlabelled import UnlabelledDataset
from zoo.data.rows.packed_rows import Arrays
from zoo.data.rows.token_streams import Stream
from zoo.data.sources.documents import Documents
from zoo.data.sources.overlap import shared_lines
from zoo.data.sources.stored_tokens import StoredTokens
from zoo.data.tokenizers.document_bytes import difference_line
from zoo.data.tokenizers.tokenizer import Tokenizer


class TokenizedText(NamedTuple):
    """Documents and their tokens, memory-mapped; of stored tokens, these alone."""

    documents: Documents | StoredTokens
    stream: Stream


@dataclass(frozen=True, eq=False)
class TokenizedSource:
    """One source of a data set, tokenised.

    Attributes:
        weight: its share of the training rows, in any unit.
        source: its documents, or its tokens where these are stored.
        train: those that are trained on.
        train_stream: their tokens, memory-mapped.
        validation: those that are held out; None if another text is (`TextDataset.held_out`).
    """

    weight: float
    source: Documents | StoredTokens
    train: Documents | StoredTokens
    train_stream: Stream
    validation: TokenizedText | None


@dataclass(frozen=True, eq=False)
class TextDataset(UnlabelledDataset):
    """Tokenised sources with their fixed split, and the batches that a config takes from them.

    Attributes:
        tokenizer: made the tokens.
        batching: how rows and batches are made.
        parts: the sources: one, or those of a mixture.
        held_out: the text of `data.held_out`; None if a share of each source is held out.
    """

    tokenizer: Tokenizer
    batching: Batching
    parts: tuple[TokenizedSource, ...]
    held_out: TokenizedText | None = None

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
        return sum(len(text.stream) for text in self.held_out_texts)

    @property
    def held_out_texts(self) -> list[TokenizedText]:
        """The texts that are scored: that of `data.held_out`, or a part of each source."""
        return [self.held_out] if self.held_out else [part.validation for part in self.parts if part.validation]

    @property
    def description(self) -> str:
        """One-line description."""
        held_out = f"; held out {self.held_out.documents.description}" if self.held_out else ""
        if len(self.parts) == 1:
            return self.parts[0].source.description + held_out
        total = sum(part.weight for part in self.parts)
        return "; ".join(f"{part.weight / total:.1%} {part.source.description}" for part in self.parts) + held_out

    @property
    def changed_text(self) -> list[str]:
        """Lines that say where the tokens of a part do not stand for its text."""
        parts = [("training text", part.train_stream) for part in self.parts]
        parts += [("held-out text", text.stream) for text in self.held_out_texts]
        return [f"{name}: {difference_line(stream.difference)}" for name, stream in parts if stream.difference]

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
        streams = [text.stream for text in self.held_out_texts]
        return self.batching.evaluation(streams, length, multiple_of, process_index, process_count, limit_batches)

    def summary(self) -> dict[str, Any]:
        """Returns what identifies and measures the data, as plain JSON."""
        parts = [
            {
                "fingerprint": part.source.fingerprint,
                "description": part.source.description,
                "documents": part.source.count,
                "train_documents": part.train.count,
                "train_tokens": len(part.train_stream),
                "train_bytes": part.train.bytes,
                **_stream_record("train", part.train_stream),
                "bad_text": dict(part.source.left_out),
                **(_validation_record(part.validation) if part.validation else {}),
            }
            for part in self.parts
        ]
        found = {
            "fingerprint": joined_fingerprint([part["fingerprint"] for part in parts]),
            "description": self.description,
            "tokenizer": self.tokenizer.summary(),
        }
        if len(parts) == 1:
            found = parts[0] | found
        else:
            found["parts"] = [{"weight": part.weight} | record for part, record in zip(self.parts, parts, strict=True)]
        texts = [part.source for part in self.parts] + ([self.held_out.documents] if self.held_out else [])
        copies = [] if self.held_out else [part.source for part in self.parts if isinstance(part.source, Documents)]
        if warnings := [
            *(line for text in texts for line in text.warnings),
            *(line for text in copies for line in text.copies),
            *self._shared(),
        ]:
            found["warnings"] = warnings
        if not self.held_out:
            return found
        documents = self.held_out.documents
        return found | {
            "fingerprint": joined_fingerprint([*(part["fingerprint"] for part in parts), documents.fingerprint]),
            **({"source_fingerprint": parts[0]["fingerprint"]} if len(parts) == 1 else {}),
            "held_out": {
                "fingerprint": documents.fingerprint,
                "description": documents.description,
                "bad_text": dict(documents.left_out),
                **_validation_record(self.held_out),
            },
        }

    def _shared(self) -> list[str]:
        """Returns a line about documents that are held out and trained on as well."""
        held_out, training = (
            [digest for text in texts if isinstance(text, Documents) for digest in text.index.digests]
            for texts in ([text.documents for text in self.held_out_texts], [part.train for part in self.parts])
        )
        return shared_lines(held_out, training, "documents") or self._in_two_sources()

    def _in_two_sources(self) -> list[str]:
        """Returns a line about text that two sources of a mixture have, each divided by itself."""
        if self.held_out:
            return []
        of_sources = [
            {file.path.resolve() for file in part.source.files}
            if isinstance(part.source, StoredTokens)
            else {*part.source.index.digests}
            for part in self.parts
        ]
        count = sum(len(one & other) for one, other in itertools.combinations(of_sources, 2))
        line = (
            f"data.mixture has {count:,} text{'s' * (count != 1)} in two sources, each of which is divided by itself: "
            "what one holds out, the other trains on; leave it out of one, or name data.held_out"
        )
        return [line] if count else []


def _stream_record(part: str, stream: Stream) -> dict[str, Any]:
    return {f"{part}_{name}": value for name, value in stream.record().items()}


def _validation_record(text: TokenizedText) -> dict[str, Any]:
    return {
        "validation_documents": text.documents.count,
        "validation_tokens": len(text.stream),
        "validation_bytes": text.documents.bytes,
        **_stream_record("validation", text.stream),
    }


def joined_fingerprint(parts: Sequence[str]) -> str:
    """Returns the fingerprint of a source, or one for those of a mixture."""
    return parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()
