"""Beam search: the likeliest continuations, as far as a number of hypotheses shows them."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from zoo.decoding.decode_step import IncrementalDecoder, State, UnstackedWeights, select_rows
from zoo.decoding.stop_strings import START, STOPPED


class Hypotheses(NamedTuple):
    """Of every prompt `beams` texts, the best first.

    Attributes:
        tokens: [B, beams, N]; -1 after the end.
        lengths: [B, beams].
        scores: [B, beams]; -infinity where there is none.
        reading: [B, beams], state of the stopping automaton.
    """

    tokens: Int[Array, "B W N"]
    lengths: Int[Array, "B W"]
    scores: Float[Array, "B W"]
    stop_state: Int[Array, "B W"]

    def pick(self, scores: Float[Array, "B M"], beams: int) -> "Hypotheses":
        """The best by `scores`."""
        scores, places = jax.lax.top_k(scores, beams)
        return Hypotheses(
            _gather(self.tokens, places), _gather(self.lengths, places), scores, _gather(self.stop_state, places)
        )

    def and_also(self, others: "Hypotheses") -> "Hypotheses":
        """Both."""
        return Hypotheses(*(jnp.concatenate(pair, axis=1) for pair in zip(self, others, strict=True)))


def _gather(x: Array, places: Int[Array, "B W"]) -> Array:
    return jnp.take_along_axis(x, places.reshape(*places.shape, *[1] * (x.ndim - 2)), axis=1)


@partial(jax.jit, static_argnames=("decoder", "beams", "buffer_size"))
def search(
    decoder: IncrementalDecoder,
    weights: UnstackedWeights,
    state: State,
    scores: Float[Array, "B V"],
    stop: Int[Array, "V Q"],
    alpha: Float[Array, ""],
    new_tokens: Int[Array, ""],
    beams: int,
    buffer_size: int,
) -> tuple[Int[Array, "B W N"], Int[Array, "B W"], Float[Array, "B W"]]:
    """Finds texts y of high log p(y | prompt) / |y|^alpha, where |y| counts the new tokens, the one
    that stops included.

    The exponent is that of Hugging Face's `length_penalty` (and fairseq's `lenpen`); Wu et al.
    2016, eq. 14, use ((5 + |y|) / 6)^alpha instead. A text ends where the automaton says so, or at
    `new_tokens`. Of the continuations of all hypotheses the best `beams` are looked at; those that
    end are kept, and the search goes on with the best `beams` that do not end. It is over when no
    hypothesis can come to be better than the worst of `beams` texts that ended: since log p falls
    with every token, at best it stays as it is while the length grows, for alpha > 0, to
    `new_tokens` (Hugging Face: `early_stopping="never"`).

    Args:
        steps, weights: the model.
        state, scores: of `prefill`.
        stop: of `stop_table`.
        alpha: 0 for the likeliest text, above 0 for longer ones.
        new_tokens: most tokens of a text.
        beams: W.
        room: N, at least `new_tokens`.

    Returns:
        (tokens, lengths, scores) of the texts that ended, for each prompt the best first.
    """
    B, V = scores.shape
    empty = Hypotheses(jnp.full((B, beams, buffer_size), -1, jnp.int32), jnp.zeros((B, beams), jnp.int32), jnp.full((B, beams), -jnp.inf),
                       jnp.full((B, beams), START, jnp.int32))  # fmt: skip
    # All hypotheses of a prompt are the same before the first token: one of them counts.
    open_ = empty._replace(scores=empty.scores.at[:, 0].set(0.0))
    first = jnp.repeat(jnp.arange(B), beams)

    def continued(open_: Hypotheses, ended: Hypotheses, scores: Float[Array, "B W V"], count: Int[Array, ""]):
        """The hypotheses after one more token, the numbers of those that they continue, and the
        texts that ended so far.
        """
        totals = (open_.scores[:, :, None] + jax.nn.log_softmax(scores, axis=-1)).reshape(B, beams * V)
        after = jnp.where(count + 1 < new_tokens, stop.T[open_.stop_state], STOPPED).reshape(B, beams * V)

        def take(totals: Float[Array, "B M"]) -> tuple[Hypotheses, Int[Array, "B W"]]:
            best, places = jax.lax.top_k(totals, beams)
            origin, token = places // V, (places % V).astype(jnp.int32)
            tokens = jax.lax.dynamic_update_slice_in_dim(
                _gather(open_.tokens, origin), token[:, :, None], count, axis=2
            )
            return Hypotheses(tokens, jnp.full((B, beams), count + 1), best, _gather(after, places)), origin

        candidates, _ = take(totals)
        further, origin = take(jnp.where(after == STOPPED, -jnp.inf, totals))
        length = (count + 1).astype(jnp.float32)
        final = jnp.where(candidates.stop_state == STOPPED, candidates.scores / length**alpha, -jnp.inf)
        both = ended.and_also(candidates._replace(scores=final))
        return further, origin, both.pick(both.scores, beams)

    def unfinished(carry) -> Bool[Array, ""]:
        _, open_, ended, _, count = carry
        length = jnp.where(alpha > 0, new_tokens, count).astype(jnp.float32)
        return (count < new_tokens) & (open_.scores[:, 0] / length**alpha > ended.scores[:, -1]).any()

    def body(carry):
        state, open_, ended, origin, count = carry
        state = select_rows(state, (jnp.arange(B)[:, None] * beams + origin).reshape(-1))
        newest = jax.lax.dynamic_index_in_dim(open_.tokens, count - 1, axis=2, keepdims=False)
        # A hypothesis that is none has no token.
        state, scores = decoder.step(weights, state, jnp.maximum(newest, 0).reshape(-1))
        open_, origin, ended = continued(open_, ended, scores.reshape(B, beams, V), count)
        return state, open_, ended, origin, count + 1

    open_, origin, ended = continued(open_, empty, jnp.broadcast_to(scores[:, None], (B, beams, V)), jnp.int32(0))
    carry = select_rows(state, first), open_, ended, origin, jnp.int32(1)
    _, _, ended, _, _ = jax.lax.while_loop(unfinished, body, carry)
    return ended.tokens, ended.lengths, ended.scores
