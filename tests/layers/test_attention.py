"""Attention against a loop over heads and queries; the kernels against each other."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.building import ENCODER, as_float64, call, close, counting, random_values, slow_but, tiny, with_values
from zoo.config import ATTENTION_SUPPORT
from zoo.errors import ConfigError
from zoo.layers.attention import make_attention
from zoo.layers.attention.kernel_choice import KernelChoice, Platform, RowStructure, choose_kernel
from zoo.layers.attention.kernels import KERNELS
from zoo.layers.attention.scoring import Scoring
from zoo.layers.context import Context, DropoutKey, Memory

B, T, H, K = 2, 8, 4, 6
ON_ANY_DEVICE = [name for name in KERNELS if name != "cudnn"]
COUNTING = np.tile(np.arange(T), (B, 1))
PACKED = np.array([[0, 1, 2, 0, 1, 2, 0, 1], [0, 1, 2, 3, 4, 5, 6, 0]])
DOCUMENTS = np.array([[0, 0, 0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0, 0, 1]])
PADDED = np.array([[-1, -1, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, -1, -1, -1]])
MEMORY = np.array([[0, 1, 2, 3, 4], [0, 1, 2, -1, -1]])


def normal(*shape, seed=9):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def heads(seed, kv_heads, dtype=np.float32, length=T, keys=None):
    generator = np.random.default_rng(seed)
    shapes = (length, H), (keys or length, kv_heads), (keys or length, kv_heads)
    return [generator.standard_normal((B, tokens, n, K)).astype(dtype) for tokens, n in shapes]


class Situation:
    """What a kernel is asked to do, for it and for the loop."""

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
    slow_but(
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
        pytest.mark.promise,
    ),
)
def test_a_kernel_is_the_loop(kernel, window, both_sides):
    check(kernel, situations(window, both_sides), heads(0, 2), np.float32, 1e-5)


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
@pytest.mark.parametrize("kv_heads", [pytest.param(4, marks=pytest.mark.promise), 1])
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


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
def test_a_kernel_is_the_loop_in_bfloat16(kernel):
    cases = [case for case in situations(3, False) if case.vectors is None and case.values is None]
    check(kernel, cases, heads(0, 2, jnp.bfloat16), jnp.bfloat16, 2e-2)


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
def test_any_length_will_do(kernel):
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


@pytest.mark.parametrize("both_sides", [False, pytest.param(True, marks=pytest.mark.promise)])
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


FULL = {"model.attention.qk_norm": "full", "model.norm.kind": "rmsnorm", "model.norm.unit_offset": True}
LAYERS = {
    "plain": {},
    "grouped, window, no bias": {"model.attention.window": 3, "model.attention.num_kv_heads": 2, "model.attention.bias": False},
    "multi-query, xla": {"model.attention.scale": 0.7, "model.attention.head_dim": 10, "model.attention.num_kv_heads": 1,
                         "model.attention.implementation": "xla"},
    "rows": {"model.attention.window": 2, "model.attention.num_kv_heads": 2, "model.attention.implementation": "rows"},
    "shared queries": {"model.attention.num_query_heads": 2, "model.attention.num_kv_heads": 1, "model.attention.qk_norm": "head"},
    "one query, full norms": FULL | {"model.attention.num_query_heads": 1},
    "dilated windows": {"model.attention.window": 2, "model.attention.dilations": (1, 3), "model.attention.sinks": True},
    "encoder, dilated windows, global tokens": ENCODER | {
        "model.attention.window": 3, "model.attention.dilations": (1, 1, 2, 2), "model.attention.global_tokens": 1,
        "model.attention.num_query_heads": 2, "model.attention.global_projections": True},
    "head norms": {"model.attention.qk_norm": "head", "model.attention.num_kv_heads": 2, "model.norm.epsilon": 1e-2},
    "full norms, unit offset": FULL | {"model.attention.num_kv_heads": 2},
    "cap and sinks": {"model.attention.softcap": 1.5, "model.attention.sinks": True},
    "encoder": ENCODER,
    "encoder, window, cap, sinks": ENCODER | {"model.attention.window": 3, "model.attention.softcap": 0.5, "model.attention.sinks": True},
    "encoder, global tokens": ENCODER | {"model.attention.window": 3, "model.attention.global_tokens": 2},
    "encoder, global projections": ENCODER | {"model.attention.window": 1, "model.attention.global_tokens": 1,
        "model.attention.global_projections": True, "model.attention.qk_norm": "head", "model.attention.num_kv_heads": 2},
    "gate of elements": {"model.attention.gate": "elementwise", "model.attention.num_kv_heads": 2},
    "gate of heads, from what was read": {"model.attention.gate": "head", "model.attention.gate_input": "attended"},
    "output norm, gate of heads": {"model.attention.output_norm": True, "model.attention.gate": "head", "model.attention.num_kv_heads": 2},
    "exclusive, gate of heads": {"model.attention.exclusive": True, "model.attention.gate": "head", "model.attention.num_kv_heads": 2},
    "cosine": {"model.attention.qk_norm": "cosine", "model.attention.num_query_heads": 2},
    "ssmax, dilated windows": {"model.attention.ssmax": 0.4, "model.attention.window": 2, "model.attention.dilations": (1, 3)},
    "encoder, ssmax, global projections": ENCODER | {"model.attention.ssmax": 0.4, "model.attention.window": 3,
        "model.attention.global_tokens": 1, "model.attention.global_projections": True},
    "softmax plus one": {"model.attention.kind": "softmax_plus_one", "model.attention.window": 3},
    "sigmoid, rows": {"model.attention.kind": "sigmoid", "model.attention.num_kv_heads": 2},
    "forgetting": {"model.attention.kind": "forgetting", "model.attention.num_kv_heads": 2, "model.attention.window": 4},
}  # fmt: skip
SCHEMES = {
    "none": {"model.position.kind": "none"},
    "rope": {"model.position.kind": "rope"},
    "p-rope": {"model.position.kind": "rope", "model.position.kept_frequencies": 0.5},
    "alibi": {"model.position.kind": "alibi"},
    "relative_bias": {
        "model.position.kind": "relative_bias",
        "model.position.shared": False,
        "model.position.buckets": 8,
        "model.position.max_distance": 9,
    },
    "shaw": {"model.position.kind": "shaw", "model.position.clip": 2},
    "shaw, keys only": {
        "model.position.kind": "shaw",
        "model.position.clip": 3,
        "model.position.relative_values": False,
    },
}
# Every scheme with the plain layers, every layer with schemes of either sort, and a choice of the
# rest.
EVERY = ("plain", "encoder", "grouped, window, no bias")
PAIRS = [
    *itertools.product(EVERY, SCHEMES),
    *itertools.product([name for name in LAYERS if name not in EVERY], ("rope", "relative_bias")),
    ("rows", "alibi"),
    ("forgetting", "alibi"),
    ("rows", "shaw, keys only"),
    ("cap and sinks", "shaw"),
    ("head norms", "none"),
    ("multi-query, xla", "none"),
    ("encoder, window, cap, sinks", "shaw"),
    ("encoder, global tokens", "alibi"),
    ("encoder, global projections", "none"),
]


# Every layer and every scheme once or twice; the rest guards a promise.
FEW = [
    *itertools.product(("plain",), SCHEMES),
    *((name, "rope") for name in LAYERS if name != "plain"),
    ("grouped, window, no bias", "shaw"),
    ("encoder", "relative_bias"),
    ("forgetting", "alibi"),
    ("encoder, window, cap, sinks", "shaw"),
]


@pytest.mark.parametrize(("name", "scheme"), slow_but(FEW, PAIRS, pytest.mark.promise))
def test_a_layer_is_the_equation(name, scheme):
    config = tiny(LAYERS[name] | SCHEMES[scheme]).model
    module, values = make_attention(config), random_values(make_attention(config), 6)
    matrices = ("query", "key", "value", "output", "global_query", "global_key", "global_value")
    assert all(("bias" in part) == config.attention.bias for part_name, part in values.items() if part_name in matrices)
    x, causal = np.random.default_rng(7).standard_normal((B, T, 16)), config.architecture == "decoder"
    attention = with_values(module, values)
    positions, documents = (PADDED, None) if "global" in name or len(scheme) % 2 else (PACKED, DOCUMENTS)
    given = Context(
        jnp.asarray(positions),
        None if documents is None else jnp.asarray(documents),
        causal,
        in_order=documents is not None,
    )
    outputs = call(lambda x: [attention(x, context) for context in (counting(T, causal), given)], np.float32(x))
    rows = [reference.Rows(COUNTING, None, causal), reference.Rows(positions, documents, causal)]
    for actual, given in zip(outputs, rows, strict=True):
        expected = reference.attention_layer(config, as_float64(values), x, given)
        filled = given.positions >= 0
        close(actual[filled], expected[filled], 2e-5)


@pytest.mark.parametrize("queries", [2, 1])
def test_heads_with_one_query_are_heads_whose_query_matrices_are_equal(queries):
    """Plain attention, with each matrix of the queries as often as heads share it."""
    fields = {"model.position.kind": "rope", "model.attention.num_kv_heads": 2, "model.attention.qk_norm": "head"}
    sharing, plain = (
        make_attention(tiny(fields | more).model) for more in ({"model.attention.num_query_heads": queries}, {})
    )
    values = random_values(sharing, 6)
    width = values["query"]["kernel"].shape[1] // queries

    def repeated(x):
        return jnp.repeat(x.reshape(-1, queries, width), H // queries, axis=1).reshape(*x.shape[:-1], H * width)

    x = normal(B, T, 16)
    one, other = call(
        lambda x: [
            with_values(sharing, values)(x, counting(T)),
            with_values(plain, values | {"query": {name: repeated(value) for name, value in values["query"].items()}})(
                x, counting(T)
            ),
        ],
        x,
    )
    close(one, other, 1e-6)


@pytest.mark.parametrize("fields", [{}, {"model.position.kind": "rope"}, {"model.attention.qk_norm": "head", "model.attention.sinks": True,
                                    "model.attention.num_kv_heads": 2, "model.attention.implementation": "einsum"}], ids=str)  # fmt: skip
def test_cross_attention_reads_all_of_the_memory_and_no_positions(fields):
    config = tiny(fields).model
    module, values = make_attention(config, cross=True), random_values(make_attention(config, cross=True), 6)
    assert "position" not in values
    x, hidden = normal(B, T, 16, seed=1), normal(B, 5, 16, seed=2)
    layer = with_values(module, values)

    def attend(x, hidden):
        memory = Memory(hidden, jnp.asarray(MEMORY))
        # Documents and the order of the decoder's own tokens say nothing about another sequence.
        contexts = (
            counting(T, memory=memory),
            Context(jnp.asarray(PACKED), jnp.asarray(DOCUMENTS), in_order=True, memory=memory),
        )
        return [layer(x, context) for context in contexts]

    rows = reference.Rows(COUNTING, memory=np.float64(hidden), memory_positions=MEMORY)
    expected = reference.attention_layer(config, as_float64(values), np.float64(x), rows, cross=True)
    for actual in call(attend, x, hidden):
        close(actual, expected)


def test_a_bias_that_layers_share_is_added():
    config = tiny({"model.position.kind": "relative_bias"}).model
    module, values, shared = make_attention(config), random_values(make_attention(config), 6), normal(1, H, T, T)
    assert "position" not in values
    x, attention = normal(B, T, 16), with_values(module, values)
    plain, added = call(lambda x: [attention(x, counting(T)), attention(x, counting(T), shared)], x)
    assert abs(plain - added).max() > 0.1
    none = with_values(make_attention(tiny({"model.position.kind": "none"}).model), values)
    close(plain, call(lambda x: none(x, counting(T)), x), 1e-6)


def test_the_default_scale_is_one_over_the_root_of_the_head_dimension():
    assert tiny({"model.attention.head_dim": 9}).model.attention.scale == pytest.approx(1 / 3)
    assert tiny().model.attention.scale == pytest.approx(1 / 2)


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


def test_a_layer_drops_only_with_a_key():
    config = tiny({"model.attention.dropout": 0.5}).model
    attention = with_values(make_attention(config), random_values(make_attention(config), 6))
    plain = with_values(make_attention(tiny().model), random_values(make_attention(config), 6))
    x = np.float32(np.random.default_rng(7).standard_normal((B, T, 16)))
    with_key = Context(jnp.arange(T)[None], in_order=True, dropout_key=DropoutKey(jax.random.key(3)))
    dropped, kept = (call(lambda x, context=context: attention(x, context), x) for context in (with_key, counting(T)))
    expected = call(lambda x: plain(x, with_key), x)
    np.testing.assert_array_equal(kept, expected)
    assert abs(dropped - expected).max() > 0.1


def test_the_capability_table_and_the_kernels_are_the_same():
    assert set(ATTENTION_SUPPORT) == set(KERNELS)


FEATURES = (
    "score", "documents", "prefix", "dropout", "softcap", "sinks", "value", "padding", "dilations", "value_width",
    "centred_window", "query_score", "row_score", "sigmoid",
)  # fmt: skip
BY_ARRAY = ("score", "documents", "prefix", "padding", "centred_window")
TO_SOME = {
    **{feature: ({feature: feature}, "einsum", feature) for feature in FEATURES if feature not in BY_ARRAY},
    **{feature: ({feature: feature}, "cudnn", "") for feature in BY_ARRAY},
    "nothing": ({}, "cudnn", ""),
    "float32": ({"dtype": "float32"}, "einsum", "float32 activations"),
    "all": ({"dtype": "float32", "sinks": "sinks", "head_dim": 20}, "einsum", "float32 activations; head_dim=20, no "
            "multiple of 8 up to 256; sinks"),
    "20": ({"head_dim": 20}, "einsum", "head_dim=20, no multiple of 8 up to 256"),
    "264": ({"head_dim": 264}, "einsum", "head_dim=264, no multiple of 8 up to 256"),
    "256 on Hopper": ({"head_dim": 256}, "cudnn", ""),
    "136 on Ampere": ({"head_dim": 136, "capability": (8, 9)}, "einsum", "head_dim=136, above 128 on this GPU"),
    "136 on Blackwell": ({"head_dim": 136, "capability": (10, 0)}, "einsum", "head_dim=136, above 128 on this GPU"),
    "128 on Ampere": ({"head_dim": 128, "capability": (8, 0)}, "cudnn", ""),
    "128 on Blackwell": ({"head_dim": 128, "capability": (12, 0)}, "cudnn", ""),
    "Turing": ({"capability": (7, 5)}, "einsum", "compute capability 7.5, below 8.0"),
    "AMD": ({"capability": None}, "einsum", "no NVIDIA GPU"),
    "eight": ({"devices": 8}, "cudnn", ""),
    "tpu": ({"name": "tpu"}, "einsum", "no GPU"),
    "cpu": ({"name": "cpu"}, "rows", "no GPU"),
    "cpu, a lot": ({"name": "cpu", "score": "x", "documents": "x", "softcap": "x", "sinks": "x", "padding": "x",
                    "dtype": "float32", "head_dim": 20, "value_width": "x", "centred_window": "x"}, "rows", "no GPU"),
    "cpu, dropout": ({"name": "cpu", "dropout": "x"}, "einsum", "no GPU"),
    "cpu, value": ({"name": "cpu", "value": "x"}, "einsum", "no GPU"),
    "cpus": ({"name": "cpu", "devices": 2}, "einsum", "no GPU"),
    "named": ({"implementation": "xla"}, "xla", "model.attention.implementation=xla"),
    "named fused": ({"implementation": "cudnn"}, "cudnn", ""),
    "named fused elsewhere": ({"implementation": "cudnn", "name": "cpu", "head_dim": 256}, "cudnn", "no GPU"),
}  # fmt: skip


def chosen(changes, block=0, fused_block=0):
    """The choice on a Hopper for heads of 64 in bfloat16, or with changes of that."""
    platform = {"name": "gpu", "devices": 1, "capability": (9, 0)}
    given, asked = {"implementation": "auto", "dtype": "bfloat16", "head_dim": 64}, dict.fromkeys(FEATURES, "")
    for name, value in changes.items():
        next((fields for fields in (platform, given) if name in fields), asked)[name] = value
    return choose_kernel(**given, platform=Platform(**platform), asked=asked, block=block, fused_block=fused_block)


@pytest.mark.parametrize("case", TO_SOME)
def test_auto_takes_a_faster_kernel_only_where_it_can_do_what_is_asked(case):
    changes, kernel, reason = TO_SOME[case]
    assert chosen(changes) == KernelChoice(kernel, 0, reason)


def test_a_window_is_cut_into_blocks_but_for_the_fused_kernel():
    assert [chosen(changes, 64).name for changes in ({}, {"sinks": "sinks"}, {"implementation": "xla"})] == [
        "cudnn", "banded einsum", "banded xla"
    ]  # fmt: skip
    assert chosen({"implementation": "cudnn"}, 64).block == 0
    # Where the mask is an array, blocks keep it linear in the length.
    assert [chosen(changes, 64, 64).name for changes in ({}, {"implementation": "cudnn"})] == ["banded cudnn"] * 2


def test_only_rows_in_order_without_a_prefix_are_cut():
    rows = RowStructure(512, in_order=True)
    cut = (rows, rows._replace(in_order=False), rows._replace(prefix=3), rows._replace(length=64))
    assert [each.block_length(9) for each in cut] == [64, 0, 0, 0]


def test_heads_too_wide_for_a_gpu_are_refused_where_the_kernel_is_named():
    with pytest.raises(ConfigError, match=r"implementation=cudnn cannot have .*head_dim=256, above 128"):
        chosen({"implementation": "cudnn", "head_dim": 256, "capability": (8, 0)})


def test_what_no_field_asks_for_is_refused_where_the_kernel_is_named():
    for feature in ("row_score", "query_score", "value_width"):
        with pytest.raises(ConfigError, match=r"implementation=cudnn does not support this; use einsum"):
            chosen({"implementation": "cudnn", feature: "this"})


def test_the_features_asked_of_a_kernel_are_those_of_the_table():
    assert ATTENTION_SUPPORT["einsum"].features == set(FEATURES)
    assert all(support.features <= set(FEATURES) for support in ATTENTION_SUPPORT.values())
