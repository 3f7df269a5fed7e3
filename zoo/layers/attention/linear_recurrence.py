"""Gated linear recurrences: a matrix S for each head, that every token decays, corrects and reads.

With keys and queries of K elements, values of V, and S [K, V], which is 0 before the first token:

    S_t = diag(a_t) S_(t-1) + b_t k_t v_t^T                                    without the delta rule
    S_t = (I - b_t k_t k_t^T) diag(a_t) S_(t-1) + b_t k_t v_t^T                with it
    y_t = S_t^T q_t

a_t in (0, 1] is one number or a number for each of the K elements, b_t is a number. The delta rule
replaces what S has stored for the key by the value (Schlag et al. 2021); with a_t it is the gated
delta rule (Yang et al. 2024, arXiv:2412.06464, eq. 10).

`token_by_token` computes it as it stands. `by_chunks` cuts a row into chunks: within a chunk of C
tokens all are read at once, in products of C x C, and S goes from chunk to chunk, so that time and
memory are linear in T. With G_t = sum of ln a over the chunk up to t and S_0 before the chunk, the
rows u_t of b_t (v_t - what S stored) solve a triangular system (Yang et al. 2024, arXiv:2406.06484,
section 3):

    u_t = b_t (v_t - S_0^T (exp(G_t) * k_t) - sum over s < t of (k_t . (exp(G_t - G_s) * k_s)) u_s)
    y_t = S_0^T (exp(G_t) * q_t) + sum over s <= t of (q_t . (exp(G_t - G_s) * k_s)) u_s
    S_C = diag(exp(G_C)) S_0 + sum over s of (exp(G_C - G_s) * k_s) u_s^T

without the delta rule u_t = b_t v_t. Only exponentials of sums <= 0 are taken, so none overflows.
Where a document begins, S is 0: products of tokens of two documents are left out, so neither values
nor gradients pass. All of it is float32, or the type of the inputs where that is wider; products
without `EXACT` have JAX's default precision, which on accelerators is less.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

CHUNK = 64
# Tokens between which decays of single elements are computed one by one.
BLOCK = 16
# Sums of logarithms and the inverse of a triangle lose digits that no later product restores.
EXACT = jax.lax.Precision.HIGHEST


class Tokens(NamedTuple):
    """The tokens of rows, as the recurrence reads them.

    Attributes:
        q, k, v: queries, keys and values.
        log_decay: ln a, one number for each head (E = 1) or for each element of a key (E = K).
        rate: b.
        first: whether a document begins with the token, so that the state before it is dropped; one
            row for all, or one for each.
    """

    q: Float[Array, "B H T K"]
    k: Float[Array, "B H T K"]
    v: Float[Array, "B H T V"]
    log_decay: Float[Array, "B H T E"]
    rate: Float[Array, "B H T"]
    first: Bool[Array, "#B T"]


class RecurrentState(NamedTuple):
    """S after the last token, which a decoder keeps: one size, whatever the number of tokens."""

    state: Float[Array, "B H K V"]

    def take(self, rows: Int[Array, " R"]) -> "RecurrentState":
        """Returns R rows, by number."""
        return RecurrentState(self.state[rows])


def token_by_token(
    tokens: Tokens, state: Float[Array, "B H K V"], delta: bool
) -> tuple[Float[Array, "B H T V"], Float[Array, "B H K V"]]:
    """Returns (y, S after the last token), by the recurrence as it stands.

    Args:
        tokens: what the tokens do.
        state: S before the first token.
        delta: whether the delta rule is applied.
    """

    def step(state: Array, token: Tokens) -> tuple[Array, Array]:
        q, k, v, log_decay, rate, first = token
        state = jnp.exp(log_decay)[..., None] * jnp.where(first[:, None, None, None], 0, state)
        new = v - jnp.einsum("bhk,bhkv->bhv", k, state) if delta else v
        state = state + k[..., None] * (rate[..., None] * new)[..., None, :]
        return state, jnp.einsum("bhk,bhkv->bhv", q, state)

    in_time = jax.tree.map(lambda x: jnp.moveaxis(x, 1 if x.ndim == 2 else 2, 0), tokens)
    state, y = jax.lax.scan(step, state, in_time)
    return jnp.moveaxis(y, 0, 2), state


def by_chunks(
    tokens: Tokens, state: Float[Array, "B H K V"], delta: bool, size: int = CHUNK
) -> tuple[Float[Array, "B H T V"], Float[Array, "B H K V"]]:
    """Returns the same as `token_by_token`, computed in chunks.

    Args:
        tokens, state, delta: see `token_by_token`.
        size: most tokens of a chunk, a power of two.
    """
    length = tokens.q.shape[2]
    while size >= 2 * length and size > 1:
        size //= 2
    chunks = _prepared(jax.tree.map(lambda x: in_chunks(x, 1 if x.ndim == 2 else 2, size), tokens), delta)
    state, y = jax.lax.scan(_apply, state, jax.tree.map(lambda x: jnp.moveaxis(x, 2, 0), chunks))
    y = jnp.moveaxis(y, 0, 2)
    return y.reshape(*y.shape[:2], -1, y.shape[-1])[:, :, :length], state


class _Chunks(NamedTuple):
    """The part of each chunk of C tokens that does not depend on the state before it.

    Attributes:
        written: T (b v), the u of a state of 0; T = (I + A)^-1, A the products of keys.
        replaced: T (b exp(G) * k), whose product with S_0 is taken off; None without the delta rule.
        reading: exp(G) * q.
        weights: what each token reads of the u of the chunk.
        keys: exp(G_C - G) * k.
        kept: exp(G_C), the decay of S_0.
    """

    written: Float[Array, "B H N C V"]
    replaced: Float[Array, "B H N C K"] | None
    reading: Float[Array, "B H N C K"]
    weights: Float[Array, "B H N C C"]
    keys: Float[Array, "B H N C K"]
    kept: Float[Array, "B H N E"]


def _prepared(tokens: Tokens, delta: bool) -> _Chunks:
    """Computes what of all chunks does not depend on the state before them."""
    q, k, v, log_decay, rate, first = tokens
    # 0 for the document that the state before the chunk belongs to.
    documents = jnp.cumsum(first, axis=-1)[:, None]
    total = jnp.matmul(_seen(documents).astype(q.dtype), log_decay, precision=EXACT)
    goes_on, to_last = (documents == 0)[..., None], (documents == documents[..., -1:])[..., None]
    from_before = jnp.exp(jnp.where(goes_on, total, -jnp.inf))
    written, replaced = rate[..., None] * v, None
    if delta:
        overlaps = rate[..., None] * jnp.tril(_decayed_products(k, k, total, documents), -1)
        solved = unit_triangle_inverse(overlaps)
        written, replaced = solved @ written, solved @ (rate[..., None] * from_before * k)
    return _Chunks(
        written,
        replaced,
        from_before * q,
        _decayed_products(q, k, total, documents),
        jnp.exp(jnp.where(to_last, total[..., -1:, :] - total, -jnp.inf)) * k,
        from_before[..., -1, :],
    )


def _apply(state: Float[Array, "B H K V"], chunk: _Chunks) -> tuple[Array, Float[Array, "B H C V"]]:
    """Returns (S after a chunk, y of its tokens)."""
    written = chunk.written if chunk.replaced is None else chunk.written - chunk.replaced @ state
    y = chunk.reading @ state + chunk.weights @ written
    return chunk.kept[..., None] * state + jnp.swapaxes(chunk.keys, -1, -2) @ written, y


def _decayed_products(
    x: Float[Array, "B H N C K"],
    k: Float[Array, "B H N C K"],
    total: Float[Array, "B H N C E"],
    documents: Int[Array, "#B 1 N C"],
) -> Float[Array, "B H N C C"]:
    """Returns x_t . (exp(G_t - G_s) * k_s) where s <= t is of the same document, else 0.

    With a decay for each element exp(G_t - G_s) is no factor of the product. Between blocks it is
    split at the end of the block before that of t, so that both factors are at most 1 (Yang et al.
    2023, section 4.3); within a block all elements are summed one by one.
    """
    size = x.shape[-2]
    if total.shape[-1] == 1:
        difference = jnp.where(_seen(documents), total - jnp.swapaxes(total, -1, -2), -jnp.inf)
        return (x @ jnp.swapaxes(k, -1, -2)) * jnp.exp(difference)
    width = min(BLOCK, size)
    blocks = size // width

    def in_blocks(array: Array) -> Array:
        """Returns [B, H, blocks of all chunks, tokens of a block, ...]. Products of arrays with more
        dimensions crash with jaxlib 0.10.2 on a CPU.
        """
        return array.reshape(*array.shape[:2], -1, width, *array.shape[4:])

    x_blocks, total_blocks, own = in_blocks(x), in_blocks(total), in_blocks(documents)
    # The last token of the block before each; the first block of a chunk has none.
    split, of_split = (jnp.roll(array[:, :, :, -1], 1, axis=2) for array in (total_blocks, own[..., None]))
    number = jnp.arange(own.shape[2]) % blocks
    reaches = (own == of_split) & (number > 0)[:, None]
    after = jnp.exp(jnp.where(reaches[..., None], total_blocks - split[..., None, :], -jnp.inf))
    k_chunk, total_chunk, documents = (jnp.repeat(array, blocks, axis=2) for array in (k, total, documents))
    precedes = (documents == of_split) & (jnp.arange(size) < width * number[:, None])
    before = jnp.exp(jnp.where(precedes[..., None], split[..., None, :] - total_chunk, -jnp.inf))
    between = (after * x_blocks) @ jnp.swapaxes(before * k_chunk, -1, -2)
    within = _products_within_block(x_blocks, in_blocks(k), total_blocks, _seen(own))
    place = jnp.eye(blocks, dtype=x.dtype)[number][:, None, :, None]
    on_diagonal = (within[..., None, :] * place).reshape(*within.shape[:-1], size)
    return (between + on_diagonal).reshape(*x.shape[:-1], size)


def _products_within_block(x: Array, k: Array, total: Array, seen: Array) -> Float[Array, "B H n c c"]:
    """Does the work of `_decayed_products` for decays of single elements, one token of all blocks
    after another: all exponentials at once would be as many as the products times K. The backward
    pass computes them again.
    """

    @jax.checkpoint
    def row(_: None, token: tuple[Array, Array, Array]) -> tuple[None, Array]:
        x, own, seen = token
        decay = jnp.exp(jnp.where(seen[..., None], own[..., None, :] - total, -jnp.inf))
        return None, (x[..., None, :] * decay * k).sum(axis=-1)

    _, rows = jax.lax.scan(row, None, tuple(jnp.moveaxis(array, 3, 0) for array in (x, total, seen)))
    return jnp.moveaxis(rows, 0, 3)


def _seen(documents: Int[Array, "*leading C"]) -> Bool[Array, "*leading C C"]:
    """Returns which tokens a token sees: itself and those before it in its document."""
    return jnp.tri(documents.shape[-1], dtype=bool) & (documents[..., :, None] == documents[..., None, :])


@jax.custom_jvp
def unit_triangle_inverse(lower: Float[Array, "*leading N C C"]) -> Float[Array, "*leading N C C"]:
    """Returns (I + L)^-1 for matrices L with zeros on and above the diagonal; C is a power of two.

    Inverses of diagonal blocks are joined, [[P, 0], [R, Q]]^-1 = [[P^-1, 0], [-Q^-1 R P^-1, Q^-1]],
    from blocks of one element to the whole. Unlike the sum of powers of L it is as stable as
    substitution, and unlike that it consists of products. Its derivative is that of an inverse, so
    that the backward pass keeps the inverse alone and takes two products.
    """
    *leading, count, size = lower.shape[:-1]
    inverse = jnp.ones((*leading, count * size, 1, 1), lower.dtype)
    while (width := inverse.shape[-1]) < size:
        half = size // (2 * width)
        pairs = lower.reshape(*leading, count, half, 2, width, half, 2, width)
        corner = jnp.moveaxis(jnp.diagonal(pairs[..., :, 1, :, :, 0, :], axis1=-4, axis2=-2), -1, -3)
        corner = corner.reshape(*leading, count * half, width, width)
        top, bottom = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        joined = -jnp.matmul(jnp.matmul(bottom, corner, precision=EXACT), top, precision=EXACT)
        upper = jnp.concatenate([top, jnp.zeros_like(top)], axis=-1)
        inverse = jnp.concatenate([upper, jnp.concatenate([joined, bottom], axis=-1)], axis=-2)
    return inverse


@unit_triangle_inverse.defjvp
def _inverse_and_change(lower: tuple[Array], change: tuple[Array]) -> tuple[Array, Array]:
    """Returns X = (I + L)^-1, and dX = -X dL X."""
    inverse = unit_triangle_inverse(*lower)
    changed = jnp.matmul(inverse, jnp.tril(*change, -1), precision=EXACT)
    return inverse, -jnp.matmul(changed, inverse, precision=EXACT)


def in_chunks(x: Array, axis: int, size: int) -> Array:
    """Cuts the dimension of tokens into N chunks, padded with zeros. A token of zeros leaves the state
    as it is.
    """
    count = -(-x.shape[axis] // size)
    x = jnp.pad(x, [(0, count * size - x.shape[axis] if axis == dimension else 0) for dimension in range(x.ndim)])
    return x.reshape(*x.shape[:axis], count, size, *x.shape[axis + 1 :])
