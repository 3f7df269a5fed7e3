"""ResiDual: the placement with a residual stream that is normalised after each sublayer, and one that
never is (Xie et al. 2023).
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.block import Block, Hidden, Sublayer
from zoo.layers.context import Context
from zoo.layers.norm import Norm

Pair = Float[Array, "B T 2 D"]


class DualResidualBlock(Block):
    """ResiDual: x = Norm(x + f(x)) and s = s + f(x), with the same f(x); after the last block
    h = x + Norm(s) (Xie et al. 2023, arXiv:2304.14802).

    x is the stream of post-norm. s is the embedding plus all outputs of sublayers, as the stream of
    pre-norm is, so a gradient reaches each of them through one norm. Both begin as the embedding.
    """

    @staticmethod
    def expand(x: Hidden, config: ResolvedConfig) -> Pair:
        """Returns the embedding twice."""
        del config
        return jnp.stack([x, x], axis=2)

    @staticmethod
    def reduce(x: Pair, config: ResolvedConfig) -> Hidden:
        """Returns s, the stream that is not normalised."""
        del config
        return x[:, :, 1]

    @classmethod
    def hidden_states(cls, x: Pair, norm: Norm, config: ResolvedConfig, context: Context) -> Hidden:
        """Returns x + Norm(s)."""
        return x[:, :, 0] + super().hidden_states(x, norm, config, context)

    def sublayer(self, x: Pair, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str) -> Pair:
        """Adds f(x) to both streams, and normalises the first."""
        normed, total = x[:, :, 0], x[:, :, 1]
        y = context.dropout(f(normed), self.rate, part)
        return jnp.stack([norm(self.combine(normed, y), context), self.combine(total, y)], axis=2)
