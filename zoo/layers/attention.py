"""Self-attention: multi-head, grouped-query and multi-query, with an optional sliding window."""

import jax
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.context import Context
from zoo.layers.kernels import KERNELS, choose_kernel
from zoo.layers.parameter import Linear, kernel_initializer
from zoo.layers.position import Position


class Attention(nnx.Module):
    """Attention(x) = concat_h(softmax(scale * q_h k_g^T) v_g) W_o (Vaswani et al. 2017, section 3.2).

    H query heads share G key/value heads in groups of H / G (Ainslie et al. 2023): G = H is multi-head, G = 1 multi-query.
    """

    def __init__(self, config: ResolvedConfig):
        attention = config.attention
        H, G, K = attention.num_heads, attention.num_kv_heads, attention.head_dim
        initializer = kernel_initializer(config)
        last = kernel_initializer(config, (2 * config.num_layers) ** -0.5 if config.init.scale_residual else 1.0)
        self.query = Linear(config.dim, H * K, ("embed", "heads"), attention.bias, initializer)
        self.key = Linear(config.dim, G * K, ("embed", "kv_heads"), attention.bias, initializer)
        self.value = Linear(config.dim, G * K, ("embed", "kv_heads"), attention.bias, initializer)
        self.output = Linear(H * K, config.dim, ("heads", "embed"), attention.bias, last)
        self.config, self.dtype = attention, config.dtype

    def __call__(self, x: Float[Array, "B T D"], context: Context, position: Position) -> Float[Array, "B T D"]:
        """Lets every token read what `context` makes visible to it."""
        config = self.config
        B, T, _ = x.shape
        q = self.query(x).reshape(B, T, config.num_heads, config.head_dim)
        k = self.key(x).reshape(B, T, config.num_kv_heads, config.head_dim)
        v = self.value(x).reshape(B, T, config.num_kv_heads, config.head_dim)
        q, k = position.rotate(q, k, context.positions, context.positions)
        score = position.score(context.positions, context.positions)
        dropout = config.dropout if context.dropout_key is not None else 0.0
        kernel = choose_kernel(config.kernel, jax.default_backend(), jax.device_count(), self.dtype, score is not None,
                               context.documents is not None, dropout > 0, config.head_dim)
        attended = KERNELS[kernel](q, k, v, context, config.window, config.scale, score, dropout)
        return self.output(attended.reshape(B, T, -1))
