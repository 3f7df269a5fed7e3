"""FAVOR+: softmax attention through positive orthogonal random features, in time and memory linear
in T (Choromanski et al. 2021).

With normal vectors w_j, exp(q . k) is the mean over j of exp(w_j . q - |q|^2 / 2) exp(w_j . k -
|k|^2 / 2) (Lemma 1), so one sum over the keys serves all queries. Stabilisers keep the
exponentials in range, and EPSILON is added to every feature so that no normaliser vanishes, as in
the authors' code:

    phi(q)_j = exp(w_j . q - |q|^2 / 2 - max_j (w_j . q)) + EPSILON
    phi(k)_j = exp(w_j . k - |k|^2 / 2 - max over j and all keys of (w_j . k)) + EPSILON

Up to EPSILON the stabilisers cancel in the normalised output; no gradient flows through them.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from zoo.layers.attention.kernels.products import group_heads, tokens_first
from zoo.layers.context import Context
from zoo.layers.decompositions import qr

EPSILON = 1e-4
# Maximum tokens per chunk; in a causal row the cost within a chunk is quadratic.
CHUNK, CAUSAL_CHUNK = 512, 64
FLOOR = jnp.finfo(jnp.float32).min


class FeatureSums(NamedTuple):
    """Sums over keys, all that further queries need.

    Attributes:
        largest: m, the largest w_j . k.
        scaled: sum_s exp(w_j . k_s - |k_s|^2 / 2 - m) (v_s, 1), of U = V + 1 columns.
        plain: sum_s (v_s, 1), the factor of EPSILON.
    """

    largest: Float[Array, "B G"]
    scaled: Float[Array, "B G M U"]
    plain: Float[Array, "B G U"]

    def take(self, rows: Int[Array, " R"]) -> "FeatureSums":
        """Returns the sums of R rows, by number."""
        return jax.tree.map(lambda x: x[rows], self)


def random_features(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "M K"]:
    """Draws rows that are orthogonal in blocks of K, with the lengths of normal vectors
    (Choromanski et al. 2021, section 2.4).

    Directions come from Gram-Schmidt, i.e. QR with a positive diagonal of R, and are each uniform.
    The signs that a QR routine chooses favour one half of space, so the features would
    estimate exp(q . k) with a bias.
    """
    M, K = shape
    directions, lengths = jax.random.split(key)
    Q, R = qr(jax.random.normal(directions, (-(-M // K), K, K)))
    Q = jnp.where(jnp.diagonal(R, axis1=1, axis2=2)[:, None] < 0, -Q, Q)
    orthogonal = Q.transpose(0, 2, 1).reshape(-1, K)[:M]
    return orthogonal * jnp.linalg.norm(jax.random.normal(lengths, (M, K)), axis=1, keepdims=True)


def performer_attention(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G V"],
    features: Float[Array, "M K"],
    context: Context,
    scale: float,
) -> Float[Array, "B T H V"]:
    """Estimates softmax(scale * q k^T) v (Choromanski et al. 2021, eq. 4); output t is

        sum_s phi(q_t) . phi(k_s) v_s / sum_s phi(q_t) . phi(k_s)

    In a causal row s runs up to t, and so does the maximum in phi(k): output t depends only on
    tokens 0 .. t. Order means the index of a token in its row, not `Context.positions`. Padding
    counts neither in the numerator nor in the denominator; a query that sees no key gets 0. Query
    head h reads key head h G / H. Sums are float32; the output has the type of v.

    A long row is processed in chunks. The backward pass recomputes a chunk from its inputs and, in
    a causal row, from the sums before it.

    Args:
        q, k, v: queries, keys, values; in a causal row S = T.
        features: w, from `random_features`.
        context: padding of the keys, and whether the row is causal.
        scale: factor on q . k; queries and keys each get its root.

    Raises:
        ValueError: causal queries read another sequence, or a prefix.
    """
    return performer_sums(q, k, v, features, context, scale)[0]


def performer_sums(
    q: Float[Array, "B T H K"],
    k: Float[Array, "B S G K"],
    v: Float[Array, "B S G V"],
    features: Float[Array, "M K"],
    context: Context,
    scale: float,
    before: FeatureSums | None = None,
) -> tuple[Float[Array, "B T H V"], FeatureSums]:
    """Returns the output of `performer_attention`, and the sums over all keys for further queries.

    Args:
        q, k, v, features, context, scale: see `performer_attention`.
        before: sums over the keys before these.
    """
    if context.causal and context.key_positions is not None:
        raise ValueError(
            "causal queries of performer_attention read their own row; keys of another sequence have no place in "
            "its order"
        )
    if context.causal and context.prefix:
        raise ValueError(
            "performer_attention sums over keys in their order; it cannot show a prefix to the queries before it"
        )
    B, S, G = k.shape[:3]
    V = v.shape[-1]
    feature_map = FeatureMap(features, scale)
    q = group_heads(q, G)
    keys = (
        k.transpose(0, 2, 1, 3),
        v.transpose(0, 2, 1, 3),
        jnp.broadcast_to(context.effective_key_positions >= 0, (B, S))[:, None],
    )
    if before is None:
        before = FeatureSums(
            jnp.full((B, G), FLOOR), jnp.zeros((B, G, features.shape[0], V + 1)), jnp.zeros((B, G, V + 1))
        )
    attended, sums = (_causal if context.causal else _bidirectional)(feature_map, q, keys, before)
    return tokens_first(attended).astype(v.dtype), sums


def performer_read(
    q: Float[Array, "B T H K"], features: Float[Array, "M K"], scale: float, sums: FeatureSums
) -> Float[Array, "B T H V"]:
    """Returns the output of `performer_attention` for queries that see all keys of `sums`."""
    attended = _read(FeatureMap(features, scale), group_heads(q, sums.largest.shape[1]), sums)
    return tokens_first(attended).astype(q.dtype)


class KeyFeatures(NamedTuple):
    """Features of keys, and values.

    Attributes:
        largest: m_s, the largest w_j . k_s of every key, the lowest float for padding.
        features: exp(w_j . k_s - |k_s|^2 / 2 - m_s).
        values: (v_s, 1), 0 for padding; the last column gives the normaliser.
    """

    largest: Float[Array, "B G S"]
    features: Float[Array, "B G S M"]
    values: Float[Array, "B G S U"]


class FeatureMap:
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
        """Returns phi(q)."""
        return self._exponentials(q)[1] + EPSILON

    def keys(self, k: Float[Array, "B G S K"], v: Float[Array, "B G S V"], filled: Bool[Array, "B 1 S"]) -> KeyFeatures:
        """Returns features of keys, each relative to its own maximum, and values."""
        largest, features = self._exponentials(k)
        values = jnp.concatenate([v.astype(jnp.float32), jnp.ones((*v.shape[:-1], 1), jnp.float32)], axis=-1)
        return KeyFeatures(jnp.where(filled, largest, FLOOR), features, jnp.where(filled[..., None], values, 0))

    def add(self, sums: FeatureSums, keys: KeyFeatures) -> FeatureSums:
        """Adds further keys to sums, which are scaled down when the maximum grows."""
        largest = jnp.maximum(sums.largest, keys.largest.max(axis=-1))
        further = keys.features * jnp.exp(keys.largest - largest[..., None])[..., None]
        scaled = sums.scaled * jnp.exp(sums.largest - largest)[..., None, None] + jnp.einsum(
            "bgsm,bgsu->bgmu", further, keys.values
        )
        return FeatureSums(largest, scaled, sums.plain + keys.values.sum(axis=2))

    def read(
        self, queries: Float[Array, "B G R T M"], sums: FeatureSums, largest: Float[Array, "B G #T"]
    ) -> Float[Array, "B G R T U"]:
        """Returns sum_s phi(q_t) . phi(k_s) (v_s, 1) from sums, with `largest` as the maximum in
        phi(k).
        """
        decay = jnp.exp(sums.largest[..., None] - largest)[:, :, None, :, None]
        scaled = jnp.einsum("bgrtm,bgmu->bgrtu", queries, sums.scaled)
        return scaled * decay + EPSILON * queries.sum(axis=-1, keepdims=True) * sums.plain[:, :, None, None]

    def read_before(
        self, queries: Float[Array, "B G R T M"], keys: KeyFeatures, largest: Float[Array, "B G T"]
    ) -> Float[Array, "B G R T U"]:
        """Returns the same sum over the keys of one chunk up to each query, in quadratic time.

        A key's own maximum is at most that of the queries that see it, so nothing overflows.
        """
        order = jnp.tri(queries.shape[3], dtype=bool)
        decay = jnp.exp(jnp.where(order, keys.largest[:, :, None, :] - largest[..., None], -jnp.inf))[:, :, None]
        weights = jnp.einsum("bgrtm,bgsm->bgrts", queries, keys.features) * decay
        weights += EPSILON * queries.sum(axis=-1, keepdims=True) * order
        return jnp.einsum("bgrts,bgsu->bgrtu", weights, keys.values)


def _bidirectional(
    feature_map: FeatureMap, q: Float[Array, "B G R T K"], keys: tuple[Array, Array, Array], sums: FeatureSums
) -> tuple[Array, FeatureSums]:
    def add(sums: FeatureSums, inputs: tuple[Array, Array, Array]) -> tuple[FeatureSums, None]:
        return feature_map.add(sums, feature_map.keys(*inputs)), None

    sums, _ = _walk(add, sums, tuple(_cut(x, 2, CHUNK) for x in keys))
    return _read(feature_map, q, sums), sums


def _read(feature_map: FeatureMap, q: Float[Array, "B G R T K"], sums: FeatureSums) -> Float[Array, "B G R T V"]:
    def read(sums: FeatureSums, q: Array) -> tuple[FeatureSums, Array]:
        return sums, _normalised(feature_map.read(feature_map.queries(q), sums, sums.largest[..., None]))

    return _joined(_walk(read, sums, _cut(q, 3, CHUNK))[1], q.shape[3])


def _causal(
    feature_map: FeatureMap, q: Float[Array, "B G R T K"], keys: tuple[Array, Array, Array], sums: FeatureSums
) -> tuple[Array, FeatureSums]:
    def attend(before: FeatureSums, inputs: tuple[Array, tuple[Array, Array, Array]]) -> tuple[FeatureSums, Array]:
        queries, own = feature_map.queries(inputs[0]), feature_map.keys(*inputs[1])
        largest = jnp.maximum(jax.lax.cummax(own.largest, axis=2), before.largest[..., None])
        read = feature_map.read(queries, before, largest) + feature_map.read_before(queries, own, largest)
        return feature_map.add(before, own), _normalised(read)

    inputs = (_cut(q, 3, CAUSAL_CHUNK), tuple(_cut(x, 2, CAUSAL_CHUNK) for x in keys))
    sums, attended = _walk(attend, sums, inputs)
    return _joined(attended, q.shape[3]), sums


def _walk(step: Callable, carry: FeatureSums, chunks) -> tuple[FeatureSums, Array | None]:
    """Loops over chunks; the backward pass keeps the carries and recomputes each step."""
    if jax.tree.leaves(chunks)[0].shape[0] > 1:
        return jax.lax.scan(jax.checkpoint(step, prevent_cse=False), carry, chunks)
    carry, result = step(carry, jax.tree.map(lambda x: x[0], chunks))
    return carry, None if result is None else result[None]


def _cut(x: Array, axis: int, max_size: int) -> Array:
    """Cuts the dimension of tokens into N chunks of at most `max_size`, padded with zeros, and
    moves N to the front.
    """
    count = -(-x.shape[axis] // max_size)
    size = -(-x.shape[axis] // count)
    x = jnp.pad(x, [(0, count * size - x.shape[axis] if axis == dimension else 0) for dimension in range(x.ndim)])
    return jnp.moveaxis(x.reshape(*x.shape[:axis], count, size, *x.shape[axis + 1 :]), axis, 0)


def _joined(chunks: Float[Array, "N B G R c V"], length: int) -> Float[Array, "B G R T V"]:
    x = jnp.moveaxis(chunks, 0, 3)
    return x.reshape(*x.shape[:3], -1, x.shape[-1])[:, :, :, :length]


def _normalised(sums: Float[Array, "*B T U"]) -> Float[Array, "*B T V"]:
    """Divides sums by the normaliser, their last column."""
    return sums[..., :-1] / jnp.where(sums[..., -1:] > 0, sums[..., -1:], 1)
