"""The loop that samples token after token on the device."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens, State, UnstackedWeights
from zoo.decoding.sampling import Sampling, argmax_token, sample_tokens
from zoo.decoding.stop_strings import START, STOPPED, StoppingCriteria


class GeneratedTokens(NamedTuple):
    """The tokens generated so far.

    Attributes:
        tokens: [B, N]; -1 after the end of a row.
        lengths: [B], tokens of each row so far, including the one that ended it.
        stop_state: [B], state of the stopping automaton.
        newest: [B], the latest token.
        count: tokens of the longest row.
    """

    tokens: Int[Array, "B N"]
    lengths: Int[Array, " B"]
    stop_state: Int[Array, " B"]
    newest: Int[Array, " B"]
    count: Int[Array, ""]

    @property
    def ended(self) -> Bool[Array, " B"]:
        """Returns the mask [B] of rows that have ended."""
        return self.stop_state == STOPPED

    def append(self, tokens: Int[Array, " B"], table: Int[Array, "V Q"]) -> "GeneratedTokens":
        """Adds one token to every row that has not ended."""
        written = jax.lax.dynamic_update_slice_in_dim(
            self.tokens, jnp.where(self.ended, -1, tokens)[:, None], self.count, axis=1
        )
        return GeneratedTokens(
            written, self.lengths + ~self.ended, table[tokens, self.stop_state], tokens, self.count + 1
        )


@partial(jax.jit, static_argnames="decoder")
def prefill(
    decoder: IncrementalDecoder, weights: UnstackedWeights, prompts: PaddedTokens, sources: PaddedTokens | None = None
) -> tuple[State, Float[Array, "B V"]]:
    """Runs `IncrementalDecoder.prefill` as one compiled program."""
    return decoder.prefill(weights, prompts, sources)


@partial(jax.jit, static_argnames=("decoder", "buffer_size"), donate_argnames="state")
def sample(
    decoder: IncrementalDecoder,
    weights: UnstackedWeights,
    state: State,
    logits: Float[Array, "B V"],
    criteria: StoppingCriteria,
    sampling: Sampling | None,
    key: Key[Array, ""],
    buffer_size: int,
) -> tuple[Int[Array, "B N"], Int[Array, " B"], State]:
    """Generates tokens until every row has ended or has `max_new_tokens` of them.

    Token n of row b is drawn with the key fold_in(fold_in(key, b), n), so it does not depend on the
    rest of the batch.

    Args:
        decoder, weights: the model.
        state, logits: result of `prefill`; the state's memory is reused.
        criteria: when a row ends.
        sampling: how tokens are chosen, with a temperature above 0; None for the most probable one.
        key: for the random choices.
        buffer_size: N, at least `max_new_tokens`.

    Returns:
        (tokens, with -1 after the end of a row; number of tokens of each row; the decoder state
        before the last token of each row is read).
    """
    B = logits.shape[0]
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(B))

    def extend(generated: GeneratedTokens, logits: Float[Array, "B V"]) -> GeneratedTokens:
        if sampling is None:
            return generated.append(argmax_token(logits), criteria.table)
        step_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, generated.count)
        return generated.append(sample_tokens(logits, step_keys, sampling), criteria.table)

    def unfinished(carry: tuple[State, GeneratedTokens]) -> Bool[Array, ""]:
        return (carry[1].count < criteria.max_new_tokens) & ~carry[1].ended.all()

    def body(carry: tuple[State, GeneratedTokens]) -> tuple[State, GeneratedTokens]:
        state, generated = carry
        state, logits = decoder.step(weights, state, generated.newest)
        return state, extend(generated, logits)

    zero = jnp.zeros(B, jnp.int32)
    empty = GeneratedTokens(
        jnp.full((B, buffer_size), -1, jnp.int32), zero, jnp.full(B, START, jnp.int32), zero, jnp.int32(0)
    )
    state, generated = jax.lax.while_loop(unfinished, body, (state, extend(empty, logits)))
    return generated.tokens, generated.lengths, state
