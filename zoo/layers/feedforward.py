"""Position-wise feed-forward layers, plain and gated."""

import jax
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import GATED, ResolvedConfig
from zoo.config.fields import ACTIVATION_OF
from zoo.layers.activation_record import fired
from zoo.layers.context import Context
from zoo.layers.parameter import Linear, kernel_initializer


def hidden_dim(config: ResolvedConfig) -> int:
    """Returns F: `ffn.hidden_dim`, or 2/3 of it for a gated kind with `ffn.match_parameters`.

    A gated layer has three matrices where a plain one has two (Shazeer 2020, section 2).
    """
    if config.ffn.match_parameters and config.ffn.kind in GATED:
        return round(2 * config.ffn.hidden_dim / 3)
    return config.ffn.hidden_dim


def activation(config: ResolvedConfig, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Applies the nonlinearity of `ffn.kind`: relu, gelu (exact or by tanh), or silu."""
    return {
        "relu": jax.nn.relu,
        "silu": jax.nn.silu,
        "gelu": lambda x: jax.nn.gelu(x, approximate=config.ffn.gelu_approximation == "tanh"),
    }[ACTIVATION_OF[config.ffn.kind]](x)


class FeedForward(nnx.Module):
    """act(x W_up) W_down, or for gated kinds (act(x W_gate) * x W_up) W_down (Shazeer 2020, eq. 5
    and 6).
    """

    def __init__(self, config: ResolvedConfig, gain: float = 1.0):
        F, bias, initializer = hidden_dim(config), config.ffn.bias, kernel_initializer(config, gain)
        last = kernel_initializer(
            config, gain * ((2 * config.num_layers) ** -0.5 if config.init.scale_residual else 1.0)
        )
        self.gate = Linear(config.dim, F, ("embed", "mlp"), bias, initializer) if config.ffn.kind in GATED else None
        self.up = Linear(config.dim, F, ("embed", "mlp"), bias, initializer)
        self.down = Linear(F, config.dim, ("mlp", "embed"), bias, last)
        self.config = config

    def __call__(self, x: Float[Array, "B T D"], context: Context | None = None) -> Float[Array, "B T D"]:
        """Applies the layer to every token; `context` is only used to record statistics."""
        active = activation(self.config, (self.up if self.gate is None else self.gate)(x))
        if context is not None and context.record is not None and ACTIVATION_OF[self.config.ffn.kind] == "relu":
            context.record["fired"] = fired(active, context)
        return self.down(active if self.gate is None else active * self.up(x))
