"""A plug-in that uses everything a layer can have: retention, i.e. linear attention with a decay. It
has a matrix-valued cache, a loss term, a statistic, and parameters for a parameter group.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo import plugin


class Memory(NamedTuple):
    """The sum over s <= t of d^(t - s) k_s v_s, of each row and head."""

    state: Float[Array, "B H K V"]

    def take(self, rows):
        return Memory(self.state[rows])


class Retention(plugin.Attention):
    """y_t = sum over s <= t of d^(t - s) (q_t . k_s) v_s / sqrt(m) (Sun et al. 2023, eq. 5), with a
    learned decay d = sigmoid(a) and a running mean m of y^2 for each head.
    """

    def __init__(self, config, cross=False, gain=1.0):
        super().__init__(config, cross, gain)
        heads = config.attention.num_heads
        self.decay = plugin.parameter((heads,), (None,), lambda key, shape: jnp.linspace(1.0, 4.0, *shape), "scalar")
        self.variance = plugin.statistic((heads,), plugin.ones)

    def attend(self, x, projected, context, shared):
        del x, shared
        q, k, v = (heads.astype(jnp.float32) for heads in projected)
        positions = jnp.broadcast_to(context.positions, q.shape[:2])
        distance = positions[:, :, None] - positions[:, None, :]
        visible = (distance >= 0) & (positions >= 0)[:, None, :]
        weights = jnp.where(visible[:, None], self._powers(distance), 0)
        y = jnp.einsum("bhts,bthk,bshk,bshv->bthv", weights, q, k, v)
        if context.cache is not None:
            decay_to_newest = self._powers(context.cache.newest[:, None] - positions)
            weights_of_keys = jnp.where((positions >= 0)[:, None], decay_to_newest, 0)
            context.cache.entries[self.part] = Memory(jnp.einsum("bhs,bshk,bshv->bhkv", weights_of_keys, k, v))
        tokens = (positions >= 0).astype(jnp.float32)
        mean = jnp.einsum("bthv,bt->h", jnp.square(y), tokens) / (tokens.sum() * v.shape[-1])
        context.add_loss("retained", mean.mean())
        if context.training:
            momentum = self.config.mean_kept
            self.variance.set_value(momentum * self.variance[...] + (1 - momentum) * jax.lax.stop_gradient(mean))
        return self._normed(y, projected)

    def attend_next(self, q, k, v, context, shared):
        del shared
        squeezed = [heads.astype(jnp.float32)[:, 0] for heads in (q, k, v)]
        before = context.cache.entries[self.part].state
        state = jax.nn.sigmoid(self.decay[...])[:, None, None] * before + jnp.einsum("bhk,bhv->bhkv", *squeezed[1:])
        context.cache.entries[self.part] = Memory(state)
        return self._normed(jnp.einsum("bhk,bhkv->bhv", squeezed[0], state)[:, None], (q, k, v))

    def _powers(self, distance):
        """Returns d^n, with a dimension of heads after that of rows."""
        rate = jax.nn.log_sigmoid(self.decay[...]).reshape(-1, *(1,) * (distance.ndim - 1))
        return jnp.exp(jnp.maximum(distance, 0)[:, None] * rate)

    def _normed(self, y, projected):
        return (y * jax.lax.rsqrt(self.variance[...])[:, None] * self.config.scale).astype(projected[0].dtype)

    @staticmethod
    def product_flops(layer, queries, keys):
        return 4 * layer.attention.num_heads * layer.attention.head_dim * queries * keys


def problems(flat, architecture):
    if architecture != "decoder":
        yield "model.attention.kind=retention reads a row from left to right; it needs model.architecture=decoder"
    if flat["data.isolate_documents"]:
        yield "model.attention.kind=retention reads across documents; set data.isolate_documents=false"
    if flat["model.attention.num_kv_heads"] != flat["model.attention.num_heads"]:
        yield "model.attention.kind=retention has a key for every head; leave out model.attention.num_kv_heads"


plugin.register(
    plugin.Kind(
        "model.attention.kind",
        "retention",
        "linear attention with a learned decay of each head (Sun et al. 2023)",
        traits=frozenset({"heads", "positions"}),
        fields=(
            plugin.Field("model.attention.retained_weight", 0.0, float, "weight of the mean of y^2", minimum=0),
            plugin.Field(
                "model.attention.mean_kept", 0.9, float, "share of m that an update keeps", minimum=0, maximum=1
            ),
        ),
        problems=problems,
        loss_terms={"retained": "model.attention.retained_weight"},
    ),
    Retention,
)
