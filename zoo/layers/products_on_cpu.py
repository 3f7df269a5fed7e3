"""Products of groups of rows with a matrix of each group, on a CPU."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

SMALLEST_BLOCK, LARGEST_BLOCK, PARTS_OF_A_BLOCK = 8, 512, 8
ROOM = LARGEST_BLOCK // PARTS_OF_A_BLOCK
"""Rows beyond those of the groups that the last block of the last group may have."""


def block_sizes(rows: int, groups: int) -> tuple[int, int]:
    """Returns (large, small): blocks of at most half of the mean size of a group, and those of the
    rows that are left of one, so that few of its last block are lost.
    """
    size = SMALLEST_BLOCK
    while size < LARGEST_BLOCK and 4 * size * groups <= rows:
        size *= 2
    return size, max(SMALLEST_BLOCK, size // PARTS_OF_A_BLOCK)


def _over_blocks(
    block: Callable[[Array, int, Any], Any], begin: Array, rows: Array, sizes: tuple[int, int], carry: Any
) -> Any:
    """Returns what `block(first row, number of rows, carry)` makes of a carry, block by block: large
    ones as long as a group has the rows, then small ones.
    """
    for size in sizes:
        count = rows // size if size == sizes[0] > sizes[1] else -(-rows // size)
        carry = jax.lax.fori_loop(
            0, count, lambda i, carry, begin=begin, size=size: block(begin + i * size, size, carry), carry
        )
        begin, rows = begin + count * size, jnp.maximum(rows - count * size, 0)
    return carry


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def by_groups(
    x: Float[Array, "N I"], w: Float[Array, "E I O"], sizes: Int[Array, " E"], blocks: tuple[int, int]
) -> Float[Array, "N O"]:
    """Returns y with y_n = x_n W_e for the rows n of group e, in blocks of its rows.

    Args:
        x: the rows, in the order of the groups, and at least as many further ones as a small block
            has.
        w: the matrices.
        sizes: numbers of rows of the groups.
        blocks: numbers of rows of a large and of a small block.
    """
    return _forward(x, w, sizes, blocks)[0]


def _forward(x: Array, w: Array, sizes: Array, blocks: tuple[int, int]) -> tuple[Array, tuple[Array, Array, Array]]:
    begins = jnp.cumsum(sizes) - sizes

    def group(e: Int[Array, ""], y: Array) -> Array:
        # Taken once for a group: XLA copies it.
        matrix = w[e]

        def multiply(start: Array, size: int, y: Array) -> Array:
            # What it writes beyond its own rows is overwritten by the groups that follow.
            rows = jax.lax.dynamic_slice_in_dim(x, start, size)
            return jax.lax.dynamic_update_slice_in_dim(y, rows @ matrix, start, 0)

        return _over_blocks(multiply, begins[e], sizes[e], blocks, y)

    return jax.lax.fori_loop(0, len(w), group, jnp.zeros((len(x), w.shape[2]), x.dtype)), (x, w, sizes)


def _backward(blocks: tuple[int, int], kept: tuple[Array, Array, Array], dy: Array) -> tuple[Array, Array, None]:
    x, w, sizes = kept
    begins = jnp.cumsum(sizes) - sizes

    def group(e: Int[Array, ""], totals: tuple[Array, Array]) -> tuple[Array, Array]:
        matrix, end = w[e], begins[e] + sizes[e]

        def multiply(start: Array, size: int, totals: tuple[Array, Array]) -> tuple[Array, Array]:
            dx, dw = totals
            rows, changes = (jax.lax.dynamic_slice_in_dim(each, start, size) for each in (x, dy))
            if size == blocks[1]:
                rows = jnp.where((start + jnp.arange(size) < end)[:, None], rows, 0)
            dx = jax.lax.dynamic_update_slice_in_dim(dx, changes @ matrix.T, start, 0)
            return dx, dw + jnp.matmul(rows.T, changes, preferred_element_type=jnp.float32)

        dx, dw = totals
        dx, own = _over_blocks(multiply, begins[e], sizes[e], blocks, (dx, jnp.zeros(matrix.shape, jnp.float32)))
        return dx, jax.lax.dynamic_update_index_in_dim(dw, own, e, 0)

    zero = jnp.zeros_like(x), jnp.zeros(w.shape, jnp.float32)
    dx, dw = jax.lax.fori_loop(0, len(w), group, zero)
    return dx, dw.astype(w.dtype), None


by_groups.defvjp(_forward, _backward)
