"""Choice of experts: scores of a router, the experts that each token is sent to, and their weights."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from zoo.config import ResolvedConfig

SMALLEST_SUM = 1e-20
"""Added to the sum of the chosen scores before it divides them (DeepSeek-AI 2024, V3's published
code)."""


class Routing(NamedTuple):
    """The experts of every token.

    Attributes:
        chosen: the numbers of the k experts of each token.
        gates: the weights of their outputs.
        shares: the scores of all experts, divided by their sum.
    """

    chosen: Int[Array, "B T k"]
    gates: Float[Array, "B T k"]
    shares: Float[Array, "B T E"]


def router_scores(logits: Float[Array, "B T E"], kind: str) -> Float[Array, "B T E"]:
    """Returns softmax(logits) over the experts, or the sigmoid of each (DeepSeek-AI 2024, V3, eq.
    15).
    """
    return jax.nn.softmax(logits, axis=-1) if kind == "softmax" else jax.nn.sigmoid(logits)


def score_shares(scores: Float[Array, "B T E"]) -> Float[Array, "B T E"]:
    """Returns scores divided by their sum over the experts."""
    return scores / jnp.maximum(scores.sum(axis=-1, keepdims=True), SMALLEST_SUM)


def route(logits: Float[Array, "B T E"], bias: Float[Array, " E"] | None, experts: ResolvedConfig) -> Routing:
    """Chooses the experts of every token, in float32. With the scores s of a token and the bias b,

        chosen = the k experts with the largest s_i + b_i,  gate_i = c s_i / sum of s over the chosen

    The division is left out without `renormalise`; c is `scale`. The bias changes the choice alone
    and never the gates (Wang et al. 2024, arXiv:2408.15664, eq. 3). With groups, only experts of the
    `chosen_groups` groups with the largest sum of their two largest s_i + b_i are chosen from, or with
    `group_score=max` of those with the largest s_i + b_i (DeepSeek-AI 2024, V2, section 2.2.2); those
    of other groups have s_i + b_i of minus infinity (DeepSeek-AI 2024, V3, section 2.1.2). Of equal
    scores the expert with the smaller number is chosen.

    Args:
        logits: of the router.
        bias: b, or None for 0.
        experts: the fields below `model.ffn.experts`.
    """
    scores = router_scores(logits, experts.scores)
    ranked = scores if bias is None else scores + bias
    if experts.groups > 1:
        ranked = jnp.where(_in_chosen_groups(ranked, experts), ranked, -jnp.inf)
    _, chosen = jax.lax.top_k(ranked, experts.per_token)
    gates = jnp.take_along_axis(scores, chosen, axis=-1)
    if experts.renormalise:
        gates = gates / (gates.sum(axis=-1, keepdims=True) + SMALLEST_SUM)
    return Routing(chosen, gates * experts.scale, score_shares(scores))


def _in_chosen_groups(ranked: Float[Array, "B T E"], experts: ResolvedConfig) -> Bool[Array, "B T E"]:
    """Returns which experts are in the groups that a token's experts are chosen from."""
    by_group = ranked.reshape(*ranked.shape[:-1], experts.groups, -1)
    counted = 1 if experts.group_score == "max" else min(2, by_group.shape[-1])
    best = jax.lax.top_k(by_group, counted)[0].sum(axis=-1)
    _, kept = jax.lax.top_k(best, experts.chosen_groups)
    return jnp.repeat(jax.nn.one_hot(kept, experts.groups, dtype=bool).any(axis=-2), by_group.shape[-1], axis=-1)


def assignments(routing: Routing, there: Bool[Array, "B T"]) -> Float[Array, "B T E"]:
    """Returns 1 for the experts that a token is sent to, else 0; 0 for padding."""
    sent = jax.nn.one_hot(routing.chosen, routing.shares.shape[-1], dtype=jnp.float32).sum(axis=-2)
    return sent * there[..., None]


def weights_of(routing: Routing) -> Float[Array, "B T E"]:
    """Returns the gates of all experts, 0 for those that are not chosen."""
    return (jax.nn.one_hot(routing.chosen, routing.shares.shape[-1]) * routing.gates[..., None]).sum(axis=-2)


def within_capacity(
    chosen: Int[Array, "B T k"], sent: Float[Array, "B T E"], capacity: int | Int[Array, "B 1 1"]
) -> Bool[Array, "B T k"]:
    """Returns which assignments are among the first `capacity` ones of their expert in their row, in
    the order of the tokens, so that no token depends on later ones of the row but by their number.
    """
    earlier = jnp.cumsum(sent, axis=1) - sent
    return jnp.take_along_axis(earlier, chosen, axis=-1) < capacity


def balance_loss(shares: Float[Array, "B T E"], sent: Float[Array, "B T E"], there: Bool[Array, "B T"]) -> Array:
    """Returns E sum_i f_i P_i: f_i is the share of all assignments that expert i has, P_i the mean of
    its share of the scores, over all tokens (Fedus et al. 2021, eq. 4 to 6, with k experts per token).

    It is 1 where both are uniform. No gradient flows through f.
    """
    return _balance(shares, sent, there, axes=(0, 1))


def sequence_balance_loss(
    shares: Float[Array, "B T E"], sent: Float[Array, "B T E"], there: Bool[Array, "B T"]
) -> Array:
    """Returns the mean over the rows of E sum_i f_i P_i within each (DeepSeek-AI 2024, V3, eq. 17 to
    20).
    """
    rows = there.any(axis=1)
    losses = _balance(shares, sent, there, axes=(1,))
    return jnp.where(rows, losses, 0).sum() / jnp.maximum(rows.sum(), 1)


def _balance(shares: Array, sent: Array, there: Array, axes: tuple[int, ...]) -> Array:
    assigned = jax.lax.stop_gradient(sent).sum(axis=axes)
    share = assigned / jnp.maximum(assigned.sum(axis=-1, keepdims=True), 1)
    tokens = jnp.maximum(there.sum(axis=axes), 1)[..., None]
    mean = jnp.where(there[..., None], shares, 0).sum(axis=axes) / tokens
    return shares.shape[-1] * (share * mean).sum(axis=-1)


def router_z_loss(logits: Float[Array, "B T E"], there: Bool[Array, "B T"]) -> Array:
    """Returns the mean over the tokens of (log sum_i exp(logit_i))^2 (Zoph et al. 2022, ST-MoE, eq.
    5).
    """
    squares = jnp.square(jax.nn.logsumexp(logits, axis=-1))
    return jnp.where(there, squares, 0).sum() / jnp.maximum(there.sum(), 1)


def entropy(shares: Float[Array, "B T E"]) -> Float[Array, "B T"]:
    """Returns -sum_i p_i log p_i of the shares of the scores, in nats."""
    return -jnp.where(shares > 0, shares * jnp.log(jnp.maximum(shares, SMALLEST_SUM)), 0).sum(axis=-1)
