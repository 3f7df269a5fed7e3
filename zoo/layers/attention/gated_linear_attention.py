"""Linear attention: without a decay, with a constant one (RetNet, lightning attention), and with gates
(GLA, HGRN-2).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention.gated_linear_recurrence import GatedLinearRecurrence, head_norm
from zoo.layers.context import Context
from zoo.layers.norm import rms_norm
from zoo.layers.parameter import Linear, kernel_initializer, ones, parameter, zeros
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

    def log_decay(
        self, x: Float[Array, "B T D"], k: Float[Array, "B T G K"], context: Context
    ) -> Float[Array, "B T H 1"]:
        """Returns ln g of the heads."""
        del k, context
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

    def log_decay(
        self, x: Float[Array, "B T D"], k: Float[Array, "B T G K"], context: Context
    ) -> Float[Array, "B T H K"]:
        """Returns ln a of all elements."""
        del k, context
        scores = self.decay_up(self.decay_down(x)) + self.decay_bias[...]
        return jax.nn.log_sigmoid(scores).reshape(*x.shape[:2], self.config.num_heads, -1) / 16


class HGRN2(GatedLinearRecurrence):
    """S_t = diag(f_t) S_(t-1) + (1 - f_t) v_t^T and y = RMSNorm(concat_h(S_t^T q_t / sqrt(K))), with
    f = sigmoid(x W_f) and q = SiLU(x W_q): HGRN-2 (Qin et al. 2024, section 3.2), whose keys are what
    the forget gate lets go.

    The norm is over the values of all heads. The paper also bounds f from below, by numbers that rise
    from layer to layer; here f may be as small as 0, as flash-linear-attention has it by default.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        self.scale = parameter((config.attention.num_heads * config.attention.value_dim,), (None,), ones)

    def features(
        self, q: Float[Array, "B T G K"], k: Float[Array, "B T G K"], context: Context
    ) -> tuple[Float[Array, "B T G K"], Float[Array, "B T G K"]]:
        """Returns SiLU(q) / sqrt(K) and 1 - f."""
        del context
        return jax.nn.silu(q) * q.shape[-1] ** -0.5, jax.nn.sigmoid(-k)

    def log_decay(
        self, x: Float[Array, "B T D"], k: Float[Array, "B T G K"], context: Context
    ) -> Float[Array, "B T H K"]:
        """Returns ln f."""
        del x, context
        return jax.nn.log_sigmoid(jnp.repeat(k, self.config.num_heads // k.shape[2], axis=2))

    def merge(
        self, y: Float[Array, "B T H V"], x: Float[Array, "B T D"], v: Float[Array, "B T H V"]
    ) -> Float[Array, "B T H V"]:
        """Returns RMSNorm(y)."""
        del x, v
        return rms_norm(y.reshape(*y.shape[:2], -1), self.scale[...], self.epsilon)


class LightningAttention(GatedLinearRecurrence):
    """S_t = exp(-s_h) S_(t-1) + k_t v_t^T and y = RMSNorm(concat_h(S_t^T q_t)) * sigmoid(x W_g):
    lightning attention (MiniMax 2025, MiniMax-01, section 2.2).

    q = SiLU(x W_q), and likewise k and v. The slopes are those of ALiBi, s_h = 2^(-8 h / H) for head
    h = 1, 2, ..., times 1 - l / (L - 1 + 1e-5) + 1e-5 in layer l = 0, 1, ... of L: the last layer
    forgets next to nothing. The norm is over the values of all heads.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        H, V, initializer = config.attention.num_heads, config.attention.value_dim, kernel_initializer(config)
        self.num_layers = config.num_layers
        self.scale = parameter((H * V,), (None,), ones)
        self.gate = Linear(config.dim, H * V, ("embed", "heads"), False, initializer, heads=H)

    def _projected(self, name: str, x: Float[Array, "B T D"], context: Context) -> Float[Array, "B T I"]:
        return jax.nn.silu(super()._projected(name, x, context))

    def features(
        self, q: Float[Array, "B T G K"], k: Float[Array, "B T G K"], context: Context
    ) -> tuple[Float[Array, "B T G K"], Float[Array, "B T G K"]]:
        """Returns q and k as they are."""
        del context
        return q, k

    def log_decay(
        self, x: Float[Array, "B T D"], k: Float[Array, "B T G K"], context: Context
    ) -> Float[Array, "B T H 1"]:
        """Returns -s of the heads."""
        del k
        H, index = self.config.num_heads, 0 if context.layer_index is None else context.layer_index
        slopes = 2.0 ** (-8 / H * jnp.arange(1, H + 1, dtype=x.dtype))
        depth = self.num_layers if context.depth is None else context.depth
        slopes = slopes * (1 - index / (depth - 1 + 1e-5) + 1e-5)
        return jnp.broadcast_to(-slopes[:, None], (*x.shape[:2], H, 1))

    def merge(
        self, y: Float[Array, "B T H V"], x: Float[Array, "B T D"], v: Float[Array, "B T H V"]
    ) -> Float[Array, "B T H V"]:
        """Returns RMSNorm(y) * sigmoid(x W_g)."""
        del v
        normed = rms_norm(y.reshape(*y.shape[:2], -1), self.scale[...], self.epsilon)
        return normed * jax.nn.sigmoid(self.gate(x).astype(y.dtype))
