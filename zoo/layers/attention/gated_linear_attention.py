"""Linear attention: without a decay, with a constant one (RetNet), and with gates (GLA)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention.gated_linear_recurrence import GatedLinearRecurrence, head_norm
from zoo.layers.context import Context
from zoo.layers.norm import rms_norm
from zoo.layers.parameter import Linear, kernel_initializer, parameter, zeros
from zoo.layers.position import make_attention_position


class LinearAttention(GatedLinearRecurrence):
    """y_t = sum_{s <= t} (phi(q_t) . phi(k_s)) v_s / sum_{s <= t} phi(q_t) . phi(k_s), with
    phi(x) = elu(x) + 1: linear attention (Katharopoulos et al. 2020, eq. 8 and 9).

    The state is the sum of phi(k) v^T, and has another column, the sum of phi(k).
    """

    normaliser = True

    def features(
        self, q: Float[Array, "B T G K"], k: Float[Array, "B T G K"], context: Context
    ) -> tuple[Float[Array, "B T G K"], Float[Array, "B T G K"]]:
        """Returns phi(q) and phi(k)."""
        del context
        return jax.nn.elu(q) + 1, jax.nn.elu(k) + 1

    def merge(
        self, y: Float[Array, "B T H V"], x: Float[Array, "B T D"], v: Float[Array, "B T H V"]
    ) -> Float[Array, "B T H V"]:
        """Divides by the normaliser, the last column; padding before the first token has none."""
        del x, v
        return y[..., :-1] / jnp.where(y[..., -1:] > 0, y[..., -1:], 1)


class GatedOutput(GatedLinearRecurrence):
    """y_h = RMSNorm(S_t^T q_t / sqrt(K)) * SiLU(x W_z)_h, with one scale of the norm for all heads."""

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        H, V, initializer = config.attention.num_heads, config.attention.value_dim, kernel_initializer(config)
        self.scale = head_norm(config)
        self.gate = Linear(config.dim, H * V, ("embed", "heads"), False, initializer, heads=H)

    def merge(
        self, y: Float[Array, "B T H V"], x: Float[Array, "B T D"], v: Float[Array, "B T H V"]
    ) -> Float[Array, "B T H V"]:
        """Returns RMSNorm(y) * SiLU(x W_z)."""
        del v
        gates = jax.nn.silu(self.gate(x).astype(y.dtype))
        return rms_norm(y, self.scale[...], self.epsilon) * gates.reshape(y.shape)


class Retention(GatedOutput):
    """S_t = g_h S_(t-1) + k_t v_t^T and y_h = RMSNorm(S_t^T q_t / sqrt(K)) * SiLU(x W_z)_h, with the
    constant decay g_h = 1 - 2^(-5 - h) of head h = 0, 1, ...: multi-scale retention (Sun et al. 2023,
    RetNet, section 2).

    The paper rotates q and k by their positions (`position.kind=rope`), and its values are twice as
    wide as its keys (`attention.value_dim`).
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        self.position = make_attention_position(config)

    def features(
        self, q: Float[Array, "B T G K"], k: Float[Array, "B T G K"], context: Context
    ) -> tuple[Float[Array, "B T G K"], Float[Array, "B T G K"]]:
        """Returns queries and keys, rotated, queries times 1 / sqrt(K)."""
        return super().features(*self.position.rotate(q, k, context.positions, context.positions), context)

    def log_decay(self, x: Float[Array, "B T D"]) -> Float[Array, "B T H 1"]:
        """Returns ln g of the heads."""
        decays = jnp.log1p(-(2.0 ** (-5.0 - jnp.arange(self.config.num_heads, dtype=x.dtype))))
        return jnp.broadcast_to(decays[:, None], (*x.shape[:2], self.config.num_heads, 1))


class GatedLinearAttention(GatedOutput):
    """S_t = diag(a_t) S_(t-1) + k_t v_t^T and y_h = RMSNorm(S_t^T q_t / sqrt(K)) * SiLU(x W_z)_h, with
    a_t = sigmoid(x W_1 W_2 + c)^(1/16) for each element of a key: gated linear attention (Yang et al.
    2023, section 4).

    W_1 W_2 has rank `attention.decay_rank`; c is 0 at first. The paper has keys of D / (2 H) elements
    and values of D / H, and a LayerNorm in place of the RMSNorm.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        attention, initializer = config.attention, kernel_initializer(config)
        H, K, r = attention.num_heads, attention.head_dim, attention.decay_rank
        self.decay_down = Linear(config.dim, r, ("embed", None), False, initializer)
        self.decay_up = Linear(r, H * K, (None, "heads"), False, initializer, heads=H)
        self.decay_bias = parameter((H * K,), ("heads",), zeros, "scalar")

    def log_decay(self, x: Float[Array, "B T D"]) -> Float[Array, "B T H K"]:
        """Returns ln a of all elements."""
        scores = self.decay_up(self.decay_down(x)) + self.decay_bias[...]
        return jax.nn.log_sigmoid(scores).reshape(*x.shape[:2], self.config.num_heads, -1) / 16
