"""Placements whose layers read the outputs of all earlier ones: attention over depth, DenseFormer and
U-net skips.

A layer gets and returns S vectors of each token: the first is what the next sublayer reads, the others
are the outputs that are kept for later layers, 0 until they are known. S is fixed, so that scans and
recomputation carry them as they carry residual streams. A training step keeps what every layer gets,
so its memory has S vectors of each token for each of L layers, where pre-norm has one.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.layers.attention import SharedScores
from zoo.layers.block import Block, Hidden, PreNormBlock, Sublayer
from zoo.layers.context import Context
from zoo.layers.norm import Norm
from zoo.layers.parameter import ones, parameter, zeros
from zoo.layers.residual_streams import inverse_rms

Vectors = Float[Array, "B T S D"]
Index = int | Int[Array, ""]


def begin(x: Hidden, kept: int) -> Vectors:
    """Returns the vectors that enter the first layer: x, and places for `kept` outputs, of which x is
    the first.
    """
    return jnp.pad(jnp.stack([x, x], axis=2), [(0, 0), (0, 0), (0, kept - 1), (0, 0)])


def written(kept: Vectors, x: Hidden, place: Index) -> Vectors:
    """Returns the kept outputs with x at a place."""
    return jax.lax.dynamic_update_index_in_dim(kept, x, place, axis=2)


def joined(x: Hidden, kept: Vectors) -> Vectors:
    """Returns what a layer returns: what is read next, and the kept outputs."""
    return jnp.concatenate([x[:, :, None].astype(kept.dtype), kept], axis=2)


class DepthAttentionBlock(Block):
    """Attention over depth (attention residuals): sublayer k reads x = sum_i p_i v_i, with v_i the
    embedding and the outputs f(Norm(x)) of the k sublayers before it, p = softmax_i(w . RMSNorm(v_i))
    and a learned w [D] of each sublayer (Kimi Team 2026, arXiv:2603.15031, section 3).

    The last norm reads such a sum of all outputs. Each sublayer stores the w of the sum that is read
    after it; the first one reads the embedding. w is 0 at first, so p is uniform, which a norm cannot
    tell from the residual stream of pre-norm but for its epsilon.

    There are 2 L + 2 vectors of each token.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None):
        super().__init__(config, cross, sides)
        for part in self.parts:
            setattr(self, f"{part}_query", parameter((config.dim,), (None,), zeros))

    @staticmethod
    def expand(x: Hidden, config: ResolvedConfig) -> Vectors:
        """Returns the embedding twice, and places for the outputs of 2 L sublayers."""
        return begin(x, 2 * config.num_layers + 1)

    @staticmethod
    def reduce(x: Vectors, config: ResolvedConfig) -> Hidden:
        """Returns what the next sublayer, or the last norm, reads."""
        del config
        return x[:, :, 0]

    @classmethod
    def residual_flops(cls, config: ResolvedConfig, sublayers: int) -> int:
        """Returns the operations of the scores and sums, over 2 to 2 L + 1 outputs."""
        return sublayers * 2 * config.dim * (2 * config.num_layers + 3)

    def sublayer(
        self, x: Vectors, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str
    ) -> Vectors:
        """Applies f to what is read, keeps its output, and reads again."""
        number = context.layer_index * len(self.parts) + self.parts.index(part)
        y = context.dropout(f(norm(x[:, :, 0], context)), self.rate, part)
        if self.branch != 1.0:
            y = y * jnp.asarray(self.branch, y.dtype)
        kept = written(x[:, :, 1:], y, number + 1)
        query = getattr(self, f"{part}_query")[...]
        scores = (kept.astype(jnp.float32) * inverse_rms(kept)) @ query
        known = jnp.arange(kept.shape[2]) <= number + 1
        weights = jax.nn.softmax(jnp.where(known, scores, -jnp.inf), axis=-1)
        read = (weights[..., None] * kept.astype(jnp.float32)).sum(axis=2)
        return joined(read, kept)


