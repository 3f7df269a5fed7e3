"""Placements with several residual streams: hyper-connections (Zhu et al. 2024) and those whose mixing
matrix is doubly stochastic (Xie et al. 2025).
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.layers.block import Block, Hidden, Sublayer
from zoo.layers.context import Context
from zoo.layers.norm import Norm
from zoo.layers.parameter import constant, kernel_initializer, ones, parameter, zeros

Streams = Float[Array, "B T N D"]
Weights = Float[Array, "*rows N"]
Matrices = Float[Array, "*rows N N"]

EPSILON = 1e-6
"""Added to the mean square of the streams from which the weights are computed."""
DYNAMIC_SCALE = 0.01
"""Initial factor on the weights that depend on the streams (Zhu et al. 2024, section 2.3)."""
SINKHORN_STEPS = 20
"""Number of normalisations of columns and rows (Xie et al. 2025, section 4.2)."""
DIAGONAL = 4.0
"""Initial value on the diagonal of the logits of a doubly stochastic matrix, which are 0 elsewhere:
with 4 streams 0.95 of a stream stays in it.
"""


def separate(x: Streams) -> list[Hidden]:
    """Returns the streams in float32, one by one."""
    return [x[:, :, n].astype(jnp.float32) for n in range(x.shape[2])]


def inverse_rms(x: Float[Array, "*leading D"]) -> Float[Array, "*leading 1"]:
    """Returns 1 / sqrt(mean(x^2) + epsilon), in float32.

    RMSNorm(x) W is this times x W: the norm needs no array of its own.
    """
    return jax.lax.rsqrt(jnp.square(x.astype(jnp.float32)).mean(axis=-1, keepdims=True) + EPSILON)


def projected(x: Float[Array, "*leading D"], kernel: Float[Array, "D O"]) -> Float[Array, "*leading O"]:
    """Returns RMSNorm(x) W, in float32."""
    products = jnp.matmul(x, kernel.astype(x.dtype), preferred_element_type=jnp.float32)
    return products * inverse_rms(x)


def sinkhorn(logits: Matrices, steps: int = SINKHORN_STEPS) -> Matrices:
    """Returns doubly stochastic matrices: exp(logits), whose columns and then rows are divided by
    their sums, `steps` times (Xie et al. 2025, eq. 9).

    Rows add up to 1 exactly, columns in the limit. It computes with logarithms, so no sum is 0.
    """

    def step(logits: Matrices, _: None) -> tuple[Matrices, None]:
        logits = logits - jax.nn.logsumexp(logits, axis=-2, keepdims=True)
        return logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True), None

    return jnp.exp(jax.lax.scan(step, logits, None, length=steps)[0])


class Connections(nnx.Module):
    """The learned weights of static hyper-connections around one sublayer: `read` [N], `mix` [N N],
    from each stream to each, and `write` [N].

    They are stored flat, because matrices are decayed and these must not be (Zhu et al. 2024, section
    4). At first a sublayer reads one stream, all streams stay as they are, and the output is added to
    each. `read` is stored from that stream on: it is stream k mod N for sublayer k of the model, so
    layers that are stored as one begin with different streams, and no two of N streams stay equal.
    """

    def __init__(self, config: ResolvedConfig):
        n = self.number = config.norm.streams
        self.read = parameter((n,), (None,), lambda key, shape: jnp.eye(n)[0], "scalar")
        self.mix = parameter((n * n,), (None,), lambda key, shape: jnp.eye(n).ravel(), "scalar")
        self.write = parameter((n,), (None,), ones, "scalar")

    def __call__(self, x: Streams, sublayer: int | Int[Array, ""]) -> tuple[Weights, Matrices, Weights]:
        """Returns the three weights, for each token or for all of them; `sublayer` counts from 0."""
        del x
        read = jnp.roll(self.read[...], sublayer % self.number)
        return read, self.mix[...].reshape(self.number, self.number), self.write[...]

    @staticmethod
    def flops(config: ResolvedConfig) -> int:
        """Returns the operations of the projections for one token and one sublayer."""
        del config
        return 0


class DynamicConnections(Connections):
    """The weights of `Connections` plus a function of each stream: s tanh(RMSNorm(x_n) W) with W
    [D, N + 2] for reading, mixing and writing, and two factors s, one of them for writing.
    """

    def __init__(self, config: ResolvedConfig):
        super().__init__(config)
        self.projection = parameter((config.dim, self.number + 2), ("embed", None), zeros)
        self.scale = parameter((2,), (None,), constant(DYNAMIC_SCALE), "scalar")

    def __call__(self, x: Streams, sublayer: int | Int[Array, ""]) -> tuple[Weights, Matrices, Weights]:
        """Returns the three weights for each token; `sublayer` counts from 0."""
        read, mix, write = super().__call__(x, sublayer)
        dynamic = jnp.tanh(projected(x, self.projection[...]))
        weighing, writing = self.scale[...]
        return (
            read + weighing * dynamic[..., 0],
            mix + weighing * dynamic[..., 1:-1],
            write + writing * dynamic[..., -1],
        )

    @staticmethod
    def flops(config: ResolvedConfig) -> int:
        """Returns the operations of the projections for one token and one sublayer."""
        n = config.norm.streams
        return 2 * config.dim * n * (n + 2)


class ManifoldConnections(nnx.Module):
    """The weights of manifold-constrained hyper-connections around one sublayer, for x the N streams
    of a token side by side:

    * reading: sigmoid(a_1 RMSNorm(x) W_1 + b_1), which the block multiplies by 2 / N;
    * writing: 2 sigmoid(a_2 RMSNorm(x) W_2 + b_2);
    * mixing: Sinkhorn(a_3 RMSNorm(x) W_3 + B_3), row m for the new stream m.

    The source has no 2 / N, with which a sublayer reads the mean of the streams at first. The norm
    before the sublayer cannot tell it but for its epsilon. The source begins with a = 0.01. Here a is
    0 and W is random: so the model begins as pre-norm, and the first update makes the streams differ.
    """

    def __init__(self, config: ResolvedConfig):
        n = self.number = config.norm.streams
        width = n * config.dim
        self.projection = parameter((width, n * (n + 2)), ("embed", None), kernel_initializer(config))
        self.scale = parameter((3,), (None,), zeros, "scalar")
        self.read = parameter((n,), (None,), zeros, "scalar")
        self.write = parameter((n,), (None,), zeros, "scalar")
        self.mix = parameter((n * n,), (None,), lambda key, shape: DIAGONAL * jnp.eye(n).ravel(), "scalar")

    def __call__(self, x: Streams) -> tuple[Weights, Matrices, Weights]:
        """Returns the weights for reading, mixing and writing of each token."""
        n = self.number
        flat = x.reshape(*x.shape[:2], -1)
        dynamic = projected(flat, self.projection[...])
        first, second, third = self.scale[...]
        read = jax.nn.sigmoid(first * dynamic[..., :n] + self.read[...])
        write = 2 * jax.nn.sigmoid(second * dynamic[..., n : 2 * n] + self.write[...])
        logits = third * dynamic[..., 2 * n :] + self.mix[...]
        return read, sinkhorn(logits.reshape(*logits.shape[:-1], n, n)), write


class StaticHyperBlock(Block):
    """Static hyper-connections: x_m = sum_n R_nm x_n + b_m f(Norm(sum_n a_n x_n)) for each of N =
    `norm.streams` streams, with R [N, N], a [N] and b [N] that each sublayer learns (Zhu et al. 2024,
    arXiv:2409.19606, eq. 2).

    The streams begin as copies of the embedding. The paper ends in their sum, here it is their mean,
    which the last norm cannot tell from it but for its epsilon. A model begins equal to pre-norm, in
    bfloat16 up to the roundings that XLA leaves out where it fuses operations.
    """

    connections: type[nnx.Module] = Connections

    def __init__(self, config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None):
        super().__init__(config, cross, sides)
        for part in self.parts:
            setattr(self, f"{part}_streams", self.connections(config))

    @staticmethod
    def expand(x: Hidden, config: ResolvedConfig) -> Streams:
        """Returns N copies of the embedding."""
        return jnp.repeat(x[:, :, None], config.norm.streams, axis=2)

    @staticmethod
    def reduce(x: Streams, config: ResolvedConfig) -> Hidden:
        """Returns the mean of the streams, which is exact where they are equal."""
        del config
        first, *rest = separate(x)
        return (first + sum(stream - first for stream in rest) / x.shape[2]).astype(x.dtype)

    @classmethod
    def residual_flops(cls, config: ResolvedConfig, sublayers: int) -> int:
        """Returns the operations that reading, mixing and writing add to a layer, per token."""
        n = config.norm.streams
        return sublayers * (2 * config.dim * n * (n + 2) + cls.connections.flops(config))

    def sublayer(
        self, x: Streams, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str
    ) -> Streams:
        """Applies f to a sum of the streams, and adds its output to sums of them."""
        number = context.layer_index * len(self.parts) + self.parts.index(part)
        read, mix, write = getattr(self, f"{part}_streams")(x, number)
        streams = separate(x)
        h = sum(read[..., n, None] * stream for n, stream in enumerate(streams))
        y = self.output(f(norm(h.astype(x.dtype), context)), context, part)
        mixed = (
            sum(mix[..., n, m, None] * stream for n, stream in enumerate(streams)) + write[..., m, None] * y
            for m in range(len(streams))
        )
        return jnp.stack([stream.astype(x.dtype) for stream in mixed], axis=2)

    def output(self, y: Hidden, context: Context, part: str) -> Hidden:
        """Returns r * dropout(y) in float32, r as in `Block.combine`."""
        y = context.dropout(y, self.rate, part).astype(jnp.float32)
        return y if self.branch == 1.0 else y * self.branch


class HyperBlock(StaticHyperBlock):
    """Dynamic hyper-connections: x_m = sum_n R_nm x_n + b_m f(Norm(sum_n a_n x_n)) for each of N =
    `norm.streams` streams, with R [N, N], a [N] and b [N] that are learned numbers plus
    s tanh(RMSNorm(x_n) W) of each token and stream n, with W [D, N + 2] (Zhu et al. 2024,
    arXiv:2409.19606, eq. 10 to 13; RMSNorm as in Xie et al. 2025, eq. 5).

    W is 0 and s is 0.01 at first, so a model begins equal to pre-norm.
    """

    connections = DynamicConnections


class ManifoldBlock(StaticHyperBlock):
    """Manifold-constrained hyper-connections (mHC): x_m = sum_n R_mn x_n + b_m f(Norm(sum_n a_n x_n))
    for each of N = `norm.streams` streams, with R [N, N] doubly stochastic, and a [N] and b [N]
    sigmoids, all functions of the streams of the token (Xie et al. 2025, arXiv:2512.24880, eq. 3, 7,
    8).

    Each row and column of R adds up to 1, so the mean of the streams passes all layers as the residual
    stream of pre-norm does. `ManifoldConnections` has the weights. Sums are computed from differences
    of streams, which are 0 at first: a model begins equal to pre-norm.
    """

    connections = ManifoldConnections

    @classmethod
    def residual_flops(cls, config: ResolvedConfig, sublayers: int) -> int:
        """Returns the operations that reading, mixing and writing add to a layer, per token."""
        n = config.norm.streams
        return sublayers * 2 * config.dim * n * (n + 2) * (1 + n)

    def sublayer(
        self, x: Streams, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str
    ) -> Streams:
        """Applies f to a sum of the streams, and adds its output to averages of them."""
        read, mix, write = getattr(self, f"{part}_streams")(x)
        first, *rest = streams = separate(x)
        # The sum of all weights is 1 exactly where all sigmoids are 1/2.
        total = 2 * (read.sum(axis=-1, keepdims=True) / len(streams))
        weights = 2 / len(streams) * read
        h = total * first + sum(weights[..., n, None] * (stream - first) for n, stream in enumerate(rest, 1))
        y = self.output(f(norm(h.astype(x.dtype), context)), context, part)
        mixed = [
            own
            + sum(mix[..., m, n, None] * (other - own) for n, other in enumerate(streams) if n != m)
            + write[..., m, None] * y
            for m, own in enumerate(streams)
        ]
        return jnp.stack([stream.astype(x.dtype) for stream in mixed], axis=2)
