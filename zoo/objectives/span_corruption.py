"""Span corruption: an encoder-decoder writes the spans that were cut out of the text it reads."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Int

from zoo.config import ResolvedConfig, side
from zoo.config.kinds.side_lengths import SpanLengths
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.models.head import LogitFactors
from zoo.objectives.objective import (
    Batch,
    Constants,
    ForwardMode,
    Objective,
    beyond_position_table,
    make_context,
    mark_padding,
)


class SpanObjective(Objective):
    """-log p(y_t | y_<t, x), summed over the targets y: the spans that were cut out of a row, each
    after its sentinel, and an end; x is the row with a sentinel in each span's place (Raffel et al.
    2020, section 3.1.4).

    A batch is what `zoo.data.rows.spans.SpanCorruption` makes: {"source": [B, T], "targets": [B,
    N]}, padded with -1. The decoder reads the tokenizer's `start_id` and the targets but the last. No
    token sees padding.
    """

    marks_padding = True

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.text_ids = tokenizer.vocab_size

    def targets(self, batch: Batch) -> Int[Array, "B N"]:
        """Returns the spans, their sentinels and the end."""
        return batch["targets"]

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> LogitFactors:
        """Predicts the targets."""
        source, targets = batch["source"], batch["targets"]
        inputs = jnp.concatenate([jnp.full_like(targets[:, :1], self.start_id), targets[:, :-1]], axis=1)
        source_context = make_context(mode, mark_padding(jnp.arange(source.shape[1])[None], source, mode), causal=False)
        context = make_context(mode, mark_padding(jnp.arange(inputs.shape[1])[None], inputs, mode))
        hidden = model(jnp.maximum(source, 0), jnp.maximum(inputs, 0), source_context, context)
        return model.prediction(hidden, context)

    def num_tokens(self, batch: Batch) -> Int[Array, ""]:
        """Returns the number of tokens of text on both sides, without sentinels and ends."""
        ends = 2 * (batch["targets"][:, 0] >= 0).sum()
        return sum(((part >= 0) & (part < self.text_ids)).sum() for part in (batch["source"], batch["targets"])) - ends

    def why_too_long(self, model: nnx.Module, length: int) -> str | None:
        """Returns why a row or one of its sides, which have their own lengths, does not fit."""
        if length < 2:
            return "a row needs two tokens, one to stay and one to go"
        lengths = SpanLengths.of(length, self.config.objective.noise_density, self.config.objective.mean_span_length)
        if lengths.spans > self.config.objective.sentinels:
            return f"objective.sentinels={self.config.objective.sentinels} are too few for {lengths.spans} spans"
        return self.beyond_tables(model, lengths.source, lengths.targets)

    def beyond_tables(self, model: nnx.Module, source: int, targets: int) -> str | None:
        """Returns `beyond_position_table` of the first side that such numbers of tokens do not fit."""
        sides = (("encoder", model.encoder, source), ("decoder", model.decoder, targets))
        found = (
            beyond_position_table(side(self.config.model, name), module, tokens, f"the {name}'s ")
            for name, module, tokens in sides
        )
        return next((why for why in found if why), None)
