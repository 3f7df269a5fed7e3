"""The sampled softmax against the full softmax, a loop over tokens, and the mean over many draws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.objectives.making import Made
from tests.support.building import TINY_ELMO, call, close
from tests.support.small_runs import OBJECTIVES, small
from zoo import config as configs
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.head import LogitFactors
from zoo.objectives import make_objective
from zoo.objectives.cross_entropy import cross_entropy
from zoo.objectives.sampled_softmax import (
    Candidates,
    draw_candidates,
    log_expected_count,
    log_uniform,
    sampled_cross_entropy,
)
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program

B, T, D, V, S = 3, 7, 8, 23, 6


@pytest.fixture(scope="module")
def inputs():
    generator = np.random.default_rng(0)
    hidden, head, bias = (generator.standard_normal(shape).astype(np.float32) for shape in ((B, T, D), (V, D), (V,)))
    weights = np.where(generator.random((B, T)) < 0.3, 0.0, 0.5).astype(np.float32)
    return hidden, head, bias, generator.integers(0, V, (B, T)), weights


def ours(hidden, head, bias, targets, weights, candidates, chunk=0):
    """(value, gradients of hidden states, matrix and bias)."""

    def loss(hidden, head, bias):
        return sampled_cross_entropy(LogitFactors(hidden, head, bias, 0.0), targets, weights, candidates, chunk)

    return call(jax.value_and_grad(loss, (0, 1, 2)), hidden, head, bias)


@pytest.mark.parametrize("chunk", [0, 6])
def test_sampling_all_ids_equals_the_full_softmax(inputs, chunk):
    hidden, head, bias, targets, weights = inputs
    value, gradients = ours(*inputs, draw_candidates(jax.random.key(0), V, V), chunk)
    full = call(
        jax.value_and_grad(
            lambda h, w, b: cross_entropy(LogitFactors(h, w, b, 0.0), targets, weights, 0)[0], (0, 1, 2)
        ),
        hidden,
        head,
        bias,
    )
    close(value, full[0])
    for one, other in zip(gradients, full[1], strict=True):
        close(one, other)


def by_hand(hidden, head, bias, targets, weights, ids, threshold):
    """Token by token, in float64."""
    p = np.log((np.arange(V) + 2) / (np.arange(V) + 1)) / np.log(V + 1)
    count = 1 - np.exp(-p * np.exp(-threshold))
    total = 0.0
    for h, t, w in zip(hidden.reshape(-1, D).astype(np.float64), targets.ravel(), weights.ravel(), strict=True):
        against = [t] + [k for k in ids if k != t]
        scores = np.array([head[k] @ h + bias[k] - np.log(count[k]) for k in against])
        total += w * (np.log(np.exp(scores).sum()) - scores[0])
    return total


@pytest.mark.parametrize("chunk", [0, 6])
def test_loss_matches_its_equation_with_all_corrections(inputs, chunk):
    candidates = draw_candidates(jax.random.key(3), S, V)
    ids, threshold = np.asarray(candidates.ids), float(candidates.threshold)
    hidden, head, bias, targets, weights = inputs
    assert np.isin(targets[weights > 0], ids).any()
    assert not np.isin(targets[weights > 0], ids).all()
    value, gradients = ours(*inputs, candidates, chunk)
    np.testing.assert_allclose(value, by_hand(*inputs, ids, threshold), rtol=1e-5)
    # The directional derivative in all arguments at once.
    generator = np.random.default_rng(1)
    moves = [generator.standard_normal(array.shape) for array in (hidden, head, bias)]

    def moved(by):
        return by_hand(
            *(array.astype(np.float64) + by * move for array, move in zip((hidden, head, bias), moves, strict=True)),
            targets,
            weights,
            ids,
            threshold,
        )

    slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
    np.testing.assert_allclose(
        sum((gradient * move).sum() for gradient, move in zip(gradients, moves, strict=True)), slope, rtol=1e-4
    )
    # Ids that are neither sampled nor targets get no gradient.
    others = np.setdiff1d(np.arange(V), [*ids, *targets.ravel()])
    assert len(others) > 0
    assert (gradients[1][others] == 0).all()


def test_loss_is_0_if_the_target_is_the_only_candidate(inputs):
    hidden, head, bias, targets, _ = inputs
    alone = Candidates(jnp.array([4]), jnp.float32(-1.0))
    value, gradients = ours(hidden, head, bias, np.full_like(targets, 4), np.ones((B, T), np.float32), alone)
    assert value == 0
    assert all((gradient == 0).all() for gradient in gradients)


def test_sampling_distribution_is_log_uniform():
    p = np.exp(call(lambda: log_uniform(jnp.arange(1000), 1000)))
    assert p.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(p[0] / p[9], np.log(2) / np.log(11 / 10), rtol=1e-4)


DRAWS = 20_000


@functools.cache
def draws():
    """Returns the ids [N, S] of many draws, and the expected counts of all ids [N, V] in each."""

    def draw(key):
        candidates = draw_candidates(key, S, V)
        return candidates.ids, jnp.exp(log_expected_count(jnp.arange(V), candidates, V))

    return call(lambda keys: jax.lax.map(draw, keys, batch_size=1000), jax.random.split(jax.random.key(0), DRAWS))


def test_draws_have_distinct_ids_and_prefer_likely_ones():
    ids, counts = draws()
    assert (np.diff(np.sort(ids, axis=1), axis=1) > 0).all()
    frequency = np.bincount(ids.ravel(), minlength=V) / DRAWS
    # If every draw of an id counts 1 / q, each id counts 1 on average.
    drawn = np.zeros((DRAWS, V), bool)
    np.put_along_axis(drawn, ids, True, axis=1)
    inverse = np.where(drawn, 1 / counts, 0)
    assert (abs(inverse.mean(axis=0) - 1) < 4.5 * inverse.std(axis=0) / DRAWS**0.5).all()
    assert frequency[0] > 2 * frequency[-1]
    assert frequency.sum() == pytest.approx(S)
    # Only the first drawn id follows the distribution itself.
    np.testing.assert_allclose(
        np.bincount(ids[:, 0], minlength=V) / DRAWS, np.exp(call(lambda: log_uniform(jnp.arange(V), V))), atol=0.012
    )


def test_corrected_sum_is_unbiased():
    ids, counts = draws()
    scores = np.exp(np.random.default_rng(2).standard_normal(V))
    estimates = (scores[ids] / np.take_along_axis(counts, ids, axis=1)).sum(axis=1)
    error = estimates.std() / DRAWS**0.5
    assert abs(estimates.mean() - scores.sum()) < 4 * error
    assert error < 0.01 * scores.sum()


# In the objective and the step

SAMPLED = TINY_ELMO | {"objective.sampled_softmax": 5}
ROWS = np.array([[9, 1, 2, 3, 9, 5, 6, 0, 4], [4, 5, 8, 1, 2, 3, -1, -1, -1]])


def test_evaluation_uses_all_ids():
    sampled, full = Made(SAMPLED), Made(TINY_ELMO)
    assert sampled.sums(ROWS)[0] == full.sums(ROWS)[0]


def small_elmo(**changes):
    config = configs.resolve(small(**OBJECTIVES["bidirectional"], objective__sampled_softmax=32, **changes))
    return make_program(
        config, make_model(config), make_objective(config, ByteTokenizer()), make_mesh(config, jax.devices()[:1])
    )


@pytest.mark.slow(reason="a mean over many draws")
def test_candidates_depend_only_on_seed_and_step():
    tokens = np.random.default_rng(0).integers(0, 256, (8, 17), np.int32)
    for row in range(8):
        tokens[row, 17 - 2 * row :] = -1

    def step(program, seed=0, number=0):
        state = program.initial_state(7) | {"step": jnp.asarray(number, jnp.int32)}
        state, metrics = program.train_step(state, program.put_batch({"tokens": tokens}), program.constants(seed))
        return jax.device_get((state["params"], metrics))

    whole, parted = (
        small_elmo(optimizer__epsilon=1.0),
        small_elmo(optimizer__epsilon=1.0, training__accumulation_steps=4),
    )
    (params, metrics), (other, in_parts) = step(whole), step(parted)
    np.testing.assert_allclose(in_parts["loss"], metrics["loss"], rtol=1e-6)
    for one, two in zip(jax.tree.leaves(params), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-7)
    losses = {(seed, number): float(step(whole, seed, number)[1]["loss"]) for seed in (0, 1) for number in (0, 1)}
    assert losses[0, 0] == float(metrics["loss"])
    assert len(set(losses.values())) == 4
    # Among 32 sampled ids a target is easier to find than among all: an uninformed model has at
    # most log 33.
    assert all(loss < np.log(257) for loss in losses.values())


@pytest.mark.parametrize(("changes", "line"), [
    ({"objective.label_smoothing": 0.1}, r"objective\.label_smoothing spreads over all ids"),
    ({"objective.z_loss": 0.1}, r"objective\.z_loss weighs the normaliser of the full softmax"),
    ({"objective.sampled_softmax": 14}, r"objective\.sampled_softmax=14 is more than model\.vocab_size=13 ids"),
    ({"objective.kind": "causal", "model.architecture": "decoder"}, r"objective\.sampled_softmax=5 has no effect"),
])  # fmt: skip
def test_unsupported_settings_are_refused(changes, line):
    with pytest.raises(ConfigError, match=line):
        Made(SAMPLED | changes)
