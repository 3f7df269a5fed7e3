"""Attention by random features, in time and memory linear in T."""

from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention.favor import performer_read, performer_sums, random_features
from zoo.layers.attention.projections import Attention, Projected
from zoo.layers.attention.token_mixer import SharedScores
from zoo.layers.context import Context
from zoo.layers.parameter import statistic


class PerformerAttention(Attention):
    """Attention whose softmax is estimated by random features: `performer_attention` in
    `zoo.layers.attention.favor`.

    The features are a statistic, redrawn every `attention.redraw_every` steps. There are no
    attention weights to record.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        attention = config.attention
        self.features = statistic((attention.features, attention.head_dim), random_features, attention.redraw_every)

    def attend(
        self, x: Float[Array, "B T D"], projected: Projected, context: Context, shared: Float[Array, "#B H T S"] | None
    ) -> Float[Array, "B T H V"]:
        """See `Attention.attend`."""
        del x, shared
        attended, sums = performer_sums(*projected, self.features[...], context, self.config.scale)
        if context.cache is not None:
            context.cache.entries[self.part] = sums
        return attended

    def attend_next(
        self,
        q: Float[Array, "B 1 H K"],
        k: Float[Array, "B 1 G K"],
        v: Float[Array, "B 1 G V"],
        context: Context,
        shared: SharedScores | None,
    ) -> Float[Array, "B 1 H V"]:
        """See `Attention.attend_next`."""
        del shared
        entries = context.cache.entries
        attended, entries[self.part] = performer_sums(
            q, k, v, self.features[...], context, self.config.scale, entries[self.part]
        )
        return attended

    def attend_memory(self, q: Float[Array, "M R H K"], context: Context) -> Float[Array, "M R H V"]:
        """See `Attention.attend_memory`."""
        return performer_read(q, self.features[...], self.config.scale, context.cache.entries[self.part])

    @staticmethod
    def product_flops(layer: ResolvedConfig, queries: float, keys: float) -> float:
        """Returns the operations of 4 products with M features: features of queries and of keys, the
        sum over keys, the product with a query.
        """
        del keys
        attention = layer.attention
        return 8 * attention.num_heads * attention.head_dim * attention.features * queries

    @staticmethod
    def state_bytes(layer: ResolvedConfig) -> int:
        """Returns the bytes of M + 1 sums of V + 1 values and of a maximum, in float32, for each of G
        heads.
        """
        attention = layer.attention
        sums = (attention.features + 1) * (attention.head_dim + 1) + 1
        return 4 * attention.num_kv_heads * sums
