"""The generalised delta rule: a matrix S for each head, whose transition by a token is a diagonal
matrix plus one of rank one.

With vectors of K elements, values of V, and S [K, V], which is 0 before the first token:

    S_t = (diag(w_t) - b_t e_t^T) S_(t-1) + k_t v_t^T
    y_t = S_t^T r_t

(Peng et al. 2025, arXiv:2503.14456, section 4.2, whose S is the transpose). Unlike the delta rule of
`zoo.layers.attention.linear_recurrence`, what is read along e_t is taken off along another vector
b_t, before the decay, and the key k_t that is written is a third one.

`rank_one_by_token` computes it as it stands. `rank_one_by_chunks` cuts a row into chunks of C
tokens; time and memory are linear in T. With G_t = sum of ln w over the chunk up to t and S_0 before
the chunk, what is taken off, u_t = -S_(t-1)^T e_t, solves a triangular system, as in the delta rule:

    e'_t = exp(G_(t-1)) * e_t
    u_t = -S_0^T e'_t - sum over s < t of ((e'_t . exp(-G_s) * b_s) u_s + (e'_t . exp(-G_s) * k_s) v_s)
    S_C = diag(exp(G_C)) S_0 + sum over s of exp(G_C - G_s) * (b_s u_s^T + k_s v_s^T)

u is linear in S_0, and so is S_C: each chunk is one matrix [K, K] and one addend [K, V], which are
computed for all chunks at once. Only the states go from chunk to chunk, and the outputs of all
chunks follow from them.

Decays are split at the beginning of the chunk, or of the document within it: exp(G_t) times exp(-G_s),
which products of matrices can use, and which depend on no later token and on no other document. ln w
>= -exp(-1/2) (`MIN_LOG_DECAY`) and C <= 64 (`MAX_CHUNK`) keep the factors below exp(39) = 1e17, which
float32 represents with all digits. Where a document begins, S is 0: products of tokens of two
documents are left out, so neither values nor gradients pass. All of it is float32, or the type of the
inputs where that is wider; products without `EXACT` have JAX's default precision, which on
accelerators is less.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from zoo.layers.attention.linear_recurrence import EXACT, in_chunks, unit_triangle_inverse

MIN_LOG_DECAY = -math.exp(-0.5)
MAX_CHUNK = 64


class RankOneTokens(NamedTuple):
    """The tokens of rows, as the recurrence reads them.

    Attributes:
        r: what reads the state after the token.
        erased, added: e and b, the vectors along which the state is read and taken off.
        k, v: key and value that are written.
        log_decay: ln w, between `MIN_LOG_DECAY` and 0.
        first: whether a document begins with the token, so that the state before it is dropped; one
            row for all, or one for each.
    """

    r: Float[Array, "B H T K"]
    erased: Float[Array, "B H T K"]
    added: Float[Array, "B H T K"]
    k: Float[Array, "B H T K"]
    v: Float[Array, "B H T V"]
    log_decay: Float[Array, "B H T K"]
    first: Bool[Array, "#B T"]


def rank_one_by_token(
    tokens: RankOneTokens, state: Float[Array, "B H K V"]
) -> tuple[Float[Array, "B H T V"], Float[Array, "B H K V"]]:
    """Returns (y, S after the last token), by the recurrence as it stands.

    Args:
        tokens: what the tokens do.
        state: S before the first token.
    """

    def step(state: Array, token: RankOneTokens) -> tuple[Array, Array]:
        r, erased, added, k, v, log_decay, first = token
        state = jnp.where(first[:, None, None, None], 0, state)
        taken = jnp.einsum("bhk,bhkv->bhv", erased, state)
        state = jnp.exp(log_decay)[..., None] * state - added[..., None] * taken[..., None, :]
        state = state + k[..., None] * v[..., None, :]
        return state, jnp.einsum("bhk,bhkv->bhv", r, state)

    in_time = jax.tree.map(lambda x: jnp.moveaxis(x, 1 if x.ndim == 2 else 2, 0), tokens)
    state, y = jax.lax.scan(step, state, in_time)
    return jnp.moveaxis(y, 0, 2), state


def rank_one_by_chunks(
    tokens: RankOneTokens, state: Float[Array, "B H K V"], size: int = MAX_CHUNK
) -> tuple[Float[Array, "B H T V"], Float[Array, "B H K V"]]:
    """Returns the same as `rank_one_by_token`, computed in chunks.

    Args:
        tokens, state: see `rank_one_by_token`.
        size: most tokens of a chunk, a power of two up to `MAX_CHUNK`.

    Raises:
        ValueError: the chunks are longer.
    """
    if size > MAX_CHUNK:
        raise ValueError(f"chunks of {size} tokens are too long for the decays; the longest are {MAX_CHUNK}")
    length = tokens.r.shape[2]
    while size >= 2 * length and size > 1:
        size //= 2
    chunks = _prepared(jax.tree.map(lambda x: in_chunks(x, 1 if x.ndim == 2 else 2, size), tokens))

    def step(state: Array, chunk: tuple[Array, Array]) -> tuple[Array, Array]:
        transition, addend = chunk
        # The decay is a factor of this product, which accelerators would round at every chunk.
        return jnp.matmul(transition, state, precision=EXACT) + addend, state

    by_chunk = tuple(jnp.moveaxis(x, 2, 0) for x in (chunks.transition, chunks.addend))
    state, before = jax.lax.scan(step, state, by_chunk)
    y = chunks.reading @ jnp.moveaxis(before, 0, 2) + chunks.own
    return y.reshape(*y.shape[:2], -1, y.shape[-1])[:, :, :length], state


class _RankOneChunks(NamedTuple):
    """Each chunk of C tokens as a function of the state S_0 before it.

    Attributes:
        transition, addend: S_C = transition S_0 + addend.
        reading, own: y = reading S_0 + own.
    """

    transition: Float[Array, "B H N K K"]
    addend: Float[Array, "B H N K V"]
    reading: Float[Array, "B H N C K"]
    own: Float[Array, "B H N C V"]


def _prepared(tokens: RankOneTokens) -> _RankOneChunks:
    """Computes what of all chunks does not depend on the state before them."""
    r, erased, added, k, v, log_decay, first = tokens
    size = r.shape[-2]
    documents = jnp.cumsum(first, axis=-1)[:, None]
    # Of the document that the state before the chunk belongs to, and of the last one.
    goes_on, to_last = (documents == 0)[..., None], (documents == documents[..., -1:])[..., None]
    same = documents[..., :, None] == documents[..., None, :]
    until, before = same & jnp.tri(size, dtype=bool), same & jnp.tri(size, k=-1, dtype=bool)
    since_start = jnp.matmul(until.astype(r.dtype), log_decay, precision=EXACT)
    to_end = jnp.matmul(jnp.triu(jnp.ones((size, size), r.dtype), 1), log_decay, precision=EXACT)

    # Rows are r and e, columns k and b: one product has all four pairs.
    reading, erasing = jnp.exp(since_start) * r, jnp.exp(since_start - log_decay) * erased
    inverse = jnp.exp(-since_start)
    rows, columns = (jnp.concatenate(pair, axis=-2) for pair in ((reading, erasing), (inverse * k, inverse * added)))
    products = rows @ jnp.swapaxes(columns, -1, -2)
    read_k, read_b = (jnp.where(until, part, 0) for part in jnp.split(products[..., :size, :], 2, axis=-1))
    erased_k, erased_b = (jnp.where(before, part, 0) for part in jnp.split(products[..., size:, :], 2, axis=-1))

    # u = -(of_values + of_state S_0).
    solved = unit_triangle_inverse(erased_b)
    of_values = solved @ (erased_k @ v)
    of_state = solved @ jnp.where(goes_on, erasing, 0)
    last = jnp.where(to_last, jnp.exp(to_end), 0)
    written_k, written_b = (jnp.swapaxes(last * x, -1, -2) for x in (k, added))
    kept = jnp.where(goes_on[..., -1, :], jnp.exp(since_start[..., -1, :]), 0)
    return _RankOneChunks(
        kept[..., None] * jnp.eye(r.shape[-1], dtype=r.dtype) - written_b @ of_state,
        written_k @ v - written_b @ of_values,
        jnp.where(goes_on, reading, 0) - read_b @ of_state,
        read_k @ v - read_b @ of_values,
    )
