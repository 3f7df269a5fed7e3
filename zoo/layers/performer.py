"""FAVOR+: softmax attention through positive orthogonal random features, in time and memory linear
in T (Choromanski et al. 2021).

With normal vectors w_j, exp(q . k) is the mean over j of exp(w_j . q - |q|^2 / 2) exp(w_j . k -
|k|^2 / 2) (Lemma 1), and sums over the keys are made once for all queries. The exponentials are
kept in range by stabilisers, and EPSILON is added to every feature so that no normaliser vanishes,
as in the authors' code:

    phi(q)_j = exp(w_j . q - |q|^2 / 2 - max_j (w_j . q)) + EPSILON,    phi(k)_j the same with the maximum over j and all keys.

Up to EPSILON the stabilisers cancel in the normalised output; no gradient flows through them.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from zoo.layers.context import Context

EPSILON = 1e-4
# Most tokens that are attended at once; in a causal row the cost within a chunk is quadratic.
CHUNK, CAUSAL_CHUNK = 512, 64
FLOOR = jnp.finfo(jnp.float32).min


def random_features(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "M K"]:
    """Rows that are orthogonal in blocks of K, each as long as a normal vector (Choromanski et al.
    2021, section 2.4).

    Directions are made by Gram-Schmidt, which leaves each of them uniform. That is QR with a
    positive diagonal of R: the signs that a routine happens to choose favour one half of space, and
    the features would estimate exp(q . k) with a bias.
    """
    M, K = shape
    directions, lengths = jax.random.split(key)
    Q, R = jnp.linalg.qr(jax.random.normal(directions, (-(-M // K), K, K)))
    Q = jnp.where(jnp.diagonal(R, axis1=1, axis2=2)[:, None] < 0, -Q, Q)
    orthogonal = Q.transpose(0, 2, 1).reshape(-1, K)[:M]
    return orthogonal * jnp.linalg.norm(jax.random.normal(lengths, (M, K)), axis=1, keepdims=True)


def performer_attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G K"],
    features: Float[Array, "M K"],
    context: Context,
    scale: float,
) -> Float[Array, "B T H K"]:
    """sum_s phi(q_t) . phi(k_s) v_s / sum_s phi(q_t) . phi(k_s), an estimate of softmax(scale * q
    k^T) v (Choromanski et al. 2021, eq. 4).

    In a causal row s runs up to t, and so does the maximum in phi(k): output t is what tokens 0 ..
    t alone would give. A token's place in the row is its order, whatever its position. Empty slots
    count neither above nor below the line; a query that sees no key reads 0. Query head h reads key
    head h G / H. Everything is summed in float32; the output has the type of v.

    A long row is walked through in chunks. The backward pass computes a chunk again; it keeps what
    went in, and in a causal row the sums over what came before.

    Args:
        q, k, v: queries, keys, values; in a causal row of the same T tokens.
        features: w, from `random_features`.
        context: which keys are filled, and whether the row is causal.
        scale: on q . k; queries and keys each get its root.

    Raises:
        ValueError: if causal queries are to read another sequence, or a prefix that is not before
            them.
    """
    return performer_sums(q, k, v, features, context, scale)[0]


def performer_sums(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G K"],
    features: Float[Array, "M K"],
    context: Context,
    scale: float,
    before: "Sums | None" = None,
) -> tuple[Float[Array, "B T H K"], "Sums"]:
    """What `performer_attention` returns, and the sums over all keys, which are all that further
    queries need.

    Args:
        q, k, v, features, context, scale: as there.
        before: sums over keys that come before these.
    """
    if context.causal and context.key_positions is not None:
        raise ValueError(
            "causal queries of performer_attention read their own row; keys of another sequence have no place in its order"
        )
    if context.causal and context.prefix:
        raise ValueError(
            "performer_attention sums over keys in their order; it cannot show a prefix to the queries before it"
        )
    B, T, H, K = q.shape
    S, G = k.shape[1:3]
    kernel = Kernel(features, scale)
    # Heads first, as in the other kernels: plain batched matrix products.
    q = q.reshape(B, T, G, H // G, K).transpose(0, 2, 3, 1, 4)
    keys = (k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3), jnp.broadcast_to(context.keys_at >= 0, (B, S))[:, None])
    if before is None:
        before = Sums(jnp.full((B, G), FLOOR), jnp.zeros((B, G, features.shape[0], K + 1)), jnp.zeros((B, G, K + 1)))
    attended, sums = (_causal if context.causal else _bidirectional)(kernel, q, keys, before)
    return attended.transpose(0, 3, 1, 2, 4).reshape(B, T, H, K).astype(v.dtype), sums


def performer_read(
    q: Float[Array, "B T H K"], features: Float[Array, "M K"], scale: float, sums: "Sums"
) -> Float[Array, "B T H K"]:
    """What `performer_attention` returns to queries that see all keys of `sums`."""
    B, T, H, K = q.shape
    G = sums.largest.shape[1]
    attended = _read(Kernel(features, scale), q.reshape(B, T, G, H // G, K).transpose(0, 2, 3, 1, 4), sums)
    return attended.transpose(0, 3, 1, 2, 4).reshape(B, T, H, K).astype(q.dtype)


class Sums(NamedTuple):
    """Sums over keys.

    Attributes:
        largest: m, the largest w_j . k.
        scaled: sum_s exp(w_j . k_s - |k_s|^2 / 2 - m) (v_s, 1).
        plain: sum_s (v_s, 1), which EPSILON multiplies.
    """

    largest: Float[Array, "B G"]
    scaled: Float[Array, "B G M K+1"]
    plain: Float[Array, "B G K+1"]


class Keys(NamedTuple):
    """Keys' features and values.

    Attributes:
        largest: m_s, the largest w_j . k_s of every key, the lowest number in empty slots.
        features: exp(w_j . k_s - |k_s|^2 / 2 - m_s).
        values: (v_s, 1), 0 in empty slots; the last column makes the normaliser.
    """

    largest: Float[Array, "B G S"]
    features: Float[Array, "B G S M"]
    values: Float[Array, "B G S K+1"]


class Kernel:
    """The feature map of exp(scale * q . k), and sums of it."""

    def __init__(self, features: Float[Array, "M K"], scale: float):
        self.features, self.scale = features.astype(jnp.float32) * scale**0.5, scale

    def _exponentials(self, x: Float[Array, "*B S K"]) -> tuple[Float[Array, "*B S"], Float[Array, "*B S M"]]:
        x = x.astype(jnp.float32)
        projected = x @ self.features.T
        largest = jax.lax.stop_gradient(projected.max(axis=-1, keepdims=True))
        return largest[..., 0], jnp.exp(
            projected - largest - self.scale / 2 * jnp.square(x).sum(axis=-1, keepdims=True)
        )

    def queries(self, q: Float[Array, "B G R T K"]) -> Float[Array, "B G R T M"]:
        """phi(q)."""
        return self._exponentials(q)[1] + EPSILON

    def keys(self, k: Float[Array, "B G S K"], v: Float[Array, "B G S K"], filled: Bool[Array, "B 1 S"]) -> Keys:
        """Keys, each relative to its own maximum."""
        largest, features = self._exponentials(k)
        values = jnp.concatenate([v.astype(jnp.float32), jnp.ones((*v.shape[:-1], 1), jnp.float32)], axis=-1)
        return Keys(jnp.where(filled, largest, FLOOR), features, jnp.where(filled[..., None], values, 0))

    def add(self, sums: Sums, keys: Keys) -> Sums:
        """Sums over further keys too. What was summed is scaled down when the maximum grows."""
        largest = jnp.maximum(sums.largest, keys.largest.max(axis=-1))
        further = keys.features * jnp.exp(keys.largest - largest[..., None])[..., None]
        scaled = sums.scaled * jnp.exp(sums.largest - largest)[..., None, None] + jnp.einsum(
            "bgsm,bgsv->bgmv", further, keys.values
        )
        return Sums(largest, scaled, sums.plain + keys.values.sum(axis=2))

    def read(
        self, queries: Float[Array, "B G R T M"], sums: Sums, largest: Float[Array, "B G T"]
    ) -> Float[Array, "B G R T K+1"]:
        """sum_s phi(q_t) . phi(k_s) (v_s, 1) over what was summed, with `largest` as the maximum in
        phi(k).
        """
        decay = jnp.exp(sums.largest[..., None] - largest)[:, :, None, :, None]
        scaled = jnp.einsum("bgrtm,bgmv->bgrtv", queries, sums.scaled)
        return scaled * decay + EPSILON * queries.sum(axis=-1, keepdims=True) * sums.plain[:, :, None, None]

    def read_before(
        self, queries: Float[Array, "B G R T M"], keys: Keys, largest: Float[Array, "B G T"]
    ) -> Float[Array, "B G R T K+1"]:
        """The same over those of as many keys that are not after the query, in time quadratic in
        their number.

        A key's own maximum is at most that of the queries that see it, so that nothing overflows.
        """
        order = jnp.tri(queries.shape[3], dtype=bool)
        decay = jnp.exp(jnp.where(order, keys.largest[:, :, None, :] - largest[..., None], -jnp.inf))[:, :, None]
        weights = jnp.einsum("bgrtm,bgsm->bgrts", queries, keys.features) * decay
        weights += EPSILON * queries.sum(axis=-1, keepdims=True) * order
        return jnp.einsum("bgrts,bgsv->bgrtv", weights, keys.values)


def _bidirectional(
    kernel: Kernel, q: Float[Array, "B G R T K"], keys: tuple[Array, Array, Array], sums: Sums
) -> tuple[Array, Sums]:
    def add(sums: Sums, inputs: tuple[Array, Array, Array]) -> tuple[Sums, None]:
        return kernel.add(sums, kernel.keys(*inputs)), None

    sums, _ = _walk(add, sums, [_cut(x, 2, CHUNK) for x in keys])
    return _read(kernel, q, sums), sums


def _read(kernel: Kernel, q: Float[Array, "B G R T K"], sums: Sums) -> Float[Array, "B G R T K"]:
    def read(sums: Sums, q: Array) -> tuple[Sums, Array]:
        return sums, _normalised(kernel.read(kernel.queries(q), sums, sums.largest[..., None]))

    return _joined(_walk(read, sums, _cut(q, 3, CHUNK))[1], q.shape[3])


def _causal(
    kernel: Kernel, q: Float[Array, "B G R T K"], keys: tuple[Array, Array, Array], sums: Sums
) -> tuple[Array, Sums]:
    def attend(before: Sums, inputs: tuple[Array, tuple[Array, Array, Array]]) -> tuple[Sums, Array]:
        queries, own = kernel.queries(inputs[0]), kernel.keys(*inputs[1])
        largest = jnp.maximum(jax.lax.cummax(own.largest, axis=2), before.largest[..., None])
        read = kernel.read(queries, before, largest) + kernel.read_before(queries, own, largest)
        return kernel.add(before, own), _normalised(read)

    inputs = (_cut(q, 3, CAUSAL_CHUNK), [_cut(x, 2, CAUSAL_CHUNK) for x in keys])
    sums, attended = _walk(attend, sums, inputs)
    return _joined(attended, q.shape[3]), sums


def _walk(step: Callable, carry: Sums, chunks) -> tuple[Sums, Array]:
    """A loop over chunks that keeps the carries and computes a step again on the way back; one
    chunk alone is simply done.
    """
    if jax.tree.leaves(chunks)[0].shape[0] > 1:
        return jax.lax.scan(jax.checkpoint(step, prevent_cse=False), carry, chunks)
    carry, result = step(carry, jax.tree.map(lambda x: x[0], chunks))
    return carry, None if result is None else result[None]


def _cut(x: Array, axis: int, most: int) -> Array:
    """The dimension of tokens cut into N chunks of at most `most`, filled up with zeros (empty
    slots), and N moved to the front.
    """
    count = -(-x.shape[axis] // most)
    size = -(-x.shape[axis] // count)
    x = jnp.pad(x, [(0, count * size - x.shape[axis] if axis == dimension else 0) for dimension in range(x.ndim)])
    return jnp.moveaxis(x.reshape(*x.shape[:axis], count, size, *x.shape[axis + 1 :]), axis, 0)


def _joined(chunks: Float[Array, "N B G R c K"], length: int) -> Float[Array, "B G R T K"]:
    x = jnp.moveaxis(chunks, 0, 3)
    return x.reshape(*x.shape[:3], -1, x.shape[-1])[:, :, :, :length]


def _normalised(sums: Float[Array, "*B T K+1"]) -> Float[Array, "*B T K"]:
    """Sums over the normaliser."""
    return sums[..., :-1] / jnp.where(sums[..., -1:] > 0, sums[..., -1:], 1)
