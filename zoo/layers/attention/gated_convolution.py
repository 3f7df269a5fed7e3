"""Gated short convolution: a mixer of tokens that sees only the last few."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention.token_mixer import SharedScores, TokenMixer
from zoo.layers.context import Context
from zoo.layers.parameter import Linear, kernel_initializer, output_initializer
from zoo.layers.short_convolution import MixerConvolution


class GatedConvolution(TokenMixer):
    """y = (x W_c * convolution(x W_b * x W_u)) W_o, with a causal depthwise convolution of
    `attention.convolution_width` tokens, without bias and activation: the gated short convolution of
    LFM2 (Liquid AI 2025, section 2).
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, gain: float = 1.0):
        super().__init__(config, cross, gain)
        D, initializer = config.dim, kernel_initializer(config)
        self.input_gate = Linear(D, D, ("embed", "heads"), False, initializer)
        self.output_gate = Linear(D, D, ("embed", "heads"), False, initializer)
        self.value = Linear(D, D, ("embed", "heads"), False, kernel_initializer(config, gain))
        self.convolution = MixerConvolution(config, D, "heads", activation=None)
        self.output = Linear(D, D, ("heads", "embed"), False, output_initializer(config, gain))

    def __call__(
        self, x: Float[Array, "B T D"], context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Float[Array, "B T D"]:
        """Mixes the tokens; see `TokenMixer.__call__`."""
        del shared
        gated = self.input_gate(x) * self.value(x)
        # The cache of the convolution is all that the layer keeps.
        return self.output(self.output_gate(x) * self.convolution(gated, context, self.part))

    @staticmethod
    def read_window(layer: ResolvedConfig) -> int:
        """Returns the width of the convolution."""
        return layer.attention.convolution_width

    @staticmethod
    def product_flops(layer: ResolvedConfig, queries: float, keys: float) -> float:
        """Returns 0: the weights of the convolution are counted with the matrices."""
        del layer, queries, keys
        return 0.0

    @staticmethod
    def state_bytes(layer: ResolvedConfig) -> int:
        """Returns the bytes of the vectors that the convolution keeps."""
        return jnp.dtype(layer.dtype).itemsize * (layer.attention.convolution_width - 1) * layer.dim
