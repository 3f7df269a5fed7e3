"""Beam search: the most probable continuations among a limited number of hypotheses."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from zoo.decoding.decode_step import IncrementalDecoder, State, UnstackedWeights, select_rows
from zoo.decoding.stop_strings import START, STOPPED, StoppingCriteria


class BeamSettings(NamedTuple):
    """Settings of a beam search.

    Attributes:
        beams: number of hypotheses per prompt.
        length_penalty: alpha; above 0 favours longer texts.
    """

    beams: int = 4
    length_penalty: float = 1.0


class Hypotheses(NamedTuple):
    """The best `beams` texts of every prompt, best first.

    Attributes:
        tokens: [B, beams, N]; -1 after the end.
        lengths: [B, beams].
        scores: [B, beams]; -infinity where there is no hypothesis.
        stop_state: [B, beams], state of the stopping automaton.
    """

    tokens: Int[Array, "B W N"]
    lengths: Int[Array, "B W"]
    scores: Float[Array, "B W"]
    stop_state: Int[Array, "B W"]

    @classmethod
    def none(cls, batch: int, beams: int, length: int) -> "Hypotheses":
        """Returns no hypotheses, with room for texts of `length` tokens."""
        return cls(
            jnp.full((batch, beams, length), -1, jnp.int32),
            jnp.zeros((batch, beams), jnp.int32),
            jnp.full((batch, beams), -jnp.inf),
            jnp.full((batch, beams), START, jnp.int32),
        )

    def best(self, scores: Float[Array, "B M"], beams: int) -> "Hypotheses":
        """Returns the `beams` best by `scores`."""
        scores, places = jax.lax.top_k(scores, beams)
        return Hypotheses(
            _gather(self.tokens, places), _gather(self.lengths, places), scores, _gather(self.stop_state, places)
        )

    def concatenate(self, others: "Hypotheses") -> "Hypotheses":
        """Returns these hypotheses and `others`."""
        return Hypotheses(*(jnp.concatenate(pair, axis=1) for pair in zip(self, others, strict=True)))


def _gather(x: Array, places: Int[Array, "B W"]) -> Array:
    return jnp.take_along_axis(x, places.reshape(*places.shape, *[1] * (x.ndim - 2)), axis=1)


def _extend(
    open_: Hypotheses,
    ended: Hypotheses,
    logits: Float[Array, "B W V"],
    count: Int[Array, ""],
    criteria: StoppingCriteria,
    alpha: Float[Array, ""],
) -> tuple[Hypotheses, Int[Array, "B W"], Hypotheses]:
    """Extends hypotheses of `count` tokens by one token.

    Returns:
        (open hypotheses, the hypothesis that each of them continues, texts that have ended so far).
    """
    B, beams, V = logits.shape
    totals = (open_.scores[:, :, None] + jax.nn.log_softmax(logits, axis=-1)).reshape(B, beams * V)
    after = jnp.where(count + 1 < criteria.max_new_tokens, criteria.table.T[open_.stop_state], STOPPED)
    after = after.reshape(B, beams * V)

    def take(totals: Float[Array, "B M"]) -> tuple[Hypotheses, Int[Array, "B W"]]:
        best, places = jax.lax.top_k(totals, beams)
        origin, token = places // V, (places % V).astype(jnp.int32)
        tokens = jax.lax.dynamic_update_slice_in_dim(_gather(open_.tokens, origin), token[:, :, None], count, axis=2)
        return Hypotheses(tokens, jnp.full((B, beams), count + 1), best, _gather(after, places)), origin

    candidates, _ = take(totals)
    further, origin = take(jnp.where(after == STOPPED, -jnp.inf, totals))
    length = (count + 1).astype(jnp.float32)
    final = jnp.where(candidates.stop_state == STOPPED, candidates.scores / length**alpha, -jnp.inf)
    both = ended.concatenate(candidates._replace(scores=final))
    return further, origin, both.best(both.scores, beams)


@partial(jax.jit, static_argnames=("decoder", "beams", "buffer_size"))
def search(
    decoder: IncrementalDecoder,
    weights: UnstackedWeights,
    state: State,
    logits: Float[Array, "B V"],
    criteria: StoppingCriteria,
    alpha: Float[Array, ""],
    beams: int,
    buffer_size: int,
) -> tuple[Int[Array, "B W N"], Int[Array, "B W"], Float[Array, "B W"]]:
    """Searches texts y of high log p(y | prompt) / |y|^alpha.

    |y| counts the new tokens, including the one that stops. The exponent is that of Hugging Face's
    `length_penalty` (fairseq's `lenpen`); Wu et al. 2016, eq. 14, use ((5 + |y|) / 6)^alpha
    instead. A text ends where the automaton stops, or at `max_new_tokens`. Of the continuations of
    all hypotheses, the best `beams` are considered; those that end are kept, and the search
    continues with the best `beams` that do not end. It is over when no hypothesis can still beat
    the worst of `beams` ended texts: log p falls with every token, so at best it stays as it is
    while the length grows, for alpha > 0, to `max_new_tokens` (Hugging Face:
    `early_stopping="never"`).

    Args:
        decoder, weights: the model.
        state, logits: result of `prefill`.
        criteria: when a text ends.
        alpha: 0 for the most probable text, above 0 for longer ones.
        beams: W.
        buffer_size: N, at least `max_new_tokens`.

    Returns:
        (tokens, lengths, scores) of the texts that ended, best first for each prompt.
    """
    B, V = logits.shape
    none = Hypotheses.none(B, beams, buffer_size)
    # All hypotheses of a prompt are equal before the first token: only one of them counts.
    open_ = none._replace(scores=none.scores.at[:, 0].set(0.0))
    first = jnp.repeat(jnp.arange(B), beams)

    def unfinished(carry) -> Bool[Array, ""]:
        _, open_, ended, _, count = carry
        length = jnp.where(alpha > 0, criteria.max_new_tokens, count).astype(jnp.float32)
        return (count < criteria.max_new_tokens) & (open_.scores[:, 0] / length**alpha > ended.scores[:, -1]).any()

    def body(carry):
        state, open_, ended, origin, count = carry
        state = select_rows(state, (jnp.arange(B)[:, None] * beams + origin).reshape(-1))
        newest = jax.lax.dynamic_index_in_dim(open_.tokens, count - 1, axis=2, keepdims=False)
        # An absent hypothesis has no token.
        state, logits = decoder.step(weights, state, jnp.maximum(newest, 0).reshape(-1))
        open_, origin, ended = _extend(open_, ended, logits.reshape(B, beams, V), count, criteria, alpha)
        return state, open_, ended, origin, count + 1

    repeated = jnp.broadcast_to(logits[:, None], (B, beams, V))
    open_, origin, ended = _extend(open_, none, repeated, jnp.int32(0), criteria, alpha)
    carry = select_rows(state, first), open_, ended, origin, jnp.int32(1)
    _, _, ended, _, _ = jax.lax.while_loop(unfinished, body, carry)
    return ended.tokens, ended.lengths, ended.scores
