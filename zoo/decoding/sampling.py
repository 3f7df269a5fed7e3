"""Chooses the next token: greedily, or sampled with temperature, top-k and top-p."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Key

from zoo.errors import ConfigError


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sampling:
    """Samples from softmax(logits / temperature), truncated to its most probable tokens.

    At temperature 0 the most probable token is taken. First the `top_k` most probable tokens are
    kept (Fan et al. 2018, section 5.1) and their probabilities renormalised; of these, the fewest
    that together have a probability of at least `top_p` (Holtzman et al. 2020, section 3.1). Ties
    with the last token that is kept are kept too.

    Attributes:
        temperature: divides the logits.
        top_k: number of tokens; 0 for no limit.
        top_p: probability; 1 for no limit.
    """

    temperature: Float[ArrayLike, ""] = 1.0
    top_k: Int[ArrayLike, ""] = 0
    top_p: Float[ArrayLike, ""] = 1.0

    def checked(self) -> "Sampling":
        """Returns self. Raises ConfigError for a number out of range."""
        if not 0 <= self.temperature < float("inf"):
            raise ConfigError(f"temperature={self.temperature} must be a finite number of at least 0")
        if self.top_k < 0:
            raise ConfigError(f"top_k={self.top_k} must be at least 1, or 0 for no limit")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p={self.top_p} must be above 0 and at most 1")
        return self


def sample_tokens(logits: Float[Array, "B V"], keys: Key[Array, " B"], sampling: Sampling) -> Int[Array, " B"]:
    """Samples a token for every row, each with its own key.

    The temperature must not be 0; see `argmax_token`.
    """
    logits = logits / sampling.temperature
    limited = (sampling.top_k > 0) | (sampling.top_p < 1)
    kept = jax.lax.cond(limited, lambda: top_k_top_p_mask(logits, sampling), lambda: jnp.ones(logits.shape, bool))
    return jax.vmap(jax.random.categorical)(keys, jnp.where(kept, logits, -jnp.inf)).astype(jnp.int32)


def argmax_token(logits: Float[Array, "B V"]) -> Int[Array, " B"]:
    """Returns the token of the highest logit, the first one if several are equal."""
    return jnp.argmax(logits, axis=-1).astype(jnp.int32)


def top_k_top_p_mask(logits: Float[Array, "B V"], sampling: Sampling) -> Bool[Array, "B V"]:
    """Returns which tokens `top_k` and then `top_p` keep of softmax(logits)."""
    wanted = jnp.where(sampling.top_k > 0, sampling.top_k, logits.shape[-1])
    kept = highest_mass(logits, jnp.ones(logits.shape), wanted.astype(jnp.float32))
    probabilities = jax.nn.softmax(jnp.where(kept, logits, -jnp.inf), axis=-1)
    # All probabilities may add up to slightly less than 1.
    return kept & ((sampling.top_p >= 1) | highest_mass(logits, probabilities, sampling.top_p))


def highest_mass(
    logits: Float[Array, "B V"], weights: Float[Array, "B V"], wanted: Float[Array, ""]
) -> Bool[Array, "B V"]:
    """Returns a mask of the smallest set of highest logits whose weights sum to at least `wanted`;
    logits equal to the lowest of them are included.

    The threshold is found bit by bit: 32 sums are faster than sorting a vocabulary, and `wanted`
    may be traced.
    """
    bits = jax.lax.bitcast_convert_type(logits.astype(jnp.float32), jnp.int32)
    # As integers, the bits of negative numbers are in reverse order.
    order = jnp.where(bits < 0, bits ^ jnp.iinfo(jnp.int32).max, bits)

    def halve(_, ends):
        low, high = ends
        middle = (low | high) - ((low ^ high) >> 1)  # Half of the sum, rounded up, without overflow.
        enough = jnp.where(order >= middle[:, None], weights, 0).sum(axis=-1) >= wanted
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle - 1)

    ends = jnp.full(logits.shape[0], jnp.iinfo(jnp.int32).min), jnp.full(logits.shape[0], jnp.iinfo(jnp.int32).max)
    threshold, _ = jax.lax.fori_loop(0, 32, halve, ends)
    return order >= threshold[:, None]
