"""Softmax attention with forget gates, which lower the scores of older keys."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.attention.token_mixer import SharedScores
from zoo.layers.cache import Cache
from zoo.layers.context import Context
from zoo.layers.parameter import Linear, constant, kernel_initializer, parameter


class GateSums(NamedTuple):
    """Cumulative sums of ln f that a decoder keeps (see `ForgettingAttention`).

    Attributes:
        sums: c_s of the tokens in a ring whose slots are those of the keys.
        newest: c of the newest token.
    """

    sums: Float[Array, "B H C"]
    newest: Float[Array, "B H"]

    def take(self, rows: Int[Array, " R"]) -> "GateSums":
        """Returns R rows, by number."""
        return GateSums(self.sums[rows], self.newest[rows])

    @classmethod
    def newest_of(cls, c: Float[Array, "B T H"], cache: Cache, slots: int) -> "GateSums":
        """Returns the sums of the last `slots` tokens of each row; token t has position t."""
        source = jnp.clip(cache.positions(slots), 0, c.shape[1] - 1)[..., None]
        newest = jnp.take_along_axis(c, cache.newest[:, None, None], axis=1)[:, 0]
        return cls(jnp.take_along_axis(c, source, axis=1).swapaxes(1, 2), newest)

    def with_next(self, log_gate: Float[Array, "B H"], cache: Cache) -> "GateSums":
        """Returns the sums with that of the newest token of `cache`, in place of the oldest."""
        newest = self.newest + log_gate
        place = cache.newest_index % self.sums.shape[2]
        return GateSums(jax.lax.dynamic_update_slice_in_dim(self.sums, newest[..., None], place, axis=2), newest)


class ForgettingAttention(SoftmaxAttention):
    """score_h(t, s) + sum_{l=s+1..t} ln f_h(x_l), f_h(x) = sigmoid(x w_h + b_h), inside the softmax:
    attention with forget gates, FoX (Lin et al. 2025).

    Each token sets its own ALiBi slope, so no positions are needed. The sum is c_t - c_s, with the
    cumulative sums c of ln f over a row, in float32. Documents of a packed row need no reset: between
    two tokens of one document c_t - c_s has only gates of that document. b starts at
    `attention.forget_bias`.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        heads, first = config.attention.num_heads, config.attention.forget_bias
        self.forget = Linear(config.dim, heads, ("embed", "heads"), False, kernel_initializer(config))
        self.forget_bias = parameter((heads,), ("heads",), constant(first))

    def __call__(
        self, x: Float[Array, "B T D"], context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Float[Array, "B T D"]:
        """See `TokenMixer.__call__`."""
        log_gates = jax.nn.log_sigmoid(self.forget(x.astype(jnp.float32)) + self.forget_bias[...])
        cache, name = context.cache, f"{self.part} forgotten"
        if cache is not None and name in cache.entries:
            kept = cache.entries[name] = cache.entries[name].with_next(log_gates[:, 0], cache)
            own = (kept.newest[..., None] - kept.sums)[:, :, None]
            return super().__call__(
                x, context, (lambda positions: own) if shared is None else lambda positions: own + shared(positions)
            )
        c = jnp.cumsum(jnp.where((context.positions >= 0)[..., None], log_gates, 0), axis=1)
        if cache is not None:
            slots = min(self.window_span or cache.max_slots, cache.max_slots)
            cache.entries[name] = GateSums.newest_of(c, cache, slots)
        by_head = c.swapaxes(1, 2)
        own = by_head[..., :, None] - by_head[..., None, :]
        return super().__call__(x, context, own if shared is None else own + shared)
