"""The data set of translation: one tokenizer for both sides, pairs batched by length."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from zoo.data.pipeline.batches import TrainingBatches
from zoo.data.pipeline.buckets import PairBatches, TokenSequences, bucket_shapes
from zoo.data.pipeline.unlabelled import UnlabelledDataset
from zoo.data.rows.packed_rows import Arrays
from zoo.data.sources.documents import Documents
from zoo.data.sources.overlap import shared_lines
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.data.tokenizers.document_bytes import encode_with_bytes
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.data.tokenizers.tokenizer_registry import tokenizer_class
from zoo.data.translation.text_pairs import TextPairs, read_split_pairs


@dataclass(frozen=True, eq=False)
class TranslationDataset(UnlabelledDataset):
    """Pairs for training and held-out pairs, and the batches that a config takes from them.

    Both sides end with the token that opens documents, and are held in memory. Pairs with a side of
    more than data.sequence_length tokens are left out of training and of the held-out loss, and
    counted.

    Attributes:
        config: resolved.
        tokenizer: tokenizer of both sides.
        train, validation: the texts.
    """

    config: Any
    tokenizer: Tokenizer
    train: TextPairs
    validation: TextPairs

    @cached_property
    def training(self) -> PairBatches:
        """Batches of the training pairs."""
        return self._batches(self.train, scored=False)

    @cached_property
    def held_out(self) -> PairBatches:
        """Batches of the held-out pairs."""
        return self._batches(self.validation, scored=True)

    def _batches(self, pairs: TextPairs, scored: bool) -> PairBatches:
        data, end = self.config.data, self.tokenizer.bos_id
        source = TokenSequences(self.tokenizer.source_side.encode_batch(pairs.sources), end)
        if scored and not self.tokenizer.lossless:
            ids, sizes = zip(*encode_with_bytes(self.tokenizer, pairs.targets), strict=True)
            target = TokenSequences(ids, end, sizes)
        else:
            target = TokenSequences(self.tokenizer.encode_batch(pairs.targets), end)
        return PairBatches(source, target, bucket_shapes(data.sequence_length, data.batch_size, data.buckets))

    @property
    def train_tokens(self) -> int:
        """Number of distinct training tokens of both sides, without end tokens."""
        return _text_tokens(self.training)

    @property
    def validation_tokens(self) -> int:
        """Number of held-out tokens."""
        return _text_tokens(self.held_out)

    @property
    def description(self) -> str:
        """One-line description."""
        return f"{len(self.train):,} pairs of {self.train.name}" + "".join(self._notes())

    def _notes(self) -> Iterator[str]:
        length = self.config.data.sequence_length
        for what, counts in (("", self.train.left_out), ("held-out ", self._held_out_counts)):
            yield BadTextPolicy.describe_counts(counts, what)
        for what, batches in (("", self.training), ("held-out ", self.held_out)):
            if too_long := int((~batches.fits).sum()):
                yield f" ({too_long:,} {what}pairs of more than {length} tokens a side left out)"

    @property
    def _held_out_counts(self) -> Counter[str]:
        """The counts of the held-out pairs, where they are not those of a divided source."""
        counts = self.validation.left_out
        return Counter() if counts is self.train.left_out else counts

    def training_batches(self, start_step: int = 0, process_index: int = 0, process_count: int = 1) -> TrainingBatches:
        """Returns the training batches from number `start_step` on; see `PairBatches.training`."""
        return self.training.training(self.config.seed, start_step, process_index, process_count)

    def evaluation_batches(
        self,
        length: int | None = None,
        multiple_of: int = 1,
        process_index: int = 0,
        process_count: int = 1,
        limit_batches: int | None = None,
    ) -> Iterator[Arrays]:
        """Returns batches of held-out pairs; see `PairBatches.evaluation`.

        Pairs are not truncated: `length` must be that of the config.
        """
        if length not in (None, self.config.data.sequence_length):
            raise ValueError(f"pairs are not cut to a length of {length}")
        limit = self.config.training.eval_batches if limit_batches is None else limit_batches
        return self.held_out.evaluation(multiple_of, process_index, process_count, limit)

    def summary(self) -> dict[str, Any]:
        """Returns what identifies and measures the data, as plain JSON."""
        warnings = shared_lines(self.validation.pairs, self.train.pairs, "pairs")
        return {
            **({"warnings": warnings} if warnings else {}),
            "fingerprint": fingerprint_of_pairs(self.train, self.validation),
            "description": self.description,
            "train_pairs": len(self.train),
            "validation_pairs": len(self.validation),
            "train_tokens": self.train_tokens,
            "validation_tokens": self.validation_tokens,
            "train_tokens_sha256": self.training.tokens_sha256,
            "validation_tokens_sha256": self.held_out.tokens_sha256,
            "train_bytes": self.train.bytes,
            "validation_bytes": self.validation.bytes,
            "too_long": {"train": int((~self.training.fits).sum()), "validation": int((~self.held_out.fits).sum())},
            "bad_text": dict(self.train.left_out),
            **({"bad_held_out_text": dict(counts)} if (counts := self._held_out_counts) else {}),
            "batches_per_epoch": self.training.per_epoch,
            "padding": round(self.training.padding(), 4),
            "tokenizer": self.tokenizer.summary(),
        }


def fingerprint_of_pairs(train: TextPairs, validation: TextPairs) -> str:
    """Returns the hash of the content of both parts."""
    return hashlib.sha256((train.fingerprint + validation.fingerprint).encode()).hexdigest()


def _text_tokens(batches: PairBatches) -> int:
    return sum(int((side.lengths[batches.fits] - 1).sum()) for side in (batches.source, batches.target))


def load_translation(config: Any, tokenizer: Tokenizer | None = None) -> TranslationDataset:
    """Reads the pairs of a config and trains one tokenizer on both sides of the training part.

    The shared tokenizer is that of Vaswani et al. 2017, section 5.1.

    Args:
        config: resolved.
        tokenizer: replaces the one that the config asks for.

    Raises:
        ConfigError: a bad field, or a file that does not exist.
        DataError: no pairs, too few, or bad ones.
    """
    train, validation = read_split_pairs(config.data)
    if tokenizer is None:
        tokenizer = tokenizer_class(config.data.tokenizer.kind).build(
            config.data.tokenizer, _documents(train, validation), _documents(train)
        )
    pairs = TranslationDataset(config, tokenizer, train, validation)
    pairs.training_batches().close()
    return pairs


def translation_vocab_size(config: Any) -> int:
    """Returns the number of ids that a config needs, if its pairs determine it."""
    train, validation = read_split_pairs(config.data)
    source = _documents(train, validation)
    return (
        tokenizer_class(config.data.tokenizer.kind)
        .build(config.data.tokenizer, source, source)
        .model_vocab_size(config.objective)
    )


def _documents(*parts: TextPairs) -> Documents:
    """Makes a document of every text of either side."""
    return Documents.of(
        [text for pairs in parts for side in (pairs.sources, pairs.targets) for text in side],
        f"both sides of {parts[0].name}",
    )
