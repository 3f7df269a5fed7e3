"""How the next token is chosen from the scores: the likeliest, or drawn from a distribution that
may be sharpened and cut.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from zoo.errors import ConfigError


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sampling:
    """Draws from softmax(scores / temperature) cut to its likeliest tokens; at temperature 0 the
    likeliest is taken.

    Of the `top_k` likeliest tokens (Fan et al. 2018, section 5.1), whose probabilities are made to
    add up to 1 again, the fewest likeliest are kept that have a probability of at least `top_p`
    together (Holtzman et al. 2020, section 3.1). Tokens as likely as the last that is kept are kept
    too.

    Attributes:
        temperature: divides the scores.
        top_k: number of tokens; 0 for no limit.
        top_p: probability; 1 for no limit.

    Raises:
        ConfigError: for a number out of its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def checked(self) -> "Sampling":
        """Itself, if its numbers are in their ranges."""
        if not 0 <= self.temperature < float("inf"):
            raise ConfigError(f"temperature={self.temperature} must be a number from 0 on")
        if self.top_k < 0:
            raise ConfigError(f"top_k={self.top_k} must be at least 1, or 0 for no limit")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p={self.top_p} must be above 0 and at most 1")
        return self


def sample_tokens(scores: Float[Array, "B V"], keys: Key[Array, " B"], sampling: Sampling) -> Int[Array, " B"]:
    """Draws a token for every row, each with a key of its own. The temperature must not be 0: see
    `argmax_token`.
    """
    scores = scores / sampling.temperature
    limited = (sampling.top_k > 0) | (sampling.top_p < 1)
    kept = jax.lax.cond(limited, lambda: top_k_top_p_mask(scores, sampling), lambda: jnp.ones(scores.shape, bool))
    return jax.vmap(jax.random.categorical)(keys, jnp.where(kept, scores, -jnp.inf)).astype(jnp.int32)


def argmax_token(scores: Float[Array, "B V"]) -> Int[Array, " B"]:
    """The token of the highest score, the first of equals."""
    return jnp.argmax(scores, axis=-1).astype(jnp.int32)


def top_k_top_p_mask(scores: Float[Array, "B V"], sampling: Sampling) -> Bool[Array, "B V"]:
    """Which tokens `top_k` and then `top_p` keep of softmax(scores)."""
    wanted = jnp.where(sampling.top_k > 0, sampling.top_k, scores.shape[-1])
    kept = highest_mass(scores, jnp.ones(scores.shape), wanted.astype(jnp.float32))
    probabilities = jax.nn.softmax(jnp.where(kept, scores, -jnp.inf), axis=-1)
    # All of them may add up to a little less than 1.
    return kept & ((sampling.top_p >= 1) | highest_mass(scores, probabilities, sampling.top_p))


def highest_mass(
    scores: Float[Array, "B V"], weights: Float[Array, "B V"], wanted: Float[Array, ""]
) -> Bool[Array, "B V"]:
    """The highest scores whose weights add up to at least `wanted`, as few as possible and all
    equals of the last.

    The threshold is found bit by bit, which takes 32 sums where sorting a vocabulary takes longer,
    and `wanted` may be traced.
    """
    bits = jax.lax.bitcast_convert_type(scores.astype(jnp.float32), jnp.int32)
    # As integers, the bits of negative numbers run the other way.
    order = jnp.where(bits < 0, bits ^ jnp.iinfo(jnp.int32).max, bits)

    def halve(_, ends):
        low, high = ends
        middle = (low | high) - ((low ^ high) >> 1)  # Half of the sum, rounded up, without overflow.
        enough = jnp.where(order >= middle[:, None], weights, 0).sum(axis=-1) >= wanted
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle - 1)

    ends = jnp.full(scores.shape[0], jnp.iinfo(jnp.int32).min), jnp.full(scores.shape[0], jnp.iinfo(jnp.int32).max)
    threshold, _ = jax.lax.fori_loop(0, 32, halve, ends)
    return order >= threshold[:, None]
