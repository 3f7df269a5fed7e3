"""Finds which tokens influence an output, from runs or gradients, and computes the expected
visibility by a loop over tokens.
"""

from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.support.building import ENCODER, random_statistics, random_values, tiny, with_values
from zoo.checks.influence import by_gradients, by_runs, of_tokens
from zoo.layers.attention import make_attention
from zoo.layers.attention.kernels.products import KERNELS
from zoo.layers.context import Context
from zoo.models.architectures import make_model

ON_ANY_DEVICE = [name for name in KERNELS if name not in ("cudnn", "splash")]
T = 12
CONSECUTIVE = np.arange(T)[None]
# Rows of three documents, of two, and of one; positions restart at 0 in each document. Short
# documents come first, so that tokens of two documents have near slots and near positions, and only
# the document number separates them.
DOCUMENTS = np.array([[1] * 2 + [2] * 3 + [3] * 7, [0] * 9 + [1] * 3, [0] * T])
DOCUMENT_POSITIONS = np.array([[*range(2), *range(3), *range(7)], [*range(9), *range(3)], [*range(T)]])
# Full rows, rows that end in empty slots and, for bidirectional masks, rows with gaps. The slot of a
# token is its position.
EMPTY_AT_END = np.array([[*range(T)], [*range(8)] + [-1] * 4])
WITH_HOLES = np.where(np.isin(np.arange(T), [4, 5, 11]), -1, np.stack([np.arange(T)] * 2))
# Rows with empty slots in front, so that no token's slot is its position.
EMPTY_IN_FRONT = np.array([[-1, -1, *range(10)], [*range(5), *[-1] * 7]])


@dataclass(frozen=True)
class Situation:
    """Rows of tokens and the mask of a layer, for the layer itself and for the loop over tokens.

    Attributes:
        positions, documents, causal, in_order, prefix: as in `Context`.
        fields: fields of `model.attention`.
    """

    positions: np.ndarray
    documents: np.ndarray | None = None
    causal: bool = True
    in_order: bool = False
    fields: dict = field(default_factory=dict)
    prefix: int = 0

    @property
    def overrides(self):
        """Changes to the tiny config."""
        own = {f"model.attention.{name}": value for name, value in self.fields.items()}
        return {"data.sequence_length": T, "model.dim": 8} | ({} if self.causal else ENCODER) | own

    @property
    def rows(self):
        """Number of rows."""
        return 2 if len(self.positions) == 1 else len(self.positions)

    @property
    def context(self):
        """Context of the layer."""
        documents = None if self.documents is None else jnp.asarray(self.documents)
        return Context(jnp.asarray(self.positions), documents, self.causal, self.in_order, prefix=self.prefix)

    def filled(self):
        """Returns [B, T]: whether a slot holds a token."""
        return np.broadcast_to(self.positions >= 0, (self.rows, T))

    def visible(self):
        """Returns [B, T, T], by a loop over tokens: whether a token sees another token of its row in
        any head.
        """
        positions = np.broadcast_to(self.positions, (self.rows, T))
        documents = [None] * self.rows if self.documents is None else self.documents
        window, first = self.fields.get("window", 0), self.fields.get("global_tokens", 0)
        heads = [
            np.stack(
                [
                    reference.visible(row, numbers, window, self.causal, first, prefix=self.prefix, dilation=dilation)
                    for row, numbers in zip(positions, documents)
                ]
            )
            for dilation in self.fields.get("dilations", (1,))
        ]
        return np.any(heads, axis=0)


def check(found, situation, visible=None):
    """Compares [B, T, B, T] with the expected visibility (by default the situation's) of every
    token that is not an empty slot.
    """
    filled = situation.filled()
    for b, expected in enumerate(situation.visible() if visible is None else visible):
        np.testing.assert_array_equal(found[b, :, b][filled[b]], expected[filled[b]])
        for other in set(range(situation.rows)) - {b}:
            assert not found[b, :, other].any()


