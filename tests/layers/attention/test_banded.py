"""Windowed attention in blocks equals attention by the full matrix, forward and backward, with
memory linear in the length.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import ENCODER, by_default, call, close, quick_compilation, random_values, tiny, with_values
from tests.support.visibility import normal
from zoo.layers.attention import make_attention, shared_scores, softmax_attention
from zoo.layers.attention.kernels import banded
from zoo.layers.attention.kernels.products import KERNELS
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context
from zoo.layers.position import make_embedded_position

# Not a multiple of the block size.
T = 13
PLACES = np.arange(T)
# Short documents first, so that tokens of two documents are near each other in place and in
# position.
DOCUMENTS = np.array([[1] * 2 + [2] * 3 + [3] * 8, [0] * 9 + [1] * 4])
WITHIN = np.array([[*range(2), *range(3), *range(8)], [*range(9), *range(4)]])
BUCKETS = {"model.position.kind": "relative_bias", "model.position.buckets": 8, "model.position.max_distance": 6}
GLOBAL = {"model.attention.global_tokens": 2}
SCHEMES = {
    "none": {"model.position.kind": "none"},
    "rope, grouped heads": {
        "model.position.kind": "rope",
        "model.attention.num_kv_heads": 2,
        "model.attention.qk_norm": "head",
    },
    "alibi, sinks, softcap": {
        "model.position.kind": "alibi",
        "model.attention.sinks": True,
        "model.attention.softcap": 2.0,
    },
    "shared buckets": BUCKETS,
    "buckets": BUCKETS | {"model.position.shared": False},
    "shaw": {"model.position.kind": "shaw", "model.position.clip": 2},
    "shaw's keys": {"model.position.kind": "shaw", "model.position.clip": 2, "model.position.relative_values": False},
}
ON_BOTH_SIDES = {
    "global": GLOBAL | {"model.position.kind": "rope"},
    "global, projections, shared buckets": GLOBAL | BUCKETS | {"model.attention.global_projections": True},
}
CASES = [
    *(("einsum", False, name) for name in SCHEMES), *(("einsum", True, name) for name in SCHEMES | ON_BOTH_SIDES),
    ("rows", False, "shaw's keys"), ("rows", False, "shared buckets"), ("rows", True, "alibi, sinks, softcap"), ("rows", True, "global"),
    ("xla", False, "rope, grouped heads"), ("xla", True, "shared buckets"), ("xla", True, "global, projections, shared buckets"),
]  # fmt: skip
# Biases of queries and of distances, causal and bidirectional.
FEW = [("einsum", False, "shaw"), ("rows", True, "alibi, sinks, softcap")]
SLOW = [
    *(("einsum", True, name) for name in SCHEMES if name not in ("buckets", "shaw")),
    ("rows", False, "shaw's keys"),
    ("xla", True, "shared buckets"),
]


def contexts(both_sides, name):
    """Returns contexts of full rows, rows with empty slots and, without global tokens, packed
    documents.
    """
    holes = np.isin(PLACES, [3, 4, 12]) if both_sides else PLACES > 9
    rows = [(PLACES[None], None), (np.stack([PLACES, np.where(holes, -1, PLACES)]), None)]
    rows += [] if "global" in name else [(WITHIN, DOCUMENTS)]
    return [
        Context(
            jnp.asarray(positions), None if documents is None else jnp.asarray(documents), not both_sides, in_order=True
        )
        for positions, documents in rows
    ]


@pytest.mark.parametrize(
    ("kernel", "both_sides", "name"),
    by_default(
        FEW,
        CASES,
        pytest.mark.promise(reason="other pairs of a kernel and a scheme"),
        SLOW,
        "each scheme is compared with one kernel, and each kernel with some schemes, on either side",
    ),
)
def test_blocks_equal_the_full_matrix(kernel, both_sides, name, monkeypatch):
    config = tiny(
        (ENCODER if both_sides else {})
        | (SCHEMES | ON_BOTH_SIDES)[name]
        | {
            "model.attention.window": 5 if both_sides else 3,
            "model.attention.implementation": kernel,
            "data.sequence_length": T,
        }
    ).model
    layer, position = make_attention(config), make_embedded_position(config)
    values, table = random_values(layer, 1), random_values(position, 2)
    x, weights, sizes = normal(2, T, 16), normal(2, T, 16, seed=4), []

    def spied(kernel, size, *arguments):
        sizes.append(size)
        return banded.banded_attention(kernel, size, *arguments)

    def loss(values, table, x, context):
        out = with_values(layer, values)(x, context, shared_scores(with_values(position, table), context))
        out = jnp.where(context.positions[..., None] >= 0, out, 0)
        return (out * weights).sum(), out

    def both(values, table, x):
        found = []
        for context in contexts(both_sides, name):
            for smallest in (2, 64):
                monkeypatch.setattr(banded, "MIN_BLOCK", smallest)
                found.append(jax.value_and_grad(loss, (0, 1, 2), has_aux=True)(values, table, x, context))
        return found

    monkeypatch.setattr(softmax_attention, "banded_attention", spied)
    found = call(both, values, table, x)
    assert sizes == [2] * (len(found) // 2)
    for ((_, in_blocks), gradients), ((_, whole), expected) in zip(found[::2], found[1::2], strict=True):
        close(in_blocks, whole)
        largest = max(abs(leaf).max() for leaf in jax.tree.leaves(expected))
        for one, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=2e-6 * largest)


@pytest.mark.parametrize(("length", "window", "causal", "size"), [
    (256, 64, True, 64), (255, 64, True, 0), (256, 66, True, 0), (260, 66, True, 65), (1024, 129, False, 64), (1024, 131, False, 65),
    (512, 1, True, 64), (4096, 0, True, 0),
])  # fmt: skip
def test_block_size_covers_the_window_and_is_0_if_blocks_do_not_pay(length, window, causal, size):
    assert banded.block_length(length, window, causal) == size


@pytest.mark.parametrize("causal", [True, False])
def test_memory_is_linear_in_the_length(causal):
    def held(length):
        shape = jax.ShapeDtypeStruct((1, length, 2, 8), jnp.float32)
        context = Context(jnp.arange(length)[None], causal=causal, in_order=True)

        def attend(q, k, v):
            size = banded.block_length(length, 65, causal)
            return banded.banded_attention(KERNELS["einsum"], size, q, k, v, context, Scoring(0.3, window=65))

        compiled = jax.jit(attend, compiler_options=quick_compilation()).lower(shape, shape, shape).compile()
        return compiled.memory_analysis().temp_size_in_bytes / length

    assert held(4096) < 1.1 * held(1024)
