"""MUDDFormer: layers whose queries, keys, values and residual stream each read a sum of all earlier
outputs, with weights of each token.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention import SharedScores
from zoo.layers.block import Hidden, PreNormBlock, Sublayer
from zoo.layers.context import Context
from zoo.layers.depth_connections import Vectors, written
from zoo.layers.norm import NoNorm, Norm, make_norm
from zoo.layers.parameter import kernel_initializer, parameter, zeros
from zoo.layers.residual_streams import projected

WAYS = ("query", "key", "value", "residual")


class DynamicDenseBlock(PreNormBlock):
    """Multiway dynamic dense connections (MUDD): h = x_r + Attention(Norm_q(x_q), Norm_k(x_k),
    Norm_v(x_v)) and x_i+1 = h + FFN(Norm(h)), with sums x_c = sum_j A_cj x_j for c = q, k, v, r of the
    embedding x_0 and the outputs of the i blocks before, and A = GELU(RMSNorm(x_i) W_1) W_2 + b of
    each token, [4, i + 1] (Xiao et al. 2025, arXiv:2502.12170, eq. 5 to 8).

    The last norm reads such an x_r. Each block stores the W_1 [D, 4 (L + 1)], W_2 and b of the sums
    that are read after it, ordered from the newest output to the oldest. Of the L + 1 it reads those
    that there are, and after the last block the residual way alone. The paper's W_1 is narrower in the
    first layers, 4 (i + 1), and its code rounds that up to a multiple of 64. W_2 is 0 at first and b
    is 1 for the newest output, so a model begins as pre-norm. There are L + 5 vectors of each token.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None):
        super().__init__(config, cross, sides)
        for name in ("key", "value"):
            norm = make_norm(config, "attention") if config.attention.input_norm else NoNorm(config)
            setattr(self, f"attention_{name}_norm", norm)
        width = len(WAYS) * (config.num_layers + 1)
        newest = jnp.zeros((len(WAYS), config.num_layers + 1)).at[:, 0].set(1).ravel()
        self.depth_inner = parameter((config.dim, width), ("embed", None), kernel_initializer(config))
        self.depth_outer = parameter((width, width), (None, None), zeros)
        self.depth_weights = parameter((width,), (None,), lambda key, shape: newest, "scalar")

    @staticmethod
    def expand(x: Hidden, config: ResolvedConfig) -> Vectors:
        """Returns the embedding once for each way and once to keep, and places for L outputs."""
        copies = jnp.repeat(x[:, :, None], len(WAYS) + 1, axis=2)
        return jnp.pad(copies, [(0, 0), (0, 0), (0, config.num_layers), (0, 0)])

    @staticmethod
    def reduce(x: Vectors, config: ResolvedConfig) -> Hidden:
        """Returns what the next block, or the last norm, reads as its residual stream."""
        del config
        return x[:, :, WAYS.index("residual")]

    @classmethod
    def residual_flops(cls, config: ResolvedConfig, sublayers: int) -> int:
        """Returns the operations of W_1, of W_2, and of four sums of 2 to L + 1 outputs."""
        del sublayers
        width = len(WAYS) * (config.num_layers + 1)
        return 2 * width * (config.dim + width) + len(WAYS) * config.dim * (config.num_layers + 3)

    def sublayer(
        self, x: Vectors | Hidden, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str
    ) -> Hidden:
        """Applies attention to the four sums, or the feed-forward layer to one vector."""
        if part != "attention":
            return super().sublayer(x, f, norm, output_norm, context, part)
        query, residual = (x[:, :, WAYS.index(way)] for way in ("query", "residual"))
        return self.add(residual, f(norm(query, context)), context, part)

    def __call__(
        self, x: Vectors, context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Vectors:
        """Applies the sublayers, keeps their output, and reads again; see `Block.__call__`."""
        read, kept = jnp.split(x, [len(WAYS)], axis=2)
        inputs = {
            name: getattr(self, f"attention_{name}_norm")(read[:, :, WAYS.index(name)], context)
            for name in ("key", "value")
        }
        y = super().__call__(read, replace(context, projection_inputs=inputs), shared)
        number = context.layer_index + 1
        kept = written(kept, y, number)
        weights = self._weights(y, number)
        values = kept.astype(jnp.float32)
        sums = [(weights[:, :, way, :, None] * values).sum(axis=2) for way in range(len(WAYS))]
        return jnp.concatenate([jnp.stack(sums, axis=2).astype(x.dtype), kept], axis=2)

    def _weights(self, y: Hidden, number: int | Array) -> Float[Array, "B T 4 N"]:
        """Returns A after block `number`, counted from 1, in the order of the kept outputs; those that
        are not known yet have 0.
        """
        inner = jax.nn.gelu(projected(y, self.depth_inner[...]), approximate=False)
        weights = (inner @ self.depth_outer[...] + self.depth_weights[...]).reshape(*y.shape[:2], len(WAYS), -1)
        back = number - jnp.arange(weights.shape[-1])
        return jnp.where(back >= 0, weights[..., jnp.maximum(back, 0)], 0)