def of_layer(situation, way, overrides=None):
    """Returns [B, T, B, T]: whether token s of row c influences the attention output of token t of
    row b, found by one of `WAYS`.
    """
    layer = make_attention(tiny(situation.overrides | (overrides or {})).model)
    values, stats = random_values(layer, 1), random_statistics(layer, 2)
    return WAYS[way](lambda x: with_values(layer, values, stats)(x, situation.context), normal(situation.rows, T, 8))


def of_model(situation, way, overrides=None):
    """Returns the same for a whole model, of 2 layers unless `overrides` set another depth. Every
    token has its own embedding.
    """
    rows = situation.rows
    changes = situation.overrides | {"model.vocab_size": rows * T + (not situation.causal)} | (overrides or {})
    model = make_model(tiny(changes))
    values, stats = random_values(model, 1), random_statistics(model, 2)
    return WAYS[way](*of_tokens(model, values, stats, situation.context, rows))


# The program of `by_runs` compiles in a third of the time.
WAYS = {"runs": by_runs, "gradients": by_gradients}
either_way = pytest.mark.parametrize(
    "way",
    [
        "runs",
        pytest.param(
            "gradients", marks=pytest.mark.promise(reason="programs of gradients take three times as long to compile")
        ),
    ],
)


def through(*layers):
    """Combines the visibility [.., T, T] of successive layers, the first layer first."""
    visible = np.eye(T, dtype=bool)
    for layer in layers:
        visible = (layer.astype(int) @ visible) > 0
    return visible


def normal(*shape, seed=3):
    """Returns standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CAUSAL = {
    "causal": Situation(CONSECUTIVE, in_order=True),
    "causal, in any order": Situation(CONSECUTIVE),
    "causal, ending in empty slots": Situation(EMPTY_AT_END, in_order=True),
    "causal, after empty slots": Situation(EMPTY_IN_FRONT),
    "causal documents": Situation(DOCUMENT_POSITIONS, DOCUMENTS, in_order=True),
    "causal documents with empty slots": Situation(np.where(np.arange(T) == 3, -1, DOCUMENT_POSITIONS), DOCUMENTS),
}  # fmt: skip
FULL = {
    "bidirectional": Situation(CONSECUTIVE, causal=False, in_order=True),
    "bidirectional, with holes": Situation(WITH_HOLES, causal=False, in_order=True),
    "bidirectional, after empty slots": Situation(EMPTY_IN_FRONT, causal=False),
    "bidirectional documents": Situation(DOCUMENT_POSITIONS, DOCUMENTS, causal=False, in_order=True),
}


def windowed(situations, window, **more):
    """Returns the situations with a window."""
    return {
        f"{name}, " + ", ".join(f"{key} {value}" for key, value in {"window": window, **more}.items()): Situation(
            one.positions, one.documents, one.causal, one.in_order, {"window": window, **more}
        )
        for name, one in situations.items()
        if "global_tokens" not in more or one.documents is None
    }


PREFIX = {
    "prefix": Situation(CONSECUTIVE, in_order=True, prefix=5),
    "prefix, in any order": Situation(CONSECUTIVE, prefix=5),
    "prefix, ending in empty slots": Situation(EMPTY_AT_END, in_order=True, prefix=10),
    "prefix, after empty slots": Situation(EMPTY_IN_FRONT, prefix=4),
    "prefix of all": Situation(CONSECUTIVE, in_order=True, prefix=T),
}  # fmt: skip
CAUSAL_WINDOWS = windowed(CAUSAL, 3)
WINDOWS = windowed(FULL, 5)
GLOBAL = windowed(FULL, 3, global_tokens=2) | windowed(FULL, 3, global_tokens=1, global_projections=True)
# Heads with and without dilated windows, all heads dilated, and dilation beside global tokens.
DILATED = (
    windowed(CAUSAL, 2, dilations=(1, 3))
    | windowed(FULL, 3, dilations=(2, 3))
    | windowed(FULL, 3, dilations=(1, 2), global_tokens=1)
)
SITUATIONS = CAUSAL | FULL | PREFIX | CAUSAL_WINDOWS | WINDOWS | GLOBAL | DILATED
