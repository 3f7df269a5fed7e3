"""Language models over a stack: embedding, positions, blocks, final norm, head."""

from dataclasses import replace

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import AUTO, ResolvedConfig, embedding_config
from zoo.layers.attention import shared_scores
from zoo.layers.context import Context
from zoo.layers.norm import make_norm
from zoo.layers.parameter import Linear, kernel_initializer, normal, parameter, vocabulary_parameter
from zoo.layers.parametrization import reference_width
from zoo.layers.placement import make_final_norm
from zoo.layers.position import make_embedded_position
from zoo.models.discriminator import Discriminator, ReplacementGenerator
from zoo.models.head import Head, LogitFactors, Pooler, TaskHead, logits
from zoo.models.stack import Stack


def token_table(config: ResolvedConfig) -> nnx.Param:
    """Describes the table of the tokens' embeddings, [V, D], or [V, E] with `embedding.dim`."""
    return vocabulary_parameter(
        config, normal(config.init.embedding_std), "embedding", width=config.embedding.dim or config.dim
    )


def embed(embedding: Float[Array, "V E"], tokens: Int[Array, "B T"], config: ResolvedConfig) -> Float[Array, "B T E"]:
    """Returns the row of every token in the compute type, times `embedding.multiplier`; with
    `embedding.scale` times the square root of its width (Vaswani et al. 2017, section 3.4), under muP
    times that of `base_dim`.
    """
    # Looked up before it is cast, so that gradients of equal tokens are summed in float32.
    x = embedding[tokens].astype(jnp.dtype(config.dtype))
    width = config.embedding.dim or reference_width(config)
    factor = config.embedding.multiplier * (width**0.5 if config.embedding.scale == "sqrt_dim" else 1.0)
    return x if factor == 1.0 else x * jnp.asarray(factor, x.dtype)


