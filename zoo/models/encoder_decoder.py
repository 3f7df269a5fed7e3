"""Encoder-decoders, with cross-attention (Vaswani et al. 2017, section 3; Raffel et al. 2020)."""

from dataclasses import replace

from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig, side
from zoo.layers.context import Context, Memory
from zoo.models.head import Head, LogitFactors, logits
from zoo.models.language_model import Tower, embed, token_table


class EncoderDecoder(nnx.Module):
    """m = Encoder(E[source]), h = Decoder(E[target], m), and a head that scores the vocabulary.

    Both sides share one token embedding, and so does a tied head (Press & Wolf 2017, section 4);
    without `embedding.shared` the source has its own. Each side has its own positions, depth and
    layers, which `model.encoder` and `model.decoder` override.
    """

    def __init__(self, config: ResolvedConfig):
        encoder, decoder = side(config, "encoder"), side(config, "decoder")
        sides = encoder.num_layers, decoder.num_layers
        self.embedding = token_table(config)
        self.source_embedding = None if config.embedding.shared else token_table(config)
        self.encoder = Tower(encoder, sides=sides)
        self.decoder = Tower(decoder, cross=True, sides=sides)
        self.head = Head(config)
        self.config = config

    def encode(self, source: Int[Array, "B S"], context: Context) -> Memory:
        """Encodes the source; `context` is the source's."""
        context = replace(context.side("encoder"), causal=False, tokens=source)
        table = self.embedding if self.source_embedding is None else self.source_embedding
        hidden = self.encoder.run(embed(table[...], source, self.config), context)
        return Memory(hidden, context.positions, context.keys_end_in_padding, context.no_padding)

    def decode(self, targets: Int[Array, "B T"], memory: Memory | None, context: Context) -> Float[Array, "B T D"]:
        """Returns the hidden states of the decoder; each sees the targets up to its own and all of
        the memory.
        """
        context = replace(context.side("decoder"), causal=True, memory=memory, tokens=targets)
        return self.decoder.run(embed(self.embedding[...], targets, self.config), context)

    def __call__(
        self, source: Int[Array, "B S"], targets: Int[Array, "B T"], source_context: Context, context: Context
    ) -> Float[Array, "B T D"]:
        """Returns the decoder's hidden states, from which the head predicts."""
        return self.decode(targets, self.encode(source, source_context), context)

    def prediction(self, hidden: Float[Array, "B T D"], context: Context | None = None) -> LogitFactors:
        """Returns the prediction of every token id."""
        return self.head(hidden, self.embedding[...], context)

    def logits(self, hidden: Float[Array, "B T D"], context: Context | None = None) -> Float[Array, "B T V"]:
        """Returns float32 scores of every token id."""
        return logits(self.prediction(hidden, context))
