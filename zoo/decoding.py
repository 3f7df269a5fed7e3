"""Text out of a trained model: sampling by recomputing the context for every token.

One compiled loop on the device. Each new token costs a forward pass over the whole context, which suits the small models and short
samples of a look at a run.
"""

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from zoo.layers.context import Context
from zoo.models.functional import Params, Stats


def choose(logits: Float[Array, " V"], key: Key[Array, ""], temperature: float, top_k: int) -> Int[Array, ""]:
    """Draws a token id from softmax(logits / temperature), among the `top_k` most likely; the likeliest at temperature 0."""
    if temperature == 0:
        return jnp.argmax(logits)
    if top_k:
        logits = jnp.where(logits >= jax.lax.top_k(logits, top_k)[0][-1], logits, -jnp.inf)
    return jax.random.categorical(key, logits / temperature)


@partial(jax.jit, static_argnames=("graph", "new_tokens", "temperature", "top_k", "vocab_size"))
def sample(
    graph: nnx.GraphDef,
    params: Params,
    stats: Stats,
    context: Int[Array, " T"],
    filled: Int[Array, ""],
    key: Key[Array, ""],
    new_tokens: int,
    temperature: float,
    top_k: int,
    vocab_size: int,
) -> Int[Array, " N"]:
    """Continues a text by `new_tokens` tokens.

    Args:
        graph, params, stats: a decoder, split.
        context: buffer of the sequence length that the model was trained with, the prompt at its start.
        filled: how much of the buffer the prompt fills, at least 1.
        key: of the random choices.
        new_tokens: number of tokens to make; when the buffer is full its oldest token leaves.
        temperature, top_k: see `choose`; 0 for no limit.
        vocab_size: ids of the tokenizer; a model's further ids are never chosen.

    Returns:
        The new token ids.
    """
    structure = Context(jnp.arange(context.shape[0])[None], in_order=True)

    def body(carry, key):
        model = nnx.merge(graph, params, stats)  # Here, because a call writes into it.
        context, filled = carry
        hidden = model(context[None], structure)
        logits = model.logits(hidden[:, filled - 1][:, None], structure)[0, 0, :vocab_size]
        token = choose(logits, key, temperature, top_k).astype(context.dtype)
        full = filled == context.shape[0]
        context = jnp.where(full, jnp.roll(context, -1), context)
        position = jnp.where(full, filled - 1, filled)
        return (context.at[position].set(token), position + 1), token

    return jax.lax.scan(body, (context, filled), jax.random.split(key, new_tokens))[1]
