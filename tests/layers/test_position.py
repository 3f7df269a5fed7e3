"""Position schemes against their papers' formulas, and what they must not change."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from tests.reference import positions as reference
from tests.support.building import ENCODER, as_float64, call, close, counting, random_values, tiny, with_values
from tests.support.comparisons import compared
from zoo.config.kinds import POSITION_KINDS
from zoo.errors import ConfigError
from zoo.layers.attention import make_attention
from zoo.layers.position import (
    Position,
    alibi_slopes,
    make_attention_position,
    make_embedded_position,
    rotate_pairs,
    sinusoid,
)
from zoo.layers.position.relative import bucket


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def position(kind, overrides=None):
    """Returns the position scheme of a tiny model, from the embedding or the attention, and its
    values.
    """
    config = tiny({"model.position.kind": kind} | (overrides or {})).model
    module = make_embedded_position(config)
    module = make_attention_position(config) if type(module) is Position else module
    values = random_values(module, 1)
    return with_values(module, values), values


def rotated(x, positions, theta=10000.0, rotated=8, layout="half", factor=1.0):
    frequencies = np.array(reference.frequencies(theta, rotated))
    return call(lambda x, positions: rotate_pairs(x, positions, frequencies, layout, factor), x, positions)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize(("dim", "endpoint"), [(2, False), (34, False), (4, True), (34, True)])
def test_sinusoids_match_the_formula(dim, endpoint, layout):
    # Angles are float32, so their sines are only as exact as half a unit in the last place of the
    # position.
    positions = np.array([[0, 1, 2, 7], [100, 511, 3, 0]])
    expected = np.array([[reference.sinusoid(p, dim, layout, endpoint) for p in row] for row in positions])
    actual = call(lambda p: sinusoid(p, dim, layout, endpoint), positions)
    np.testing.assert_allclose(actual[0], expected[0], atol=2e-6)
    np.testing.assert_allclose(actual[1], expected[1], atol=1e-4)


@pytest.mark.parametrize(
    ("fields", "layout", "offset", "endpoint"),
    [
        ({}, "interleaved", 0, False),
        ({"model.position.layout": "half"}, "half", 0, False),
        ({"model.position.offset": 2}, "interleaved", 2, False),
        ({"model.position.endpoint": True}, "interleaved", 0, True),
    ],
)
def test_sinusoids_are_added_to_the_embedding(fields, layout, offset, endpoint):
    scheme, values = position("sinusoidal", fields)
    x = normal(2, 4, 16)
    assert values == {}
    expected = x + np.stack([reference.sinusoid(p + offset, 16, layout, endpoint) for p in range(4)])
    config = tiny({"model.position.kind": "sinusoidal", **fields})
    compared(call(scheme.embed, x, np.arange(4)[None]), expected, config=config, parts="model.position")
    assert call(scheme.embed, x.astype(jnp.bfloat16), np.arange(4)[None]).dtype == jnp.bfloat16


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(
    ("width", "theta", "factor"), [(8, 10000.0, 1.0), (8, 500.0, 1.5), (4, 10000.0, 0.5), (2, 10.0, 1.0)]
)
def test_rope_equals_complex_multiplication(layout, width, theta, factor):
    x, positions = normal(2, 3, 2, 8), np.array([[0, 1, 5], [40, 2, 7]])
    expected = np.zeros(x.shape)
    for b, t, h in np.ndindex(2, 3, 2):
        expected[b, t, h] = reference.rotate(
            x[b, t, h], positions[b, t], reference.frequencies(theta, width), layout, factor
        )
    config = tiny({"model.position.kind": "rope", "model.position.layout": layout, "model.position.theta": theta})
    parts = ("model.position.kind", "model.position.layout", "model.position.theta")
    actual = rotated(x, positions, theta, width, layout, factor)
    compared(actual, expected, config=config, parts=parts, against="complex numbers in float64")


SCALINGS = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0, "original_length": 16},
    "yarn": {"factor": 4.0, "original_length": 256},
    "yarn, own ramp": {"factor": 8.0, "original_length": 64, "low": 2.0, "high": 5.0},
    "yarn, not rounded": {"factor": 4.0, "original_length": 256, "truncate": False},
    "yarn, not sharpened": {"factor": 4.0, "original_length": 256, "sharpening": 1.0},
    "llama3": {"factor": 8.0, "original_length": 128},
    "longrope": {"factor": 8.0, "original_length": 16},
    "llama3, own ramp": {"factor": 2.0, "original_length": 1024, "low": 0.5, "high": 30.0},
}


def scaling_fields(name, fraction=1.0):
    """The fields of a stretched rope, in heads of 16."""
    kind = name.split(",")[0]
    fields = {f"model.position.scaling.{field}": value for field, value in SCALINGS.get(name, {}).items()}
    if kind == "longrope":
        pairs = range(round(8 * fraction))
        fields["model.position.scaling.short_factors"] = tuple(1 + pair / 7 for pair in pairs)
        fields["model.position.scaling.long_factors"] = tuple(1.0 + pair**2 for pair in pairs)
    return fields | {"model.position.scaling.kind": kind, "model.attention.head_dim": 16}


def scaled(name, **more):
    """A rope of 16 rotated dimensions, stretched."""
    fraction = more.get("model.position.fraction", 1.0)
    return position("rope", scaling_fields(name, fraction) | more)[0]


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("theta", [10000.0, 500.0])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_scaled_rope_frequencies_match_their_formulas(name, theta, fraction):
    fields = {"model.position.theta": theta, "model.position.fraction": fraction}
    config = tiny({"model.position.kind": "rope", "model.attention.head_dim": 16} | fields).model
    scheme = scaled(name, **fields)
    whole = tiny({"model.position.kind": "rope", **fields, **scaling_fields(name, fraction)})
    for length in (5, 16, 17, 100):
        expected, factor = reference.rope(whole.model.position, 16, length)
        frequencies = np.asarray(scheme.frequencies(jnp.array([[0, length - 1, -1]])))
        relative = np.divide(frequencies, expected)
        compared(relative, np.ones_like(relative), 2e-5, config=whole, parts=("model.position",))
        assert scheme.factor == pytest.approx(factor)
    plain = reference.frequencies(config.position.theta, round(16 * fraction))
    assert abs(np.divide(expected, plain) - 1).max() > 0.3


def test_linear_scaling_divides_positions():
    x, positions = normal(1, 4, 2, 16), np.array([[0, 4, 8, 20]])
    stretched, plain = call(
        lambda x: (
            scaled("linear").rotate(x, x, positions, positions)[0],
            scaled("none").rotate(x, x, positions // 4, positions // 4)[0],
        ),
        x,
    )
    close(stretched, plain)


def test_dynamic_scaling_starts_when_keys_exceed_the_original_length():
    plain, dynamic = scaled("none"), scaled("dynamic")
    for last, same in ((15, True), (16, False)):
        keys = jnp.array([[0, last, -1]])
        assert np.allclose(dynamic.frequencies(keys), plain.frequencies(keys), rtol=1e-6) == same
    q, k = normal(1, 2, 2, 16), normal(1, 3, 2, 16, seed=1)
    turned = call(lambda q, k: dynamic.rotate(q, k, jnp.array([[0, 1]]), jnp.array([[0, 1, 40]]))[0], q, k)
    frequencies = reference.dynamic(10000.0, 16, 2.0, 16, 41)
    for t, h in np.ndindex(2, 2):
        np.testing.assert_allclose(turned[0, t, h], reference.rotate(q[0, t, h], t, frequencies, "half"), atol=1e-5)


@pytest.mark.parametrize("kind", ["yarn", "llama3"])
def test_ramp_scaling_keeps_short_wavelengths_and_divides_long_ones(kind):
    fields = {"model.attention.head_dim": 64}
    factor, original = SCALINGS[kind]["factor"], SCALINGS[kind]["original_length"]
    ratio = np.asarray(scaled(kind, **fields).frequencies(jnp.array([[3]]))) / reference.frequencies(10000.0, 64)
    turns = original * np.array(reference.frequencies(10000.0, 64)) / (2 * math.pi)
    low, high = 1, {"yarn": 32, "llama3": 4}[kind]
    np.testing.assert_allclose(ratio[turns > high * 1.5], 1, rtol=1e-6)
    np.testing.assert_allclose(ratio[turns < low / 1.5], 1 / factor, rtol=1e-6)
    assert (np.diff(ratio) <= 1e-9).all()
    assert ((ratio > 1.01 / factor) & (ratio < 0.99)).any()


def test_rope_uses_all_its_config_fields():
    fields = {
        "model.position.theta": 77.0,
        "model.position.fraction": 0.5,
        "model.position.layout": "interleaved",
        "model.attention.head_dim": 8,
    }
    scheme, values = position("rope", fields)
    q, k, q_positions, k_positions = normal(1, 3, 4, 8), normal(1, 2, 2, 8), np.array([[3, 4, 5]]), np.array([[1, 9]])
    turned_q, turned_k = call(scheme.rotate, q, k, q_positions, k_positions)
    assert values == {}
    for x, turned, positions in ((q, turned_q, q_positions), (k, turned_k, k_positions)):
        for t, h in np.ndindex(x.shape[1:3]):
            expected = reference.rotate(x[0, t, h], positions[0, t], reference.frequencies(77, 4), "interleaved")
            np.testing.assert_allclose(turned[0, t, h], expected, atol=1e-5)
    np.testing.assert_array_equal(turned_q[..., 4:], q[..., 4:])


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rope_preserves_norms_and_is_the_identity_at_position_0(layout):
    x = normal(1, 6, 2, 8)
    turned = rotated(x, np.arange(6)[None] * 31, layout=layout)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-6)
    np.testing.assert_array_equal(turned[:, 0], x[:, 0])
    assert abs(turned[:, 1:] - x[:, 1:]).max() > 0.5


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rope_scores_depend_only_on_distance(layout):
    q, k = normal(1, 6, 2, 8, seed=1), normal(1, 6, 2, 8, seed=2)
    near, far = np.arange(6)[None], np.arange(6)[None] + 50

    def scores(q_positions, k_positions):
        return np.einsum(
            "bthk,bshk->bhts", rotated(q, q_positions, layout=layout), rotated(k, k_positions, layout=layout)
        )

    close(scores(far, far), scores(near, near))
    assert abs(scores(far, near) - scores(near, near)).max() > 0.1


def test_rope_layouts_differ_only_in_dimension_order():
    x, positions = normal(1, 5, 2, 8), np.arange(5)[None]
    half_from_interleaved = np.array([0, 2, 4, 6, 1, 3, 5, 7])
    interleaved = rotated(x, positions, 100.0, layout="interleaved")[..., half_from_interleaved]
    np.testing.assert_allclose(rotated(x[..., half_from_interleaved], positions, 100.0), interleaved, atol=1e-6)
    assert abs(rotated(x, positions, 100.0)[..., half_from_interleaved] - interleaved).max() > 0.1


def test_rope_rotates_bfloat16_in_float32():
    # In bfloat16 the angle itself would be off by up to 2 at position 1001.
    x = normal(1, 1, 1, 8).astype(jnp.bfloat16)
    turned = rotated(x, np.array([[1001]]))
    assert turned.dtype == jnp.bfloat16
    close(turned, reference.rotate(x[0, 0, 0], 1001, reference.frequencies(10000.0, 8), "half")[None, None, None], 1e-2)


def test_rope_does_not_change_values():
    # With equal scores, attention is the mean of the visible values, which must not depend on
    # positions.
    outputs = []
    for kind in ("rope", "none"):
        module = make_attention(tiny({"model.position.kind": kind}).model)
        values = random_values(module, 3)
        values["query"] = {name: np.zeros(leaf.shape, np.float32) for name, leaf in values["query"].items()}
        attention = with_values(module, values)
        outputs.append(call(lambda x, attention=attention: attention(x, counting(6)), normal(1, 6, 16)))
    close(*outputs)


@pytest.mark.parametrize("num_heads", sorted(reference.ALIBI_SLOPES))
def test_alibi_slopes_are_as_published(num_heads):
    np.testing.assert_allclose(alibi_slopes(num_heads), reference.ALIBI_SLOPES[num_heads], rtol=1e-6)


@pytest.mark.parametrize("num_heads", [4, 6])
def test_alibi_lowers_the_score_with_distance_on_both_sides(num_heads):
    scheme, values = position("alibi", {"model.attention.num_heads": num_heads, "model.dim": 12})
    queries, keys = np.array([[0, 1, 2, 3], [9, 0, 1, 2]]), np.array([[0, 1, 2, 3, 4], [9, 0, 1, 2, 3]])
    score = call(lambda q, k: scheme.score_bias(None, q, k), queries, keys)
    assert values == {}
    assert score.shape == (2, num_heads, 4, 5)
    for b, h, t, s in np.ndindex(score.shape):
        assert score[b, h, t, s] == pytest.approx(reference.alibi(h, num_heads, queries[b, t], keys[b, s]))
        assert score[b, h, t, s] <= 0


def test_alibi_depends_only_on_distance():
    scheme, _ = position("alibi")
    near, far = np.arange(5)[None], np.arange(5)[None] + 1000
    scores = call(lambda *positions: [scheme.score_bias(None, p, p) for p in positions], near, far)
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("buckets", "max_distance"), [(32, 128), (32, 512), (8, 16), (8, 20), (4, 8), (12, 100), (64, 256)]
)
def test_buckets_match_the_paper_s_description(buckets, max_distance, bidirectional):
    distances = np.arange(-2 * max_distance, 2 * max_distance + 1)
    actual = call(lambda d: bucket(d, buckets, max_distance, bidirectional), distances)
    expected = [reference.bucket(0, int(d), buckets, max_distance, bidirectional) for d in distances]
    np.testing.assert_array_equal(actual, expected)
    assert set(actual) == set(range(buckets)) - ({buckets // 2} if bidirectional else set())


def test_t5_buckets_are_as_published():
    # Raffel et al. 2020, section 2.1: 32 buckets per head, and offsets of 128 and more share one.
    for bidirectional, last in ((True, 15), (False, 31)):
        back = call(lambda d, both=bidirectional: bucket(d, 32, 128, both), -np.arange(300))
        np.testing.assert_array_equal(back[: (last + 1) // 2], np.arange((last + 1) // 2))
        assert (back[128:] == last).all()
        assert (np.diff(back) >= 0).all()
    assert (call(lambda d: bucket(d, 32, 128, False), np.arange(300)) == 0).all()


@pytest.mark.parametrize(
    "overrides", [{}, ENCODER, {"model.position.shared": False}], ids=["decoder", "encoder", "one per layer"]
)
def test_relative_bias_is_the_table_entry_of_the_bucket(overrides):
    scheme, values = position(
        "relative_bias", {"model.position.buckets": 8, "model.position.max_distance": 10, **overrides}
    )
    queries, keys = np.array([[0, 1, 2, 30], [9, 0, 1, 2]]), np.array([[0, 1, 2, 3, 40], [9, 0, 1, 2, 3]])
    score = call(lambda q, k: scheme.score_bias(None, q, k), queries, keys)
    assert values["table"].shape == (8, 4)
    for b, t, s in np.ndindex(2, 4, 5):
        number = reference.bucket(int(queries[b, t]), int(keys[b, s]), 8, 10, overrides == ENCODER)
        np.testing.assert_array_equal(score[b, :, t, s], values["table"][number])


@pytest.mark.parametrize("clip", [0, 1, 3])
def test_shaw_vectors_are_added_to_keys_and_values(clip):
    scheme, values = position("shaw", {"model.position.clip": clip})
    wide, q, probabilities = as_float64(values), normal(2, 3, 4, 4), abs(normal(2, 4, 3, 5, seed=1))
    queries, keys = np.array([[0, 1, 7], [2, 0, 1]]), np.array([[0, 1, 2, 3, 9], [5, 0, 1, 2, 3]])
    score, added = call(
        lambda q, p: (scheme.score_bias(q, queries, keys), scheme.value_bias(p, queries, keys)), q, probabilities
    )
    assert {name: value.shape for name, value in values.items()} == {
        "keys": (2 * clip + 1, 4),
        "values": (2 * clip + 1, 4),
    }
    expected = np.zeros((2, 3, 4, 4))
    for b, h, t, s in np.ndindex(2, 4, 3, 5):
        row = reference.clipped(queries[b, t], keys[b, s], clip)
        np.testing.assert_allclose(score[b, h, t, s], q[b, t, h] @ wide["keys"][row], rtol=1e-4, atol=1e-5)
        expected[b, t, h] += probabilities[b, h, t, s] * wide["values"][row]
    close(added, expected)


def test_shaw_value_vectors_can_be_left_out():
    scheme, values = position("shaw", {"model.position.relative_values": False})
    assert set(values) == {"keys"}
    assert not scheme.has_value_bias


@pytest.mark.parametrize("offset", [0, 2])
def test_learned_positions_add_rows_of_a_table(offset):
    scheme, values = position("learned", {"model.position.max_length": 9, "model.position.offset": offset})
    x, positions = normal(2, 4, 16), np.array([[0, 1, 2, 3], [8, 0, 1, 2]])
    assert values["table"].shape == (9 + offset, 16)
    expected = x + as_float64(values)["table"][positions + offset]
    config = tiny({"model.position.max_length": 9, "model.position.offset": offset})
    compared(call(scheme.embed, x, positions), expected, config=config, parts="model.position")


@pytest.mark.parametrize("offset", [0, 2])
def test_learned_positions_beyond_their_table_are_refused(offset):
    scheme, _ = position("learned", {"model.position.max_length": 9, "model.position.offset": offset})
    assert np.isfinite(call(scheme.embed, normal(1, 9, 16), np.arange(9)[None])).all()
    with pytest.raises(ValueError, match=r"9 rows.*10 tokens"):
        call(scheme.embed, normal(1, 10, 16), np.arange(10)[None])
    # A traced position cannot be refused when the program is built; it must not read another row.
    past = call(scheme.embed, normal(1, 2, 16), np.array([[0, 9]]))
    assert np.isfinite(past[0, 0]).all()
    assert np.isnan(past[0, 1]).all()


@pytest.mark.parametrize("kind", list(POSITION_KINDS.by_name))
def test_scheme_implements_only_its_own_hooks(kind):
    scheme, values = position(kind)
    x, q, k, positions = normal(1, 5, 16), normal(1, 5, 4, 4, seed=1), normal(1, 5, 4, 4, seed=2), np.arange(5)[None]
    turned_q, turned_k = call(scheme.rotate, q, k, positions, positions)
    assert (call(scheme.embed, x, positions) != x).any() == (kind in ("learned", "sinusoidal"))
    assert (turned_q != q).any() == (turned_k != k).any() == (kind == "rope")
    assert scheme.has_score_bias == (kind in ("alibi", "relative_bias", "shaw"))
    assert scheme.reads_query == scheme.has_value_bias == (kind == "shaw")
    assert scheme.max_length == (8 if kind == "learned" else None)
    assert set(values) == {"learned": {"table"}, "relative_bias": {"table"}, "shaw": {"keys", "values"}}.get(
        kind, set()
    )
    if scheme.has_score_bias:
        other, score = call(
            lambda q, k: (scheme.score_bias(k, positions, positions), scheme.score_bias(q, positions, positions)), q, k
        )
        assert (score != other).any() == scheme.reads_query


@pytest.mark.parametrize(
    ("kind", "fields", "embedded"),
    [
        ("none", {}, False),
        ("learned", {}, True),
        ("sinusoidal", {}, True),
        ("rope", {}, False),
        ("alibi", {}, False),
        ("shaw", {}, False),
        ("relative_bias", {}, True),
        ("relative_bias", {"model.position.shared": False}, False),
    ],
)
def test_scheme_belongs_to_either_embedding_or_attention(kind, fields, embedded):
    config = tiny({"model.position.kind": kind, **fields}).model
    places = [make_embedded_position(config), make_attention_position(config)]
    own = POSITION_KINDS.code_of(kind)
    assert [type(place) for place in places] == ([own, Position] if embedded else [Position, own])


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"model.position.kind": "rope", "model.attention.head_dim": 5}, "rotates pairs"),
        ({"model.position.kind": "rope", "model.position.fraction": 0.25}, "rotates pairs"),
        ({"model.position.kind": "sinusoidal", "model.dim": 15, "model.attention.num_heads": 3}, "must be even"),
        ({"model.position.kind": "learned", "model.position.max_length": 7}, "cannot go past"),
        ({"model.position.kind": "alibi", "model.position.theta": 1.0}, "no effect"),
    ],
)
def test_invalid_position_settings_are_refused(overrides, problem):
    with pytest.raises(ConfigError, match=problem):
        tiny(overrides)