class DenseBlock(PreNormBlock):
    """DenseFormer: pre-norm, and after block i the stream becomes sum_j a_ij x_j, with x_0 the
    embedding, x_j the output of block j, and learned numbers a_ij for j = 0 to i (Pagliardini et al.
    2024, arXiv:2402.02622, eq. 1).

    Each block stores its numbers a_ij by i - j, of which it reads i + 1. They begin at 1 for i = j and
    else at 0: as pre-norm. There are L + 2 vectors of each token.
    """

    outside = "outputs of all blocks are summed after each"

    def __init__(self, config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None):
        super().__init__(config, cross, sides)
        first = jnp.zeros(config.num_layers + 1).at[0].set(1)
        self.depth_weights = parameter((config.num_layers + 1,), (None,), lambda key, shape: first, "scalar")

    @staticmethod
    def expand(x: Hidden, config: ResolvedConfig) -> Vectors:
        """Returns the embedding twice, and places for the outputs of L blocks."""
        return begin(x, config.num_layers + 1)

    @staticmethod
    def reduce(x: Vectors, config: ResolvedConfig) -> Hidden:
        """Returns what the next block, or the last norm, reads."""
        del config
        return x[:, :, 0]

    @classmethod
    def residual_flops(cls, config: ResolvedConfig, sublayers: int) -> int:
        """Returns the operations of the sum of 2 to L + 1 outputs, one for a layer."""
        del sublayers
        return config.dim * (config.num_layers + 3)

    def __call__(
        self, x: Vectors, context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Vectors:
        """Applies the sublayers, keeps their output, and averages over all; see `Block.__call__`."""
        number = context.layer_index + 1
        kept = written(x[:, :, 1:], super().__call__(x[:, :, 0], context, shared), number)
        back = number - jnp.arange(kept.shape[2])
        weights = jnp.where(back >= 0, self.depth_weights[...][jnp.maximum(back, 0)], 0)
        return joined((weights[:, None] * kept.astype(jnp.float32)).sum(axis=2), kept)


class UNetBlock(PreNormBlock):
    """U-net skips: pre-norm, and before block l of the second half x = x + s x_j with j = L - 1 - l,
    x_j the output of block j of the first half of L blocks, counted from 0, and a learned number s of
    each block (Ronneberger et al. 2015; Jordan et al. 2024, modded-nanogpt).

    s begins at 1. Blocks of the first half do not read theirs, nor does the middle one of an odd
    number of blocks. There are L / 2 + 1 vectors of each token.
    """

    outside = "outputs of the first half are added before the second"

    def __init__(self, config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None):
        super().__init__(config, cross, sides)
        self.skip_scale, self.depth = parameter((1,), (None,), ones, "scalar"), config.num_layers

    @staticmethod
    def expand(x: Hidden, config: ResolvedConfig) -> Vectors:
        """Returns the embedding, and places for the outputs of the first L / 2 blocks."""
        return jnp.pad(x[:, :, None], [(0, 0), (0, 0), (0, config.num_layers // 2), (0, 0)])

    @staticmethod
    def reduce(x: Vectors, config: ResolvedConfig) -> Hidden:
        """Returns the residual stream."""
        del config
        return x[:, :, 0]

    def __call__(
        self, x: Vectors, context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Vectors:
        """Adds the skip, applies the sublayers, and keeps their output; see `Block.__call__`."""
        layer, kept, half = context.layer_index, x[:, :, 1:], self.depth // 2
        skip = jax.lax.dynamic_index_in_dim(kept, jnp.clip(self.depth - 1 - layer, 0, half - 1), 2, keepdims=False)
        scale = jnp.where(layer >= self.depth - half, self.skip_scale[...], 0).astype(x.dtype)
        y = super().__call__(x[:, :, 0] + scale * skip, context, shared)
        return joined(y, jnp.where(layer < half, written(kept, y, jnp.minimum(layer, half - 1)), kept))
