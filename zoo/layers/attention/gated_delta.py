"""Linear recurrences with the delta rule: DeltaNet, Gated DeltaNet and Kimi Delta Attention."""

import jax
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention.gated_linear_recurrence import GatedLinearRecurrence, StepSize, head_norm, unit_length
from zoo.layers.context import Context
from zoo.layers.norm import rms_norm
from zoo.layers.parameter import Linear, kernel_initializer


class DeltaNet(GatedLinearRecurrence):
    """S_t = (1 - b_t k_t k_t^T) S_(t-1) + b_t k_t v_t^T and y_h = RMSNorm(S_t^T q_t / sqrt(K)), for
    each head, with a state S [K, V] that is 0 at first: DeltaNet (Schlag et al. 2021; Yang et al.
    2024b).

    q = SiLU(convolution(x W_q)), and likewise k and v, of K and V = `attention.value_dim` elements,
    with causal depthwise convolutions of `attention.convolution_width` tokens, or with 0 none; q and k
    are then divided by their lengths. b = sigmoid(x w_b), or twice that with
    `attention.negative_eigenvalues`, with which 1 - b k k^T can have the eigenvalue -1 (Grazzi et al.
    2024). The norm has one scale for all heads, and W_o projects the heads, side by side.
    """

    delta = True

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        H, initializer = config.attention.num_heads, kernel_initializer(config)
        self.rate_gate = Linear(config.dim, H, ("embed", "heads"), False, initializer)
        self.scale = head_norm(config)

    def features(
        self, q: Float[Array, "B T G K"], k: Float[Array, "B T G K"], context: Context
    ) -> tuple[Float[Array, "B T G K"], Float[Array, "B T G K"]]:
        """Returns queries and keys of length 1, queries times 1 / sqrt(K)."""
        return super().features(unit_length(q), unit_length(k), context)

    def rate(self, x: Float[Array, "B T D"]) -> Float[Array, "B T H"]:
        """Returns b, in (0, 1) or (0, 2)."""
        return jax.nn.sigmoid(self.rate_gate(x)) * (2 if self.config.negative_eigenvalues else 1)

    def merge(
        self, y: Float[Array, "B T H V"], x: Float[Array, "B T D"], v: Float[Array, "B T H V"]
    ) -> Float[Array, "B T H V"]:
        """Returns RMSNorm(y)."""
        del x, v
        return rms_norm(y, self.scale[...], self.epsilon)


class GatedDeltaNet(DeltaNet):
    """S_t = a_t (1 - b_t k_t k_t^T) S_(t-1) + b_t k_t v_t^T and y_h = RMSNorm(S_t^T q_t / sqrt(K)) *
    SiLU(x W_z)_h, for each head: Gated DeltaNet (Yang et al. 2024a, section 3; Qwen Team 2025,
    Qwen3-Next).

    ln a = -exp(r_h) softplus(x w_a + d_h), with learned numbers r and d of each head: exp(r) is
    uniform in (0, 16) and softplus(d) between 0.001 and 0.1 at first, and weight decay leaves both
    out. All else is as in DeltaNet.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        H, V, initializer = config.attention.num_heads, config.attention.value_dim, kernel_initializer(config)
        self.decay_gate = Linear(config.dim, H, ("embed", "heads"), False, initializer)
        # exp(r) = 0 would be a logarithm of 0.
        self.step = StepSize(H, 1, (1e-4, 16.0))
        self.gate = Linear(config.dim, H * V, ("embed", "heads"), False, initializer, heads=H)

    def log_decay(
        self, x: Float[Array, "B T D"], k: Float[Array, "B T G K"], context: Context
    ) -> Float[Array, "B T H 1"]:
        """Returns ln a."""
        del k, context
        return self.step.log_decay(self.decay_gate(x))

    def merge(
        self, y: Float[Array, "B T H V"], x: Float[Array, "B T D"], v: Float[Array, "B T H V"]
    ) -> Float[Array, "B T H V"]:
        """Returns RMSNorm(y) * SiLU(x W_z)."""
        return super().merge(y, x, v) * jax.nn.silu(self.gate(x).astype(y.dtype)).reshape(y.shape)


class KimiDeltaAttention(DeltaNet):
    """S_t = (1 - b_t k_t k_t^T) diag(a_t) S_(t-1) + b_t k_t v_t^T and y_h = RMSNorm(S_t^T q_t /
    sqrt(K)) * sigmoid(x W_1 W_2 + c)_h, for each head: Kimi Delta Attention, the gated delta rule
    with a decay of its own for each element of a key (Kimi Team 2025, section 3).

    ln a = -exp(r_h) softplus(x W_3 W_4 + d), with r of each head and d of each element; exp(r) is
    uniform in (1, 16) and softplus(d) between 0.001 and 0.1 at first. The products W_1 W_2 and W_3
    W_4 have rank `attention.decay_rank`. Without `attention.gate_bias` there is no c, as in
    Kimi-Linear-48B-A3B; flash-linear-attention has it. All else is as in DeltaNet.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        attention, initializer = config.attention, kernel_initializer(config)
        H, K, V, r = attention.num_heads, attention.head_dim, attention.value_dim, attention.decay_rank
        self.decay_down = Linear(config.dim, r, ("embed", None), False, initializer)
        self.decay_up = Linear(r, H * K, (None, "heads"), False, initializer, heads=H)
        self.step = StepSize(H, K, (1.0, 16.0))
        self.gate_down = Linear(config.dim, r, ("embed", None), False, initializer)
        self.gate_up = Linear(r, H * V, (None, "heads"), attention.gate_bias, initializer, heads=H)

    def log_decay(
        self, x: Float[Array, "B T D"], k: Float[Array, "B T G K"], context: Context
    ) -> Float[Array, "B T H K"]:
        """Returns ln a of all elements."""
        del k, context
        return self.step.log_decay(self.decay_up(self.decay_down(x)))

    def merge(
        self, y: Float[Array, "B T H V"], x: Float[Array, "B T D"], v: Float[Array, "B T H V"]
    ) -> Float[Array, "B T H V"]:
        """Returns RMSNorm(y) times the gates."""
        gates = jax.nn.sigmoid(self.gate_up(self.gate_down(x)).astype(y.dtype))
        return super().merge(y, x, v) * gates.reshape(y.shape)
