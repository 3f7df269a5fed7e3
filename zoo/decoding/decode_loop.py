"""The loop that makes tokens one after the other, on the device."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens, State, UnstackedWeights
from zoo.decoding.sampling import Sampling, argmax_token, sample_tokens
from zoo.decoding.stop_strings import START, STOPPED


class GeneratedTokens(NamedTuple):
    """Tokens as they are made.

    Attributes:
        tokens: [B, N]; -1 after the end of a row.
        lengths: [B], tokens of each row so far; the one that ended it counts.
        reading: [B], state of the stopping automaton.
        newest: [B], the token made last.
        count: tokens of the longest row.
    """

    tokens: Int[Array, "B N"]
    lengths: Int[Array, " B"]
    stop_state: Int[Array, " B"]
    newest: Int[Array, " B"]
    count: Int[Array, ""]

    @property
    def ended(self) -> Bool[Array, " B"]:
        """Which rows have come to their end."""
        return self.stop_state == STOPPED

    def append(self, tokens: Int[Array, " B"], stop: Int[Array, "V Q"]) -> "GeneratedTokens":
        """With one more token in every row that goes on."""
        written = jax.lax.dynamic_update_slice_in_dim(
            self.tokens, jnp.where(self.ended, -1, tokens)[:, None], self.count, axis=1
        )
        return GeneratedTokens(
            written, self.lengths + ~self.ended, stop[tokens, self.stop_state], tokens, self.count + 1
        )


@partial(jax.jit, static_argnames="decoder")
def prefill(
    decoder: IncrementalDecoder, weights: UnstackedWeights, prompts: PaddedTokens, sources: PaddedTokens | None = None
) -> tuple[State, Float[Array, "B V"]]:
    """`IncrementalDecoder.prefill`, compiled."""
    return decoder.prefill(weights, prompts, sources)


@partial(jax.jit, static_argnames=("decoder", "greedy", "buffer_size"), donate_argnames="state")
def sample(
    decoder: IncrementalDecoder,
    weights: UnstackedWeights,
    state: State,
    scores: Float[Array, "B V"],
    stop: Int[Array, "V Q"],
    sampling: Sampling,
    key: Key[Array, ""],
    new_tokens: Int[Array, ""],
    greedy: bool,
    buffer_size: int,
) -> tuple[Int[Array, "B N"], Int[Array, " B"], State]:
    """Makes tokens until every row has ended or has `new_tokens` of them.

    Row b's token number n is drawn with the key fold_in(fold_in(key, b), n): it does not depend on
    what else is in the batch.

    Args:
        steps, weights: the model.
        state, scores: of `prefill`; the state's memory is taken over.
        stop: of `stop_table`.
        sampling: the temperature is above 0.
        key: of the random choices.
        new_tokens: most tokens of a row.
        greedy: take the likeliest token, whatever `sampling` says.
        room: N, at least `new_tokens`.

    Returns:
        (tokens, -1 after the end of a row; number of tokens of each row; the state without the
        newest tokens).
    """
    B = scores.shape[0]
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(B))

    def further(made: GeneratedTokens, scores: Float[Array, "B V"]) -> GeneratedTokens:
        if greedy:
            return made.append(argmax_token(scores), stop)
        return made.append(
            sample_tokens(scores, jax.vmap(jax.random.fold_in, (0, None))(keys, made.count), sampling), stop
        )

    def unfinished(carry: tuple[State, GeneratedTokens]) -> Bool[Array, ""]:
        return (carry[1].count < new_tokens) & ~carry[1].ended.all()

    def body(carry: tuple[State, GeneratedTokens]) -> tuple[State, GeneratedTokens]:
        state, made = carry
        state, scores = decoder.step(weights, state, made.newest)
        return state, further(made, scores)

    zero = jnp.zeros(B, jnp.int32)
    made = GeneratedTokens(
        jnp.full((B, buffer_size), -1, jnp.int32), zero, jnp.full(B, START, jnp.int32), zero, jnp.int32(0)
    )
    state, made = jax.lax.while_loop(unfinished, body, (state, further(made, scores)))
    return made.tokens, made.lengths, state
