"""A batch as the reference model reads it: positions, documents, masks."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np


@dataclass(frozen=True)
class Rows:
    """The context of B rows of T tokens: positions [B, T] (-1 is an empty slot), documents [B, T]
    or None, whether the mask is causal and the length of the prefix that is not; the memory [B, S,
    D] that cross-attention reads, and its positions [B, S]; whether batch normalisation uses the
    batch, and the (mean, unbiased variance) of each of its calls; the tokens [B, T], the attention
    values of the first layer by row, the kind of the layer that reads the rows, and the keys and
    values of the last layer of each kind, by kind and row.
    """

    positions: np.ndarray
    documents: np.ndarray | None = None
    causal: bool = True
    prefix: int = 0
    memory: np.ndarray | None = None
    memory_positions: np.ndarray | None = None
    training: bool = False
    moments: list = field(default_factory=list)
    tokens: np.ndarray | None = None
    values: dict = field(default_factory=dict)
    kind: str = ""
    keys: dict = field(default_factory=dict)


def overlaid(config, changes=None):
    """Returns a config with some of its leaves changed, as nested namespaces, in which field names
    cannot clash with methods.
    """
    leaves, changes = vars(config) if isinstance(config, SimpleNamespace) else config, changes or {}
    return SimpleNamespace(
        **{
            name: overlaid(value, changes.get(name))
            if hasattr(value, "items") or isinstance(value, SimpleNamespace)
            else changes.get(name, value)
            for name, value in leaves.items()
        }
    )


def counting(batch, length, causal=True):
    """Returns rows that hold one sequence each."""
    return Rows(np.tile(np.arange(length), (batch, 1)), causal=causal)


def visible(positions, documents=None, window=0, causal=True, global_tokens=0, keys=None, prefix=0, dilation=1):
    """[T, S]: whether token t of a row attends to token s. An empty slot (-1) neither attends nor
    is attended to. A window counts keys, including the token itself: before it if causal, else
    centred on it (Beltagy et al. 2020, figure 2); with a dilation d, keys 0, d, 2 d ... away
    (figure 2c). The first `global_tokens` positions attend to all tokens and all tokens to them.
    All tokens attend to the first `prefix` positions (Raffel et al. 2020, figure 3).
    """
    keys = positions if keys is None else keys
    reach = window - 1 if causal else (window - 1) // 2
    seen = np.zeros((len(positions), len(keys)), bool)
    for t, query in enumerate(positions):
        for s, key in enumerate(keys):
            seen[t, s] = query >= 0 and key >= 0 and not (causal and key > query and key >= prefix)
            near = abs(query - key) in range(0, reach * dilation + 1, dilation)
            seen[t, s] &= not window or near or query < global_tokens or key < global_tokens
            seen[t, s] &= documents is None or documents[t] == documents[s]
    return seen
