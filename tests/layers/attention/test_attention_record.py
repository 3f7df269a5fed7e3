"""The entropy of attention weights that is recorded, against weights written out."""

import jax.numpy as jnp
import numpy as np
import pytest

from zoo.layers.attention.attention_record import attention_entropy
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context

B, T, H, K = 2, 6, 2, 4
NUMBERS = np.random.default_rng(0)
Q, KEYS = (NUMBERS.normal(size=(B, T, H, K)) for _ in range(2))
SCALE = 0.5
CONTEXT = Context(jnp.arange(T)[None])
SINKS = np.array([0.5, -1.0])


def weights_by_hand(sinks=None, window=T):
    """Weights of each query over the keys before it, and over a sink of each head."""
    scores = SCALE * np.einsum("bthk,bshk->bhts", Q, KEYS)
    apart = np.arange(T)[:, None] - np.arange(T)
    scores = np.where((apart >= 0) & (apart < window), scores, -np.inf)
    if sinks is not None:
        scores = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], (B, H, T, 1))], axis=-1)
    weights = np.exp(scores)
    return weights / weights.sum(axis=-1, keepdims=True)


def entropy_of(weights, queries=slice(None)):
    """Sum over rows and queries, by head."""
    return -(weights * np.log(np.where(weights > 0, weights, 1)))[:, :, queries].sum(axis=(0, 2, 3))


def recorded(**scoring):
    found = attention_entropy(jnp.asarray(Q), jnp.asarray(KEYS), CONTEXT, Scoring(SCALE, **scoring))
    return np.asarray(found["total"]), float(found["count"])


def test_a_sink_counts_as_one_more_key():
    total, count = recorded(sinks=jnp.asarray(SINKS))
    np.testing.assert_allclose(total, entropy_of(weights_by_hand(SINKS)), rtol=1e-5)
    assert count == B * T


def test_queries_of_global_tokens_are_left_out():
    total, count = recorded(window=2, global_tokens=1)
    # Key 0 is visible to all; the query there sees other keys.
    scores = np.exp(SCALE * np.einsum("bthk,bshk->bhts", Q, KEYS))
    apart = np.arange(T)[:, None] - np.arange(T)
    visible = (apart >= 0) & ((apart < 2) | (np.arange(T) == 0)[None])
    weights = np.where(visible, scores, 0)
    weights /= weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(total, entropy_of(weights, slice(1, None)), rtol=1e-5)
    assert count == B * (T - 1)


def test_weights_of_any_sign_are_divided_by_the_sum_of_their_sizes():
    def differences(scores, visible, softmax):
        weights = softmax(scores)
        return jnp.where(visible, weights - 0.4 * weights[..., ::1] ** 2 - 0.15, 0)

    total, count = recorded(weigh=differences)
    plain = weights_by_hand()
    visible = np.tri(T, dtype=bool)
    sizes = np.abs(np.where(visible, plain - 0.4 * plain**2 - 0.15, 0))
    assert (np.where(visible, plain - 0.4 * plain**2 - 0.15, 0) < -0.01).any()
    np.testing.assert_allclose(total, entropy_of(sizes / sizes.sum(axis=-1, keepdims=True)), rtol=1e-4)
    assert count == pytest.approx(B * T)
