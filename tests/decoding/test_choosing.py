"""Top-k and top-p filtering, and the frequencies of sampled tokens."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies

from tests.support.building import call, compiled
from zoo.decoding.sampling import Sampling, argmax_token, sample_tokens, top_k_top_p_mask
from zoo.errors import ConfigError

V = 7
top_k_top_p = compiled(top_k_top_p_mask)
LOGITS = np.float32([[0.3, -2.0, 1.7, 0.9, -0.4, 1.1, -7.0]])


def reference_mask(scores, top_k, top_p):
    """Adds tokens from the likeliest on; tokens that tie with the last one are kept too."""
    kept = set(range(len(scores)))
    if top_k:
        kept = {v for v in kept if sum(scores > scores[v]) < top_k}
    if top_p < 1:
        total = sum(np.exp(scores[v]) for v in kept)
        kept = {v for v in kept if sum(np.exp(scores[w]) for w in kept if scores[w] > scores[v]) < top_p * total}
    return kept


eighths = strategies.integers(-12, 12).map(lambda n: n / 8)


@given(strategies.lists(eighths, min_size=V, max_size=V), strategies.integers(0, V + 2), strategies.integers(1, 100))
def test_top_k_and_top_p_match_a_reference(scores, top_k, percent):
    # The offset keeps top_p away from every sum of these probabilities, so rounding cannot matter.
    top_p = 1.0 if percent == 100 else percent / 100 + 0.00123
    scores = np.float32(scores)
    kept = top_k_top_p(scores[None], Sampling(1.0, np.int32(top_k), np.float32(top_p)))
    assert set(np.flatnonzero(kept[0])) == reference_mask(scores.astype(np.float64), top_k, top_p)


def test_top_p_applies_after_top_k():
    scores = np.float32([[3.0, 2.6, 1.9, 1.5, 1.4, 1.3, 1.2]])
    assert (reference_mask(scores[0], 2, 0.55), reference_mask(scores[0], 0, 0.55)) == ({0}, {0, 1})
    np.testing.assert_array_equal(
        top_k_top_p(scores, Sampling(1.0, np.int32(2), np.float32(0.55))), [[1, 0, 0, 0, 0, 0, 0]]
    )


@pytest.mark.parametrize("number", [1.0, -1.0, 1e-38, -3e20])
def test_adjacent_floats_are_distinguished(number):
    scores = np.full((1, V), number, np.float32)
    scores[0, 3] = np.nextafter(scores[0, 3], np.float32(np.inf))
    np.testing.assert_array_equal(
        top_k_top_p(scores, Sampling(1.0, np.int32(1), np.float32(1.0))), [[0, 0, 0, 1, 0, 0, 0]]
    )


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_top_k_thresholds_are_per_row_and_scale_invariant(scale):
    scores = scale * np.float32([[5, -3, 4, -1, -2, 0, 3], [-9, -8, -7, -6, -5, -4, -3]])
    kept = top_k_top_p(scores, Sampling(1.0, np.int32(3), np.float32(1.0)))
    np.testing.assert_array_equal(kept, [[1, 0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1, 1]])


def test_top_p_drops_scores_of_minus_infinity():
    scores = np.float32([[0, -np.inf, 0, -np.inf, 0, 0, -np.inf]])
    kept = top_k_top_p(scores, Sampling(1.0, np.int32(0), np.float32(0.999)))
    np.testing.assert_array_equal(kept, np.isfinite(scores))


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.5, 0, 1.0), (2.0, 3, 1.0), (1.0, 0, 0.7), (0.7, 5, 0.9)]
)
def test_sampling_frequencies(temperature, top_k, top_p):
    draws = 20_000

    def draw(scores, sampling):
        return sample_tokens(jnp.broadcast_to(scores, (draws, V)), jax.random.split(jax.random.key(3), draws), sampling)

    drawn = call(draw, jnp.asarray(LOGITS), Sampling(np.float32(temperature), np.int32(top_k), np.float32(top_p)))
    scores = LOGITS[0].astype(np.float64) / temperature
    kept = reference_mask(scores, top_k, top_p)
    assert set(drawn) <= kept
    expected = np.array([np.exp(scores[v]) if v in kept else 0 for v in range(V)])
    expected /= expected.sum()
    found = np.bincount(drawn, minlength=V) / draws
    # The tolerance is four standard deviations of a count.
    assert (abs(found - expected) <= 4 * np.sqrt(expected * (1 - expected) / draws)).all(), (found, expected)


def test_each_row_has_its_own_key():
    keys = jax.random.split(jax.random.key(0), 50)
    scores = jnp.zeros((50, V))
    both = call(lambda: (sample_tokens(scores, keys, Sampling()), sample_tokens(scores[:9], keys[:9], Sampling())))
    assert len(set(both[0])) > 3
    np.testing.assert_array_equal(both[0][:9], both[1])


def test_argmax_breaks_ties_by_the_lowest_id():
    np.testing.assert_array_equal(argmax_token(jnp.array([[1.0, 3.0, 3.0], [2.0, -1.0, 0.0]])), [1, 0])


@pytest.mark.parametrize(("wrong", "words"), [
    ({"temperature": -0.1}, "temperature=-0.1"), ({"temperature": float("nan")}, "temperature=nan"),
    ({"temperature": float("inf")}, "temperature=inf"), ({"top_k": -1}, "top_k=-1"), ({"top_p": 0.0}, "top_p=0.0"),
    ({"top_p": 1.5}, "top_p=1.5"),
])  # fmt: skip
def test_sampling_values_out_of_range(wrong, words):
    with pytest.raises(ConfigError, match=words):
        Sampling(**wrong).checked()
