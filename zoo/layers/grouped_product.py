"""Products of consecutive groups of rows with a matrix of each group."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.layers.platform import Platform
from zoo.layers.products_on_cpu import block_sizes, by_groups

SMALLEST_GPU_BLOCK, LARGEST_GPU_BLOCK = 128, 2048
"""Rows of a block on an NVIDIA GPU, whose products need more of them to be fast."""
OPERATIONS_OF_A_TURN = 10**10
"""Operations that an NVIDIA GPU is taken to do in the time in which a turn of a loop starts: those of
20 microseconds at 500 TFLOP/s. It is an estimate that has not been measured."""


def grouped_product(
    x: Float[Array, "N I"],
    w: Float[Array, "E I O"],
    sizes: Int[Array, " E"],
    platform: Platform | None = None,
    room: int = 0,
) -> Float[Array, "N O"]:
    """Returns y with y_n = x_n W_e for the rows n of group e: the first `sizes[0]` rows are of group
    0, the next `sizes[1]` of group 1, and so on. The sizes add up to at most N; what y has in the rows
    beyond them is undefined.

    On TPUs it is `jax.lax.ragged_dot`, for which their compiler has a kernel. XLA's compilers for CPUs
    and for NVIDIA's GPUs compute that as a product of all rows with all matrices, E times the work,
    and on GPUs with an array of E x N x I. Blocks of rows are multiplied with the one matrix of each
    instead: always on a CPU, and on a GPU where the loop over blocks costs less.

    Args:
        x: the rows, in the order of the groups.
        w: the matrices, in the type of `x`.
        sizes: numbers of rows of the groups.
        platform: the devices that the program is compiled for; None for those of the process.
        room: number of rows of `x` at its end that are of no group. With `ROOM` of them
            (`zoo.layers.products_on_cpu`) a CPU makes no copy of the rows.
    """
    platform = Platform.here() if platform is None else platform
    if platform.name == "cpu":
        large, small = block_sizes(len(x) - room, len(w))
        if room >= small:
            return by_groups(x, w, sizes, (large, small))
        return by_groups(jnp.pad(x, ((0, small), (0, 0))), w, sizes, (large, small))[: len(x)]
    if platform.capability is not None:
        size = _block_size(len(x), len(w))
        if 2 * len(x) * w.size > (len(x) // size + len(w)) * OPERATIONS_OF_A_TURN:
            return _by_blocks(x, w, sizes, size)
    return jax.lax.ragged_dot(x, w, sizes)


def _block_size(rows: int, groups: int) -> int:
    """Returns about a quarter of the mean size of a group: little of its last block is lost."""
    size = SMALLEST_GPU_BLOCK
    while size < LARGEST_GPU_BLOCK and 8 * size * groups <= rows:
        size *= 2
    return size


class _Blocks:
    """The blocks of the groups: each has at most `size` rows, of one group.

    Args:
        sizes: numbers of rows of the groups.
        size: number of rows of a block.
    """

    def __init__(self, sizes: Int[Array, " E"], size: int):
        # XLA of jaxlib 0.11.2 does not compile a loop over a number of blocks that it knows.
        sizes = jax.lax.optimization_barrier(sizes)
        self.sizes, self.size = sizes, size
        self.first_rows = jnp.cumsum(sizes) - sizes
        self.last = jnp.cumsum(-(-sizes // size))
        self.count = self.last[-1]

    def __call__(self, block: Int[Array, ""]) -> tuple[Array, Array, Array]:
        """Returns (group of a block, its first row, which of its rows are in the group)."""
        group = jnp.searchsorted(self.last, block, side="right")
        offset = (block - (self.last[group] - -(-self.sizes[group] // self.size))) * self.size
        inside = offset + jnp.arange(self.size) < self.sizes[group]
        return group, self.first_rows[group] + offset, inside[:, None]


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _by_blocks(x: Float[Array, "N I"], w: Float[Array, "E I O"], sizes: Int[Array, " E"], size: int) -> Array:
    return _forward(x, w, sizes, size)[0]


def _forward(x: Array, w: Array, sizes: Array, size: int) -> tuple[Array, tuple[Array, Array, Array]]:
    blocks, padded = _Blocks(sizes, size), jnp.pad(x, ((0, size), (0, 0)))

    def multiply(block: Array, y: Array) -> Array:
        group, start, _ = blocks(block)
        rows = jax.lax.dynamic_slice_in_dim(padded, start, size)
        # What it writes beyond its own rows is overwritten by the blocks that follow.
        return jax.lax.dynamic_update_slice_in_dim(y, rows @ w[group], start, 0)

    y = jax.lax.fori_loop(0, blocks.count, multiply, jnp.zeros((len(padded), w.shape[2]), x.dtype))
    return y[: len(x)], (x, w, sizes)


def _backward(size: int, kept: tuple[Array, Array, Array], dy: Array) -> tuple[Array, Array, None]:
    x, w, sizes = kept
    blocks = _Blocks(sizes, size)
    padded, dy = (jnp.pad(rows, ((0, size), (0, 0))) for rows in (x, dy))

    def multiply(block: Array, totals: tuple[Array, Array]) -> tuple[Array, Array]:
        dx, dw = totals
        group, start, inside = blocks(block)
        rows, changes = (jax.lax.dynamic_slice_in_dim(each, start, size) for each in (padded, dy))
        dx = jax.lax.dynamic_update_slice_in_dim(dx, changes @ w[group].T, start, 0)
        product = jnp.matmul(jnp.where(inside, rows, 0).T, changes, preferred_element_type=jnp.float32)
        return dx, jax.lax.dynamic_update_index_in_dim(dw, dw[group] + product, group, 0)

    zero = jnp.zeros_like(padded), jnp.zeros(w.shape, jnp.float32)
    dx, dw = jax.lax.fori_loop(0, blocks.count, multiply, zero)
    return dx[: len(x)], dw.astype(w.dtype), None


_by_blocks.defvjp(_forward, _backward)


@jax.custom_vjp
def permuted(x: Float[Array, "N D"], order: Int[Array, " N"], inverse: Int[Array, " N"]) -> Float[Array, "N D"]:
    """Returns x[order]. Its gradient is a look-up by the inverse permutation, where that of an
    ordinary look-up would add rows one after the other.
    """
    del inverse
    return x[order]


permuted.defvjp(lambda x, order, inverse: (x[order], inverse), lambda inverse, change: (change[inverse], None, None))