class Tower(nnx.Module):
    """The part between token embedding and head: Norm(Blocks(Norm'(x + position + segment))).

    Norm' is optional, `embedding.norm` (BERT, BLOOM); the last norm depends on the placement. With
    `embedding.dim` tokens, positions and segments are E wide, and what enters the blocks is
    Norm'(...) W + b, W [E, D] (Lan et al. 2020, section 3.1). With `embedding.projection=tokens` only
    tokens are: their embedding is e W, without a bias, and all else is D wide (Zhang et al. 2022, in
    OPT's code, the model of 350M parameters).
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None):
        self.projects_tokens = config.embedding.projection == "tokens"
        wide = config if self.projects_tokens else embedding_config(config)
        self.position = make_embedded_position(wide)
        segments = config.embedding.segments if config.architecture == "encoder" else 0
        table = normal(config.init.embedding_std)
        self.segments = parameter((segments, wide.dim), (None, "embed"), table, "embedding") if segments else None
        self.embedding_norm = make_norm(wide) if config.embedding.norm else None
        self.embedding_projection = (
            Linear(
                config.embedding.dim, config.dim, (None, "embed"), not self.projects_tokens, kernel_initializer(config)
            )
            if config.embedding.dim
            else None
        )
        self.stack = Stack(config, cross, sides)
        self.final_norm = make_final_norm(config)
        self.rate = config.dropout

    def run(
        self, x: Float[Array, "B T E"], context: Context, segments: Int[Array, "B T"] | None = None
    ) -> Float[Array, "B T D"]:
        """Returns the hidden states of embedded tokens; arguments are those of `embedded`."""
        if self.projects_tokens:
            x = self.embedding_projection(context.shard_lookup(x))
        x = self.embedded(x, context, segments)
        if self.embedding_projection is not None and not self.projects_tokens:
            x = context.shard_rows(self.embedding_projection(x))
        return self.stack(x, context, shared_scores(self.position, context), self.final_norm)

    def embedded(
        self, x: Float[Array, "B T E"], context: Context, segments: Int[Array, "B T"] | None = None
    ) -> Float[Array, "B T E"]:
        """Returns the embeddings, Norm'(x + position + segment).

        Args:
            x: token embeddings.
            context: structure of the sequence.
            segments: number of each token's segment; None for the first.
        """
        x = self.position.embed(context.shard_lookup(x), context.positions)
        if self.segments is not None:
            table = self.segments[...]
            vectors = table[0] if segments is None else table[segments]
            # Added in float32, so that its gradient is summed over the tokens in float32.
            x = (x.astype(jnp.float32) + vectors).astype(x.dtype)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x, context)
        return context.shard_rows(context.dropout(x, self.rate, "embedding"))


class LanguageModel(Tower, TaskHead):
    """A decoder or an encoder: h = Norm(Blocks(E[token] + position)), and a head that scores the
    vocabulary, the classes of a task, or whether each token was replaced.

    In the last case the model is a discriminator, and its generator, which is trained with it, is a
    part of it (`zoo.models.discriminator`).

    GPT, LLaMA, BERT and similar models are configs of this class. In a decoder a token sees only
    earlier tokens, in an encoder all.
    """

    def __init__(self, config: ResolvedConfig):
        self.embedding = token_table(config)
        super().__init__(config)
        head = ("embed", None), True, kernel_initializer(config), "head"
        if config.generator.num_layers != AUTO:
            self.discriminator = Discriminator(config)
            self.generator = ReplacementGenerator(config) if config.generator.num_layers else None
        elif config.head.classes == AUTO:
            self.head = Head(config)
        else:
            self.classifier = Linear(config.dim, config.head.classes, *head)
        if config.head.pooler:
            self.pooler = Pooler(config)
        if config.head.next_sentence:
            self.next_sentence = Linear(config.dim, 2, *head)
        self.config = config

    def __call__(
        self, tokens: Int[Array, "B T"], context: Context, segments: Int[Array, "B T"] | None = None
    ) -> Float[Array, "B T D"]:
        """Returns the hidden states from which the head predicts; `segments` as in `Tower.run`."""
        x = embed(self.embedding[...], tokens, self.config)
        return self.run(x, replace(context, tokens=tokens), segments)

    def prediction(self, hidden: Float[Array, "B T D"], context: Context | None = None) -> LogitFactors:
        """Returns the prediction of every token id."""
        return self.head(hidden, self.embedding[...], context)

    def logits(self, hidden: Float[Array, "B T D"], context: Context | None = None) -> Float[Array, "B T V"]:
        """Returns float32 scores of every token id; training uses the chunked loss instead."""
        return logits(self.prediction(hidden, context))

    def replaced_logits(self, hidden: Float[Array, "B T D"]) -> Float[Array, "B T"]:
        """Returns the float32 score of "this token was replaced" for every token."""
        return self.discriminator(hidden)

    def generator_states(
        self, tokens: Int[Array, "B T"], context: Context, segments: Int[Array, "B T"] | None = None
    ) -> Float[Array, "B T G"]:
        """Returns the generator's hidden states; it reads this model's embeddings."""
        context = self.generator.own(replace(context, tokens=tokens))
        return self.generator(
            self.embedded(embed(self.embedding[...], tokens, self.config), context, segments), context
        )

    def generator_prediction(self, hidden: Float[Array, "B T G"], context: Context | None = None) -> LogitFactors:
        """Returns the generator's prediction of every token id."""
        return self.generator.head(hidden, self.embedding[...], context)

    def pooled(self, hidden: Float[Array, "B T D"]) -> Float[Array, "B D"]:
        """Returns the pooler's output for the first token, with tanh: tanh(h_0 W + b)."""
        return self.pooler(hidden[:, 0])

    def next_sentence_logits(self, hidden: Float[Array, "B T D"]) -> Float[Array, "B 2"]:
        """Returns the scores of "the second segment follows the first" and of "it does not" (Devlin
        et al. 2019, section 3.1, Task 2).
        """
        return self.next_sentence(self.pooled(hidden))
