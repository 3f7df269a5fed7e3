"""A plug-in with everything that a layer can have: retention, i.e. linear attention with a decay,
whose cache is a matrix, with a term of the loss, a statistic and parameters for a group of their own.
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
        seen = (distance >= 0) & (positions >= 0)[:, None, :]
        weights = jnp.where(seen[:, None], self._powers(distance), 0)
        y = jnp.einsum("bhts,bthk,bshk,bshv->bthv", weights, q, k, v)
        if context.cache is not None:
            left = self._powers(context.cache.newest[:, None] - positions)
            kept = jnp.where((positions >= 0)[:, None], left, 0)
            context.cache.entries[self.part] = Memory(jnp.einsum("bhs,bshk,bshv->bhkv", kept, k, v))
        tokens = (positions >= 0).astype(jnp.float32)
        mean = jnp.einsum("bthv,bt->h", jnp.square(y), tokens) / (tokens.sum() * v.shape[-1])
        context.add_loss("retained", mean.mean())
        if context.training:
            keep = self.config.mean_kept
            self.variance.set_value(keep * self.variance[...] + (1 - keep) * jax.lax.stop_gradient(mean))
        return self._normed(y, projected)

    def attend_next(self, q, k, v, context, shared):
        del shared
        wide = [heads.astype(jnp.float32)[:, 0] for heads in (q, k, v)]
        before = context.cache.entries[self.part].state
        state = jax.nn.sigmoid(self.decay[...])[:, None, None] * before + jnp.einsum("bhk,bhv->bhkv", *wide[1:])
        context.cache.entries[self.part] = Memory(state)
        return self._normed(jnp.einsum("bhk,bhkv->bhv", wide[0], state)[:, None], (q, k, v))

    def _powers(self, distance):
        """d^n, with the heads after the rows."""
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
