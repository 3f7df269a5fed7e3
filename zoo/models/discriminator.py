"""The two heads of replaced-token detection, and the generator that is trained with the model (Clark
et al. 2020).
"""

from dataclasses import replace

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig, generator_config
from zoo.config.fields import EMBEDDED_POSITIONS
from zoo.layers.attention import shared_scores
from zoo.layers.context import Context, path_hash
from zoo.layers.feedforward import activation
from zoo.layers.parameter import Linear, kernel_initializer
from zoo.layers.placement import make_final_norm
from zoo.layers.position import Position, make_embedded_position
from zoo.models.head import Head
from zoo.models.stack import Stack


class ReplacementGenerator(nnx.Module):
    """h = Norm(Blocks(e W + b)), the hidden states [B, T, G] of a masked language model of width G
    over the embeddings e [B, T, E] of the model that it belongs to, and its head.

    e is the sum of the vectors of token, position and segment, normalised where the model does so,
    all of which the two networks share (Clark et al. 2020, section 3.2). E is `embedding.dim`, or
    the width D of the model; W and b are left out where G = E. The head maps to E, where the matrix
    is the token embedding (`Head`). G, heads and hidden width are the share
    `generator.width_fraction` of the model's, and there are `generator.num_layers` blocks; all else
    is the model's.
    """

    def __init__(self, config: ResolvedConfig):
        own, width = generator_config(config), config.embedding.dim or config.dim
        kernel = kernel_initializer(config)
        self.project = Linear(width, own.dim, ("embed", None), True, kernel) if own.dim != width else None
        # Vectors of positions are in the embeddings; a term of the scores has a value for each head.
        embedded = config.position.kind in EMBEDDED_POSITIONS
        self.position = Position(own) if embedded else make_embedded_position(own)
        self.stack = Stack(own)
        self.final_norm = make_final_norm(own)
        self.head = Head(config, own.dim)

    @staticmethod
    def own(context: Context) -> Context:
        """Returns the generator's context: dropout has a key of its own, and nothing is recorded,
        because a record is of the model.
        """
        key = context.dropout_key
        key = None if key is None else key.folded(path_hash("generator") % 2**31)
        return replace(context, dropout_key=key, record=None)

    def __call__(self, x: Float[Array, "B T E"], context: Context) -> Float[Array, "B T G"]:
        """Returns the hidden states; `context` is that of `own`."""
        x = x if self.project is None else self.project(x)
        return self.stack(x, context, shared_scores(self.position, context), self.final_norm)


class Discriminator(nnx.Module):
    """s = act(h W + b) w + c for every token, the logit of "it was replaced"; act is that of
    `ffn.kind`.

    The paper has sigmoid(w h) (section 3.1), its code the layer W before it, as wide as h.
    """

    def __init__(self, config: ResolvedConfig):
        self.dense = Linear(config.dim, config.dim, ("embed", None), True, kernel_initializer(config), "head")
        self.output = Linear(config.dim, 1, ("embed", None), True, kernel_initializer(config), "head")
        self.config = config

    def __call__(self, hidden: Float[Array, "B T D"]) -> Float[Array, "B T"]:
        """Returns the logits in float32."""
        return self.output(activation(self.config, self.dense(hidden)))[..., 0].astype(jnp.float32)
