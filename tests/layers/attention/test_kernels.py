"""The kernels of attention against a loop over heads and queries, and against each other."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.layers.attention.attention_inputs import (
    COUNTING,
    DOCUMENTS,
    MEMORY,
    PACKED,
    PADDED,
    B,
    H,
    K,
    T,
    heads,
    normal,
)
from tests.support.building import by_default, call, close, counting
from zoo.config import ATTENTION_SUPPORT
from zoo.layers.attention.kernels.products import KERNELS
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context, DropoutKey

ON_ANY_DEVICE = [name for name in KERNELS if name not in ("cudnn", "splash")]
OTHER = pytest.mark.promise(reason="the same in other kernels")


class Situation:
    """A case of attention, as arguments of the kernel and of the reference loop."""

    def __init__(
        self,
        positions=COUNTING,
        documents=None,
        causal=True,
        in_order=False,
        keys=None,
        window=0,
        global_tokens=0,
        scale=0.3,
        score=None,
        shared=None,
        vectors=None,
        softcap=0.0,
        sinks=None,
        values=None,
    ):
        self.positions, self.documents, self.keys, self.causal = positions, documents, keys, causal
        same = (positions == positions[:1]).all()
        self.context = Context(
            jnp.asarray(positions[:1] if same else positions),
            None if documents is None else jnp.asarray(documents),
            causal,
            in_order,
            key_positions=None if keys is None else jnp.asarray(keys),
        )
        self.score, self.shared, self.vectors, self.values, self.sinks, self.softcap = (
            score,
            shared,
            vectors,
            values,
            sinks,
            softcap,
        )
        self.scale, self.window, self.global_tokens = scale, window, global_tokens
        reads = vectors is not None
        self.scoring = Scoring(
            scale,
            window,
            global_tokens,
            self.added if reads or score is not None else None,
            reads,
            shared,
            softcap,
            sinks,
            None if values is None else lambda p, q_at, k_at: jnp.einsum("bhts,tsk->bthk", p, values),
        )
        self.needs = {
            "score": reads or score is not None or shared is not None,
            "documents": documents is not None,
            "dropout": False,
            "softcap": softcap > 0,
            "sinks": sinks is not None,
            "value": values is not None,
            "padding": True,
        }

    def added(self, q, q_positions, k_positions):
        """A score by positions, [H, 10, 10], or one that meets the query with a vector for every
        pair, [T, S, K].
        """
        if self.vectors is not None:
            return jnp.einsum("bthk,tsk->bhts", q, self.vectors)
        return jnp.moveaxis(jnp.asarray(self.score)[:, q_positions[:, :, None], k_positions[:, None, :]], 0, 1)

    def expected(self, q, k, v):
        out = []
        for b, positions in enumerate(self.positions):
            keys = positions if self.keys is None else self.keys[b]
            documents = None if self.documents is None else self.documents[b]
            seen = reference.visible(positions, documents, self.window, self.causal, self.global_tokens, keys)
            score = np.zeros((H, len(positions), len(keys)))
            if self.score is not None:
                score += self.score[:, positions[:, None], keys[None]]
            if self.shared is not None:
                score += self.shared[0]
            wide = (np.asarray(x[b], np.float64) for x in (q, k, v))
            out.append(
                reference.attention(*wide, seen, self.scale, score, self.softcap, self.sinks, self.vectors, self.values)
            )
        return np.stack(out)

    def able(self, kernel):
        return all(feature in ATTENTION_SUPPORT[kernel].features for feature, wanted in self.needs.items() if wanted)


SCORE, SINKS = normal(H, 10, 10), normal(H, seed=8)


def situations(window, both_sides):
    """Everything that a kernel may be asked, with a window that fits, or none."""
    common = {"window": window, "causal": not both_sides}
    yield Situation(in_order=True, **common)
    yield Situation(PADDED, **common)
    yield Situation(in_order=True, score=SCORE, **common)
    yield Situation(PACKED, DOCUMENTS, in_order=True, score=SCORE, **common)
    yield Situation(shared=normal(1, H, T, T), in_order=True, **common)
    yield Situation(softcap=0.7, score=SCORE, in_order=True, **common)
    yield Situation(PADDED, sinks=SINKS, **common)
    yield Situation(PACKED, DOCUMENTS, softcap=2.0, sinks=SINKS, vectors=normal(T, T, K), **common)
    yield Situation(in_order=True, vectors=normal(T, T, K, seed=7), values=normal(T, T, K, seed=6), **common)
    yield Situation(PADDED, score=SCORE, shared=normal(1, H, T, T), sinks=SINKS, **common)
    if both_sides and window:
        yield Situation(global_tokens=2, in_order=True, **common)
        yield Situation(PADDED, global_tokens=1, score=SCORE, **common)


def check(kernel, cases, inputs, dtype, tolerance):
    """Compares a kernel with the loop in every case that it can do; what an empty slot reads is
    nobody's business.
    """
    cases = [case for case in cases if case.able(kernel)]
    assert len(cases) >= 4
    outputs = call(lambda *x: [KERNELS[kernel](*x, case.context, case.scoring) for case in cases], *inputs)
    for actual, case in zip(outputs, cases, strict=True):
        filled = case.positions >= 0
        assert actual.dtype == dtype
        close(actual[filled], case.expected(*inputs)[filled], tolerance)


@pytest.mark.parametrize(
    ("kernel", "window", "both_sides"),
    by_default(
        [("einsum", 0, False), ("einsum", 3, False), ("einsum", 5, True), ("rows", 3, False), ("xla", 5, True)],
        [
            *(("einsum", window, False) for window in (0, 1, 3, T)),
            *(("einsum", window, True) for window in (0, 1, 5)),
            *(
                (kernel, window, both_sides)
                for kernel in ON_ANY_DEVICE[1:]
                for window, both_sides in ((0, False), (3, False), (5, True))
            ),
        ],
        pytest.mark.promise(reason="other widths of the window"),
    ),
)
def test_a_kernel_is_the_loop(kernel, window, both_sides):
    check(kernel, situations(window, both_sides), heads(0, 2), np.float32, 1e-5)


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
@pytest.mark.parametrize(
    "kv_heads",
    [pytest.param(4, marks=pytest.mark.promise(reason="a head of keys for each of queries is the case above")), 1],
)
def test_a_kernel_is_the_loop_for_any_number_of_key_heads(kernel, kv_heads):
    cases = [*itertools.islice(situations(0, False), 4), *itertools.islice(situations(3, True), 5, None, 2)]
    check(kernel, cases, heads(0, kv_heads), np.float32, 1e-5)


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
def test_a_kernel_is_the_loop_across_two_sequences(kernel):
    q, k, v = heads(3, 2, keys=5)
    extras = ({}, {"sinks": SINKS}, {"softcap": 0.5, "score": SCORE}, {"shared": normal(1, H, T, 5)}, {"score": SCORE})
    cases = [
        Situation(positions, keys=MEMORY, causal=False, **more) for positions in (COUNTING, PADDED) for more in extras
    ]
    check(kernel, cases, [q, k, v], np.float32, 1e-5)


@pytest.mark.parametrize("kernel", by_default(["rows"], ON_ANY_DEVICE, OTHER))
def test_a_kernel_is_the_loop_in_bfloat16(kernel):
    cases = [case for case in situations(3, False) if case.vectors is None and case.values is None]
    check(kernel, cases, heads(0, 2, jnp.bfloat16), jnp.bfloat16, 2e-2)


@pytest.mark.parametrize("kernel", by_default(["rows"], ON_ANY_DEVICE, OTHER))
def test_kernels_accept_rows_of_any_length(kernel):
    for length, window in ((1, 0), (6, 2), (12, 5), (12, 40)):
        q, k, v = heads(1, 2, length=length)
        case = Situation(np.tile(np.arange(length), (B, 1)), window=window, in_order=True)
        close(
            call(lambda *x, case=case: KERNELS[kernel](*x, case.context, case.scoring), q, k, v), case.expected(q, k, v)
        )


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
def test_a_single_row_of_any_positions_is_masked_too(kernel, window):
    # One row looks like positions shared by all rows, and must not be taken for a plain sequence: a
    # token's place in the row says nothing about its distance to others when there are empty slots
    # between them or a ring buffer has turned.
    q, k, v = (x[:1] for x in heads(2, 2))
    rows = ([-1, -1, 0, 1, 2, 3, 4, 5], [0, -1, 1, -1, -1, 2, 3, 4], [5, 6, 7, 0, 1, 2, 3, 4])
    cases = [Situation(np.array([row]), window=window) for row in rows]
    outputs = call(lambda *x: [KERNELS[kernel](*x, case.context, case.scoring) for case in cases], q, k, v)
    for actual, case in zip(outputs, cases, strict=True):
        filled = case.positions[0] >= 0
        close(actual[0, filled], case.expected(q, k, v)[0, filled])


@pytest.mark.parametrize(
    "both_sides", [False, pytest.param(True, marks=pytest.mark.promise(reason="gradients of other masks"))]
)
def test_gradients_of_the_kernels_agree(both_sides):
    inputs, weights = heads(3, 2), normal(B, T, H, K, seed=4)
    cases = [case for case in situations(3, both_sides) if case.values is None][both_sides::2]

    def gradients(kernel):
        mine = [case for case in cases if case.able(kernel)]

        def loss(*x):
            filled = [weights * (case.positions >= 0)[..., None, None] for case in mine]
            return [
                (KERNELS[kernel](*x, case.context, case.scoring) * part).sum()
                for case, part in zip(mine, filled, strict=True)
            ]

        return dict(zip(map(cases.index, mine), call(jax.jacrev(loss, (0, 1, 2)), *inputs), strict=True))

    expected = gradients("einsum")
    for kernel in set(ON_ANY_DEVICE) - {"einsum"}:
        for case, found in gradients(kernel).items():
            for one, other in zip(found, expected[case], strict=True):
                close(one, other)


def test_query_heads_share_neighbouring_key_heads():
    # Key head g serves query heads g H/G ... (g + 1) H/G - 1, in that order.
    q, k, v = heads(5, 2)
    repeated = [np.repeat(x, H // 2, axis=2) for x in (k, v)]
    for kernel in ON_ANY_DEVICE:
        attend = lambda *x, kernel=kernel: KERNELS[kernel](*x, counting(T), Scoring(0.3))  # noqa: E731
        close(call(attend, q, k, v), call(attend, q, *repeated))


def test_a_sink_takes_weight_and_gives_nothing():
    # With a sink the weights of the keys add up to less than one: to what the softmax gives to all
    # but the sink.
    q, k, _ = heads(6, 4)
    ones = np.ones((B, T, H, K), np.float32)
    sinks = np.array([-30.0, 0.0, 3.0, 30.0], np.float32)
    kept = call(lambda *x: KERNELS["einsum"](*x, counting(T), Scoring(0.3, sinks=sinks)), q, k, ones)[..., 0]
    np.testing.assert_allclose(kept[..., 0], 1, rtol=1e-6)
    np.testing.assert_allclose(kept[..., 3], 0, atol=1e-6)
    first = 0.3 * np.einsum("bhk,bhk->bh", q[:, 0], k[:, 0])
    np.testing.assert_allclose(kept[:, 0], np.exp(first) / (np.exp(first) + np.exp(sinks)), rtol=1e-4, atol=1e-6)


def test_a_cap_bounds_scores():
    q, k, v = heads(7, 4)
    capped, small, uncapped = call(
        lambda *x: [
            KERNELS["einsum"](100 * x[0], *x[1:], counting(T), Scoring(0.3, softcap=1e-3)),
            KERNELS["einsum"](*x, counting(T), Scoring(0.3, softcap=1e4)),
            KERNELS["einsum"](*x, counting(T), Scoring(0.3)),
        ],
        q,
        k,
        v,
    )
    means = np.cumsum(v, axis=1) / np.arange(1, T + 1)[:, None, None]
    close(capped, means, 2e-3)
    close(small, uncapped, 1e-4)


def test_dropout_acts_on_probabilities():
    q, k, _ = heads(8, 4)
    ones = np.ones((B, T, H, K), np.float32)
    context = Context(jnp.arange(T)[None], dropout_key=DropoutKey(jax.random.key(0)))
    kept, all_kept = call(
        lambda q: tuple(KERNELS["einsum"](q, k, ones, c, Scoring(0.3, dropout=0.5)) for c in (context, counting(T))), q
    )
    # Values of one: the output is the sum of what is left of a query's probabilities, the same in
    # every dimension.
    np.testing.assert_allclose(kept, np.broadcast_to(kept[..., :1], kept.shape), rtol=1e-6)
    assert set(np.unique(kept[:, 0]).round(6)) == {0.0, 2.0}
    assert 0.7 < float(kept.mean()) < 1.3
    np.testing.assert_allclose(all_kept, 1, rtol=1e-6)


def test_the_capability_table_and_the_kernels_are_the_same():
    assert set(ATTENTION_SUPPORT) == set(KERNELS)
