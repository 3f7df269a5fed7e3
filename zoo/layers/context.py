"""What a forward pass hands to every layer: where the tokens stand, what they may see, and the dropout key."""

import zlib
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key


def path_hash(path: str) -> int:
    """The number that a path folds into a random key: its crc32."""
    return zlib.crc32(path.encode())


@dataclass(frozen=True)
class Context:
    """Structure of the sequence, as a description rather than as an S x S array, so that fused kernels can use it.

    Attributes:
        positions: [B or 1, T] position of each token within its document; -1 marks an empty slot.
        documents: [B, T] number of the document that each token belongs to, when documents are isolated; else None.
        causal: a query sees no key at a later position.
        in_order: known beforehand: token t of a row stands at position t, or, with `documents`, they stand one after another
            and each counts from 0. It lets kernels skip keys by their place in the row; the default assumes nothing.
        dropout_key: key of this forward pass, or None when nothing is dropped.
    """

    positions: Int[Array, "B T"]
    documents: Int[Array, "B T"] | None = None
    causal: bool = True
    in_order: bool = False
    dropout_key: Key[Array, ""] | None = None

    def layer(self, index: int | Int[Array, ""]) -> "Context":
        """The context of one layer: its own dropout key, the same whether layers are scanned or unrolled."""
        if self.dropout_key is None:
            return self
        return replace(self, dropout_key=jax.random.fold_in(self.dropout_key, index))

    def dropout(self, x: Float[Array, "..."], rate: float, path: str) -> Float[Array, "..."]:
        """Zeroes elements of `x` with probability `rate` and scales the rest by 1 / (1 - rate) (Srivastava et al. 2014)."""
        if rate == 0 or self.dropout_key is None:
            return x
        keep = jax.random.bernoulli(jax.random.fold_in(self.dropout_key, path_hash(path)), 1 - rate, x.shape)
        return jnp.where(keep, x / (1 - rate), 0).astype(x.dtype)

    def visible(self, window: int, queries: slice = slice(None), keys: slice = slice(None)) -> Bool[Array, "B T S"]:
        """Which keys each query sees: True at [b, t, s] where token t sees token s.

        Args:
            window: number of visible keys, the query's own included; 0 for no limit.
            queries, keys: the part of the matrix that is wanted.
        """
        query, key = self.positions[:, queries, None], self.positions[:, None, keys]
        visible = key >= 0
        if self.causal:
            visible &= key <= query
        if window:
            visible &= query - key < window
        if self.documents is not None:
            visible &= self.documents[:, queries, None] == self.documents[:, None, keys]
        return visible
