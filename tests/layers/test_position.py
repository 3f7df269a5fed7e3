"""Position schemes against their papers' formulas, and what they leave alone."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.building import as_float64, call, close, counting, random_values, tiny, with_values
from zoo.errors import ConfigError
from zoo.layers.attention import Attention
from zoo.layers.position import POSITIONS, alibi_slopes, make_position, rotate_pairs, sinusoid


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def position(kind, overrides=None):
    module = make_position(tiny({"model.position.kind": kind} | (overrides or {})).model)
    values = random_values(module, 1)
    return with_values(module, values), values


def rotated(x, positions, theta=10000.0, rotated=8, layout="half"):
    return call(lambda x, positions: rotate_pairs(x, positions, theta, rotated, layout), x, positions)


@pytest.mark.parametrize("dim", [2, 34])
def test_sinusoids_are_the_formula(dim):
    # Angles are float32, so that their sine is exact to half a unit in the last place of the position.
    positions = np.array([[0, 1, 2, 7], [100, 511, 3, 0]])
    expected = np.array([[reference.sinusoid(p, dim) for p in row] for row in positions])
    actual = call(lambda p: sinusoid(p, dim), positions)
    np.testing.assert_allclose(actual[0], expected[0], atol=2e-6)
    np.testing.assert_allclose(actual[1], expected[1], atol=1e-4)


def test_sinusoids_are_added_to_the_embedding():
    scheme, values = position("sinusoidal")
    x = normal(2, 4, 16)
    assert values == {}
    close(call(scheme.embed, x, np.arange(4)[None]), x + np.stack([reference.sinusoid(p, 16) for p in range(4)]))
    assert call(scheme.embed, x.astype(jnp.bfloat16), np.arange(4)[None]).dtype == jnp.bfloat16


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(("width", "theta"), [(8, 10000.0), (8, 500.0), (4, 10000.0), (2, 10.0)])
def test_rope_multiplies_complex_numbers(layout, width, theta):
    x, positions = normal(2, 3, 2, 8), np.array([[0, 1, 5], [40, 2, 7]])
    expected = np.zeros(x.shape)
    for b, t, h in np.ndindex(2, 3, 2):
        expected[b, t, h] = reference.rotate(x[b, t, h], positions[b, t], theta, width, layout)
    close(rotated(x, positions, theta, width, layout), expected)


def test_rope_reads_its_fields():
    fields = {"model.position.theta": 77.0, "model.position.fraction": 0.5, "model.position.layout": "interleaved",
              "model.attention.head_dim": 8}
    scheme, values = position("rope", fields)
    q, k, q_positions, k_positions = normal(1, 3, 4, 8), normal(1, 2, 2, 8), np.array([[3, 4, 5]]), np.array([[1, 9]])
    turned_q, turned_k = call(scheme.rotate, q, k, q_positions, k_positions)
    assert values == {}
    for x, turned, positions in ((q, turned_q, q_positions), (k, turned_k, k_positions)):
        for t, h in np.ndindex(x.shape[1:3]):
            expected = reference.rotate(x[0, t, h], positions[0, t], 77, 4, "interleaved")
            np.testing.assert_allclose(turned[0, t, h], expected, atol=1e-5)
    np.testing.assert_array_equal(turned_q[..., 4:], q[..., 4:])


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rope_keeps_the_norm_and_turns_nothing_at_position_0(layout):
    x = normal(1, 6, 2, 8)
    turned = rotated(x, np.arange(6)[None] * 31, layout=layout)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-6)
    np.testing.assert_array_equal(turned[:, 0], x[:, 0])
    assert abs(turned[:, 1:] - x[:, 1:]).max() > 0.5


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rope_scores_depend_on_the_distance_only(layout):
    q, k = normal(1, 6, 2, 8, seed=1), normal(1, 6, 2, 8, seed=2)
    near, far = np.arange(6)[None], np.arange(6)[None] + 50

    def scores(q_positions, k_positions):
        return np.einsum("bthk,bshk->bhts", rotated(q, q_positions, layout=layout), rotated(k, k_positions, layout=layout))

    close(scores(far, far), scores(near, near))
    assert abs(scores(far, near) - scores(near, near)).max() > 0.1


def test_rope_layouts_differ_by_the_order_of_the_dimensions():
    x, positions = normal(1, 5, 2, 8), np.arange(5)[None]
    half_from_interleaved = np.array([0, 2, 4, 6, 1, 3, 5, 7])
    interleaved = rotated(x, positions, 100.0, layout="interleaved")[..., half_from_interleaved]
    np.testing.assert_allclose(rotated(x[..., half_from_interleaved], positions, 100.0), interleaved, atol=1e-6)
    assert abs(rotated(x, positions, 100.0)[..., half_from_interleaved] - interleaved).max() > 0.1


def test_rope_keeps_bfloat16_and_turns_in_float32():
    # In bfloat16 the angle itself would be off by up to 2 at position 1001.
    x = normal(1, 1, 1, 8).astype(jnp.bfloat16)
    turned = rotated(x, np.array([[1001]]))
    assert turned.dtype == jnp.bfloat16
    close(turned, reference.rotate(x[0, 0, 0], 1001, 10000.0, 8, "half")[None, None, None], 1e-2)


def test_rope_leaves_values_alone():
    # With the same score everywhere, attention is the mean of the visible values, and no position can show.
    config = tiny({"model.position.kind": "rope"}).model
    values = random_values(Attention(config), 3)
    values["query"] = {name: np.zeros(leaf.shape, np.float32) for name, leaf in values["query"].items()}
    attention = with_values(Attention(config), values)
    x, schemes = normal(1, 6, 16), [position(kind)[0] for kind in ("rope", "none")]
    rope, plain = call(lambda x: [attention(x, counting(6), scheme) for scheme in schemes], x)
    close(rope, plain)


@pytest.mark.parametrize("num_heads", sorted(reference.ALIBI_SLOPES))
def test_alibi_slopes_are_the_published_ones(num_heads):
    np.testing.assert_allclose(alibi_slopes(num_heads), reference.ALIBI_SLOPES[num_heads], rtol=1e-6)


@pytest.mark.parametrize("num_heads", [4, 6])
def test_alibi_lowers_the_score_with_distance(num_heads):
    scheme, values = position("alibi", {"model.attention.num_heads": num_heads, "model.dim": 12})
    positions = np.array([[0, 1, 2, 3], [9, 0, 1, 2]])
    score = call(scheme.score, positions, positions)
    assert values == {}
    assert score.shape == (2, num_heads, 4, 4)
    for b, h, t, s in np.ndindex(score.shape):
        assert score[b, h, t, s] == pytest.approx(-reference.ALIBI_SLOPES[num_heads][h] * (positions[b, t] - positions[b, s]))


def test_alibi_depends_on_the_distance_only():
    scheme, _ = position("alibi")
    near, far = np.arange(5)[None], np.arange(5)[None] + 1000
    np.testing.assert_array_equal(call(scheme.score, far, far), call(scheme.score, near, near))


def test_learned_positions_are_rows_of_a_table():
    scheme, values = position("learned", {"model.position.max_length": 9})
    x, positions = normal(2, 4, 16), np.array([[0, 1, 2, 3], [8, 0, 1, 2]])
    assert values["table"].shape == (9, 16)
    close(call(scheme.embed, x, positions), x + as_float64(values)["table"][positions])


def test_learned_positions_cannot_go_past_their_table():
    scheme, _ = position("learned", {"model.position.max_length": 9})
    call(scheme.embed, normal(1, 9, 16), np.arange(9)[None])
    with pytest.raises(ValueError, match=r"9 rows.*10 tokens"):
        call(scheme.embed, normal(1, 10, 16), np.arange(10)[None])


@pytest.mark.parametrize("kind", list(POSITIONS))
def test_a_scheme_does_what_it_is_for_and_nothing_else(kind):
    scheme, _ = position(kind)
    x, q, k, positions = normal(1, 5, 16), normal(1, 5, 4, 4, seed=1), normal(1, 5, 4, 4, seed=2), np.arange(5)[None]
    turned_q, turned_k = call(scheme.rotate, q, k, positions, positions)
    assert (call(scheme.embed, x, positions) != x).any() == (kind in ("learned", "sinusoidal"))
    assert (turned_q != q).any() == (turned_k != k).any() == (kind == "rope")
    assert (scheme.score(positions, positions) is not None) == (kind == "alibi")


@pytest.mark.parametrize(("overrides", "problem"), [
    ({"model.position.kind": "rope", "model.attention.head_dim": 5}, "rotates pairs"),
    ({"model.position.kind": "rope", "model.position.fraction": 0.25}, "rotates pairs"),
    ({"model.position.kind": "sinusoidal", "model.dim": 15, "model.attention.num_heads": 3}, "must be even"),
    ({"model.position.kind": "learned", "model.position.max_length": 7}, "cannot go past"),
    ({"model.position.kind": "alibi", "model.position.theta": 1.0}, "no effect"),
])
def test_what_cannot_be_built_is_refused(overrides, problem):
    with pytest.raises(ConfigError, match=problem):
        tiny(overrides)
