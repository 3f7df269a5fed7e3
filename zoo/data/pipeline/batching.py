"""From token streams to the batches of a config."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from zoo.config.constraints.objective_constraints import SHORTEST_ROW
from zoo.data.pipeline import batches
from zoo.data.pipeline.batch_stages import cut, value_at
from zoo.data.rows.corruption import Corruption, make_corruption
from zoo.data.rows.packed_rows import Arrays, MixedRows, PackedRows, Rows
from zoo.data.rows.sentence_rows import PairRows, SentenceIndex, SentenceRows
from zoo.data.rows.token_streams import Stream
from zoo.data.sources.stored_tokens import TokenArray
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.errors import DataError


class _BytesOf(NamedTuple):
    """The bytes of stored tokens, [tokens], of which those that are asked for are read."""

    tokens: TokenArray
    table: np.ndarray

    def take(self, indices: np.ndarray, mode: str) -> np.ndarray:
        """Returns the bytes of tokens by index."""
        return self.table[self.tokens.take(indices, mode)]


class Batching:
    """Turns streams into batches: a pure function of config, streams and batch number.

    Args:
        config: resolved; `data`, `objective`, `seed` and `training.eval_batches` are used.
        tokenizer: made the tokens.

    Attributes:
        with_sentences: streams must hold where sentences begin.
        corruption: the objective's corruption, or None; that of training is `training_corruption`.
    """

    def __init__(self, config: Any, tokenizer: Tokenizer):
        self._config, self._tokenizer = config, tokenizer
        self.with_sentences = config.data.row_format != "packed"
        self.corruption = make_corruption(config, tokenizer)
        self._made: dict[tuple[Stream, int], Rows] = {}
        self._sized: dict[Stream, Stream] = {}
        self._counted: dict[Stream, np.ndarray] = {}

    def for_config(self, config: Any) -> "Batching":
        """Returns the batching of another config, with the rows that are made already.

        The configs differ in nothing but fields in which runs of one program may differ.
        """
        batching = Batching(config, self._tokenizer)
        batching._made, batching._sized, batching._counted = self._made, self._sized, self._counted
        return batching

    def check(self, training: Sequence[Stream], validation: Sequence[Stream]) -> None:
        """Checks that there is enough text, before anything is trained.

        Raises:
            DataError: naming the part that is too short.
        """
        for part, streams in (("training", training), ("held-out", validation)):
            try:
                rows = self.rows(streams, self._config.data.sequence_length)
            except DataError as error:
                raise DataError([f"the {part} text: {problem}" for problem in error.problems]) from error
            if not (rows.num_training_rows if part == "training" else rows.num_rows):
                raise DataError(
                    f"the {part} text is too short: {rows.shortage}; take a longer text, a smaller "
                    "data.sequence_length or another data.validation_fraction"
                )

    def rows(self, streams: Sequence[Stream], length: int, weights: Sequence[float] | None = None) -> Rows:
        """Returns the rows of T = `length` tokens that `streams` are cut into.

        `weights` are the sampling weights of the streams in training.

        Raises:
            DataError: pairs from a single document.
        """
        if any(stream.sizes is not None for stream in streams):
            streams = [self._with_sizes(stream) for stream in streams]
        parts = [self._rows_of(stream, length) for stream in streams]
        return parts[0] if len(parts) == 1 else MixedRows(parts, weights or [1.0] * len(parts))

    def row_count(self, streams: Sequence[Stream]) -> int:
        """Returns the number of distinct training rows of some streams."""
        return sum(self._rows_of(stream, self._config.data.sequence_length).num_training_rows for stream in streams)

    def _rows_of(self, stream: Stream, length: int) -> Rows:
        # Rows of sentences take a pass over the stream, so rows are kept.
        if (stream, length) not in self._made:
            self._made[stream, length] = self._make_rows(stream, length)
        return self._made[stream, length]

    def _with_sizes(self, stream: Stream) -> Stream:
        """Returns a stream with the bytes of its tokens, beside others that have them."""
        if stream.sizes is None and stream not in self._sized:
            table = self._tokenizer.token_bytes().astype(np.int32)
            stored = isinstance(stream.tokens, TokenArray)
            self._sized[stream] = replace(
                stream, sizes=_BytesOf(stream.tokens, table) if stored else table.take(stream.tokens)
            )
        return self._sized.get(stream, stream)

    def _make_rows(self, stream: Stream, length: int) -> Rows:
        kind, tokenizer = self._config.data.row_format, self._tokenizer
        if kind == "packed":
            return PackedRows(stream.tokens, length, int(self.corruption is None), stream.sizes)
        if length < SHORTEST_ROW:
            raise DataError(
                f"rows of {length} tokens are too short for data.row_format={kind}; at least {SHORTEST_ROW}"
            )
        sentences = SentenceIndex(stream, tokenizer.bos_id)
        if kind.endswith("pairs"):
            return PairRows(
                sentences,
                length,
                tokenizer.separator_id,
                segments=kind != "sentence_pairs",
                swapped=kind == "swapped_pairs",
                short=self._config.data.short_row_fraction,
            )
        return SentenceRows(sentences, length, tokenizer.separator_id, across=kind == "full_sentences")

    def training_corruption(self, streams: Sequence[Stream]) -> Corruption | None:
        """Returns the corruption of training batches, which may depend on how often each id occurs in
        the training tokens (`objective.rare_token_exponent`); then these are counted.
        """
        if not self._config.objective.rare_token_exponent:
            return self.corruption
        return make_corruption(self._config, self._tokenizer, sum(self._counts(stream) for stream in streams))

    def _counts(self, stream: Stream) -> np.ndarray:
        if stream not in self._counted:
            self._counted[stream] = stream.counts(self._tokenizer.vocab_size)
        return self._counted[stream]

    def training(
        self,
        streams: Sequence[Stream],
        weights: Sequence[float],
        start_step: int = 0,
        process_index: int = 0,
        process_count: int = 1,
    ) -> batches.TrainingBatches:
        """Returns the training batches from `start_step` on; see `batches.training_batches`.

        There are fewer rows during `data.batch_stages`, and shorter ones, as many more, during
        `data.length_stages`.
        """
        config, data = self._config, self._config.data
        whole = batches.training_batches(
            self.rows(streams, data.sequence_length, weights),
            data.batch_size,
            config.seed,
            start_step,
            process_index,
            process_count,
            self.training_corruption(streams),
            data.batch_stages,
        )
        if not data.length_stages:
            return whole
        return batches.TrainingBatches(
            lambda step: cut(whole.batch(step), value_at(data.length_stages, step, data.sequence_length)), start_step
        )

    def evaluation(
        self,
        streams: Sequence[Stream],
        length: int | None = None,
        multiple_of: int = 1,
        process_index: int = 0,
        process_count: int = 1,
        limit_batches: int | None = None,
    ) -> Iterator[Arrays]:
        """Returns evaluation batches of any length, with about as many tokens as training batches.

        See `batches.evaluation_batches`. The choice of rows, and the positions that they begin at,
        depend on the streams, the length and the limit, not on the devices: `multiple_of` only adds
        padding.

        Args:
            streams: the text.
            length: T; default: that of training.
            multiple_of: the rows of a batch are padded to a multiple of this.
            process_index, process_count: this process's part of each batch.
            limit_batches: limits the number of rows to those of this many batches; 0 = all;
                default: `training.eval_batches`.
        """
        config = self._config
        limit = config.training.eval_batches if limit_batches is None else limit_batches
        length = length or config.data.sequence_length
        batch_size = max(1, config.data.batch_size * config.data.sequence_length // length)
        # Rows have `data.position_offsets` in turn, and the turn begins anew in every batch.
        multiple_of = math.lcm(multiple_of, max(1, len(config.data.position_offsets)))
        filled = -(-batch_size // multiple_of) * multiple_of
        rows = self.rows(streams, length)
        return batches.evaluation_batches(
            rows, filled, limit * batch_size, process_index, process_count, self.corruption
        )
