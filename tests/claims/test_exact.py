"""Claims that hold or do not, whatever was trained: each is proven on the modules that the models
are made of.

A test's name begins with the claim's number in the list of claims; its docstring quotes the claim.
Beside each property stands what does not have it, so that the test would notice if it measured
nothing.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from tests.support.building import ENCODER, call, close, compiled, random_values, tiny, with_values
from tests.support.visibility import Situation, normal, of_model
from zoo.layers.attention import make_attention
from zoo.layers.context import Context
from zoo.layers.norm import make_norm
from zoo.layers.position import make_attention_position, sinusoid
from zoo.models.architectures import make_model
from zoo.models.head import LogitFactors
from zoo.objectives.cross_entropy import LossTerms, cross_entropy, distilled_cross_entropy

T, D = 8, 16
TOKENS = np.array([[3, 1, 12, 0, 7, 9, 2, 5]])
ROPES = {
    "half": {}, "interleaved": {"model.position.layout": "interleaved"}, "partial": {"model.position.fraction": 0.5},
    "linear": {"model.position.scaling.kind": "linear", "model.position.scaling.factor": 4.0},
    "llama3": {"model.position.scaling.kind": "llama3", "model.position.scaling.factor": 8.0, "model.position.scaling.original_length": 64},
    "yarn": {"model.position.scaling.kind": "yarn", "model.position.scaling.factor": 4.0, "model.position.scaling.original_length": 64},
}  # fmt: skip
SCHEMES = {
    "none": {}, "learned": {"model.position.max_length": 64}, "sinusoidal": {}, "rope": {}, "alibi": {}, "shaw": {"model.position.clip": 2},
    "relative_bias": {"model.position.buckets": 8, "model.position.max_distance": 6},
}  # fmt: skip


def scheme(kind):
    """The fields of a position scheme."""
    return {"model.position.kind": kind} | SCHEMES[kind]


def rope(fields):
    """A RoPE of 16 dimensions a head."""
    return make_attention_position(tiny({"model.position.kind": "rope", "model.attention.head_dim": 16} | fields).model)


@functools.cache
def program(overrides, causal):
    """A model of one layer with random weights: tokens [B, T] -> hidden states [B, T, D]."""
    model = make_model(tiny({"data.sequence_length": 64, "model.num_layers": 1} | dict(overrides)))
    held = with_values(model, random_values(model, 1))

    def states(tokens):
        return held(tokens, Context(jnp.arange(tokens.shape[1])[None], causal=causal, in_order=True))

    return compiled(states)


def hidden(overrides, tokens):
    """The hidden states of a model of one layer with random weights, [B, T, D]."""
    return program(tuple(overrides.items()), "model.architecture" not in overrides)(tokens)


@pytest.mark.parametrize(
    ("kind", "shift", "scale"),
    [("layernorm", True, True), ("rmsnorm", False, True), ("centering", True, False), ("none", False, False)],
)
def test_n10_what_a_norm_is_invariant_to(kind, shift, scale):
    """N10: "LayerNorm is invariant to shifting and scaling its input, RMSNorm to scaling only"; and
    centering alone to shifting only.
    """
    config = tiny({"model.norm.kind": kind} | ({"model.norm.epsilon": 1e-30} if scale else {})).model
    module = make_norm(config)
    norm = with_values(module, random_values(module, 2))
    # Eighths and powers of 2: shifted and scaled inputs, their means and their squares are exact,
    # so that equal is equal to the last bit.
    x = np.float32(np.random.default_rng(3).integers(-40, 40, (5, D)) / 8)
    plain, shifted, scaled, both = call(lambda x: [norm(y) for y in (x, x + 32, 4 * x, 4 * x + 32)], x)
    for changed, invariant in ((shifted, shift), (scaled, scale), (both, shift and scale)):
        if invariant:
            np.testing.assert_array_equal(changed, plain)
        else:
            assert abs(changed - plain).max() > 0.5


def test_p1_without_positions_self_attention_is_permutation_equivariant():
    """P1: "With no position information, self-attention is permutation-equivariant"."""
    order = np.random.default_rng(4).permutation(T)
    for kind in SCHEMES:
        plain, permuted = (hidden(ENCODER | scheme(kind), tokens) for tokens in (TOKENS, TOKENS[:, order]))
        if kind == "none":
            close(permuted, plain[:, order])
        else:
            assert abs(permuted - plain[:, order]).max() > 0.01, kind
    # Causal attention sees an order even so.
    plain, permuted = (hidden(scheme("none"), tokens) for tokens in (TOKENS, TOKENS[:, order]))
    assert abs(permuted - plain[:, order]).max() > 0.1


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dim", [2, 64])
def test_p4_the_dot_product_of_sinusoids_depends_on_the_distance_and_peaks_at_0(dim, layout):
    """P4: "The dot product of two sinusoidal encodings depends only on their distance and peaks at
    0".
    """
    with jax.enable_x64(True):
        places = jnp.arange(600, dtype=jnp.float64)
        vectors = np.asarray(sinusoid(places, dim, layout))
        assert vectors.dtype == np.float64
    products = vectors @ vectors.T
    by_distance = [np.diagonal(products, offset) for offset in range(-599, 600)]
    assert max(diagonal.max() - diagonal.min() for diagonal in by_distance) < 1e-11
    of_distance = np.array([diagonal.mean() for diagonal in by_distance])
    np.testing.assert_allclose(of_distance, of_distance[::-1], rtol=0, atol=1e-11)
    assert of_distance[599] == pytest.approx(dim / 2, abs=1e-12)
    # Strictly, even for one pair alone, which turns in a circle: 2 pi is no whole number of
    # positions.
    assert np.delete(of_distance, 599).max() < dim / 2 - 1e-6


@pytest.mark.parametrize("name", ROPES)
def test_p5_rope_s_scores_depend_on_the_distance_only(name):
    """P5: "RoPE scores depend only on i - j; rotation keeps norms"."""
    position, q, k = rope(ROPES[name]), normal(1, T, 2, 16), normal(1, T, 2, 16, seed=4)
    shifts = np.array([0, 1, 17, 50])

    def rotated(q, k):
        turned = [position.rotate(q, k, places, places) for places in (jnp.arange(T)[None] + shift for shift in shifts)]
        return [(jnp.einsum("bthk,bshk->bhts", *pair), *(jnp.square(x).sum(-1) for x in pair)) for pair in turned]

    scores, *norms = zip(*call(rotated, q, k), strict=True)
    for shifted in scores[1:]:
        close(shifted, scores[0])
    # YaRN multiplies both sides by one factor.
    factor = position.factor**2
    for found, x in zip(norms, (q, k), strict=True):
        for square in found:
            close(square, factor * np.square(x).sum(-1), 2e-6)
    # A score of the vectors themselves would not know the distance.
    assert abs(scores[0] - factor * np.einsum("bthk,bshk->bhts", q, k)).max() > 0.1


def test_p5_values_are_not_rotated():
    """P5: "values are not rotated"."""

    def attended(kind, positions, window):
        layer = make_attention(tiny({"model.position.kind": kind, "model.attention.window": window}).model)
        values = random_values(layer, 1)
        return call(
            lambda values, x: with_values(layer, values)(x, Context(jnp.asarray(positions))), values, normal(1, T, D)
        )

    here, there = np.arange(T)[None], np.arange(T)[None] * 3 + 40
    # A token that sees itself alone reads its own value, wherever it stands.
    np.testing.assert_array_equal(attended("rope", there, 1), attended("none", here, 1))
    assert abs(attended("rope", there, 0) - attended("none", here, 0)).max() > 0.01


def test_p6_rope_s_bound_decays_with_the_distance():
    """P6: "RoPE's bound on the score decays with distance"."""
    from zoo.draw.rope_pictures import score_bound

    def over_ranges(theta):
        fields = {"model.position.kind": "rope", "model.attention.head_dim": 128, "model.position.theta": theta}
        bound = score_bound(tiny(fields).model, 1024)
        # At distance 0 no pair is rotated, and the j-th partial sum is j.
        assert bound[0] == pytest.approx((64 + 1) / 2)
        return [bound[start : 4 * start].mean() for start in (1, 4, 16, 64, 256)]

    # Not at every step, but from each range of distances to the next.
    means = over_ranges(10_000.0)
    assert all(near > 1.2 * far for near, far in itertools.pairwise(means))
    assert means[0] < 65 / 2
    # What decays is the sum over many frequencies: pairs that all turn alike keep theirs.
    np.testing.assert_allclose(over_ranges(1.0 + 1e-9), 65 / 2, rtol=1e-5)


def test_p6_the_scores_under_the_bound_need_not_decay():
    """P6: only the bound decays. Random queries and keys of K components of variance 1 score sqrt(K)
    in root mean square at every distance, and a query can score one key highest at any distance.
    """
    scheme, lengths = rope({"model.attention.head_dim": 128}), 2048
    drawn = np.random.default_rng(0).normal(size=(2, 1, 2000, 1, 128)).astype(np.float32)
    places, zeros = jnp.arange(lengths)[None], jnp.zeros((1, lengths), int)

    def scores(q, k, distance):
        return jnp.einsum("bthk,bthk->bt", *scheme.rotate(q, k, distance, zeros[:, : q.shape[1]]))

    # The third distance is beyond every row of LLaMA 1.
    found = [call(scores, *drawn, jnp.full((1, 2000), distance)) for distance in (0, 16, 2000)]
    sizes = [np.sqrt(np.square(score).mean()) for score in found]
    np.testing.assert_allclose(sizes, 128**0.5, rtol=0.02)
    assert np.allclose(sizes, [11.25, 11.23, 11.31], atol=0.01)  # docs/errors_of_the_sources.md
    # The key itself as the query, turned back by 1,500 positions.
    key = drawn[1][:, :1]
    query = call(lambda x: scheme.rotate(x, x, jnp.full((1, 1), -1500), jnp.zeros((1, 1), int))[0], key)
    one, other = (jnp.repeat(x, lengths, axis=1) for x in (query, key))
    (by_distance,) = call(scores, one, other, places)
    assert by_distance.argmax() == 1500
    assert by_distance[1500] == pytest.approx(np.square(key).sum(), rel=1e-4)
    assert np.allclose(by_distance[[1500, 0]], [142.8, 1.5], atol=0.1)  # docs/errors_of_the_sources.md


@pytest.mark.parametrize("kind", SCHEMES)
def test_p9_an_appended_token_changes_nothing_before_it(kind):
    """P9: "Under RoPE a token appended at the end changes no earlier key", and so for every
    position scheme.
    """
    fields = scheme(kind) | {"model.attention.num_kv_heads": 2}
    longer, shorter = (hidden(fields, TOKENS[:, :length]) for length in (T, T - 1))
    close(longer[:, :-1], shorter, 2e-6)
    other = TOKENS.copy()
    other[0, -1] = 6
    changed = hidden(fields, other)
    np.testing.assert_array_equal(changed[:, :-1], longer[:, :-1])
    assert abs(changed[:, -1] - longer[:, -1]).max() > 0.1


@pytest.mark.parametrize("name", ROPES)
def test_p9_an_appended_token_changes_no_earlier_key(name):
    """P9: "Under RoPE a token appended at the end changes no earlier key"."""
    longer, shorter = keys_of_both_lengths(ROPES[name])
    np.testing.assert_array_equal(longer[:, :-1], shorter)


@pytest.mark.parametrize(("original_length", "holds"), [(T, True), (T - 1, False)])
def test_p9_fails_for_dynamic_scaling_beyond_the_original_length(original_length, holds):
    """P9 does not hold for dynamic NTK scaling: beyond the original length theta, and so every key,
    is a function of the length.
    """
    fields = {"model.position.scaling.kind": "dynamic", "model.position.scaling.original_length": original_length}
    longer, shorter = keys_of_both_lengths(fields)
    fields |= {"model.position.kind": "rope", "model.attention.head_dim": 16}
    longer_hidden, shorter_hidden = (hidden(fields, TOKENS[:, :length]) for length in (T, T - 1))
    if holds:
        np.testing.assert_array_equal(longer[:, :-1], shorter)
        close(longer_hidden[:, :-1], shorter_hidden, 2e-6)
    else:
        assert abs(longer[:, :-1] - shorter).max() > 0.01
        assert abs(longer_hidden[:, :-1] - shorter_hidden).max() > 1e-3


def keys_of_both_lengths(fields):
    """Rotated keys of T tokens and of all but the last."""
    position, k = rope(fields), normal(1, T, 2, 16)
    return call(lambda k: [position.rotate(k[:, :n], k[:, :n], *[jnp.arange(n)[None]] * 2)[1] for n in (T, T - 1)], k)


@pytest.mark.parametrize("name", ROPES)
def test_p12_rope_is_a_sparse_matrix_product(name):
    """P12: "RoPE as a sparse matrix product equals the elementwise form"."""
    position, x = rope(ROPES[name]), normal(1, T, 2, 16)
    places = np.arange(T) * 7
    elementwise, _ = call(lambda x: position.rotate(x, x, jnp.asarray(places)[None], jnp.asarray(places)[None]), x)
    frequencies = np.float64(position.frequencies(jnp.asarray(places)[None]))
    pairs = len(frequencies)
    first, second = (
        (np.arange(pairs), pairs + np.arange(pairs))
        if position.layout == "half"
        else np.arange(2 * pairs).reshape(-1, 2).T
    )
    for place, vectors, turned in zip(places, x[0], elementwise[0], strict=True):
        cos, sin = position.factor * np.cos(place * frequencies), position.factor * np.sin(place * frequencies)
        rest = np.arange(2 * pairs, 16)
        matrix = scipy.sparse.csr_array(
            (
                np.concatenate([cos, -sin, sin, cos, np.ones(len(rest))]),
                (
                    np.concatenate([first, first, second, second, rest]),
                    np.concatenate([first, second, first, second, rest]),
                ),
            ),
            (16, 16),
        )
        # Su et al. 2021, eq. 15: two entries a row, where a matrix of this size holds 16.
        assert matrix.nnz <= 2 * 16
        close(turned.T, matrix @ np.float64(vectors).T, 5e-6)


@pytest.mark.parametrize(("layers", "window"), [(1, 3), (2, 4), (3, 2), (3, 4)])
def test_a4_the_receptive_field_of_windowed_layers(layers, window):
    """A4: "The receptive field of L windowed layers is L(w-1)+1"."""
    situation = Situation(np.arange(12)[None], in_order=True, fields={"window": window})
    last = of_model(situation, "runs", {"model.num_layers": layers, "model.attention.implementation": "einsum"})[
        0, -1, 0
    ]
    np.testing.assert_array_equal(np.flatnonzero(last), np.arange(12)[-(layers * (window - 1) + 1) :])


@pytest.mark.parametrize(("layers", "window"), [(1, 5), (2, 3), (3, 3)])
def test_a4_the_receptive_field_of_windows_on_both_sides(layers, window):
    """A4 in an encoder: L (w - 1) / 2 tokens on each side, and so L(w-1)+1 of them again."""
    situation = Situation(np.arange(12)[None], causal=False, in_order=True, fields={"window": window})
    seen = np.flatnonzero(
        of_model(situation, "runs", {"model.num_layers": layers, "model.attention.implementation": "einsum"})[0, 6, 0]
    )
    assert len(seen) == layers * (window - 1) + 1
    np.testing.assert_array_equal(seen, np.arange(6 - len(seen) // 2, 6 + len(seen) // 2 + 1))


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_o13_the_divergence_from_a_hard_label_is_the_cross_entropy(temperature):
    """O13: "The KL loss against a hard label is the cross-entropy", in value and in gradient; at
    the temperature 1 alone.
    """
    hidden, head, bias = normal(2, T, D), normal(11, D), normal(11)
    targets, ones = np.random.default_rng(5).integers(0, 11, (2, T)), np.ones((2, T), np.float32)
    # A teacher that is sure: one score far above the others is a distribution of one 1 and zeros.
    sure = 1e4 * np.eye(11, dtype=np.float32)[targets]
    teacher = LogitFactors(sure, np.eye(11, dtype=np.float32), None, 0.0)

    def divergence(hidden, head, bias):
        return distilled_cross_entropy(
            LogitFactors(hidden, head, bias, 0.0),
            teacher,
            targets,
            ones,
            5,
            LossTerms(hard=0.0, kl=1.0, temperature=temperature),
        )[0]

    def entropy(hidden, head, bias):
        return cross_entropy(LogitFactors(hidden, head, bias, 0.0), targets, ones, 5)[0]

    (one, gradients), (other, expected) = (
        call(jax.value_and_grad(loss, (0, 1, 2)), hidden, head, bias) for loss in (divergence, entropy)
    )
    if temperature == 1:
        np.testing.assert_allclose(one, other, rtol=1e-6)
        for ours, theirs in zip(gradients, expected, strict=True):
            close(ours, theirs, 1e-6)
    else:
        assert abs(one / other - 1) > 0.1
        assert abs(gradients[0] - expected[0]).max() > 0.1 * abs(expected[0]).max()
