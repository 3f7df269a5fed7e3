"""Attention whose keys and values come from a small vector for each token, which is all that the cache
keeps.
"""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention.head_options import without_own_value
from zoo.layers.attention.kernels.products import cached_attention
from zoo.layers.attention.key_values import KeyValues
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.attention.token_mixer import SharedScores
from zoo.layers.context import Context
from zoo.layers.norm import applied_scale, inner_epsilon, rms_norm
from zoo.layers.parameter import Linear, kernel_initializer, ones, parameter, zeros


class LatentNorm(nnx.Module):
    """c / sqrt(mean(c^2) + epsilon) * scale over the elements of a latent vector; an RMSNorm whatever
    `norm.kind` is.
    """

    def __init__(self, config: ResolvedConfig, width: int):
        self.epsilon, self.unit_offset = inner_epsilon(config), config.norm.unit_offset
        self.scale = parameter((width,), (None,), zeros if self.unit_offset else ones)

    def __call__(self, x: Float[Array, "*leading W"]) -> Float[Array, "*leading W"]:
        """Normalises the vectors."""
        return rms_norm(x, applied_scale(self.scale, self.unit_offset), self.epsilon)


class LatentAttention(SoftmaxAttention):
    """y = concat_h(softmax(scale * (q_h . k_h + q'_h . k')) v_h) W_o, with k_h = c W_k and v_h = c W_v
    of K elements, c = Norm(x W_c) of r = `attention.latent_dim` elements, and k' = RoPE(x W') of R =
    `attention.rotary_dim` elements, which all heads share: multi-head latent attention (DeepSeek-AI
    2024, arXiv:2405.04434, DeepSeek-V2, section 2.1).

    The queries q_h, and q'_h, which RoPE rotates, are projected from x, or with r' =
    `attention.query_latent_dim` > 0 from Norm(x W_q) of r' elements. By default scale is
    1 / sqrt(K + R). As k_h is not rotated, q_h . (c W_k) = (q_h W_k^T) . c, and decoding needs no keys
    of single heads: the cache keeps c and k', r + R numbers for each token, which the H heads read as
    in multi-query attention, with the key (c, k') and the value c (section 2.1.2). Without RoPE
    nothing is rotated, and R is 0 unless it is given, as in Kimi Linear. Norm is an RMSNorm. With
    `attention.bias` the products with x and the output have a bias.

    YaRN's factor m multiplies q'_h and k' alone (as in transformers' DeepSeek-V3 without
    `mscale_all_dim`). DeepSeek's models sharpen the whole softmax instead: set
    `position.scaling.sharpening` to 1, and multiply `attention.scale` by m^2.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        attention, initializer = config.attention, kernel_initializer(config)
        r, R, r_query = attention.latent_dim, attention.rotary_dim, attention.query_latent_dim
        self.latent = Linear(config.dim, r, ("embed", None), attention.bias, initializer)
        self.latent_norm = LatentNorm(config, r)
        self.rotary_key = Linear(config.dim, R, ("embed", None), attention.bias, initializer) if R else None
        queries = (config.dim, r_query, ("embed", None), attention.bias, initializer)
        self.query_latent = Linear(*queries) if r_query else None
        self.query_latent_norm = LatentNorm(config, r_query) if r_query else None

    @property
    def key_dim(self) -> int:
        """Returns K + R, the width of a head's queries and keys."""
        return self.config.head_dim + self.config.rotary_dim

    def make_projections(self, config: ResolvedConfig, Q: int, G: int, gain: float) -> tuple[Linear, Linear, Linear]:
        """Returns W of the queries, W_k and W_v; Q = G = H."""
        attention, initializer = config.attention, kernel_initializer(config)
        K, r, r_query = attention.head_dim, attention.latent_dim, attention.query_latent_dim
        source, axis = (r_query, "latent") if r_query else (config.dim, "embed")
        return (
            Linear(source, Q * self.key_dim, (axis, "heads"), attention.bias and not r_query, initializer, heads=Q),
            Linear(r, G * K, ("latent", "kv_heads"), False, initializer, heads=G),
            Linear(r, G * self.value_dim, ("latent", "kv_heads"), False, kernel_initializer(config, gain), heads=G),
        )

    def __call__(
        self, x: Float[Array, "B T D"], context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Float[Array, "B T D"]:
        """Attends from every token to the keys that `context` makes visible; see
        `TokenMixer.__call__`.
        """
        q, kept = self._queries_and_latents(x, context)
        if context.cache is None or self.part not in context.cache.entries:
            attended = self.weighted(x, (q, *self._expanded(kept)), context, shared)
            if (cache := context.cache) is not None:
                cache.entries[self.part] = KeyValues.newest_of(*_entry(kept), cache, self.window_span)
        else:
            attended = self._attend_latents(q, kept, context, shared)
        return self.merge(attended, x, context)

    def _queries_and_latents(
        self, x: Float[Array, "B T D"], context: Context
    ) -> tuple[Float[Array, "B T H Q"], Float[Array, "B T W"]]:
        """Returns q_h and q'_h side by side, Q = K + R, and c and k' side by side, W = r + R."""
        source = x if self.query_latent is None else self.query_latent_norm(self.query_latent(x))
        q, latent = self.queries(self.query(source)), self.latent_norm(self.latent(x))
        if self.rotary_key is None:
            return q, latent
        plain, turned = jnp.split(q, [self.config.head_dim], axis=-1)
        turned, key = self.position.rotate(turned, self.rotary_key(x)[:, :, None], context.positions, context.positions)
        return jnp.concatenate([plain, turned], axis=-1), jnp.concatenate([latent, key[:, :, 0]], axis=-1)

    def _expanded(self, kept: Float[Array, "B S W"]) -> tuple[Float[Array, "B S H Q"], Float[Array, "B S H V"]]:
        """Returns the keys and values of all heads."""
        latent, turned = jnp.split(kept, [self.config.latent_dim], axis=-1)
        keys = self.key(latent).reshape(*kept.shape[:2], -1, self.config.head_dim)
        shared = jnp.broadcast_to(turned[:, :, None], (*keys.shape[:3], turned.shape[-1]))
        return jnp.concatenate([keys, shared], axis=-1), self.values(self.value(latent))

    def _attend_latents(
        self, q: Float[Array, "B 1 H Q"], kept: Float[Array, "B 1 W"], context: Context, shared: SharedScores | None
    ) -> Float[Array, "B 1 H V"]:
        """Attends from the next token of every row to the cache and to itself, and adds it to the
        cache.
        """
        r, K = self.config.latent_dim, self.config.head_dim
        w_key, w_value = (
            layer.kernel[...].astype(q.dtype).reshape(r, -1, width)
            for layer, width in ((self.key, K), (self.value, self.value_dim))
        )
        absorbed = jnp.einsum("bthk,rhk->bthr", q[..., :K], w_key)
        q = jnp.concatenate([absorbed, q[..., K:]], axis=-1)
        entry, query_context, scoring = self.with_next(*_entry(kept), context, shared)
        q = self._scaled(q, query_context, scoring)
        # k' is weighed too and then dropped, which is cheaper than a copy of the cache without it.
        latents = cached_attention(q, entry.keys, entry.keys, query_context, scoring)[..., :r]
        attended = jnp.einsum("bthr,rhv->bthv", latents, w_value)
        return without_own_value(attended, self.values(self.value(kept[..., :r]))) if self.exclusive else attended

    @staticmethod
    def product_flops(layer: ResolvedConfig, queries: float, keys: float) -> float:
        """Returns the operations of the scores and of p v, 2 H (K + R) and 2 H K for a query and a
        key that it sees, with expanded keys and values.
        """
        attention = layer.attention
        return 2 * attention.num_heads * (2 * attention.head_dim + attention.rotary_dim) * keys * queries

    @staticmethod
    def cached_numbers(layer: ResolvedConfig) -> int:
        """Returns r + R."""
        return layer.attention.latent_dim + layer.attention.rotary_dim

    cache_formula = "(r + R)"

    @staticmethod
    def letters(layer: ResolvedConfig) -> dict[int, str]:
        """Returns the letters r, R, r' and H (K + R)."""
        attention = layer.attention
        r, R, H = attention.latent_dim, attention.rotary_dim, attention.num_heads
        return {r: "r", R: "R", attention.query_latent_dim: "r'", H * (attention.head_dim + R): "H (K + R)"}

    @staticmethod
    def sharing(heads: int, groups: int) -> str:
        """Returns the name of the scheme, whatever H and G."""
        del heads, groups
        return "latent (MLA)"

    @staticmethod
    def key_value_source(layer: ResolvedConfig) -> str:
        """Returns r and R."""
        rest = "rotate" if layer.position.kind == "rope" else "of keys alone"
        return f"{layer.attention.latent_dim} numbers, {layer.attention.rotary_dim} {rest}"


def _entry(kept: Float[Array, "B T W"]) -> tuple[Float[Array, "B T 1 W"], Float[Array, "B T 1 0"]]:
    """Returns c and k' as the keys of one head, with values of width 0: c is the value too."""
    kept = kept[:, :, None]
    return kept, kept[..., :0]
