"""Mamba-2: a state space model as a linear recurrence with one decay for each head."""

import jax
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention.gated_linear_recurrence import GatedLinearRecurrence, StepSize
from zoo.layers.context import Context
from zoo.layers.norm import rms_norm
from zoo.layers.parameter import Linear, kernel_initializer, ones, parameter


class Mamba2(GatedLinearRecurrence):
    """S_t = exp(-exp(r_h) s_t) S_(t-1) + s_t k_t v_t^T and y = RMSNorm((S_t^T q_t + e_h v_t) *
    SiLU(x W_z)), s_t = softplus(x w_s + d_h), for each head: Mamba-2 (Dao & Gu 2024, section 7).

    q = SiLU(convolution(x W_q)), and likewise k and v, with causal depthwise convolutions, which
    have a bias, of `attention.convolution_width` tokens. The paper's state size is
    `attention.head_dim`, its width of a head `attention.value_dim`, its number of groups
    `attention.key_heads`. The norm follows the gate, and is over the values of the heads of a group
    (`group_size` of `RMSNormGated` in the authors' code). exp(r) is
    uniform in (1, 16), softplus(d) between 0.001 and 0.1 and e 1 at first; weight decay leaves them
    out.
    """

    convolution_bias = True

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        H, initializer = config.attention.num_heads, kernel_initializer(config)
        wide = H * config.attention.value_dim
        self.step_size = Linear(config.dim, H, ("embed", "heads"), False, initializer)
        self.step = StepSize(H, 1, (1.0, 16.0))
        self.skip = parameter((H,), ("heads",), ones, "scalar")
        self.gate = Linear(config.dim, wide, ("embed", "heads"), False, initializer, heads=H)
        self.scale = parameter((wide,), (None,), ones)

    def features(
        self, q: Float[Array, "B T G K"], k: Float[Array, "B T G K"], context: Context
    ) -> tuple[Float[Array, "B T G K"], Float[Array, "B T G K"]]:
        """Returns q and k as they are."""
        del context
        return q, k

    def log_decay(
        self, x: Float[Array, "B T D"], k: Float[Array, "B T G K"], context: Context
    ) -> Float[Array, "B T H 1"]:
        """Returns -exp(A) s."""
        del k, context
        return self.step.log_decay(self.step_size(x))

    def rate(self, x: Float[Array, "B T D"]) -> Float[Array, "B T H"]:
        """Returns s."""
        return self.step.sizes(self.step_size(x))[..., 0]

    def merge(
        self, y: Float[Array, "B T H V"], x: Float[Array, "B T D"], v: Float[Array, "B T H V"]
    ) -> Float[Array, "B T H V"]:
        """Returns RMSNorm((y + E v) * SiLU(x W_z))."""
        y = y + self.skip[...][:, None] * v.astype(y.dtype)
        gated = y.reshape(*x.shape[:2], -1) * jax.nn.silu(self.gate(x).astype(y.dtype))
        groups = self.config.key_heads
        grouped, scales = gated.reshape(*x.shape[:2], groups, -1), self.scale[...].reshape(groups, -1)
        return jax.vmap(rms_norm, (-2, 0, None), -2)(grouped, scales, self.epsilon).reshape(gated.shape)
