"""nGPT's residual connection: the normalised stream moves a learned part of the way to the normalised
output of each sublayer (Loshchilov et al. 2024).
"""

import jax.numpy as jnp

from zoo.config import ResolvedConfig
from zoo.layers.block import Block, Hidden, Sublayer
from zoo.layers.context import Context
from zoo.layers.norm import Norm
from zoo.layers.parameter import constant, parameter


class InterpolatedBlock(Block):
    """x = Norm(x + a * (Norm(f(x)) - x)), with a learned vector a >= 0 [D] of each sublayer, which is
    `norm.step_start` at first (Loshchilov et al. 2024, arXiv:2410.01131, section 2.2).

    With a = 0 a normalised x stays as it is, with a = 1 only the sublayer's output remains.
    What is stored is w, with a = |w| sqrt(D) `norm.step_start`, and w is 1 / sqrt(D) at first. A step
    of Adam has the size of the rate whatever the gradient is, so it moves a by sqrt(D)
    `norm.step_start` times the rate (section 2.5). The absolute value is that of the authors' code.
    """

    final_norm = False
    norms_output = True

    def __init__(self, config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None):
        super().__init__(config, cross, sides)
        stored = config.dim**-0.5
        self.factor = config.norm.step_start / stored
        for part in self.parts:
            setattr(self, f"{part}_step", parameter((config.dim,), (None,), constant(stored)))

    def sublayer(
        self, x: Hidden, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str
    ) -> Hidden:
        """Moves x towards Norm(f(x)), and normalises it again."""
        step = self.factor * jnp.abs(getattr(self, f"{part}_step")[...])
        y = context.dropout(output_norm(f(x), context), self.rate, part)
        return norm((x + step * (y.astype(jnp.float32) - x)).astype(x.dtype), context)
