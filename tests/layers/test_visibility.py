"""Tokens that influence a token through one attention layer, for every mask and kernel, measured
by runs and gradients against loops over tokens.
"""

import numpy as np
import pytest

from tests.support.building import by_default
from tests.support.visibility import CAUSAL, FULL, ON_ANY_DEVICE, SITUATIONS, T, check, either_way, of_layer
from zoo.config import ATTENTION_SUPPORT
from zoo.layers.attention import favor, softmax_attention
from zoo.layers.attention.kernels import banded

BANDED = {
    name: situation for name, situation in SITUATIONS.items() if situation.in_order and situation.fields.get("window")
}
WITHOUT_DOCUMENTS = [name for name, situation in (CAUSAL | FULL).items() if situation.documents is None]


def each(situations):
    """Yields every situation with every kernel that supports it."""
    return [
        (name, kernel)
        for name, one in situations.items()
        for kernel in ON_ANY_DEVICE
        if "dilations" not in one.fields or "dilations" in ATTENTION_SUPPORT[kernel].features
    ]


# Programs of gradients take three times as long to compile.
GRADIENTS = pytest.mark.promise(reason="by gradients too")
SAME = pytest.mark.slow(reason="kernels and their gradients are compared in tests/layers/attention/test_kernels.py")


def in_groups(cases, kept):
    """Returns cases (name, kernel, way): by default the runs of those in `kept`. Gradients through one
    kernel guard a promise.
    """
    return [
        *by_default([(*case, "runs") for case in kept], [(*case, "runs") for case in cases], SAME),
        *(pytest.param(*case, "gradients", marks=GRADIENTS if case[1] == "rows" else SAME) for case in cases),
    ]


@pytest.mark.parametrize(
    ("name", "kernel", "way"),
    in_groups(
        each(SITUATIONS),
        [case for case in each(SITUATIONS) if case[1] == "rows" or (case[1] == "einsum" and case[0] in CAUSAL | FULL)],
    ),
)
def test_tokens_see_exactly_what_the_mask_allows(name, kernel, way):
    check(of_layer(SITUATIONS[name], way, {"model.attention.implementation": kernel}), SITUATIONS[name])


@pytest.mark.parametrize(
    ("name", "kernel", "way"), in_groups(each(BANDED), [case for case in each(BANDED) if case[1] == "rows"])
)
def test_tokens_see_the_same_with_blocks(name, kernel, way, monkeypatch):
    monkeypatch.setattr(banded, "MIN_BLOCK", 2)
    sizes = []

    def spied(kernel, size, *arguments):
        sizes.append(size)
        return banded.banded_attention(kernel, size, *arguments)

    monkeypatch.setattr(softmax_attention, "banded_attention", spied)
    check(of_layer(BANDED[name], way, {"model.attention.implementation": kernel}), BANDED[name])
    fields = BANDED[name].fields
    assert set(sizes) <= {2, 3, 4}
    assert sizes or "dilations" in fields


@either_way
@pytest.mark.parametrize("name", WITHOUT_DOCUMENTS)
def test_performer_tokens_see_exactly_what_the_mask_allows(name, way, monkeypatch):
    monkeypatch.setattr(favor, "CHUNK", 5)
    monkeypatch.setattr(favor, "CAUSAL_CHUNK", 5)
    check(
        of_layer(SITUATIONS[name], way, {"model.attention.kind": "performer", "model.position.kind": "rope"}),
        SITUATIONS[name],
    )


@pytest.mark.parametrize(("name", "expected"), [
    ("causal", [0, 1, 2, 3, 4, 5, 6]),
    ("causal, ending in empty slots", [0, 1, 2, 3, 4, 5, 6]),
    ("causal documents", [5, 6]),
    ("causal, window 3", [4, 5, 6]),
    ("prefix", [0, 1, 2, 3, 4, 5, 6]),
    ("prefix, ending in empty slots", [*range(10)]),
    ("bidirectional", [*range(T)]),
    ("bidirectional, with holes", [0, 1, 2, 3, 6, 7, 8, 9, 10]),
    ("bidirectional documents", [5, 6, 7, 8, 9, 10, 11]),
    ("bidirectional, window 5", [4, 5, 6, 7, 8]),
    ("bidirectional, with holes, window 5", [6, 7, 8]),
    ("bidirectional, window 3, global_tokens 2", [0, 1, 5, 6, 7]),
    ("bidirectional, with holes, window 3, global_tokens 1, global_projections True", [0, 6, 7]),
    ("causal, window 2, dilations (1, 3)", [3, 5, 6]),
    ("bidirectional, window 3, dilations (2, 3)", [3, 4, 6, 8, 9]),
    ("bidirectional, window 3, dilations (1, 2), global_tokens 1", [0, 4, 5, 6, 7, 8]),
])  # fmt: skip
def test_expected_sets_match_sets_written_by_hand(name, expected):
    assert np.flatnonzero(SITUATIONS[name].visible()[0, 6]).tolist() == expected


def test_global_token_sees_all_tokens_of_the_row():
    assert SITUATIONS["bidirectional, window 3, global_tokens 2"].visible()[0, 1].all()
    assert SITUATIONS["bidirectional, with holes, window 3, global_tokens 2"].visible()[0, 1].sum() == T - 3
