"""Next-sentence prediction with masked language modelling: a loss of two means with different
counts, accumulated and evaluated.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.objectives.making import OPENS, FewTokens, Made, surprisal
from tests.support.building import close
from tests.support.small_runs import SMALL
from zoo import config as configs
from zoo.data.rows.corruption import make_corruption
from zoo.data.rows.masking import Masking
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.objectives import make_objective
from zoo.objectives.objective import ForwardMode, sum_of_means
from zoo.training.evaluation.held_out import evaluate
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program

BERT = {
    "model.architecture": "encoder",
    "objective.kind": "masked",
    "model.embedding.segments": 2,
    "model.head.pooler": True,
    "model.head.next_sentence": True,
    "objective.next_sentence": True,
    "data.row_format": "segment_pairs",
}
TINY = BERT | {"model.vocab_size": 15, "model.num_layers": 1}
SEPARATES = 14
MASKING = Masking(0.4, 0.6, 0.2, FewTokens.vocab_size, (OPENS, SEPARATES), FewTokens.vocab_size)
# Two pairs of different lengths, a pair without masked tokens, and a row that only pads the batch.
ROWS = {
    "tokens": np.array(
        [[9, 1, 2, 3, 14, 5, 6, 14], [9, 4, 14, 8, 1, 14, -1, -1], [9, 14, 14, -1, -1, -1, -1, -1], [-1] * 8], np.int32
    ),
    "segments": np.array(
        [[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 0, 0], [0, 0, 1, 0, 0, 0, 0, 0], [0] * 8], np.int32
    ),
    "next": np.array([1, 0, 0, -1], np.int32),
}


def corrupted():
    return MASKING.evaluation_batch(ROWS, np.arange(4))


def scores(made, tokens, segments):
    """The reference's scores of every token of one row, [T, V], and of its two segments, [2]."""
    first = made.hidden_alone(tokens, segments)[0]
    pooled = np.tanh(reference.linear(made.exact["pooler"], first))
    return made.logits_alone(tokens, segments), reference.linear(made.exact["next_sentence"], pooled)


def expected(made, batch):
    """Returns (surprisal of the masked tokens, surprisal of the pairs, number of correct pairs),
    from each row alone without padding.
    """
    tokens_loss, pairs_loss, right = 0.0, 0.0, 0
    for row in range(3):
        filled = batch["tokens"][row] >= 0
        logits, pair = scores(made, batch["tokens"][row][filled], batch["segments"][row][filled])
        tokens_loss += surprisal(logits[batch["masked_positions"][row]], batch["targets"][row]).sum()
        pairs_loss += surprisal(pair[None], batch["next"][row : row + 1])[0]
        right += pair.argmax() == batch["next"][row]
    return tokens_loss, pairs_loss, right


@pytest.mark.parametrize("training", [False, True])
def test_both_terms_equal_those_of_each_row_alone(training):
    made, batch = Made(TINY), corrupted()
    assert (batch["targets"] >= 0).sum(axis=1).tolist() == [2, 1, 0, 0]
    losses, sums = made.terms(batch, training=training)
    tokens_loss, pairs_loss, right = expected(made, batch)
    np.testing.assert_allclose([losses["loss"], losses["next"]], [tokens_loss, pairs_loss], rtol=1e-5)
    np.testing.assert_allclose([sums["loss"], sums["next_loss"]], [tokens_loss, pairs_loss], rtol=1e-5)
    assert (sums["weight"], sums["pairs"], sums["next_right"]) == (3, 3, right)
    weights = {name: float(weight) for name, weight in made.objective.normalizers(batch).items()}
    assert weights == {"loss": 3, "next": 3}
    np.testing.assert_allclose(sum_of_means(losses, weights), tokens_loss / 3 + pairs_loss / 3, rtol=1e-5)


def test_each_mean_is_over_its_own_count():
    losses, weights = {"loss": jnp.float32(6), "next": jnp.float32(5)}, {"loss": jnp.float32(3), "next": jnp.float32(2)}
    assert sum_of_means(losses, weights) == 2 + 2.5
    assert sum_of_means({"loss": jnp.float32(0)}, {"loss": jnp.float32(0)}) == 0


def test_accuracy_counts_correct_pairs():
    made, batch = Made(TINY), corrupted()
    right = made.terms(batch)[1]["next_right"]
    turned = batch | {"next": np.where(batch["next"] < 0, -1, 1 - batch["next"])}
    assert made.terms(turned)[1]["next_right"] == 3 - right


def test_scores_depend_on_the_segments():
    made, batch = Made(TINY), corrupted()
    one = made.terms(batch)[0]
    other = made.terms(batch | {"segments": 0 * batch["segments"]})[0]
    assert all(abs(one[name] - other[name]) > 1e-3 for name in ("loss", "next"))


@pytest.mark.parametrize("training", [False, True])
def test_padding_has_no_influence_in_training_or_evaluation(training):
    made, batch = Made(TINY), corrupted()
    longer = {name: np.pad(array, [(0, 0), (0, 3)], constant_values=-1 if name == "tokens" else 0) if name in ("tokens", "segments")
              else array for name, array in batch.items()}  # fmt: skip
    wide = Made(TINY | {"model.position.max_length": 11})
    wide.values = made.values | {
        "position": {"table": np.pad(made.values["position"]["table"], [(0, 3), (0, 0)], constant_values=9)}
    }
    for one, other in zip(
        wide.terms(longer, training=training)[0].values(), made.terms(batch, training=training)[0].values(), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_disabled_objective_does_not_score_the_head():
    made, batch = Made(TINY | {"objective.next_sentence": False}), corrupted()
    losses, _ = made.terms({name: array for name, array in batch.items() if name != "next"})
    assert losses.keys() == {"loss"}
    assert made.objective.means.keys() == {"loss"}
    np.testing.assert_allclose(losses["loss"], Made(TINY).terms(batch)[0]["loss"], rtol=1e-6)


def test_objective_without_its_head_is_refused():
    with pytest.raises(
        ConfigError, match=r"objective\.next_sentence=true is scored by model\.head\.next_sentence; set that"
    ):
        Made(TINY | {"model.head.next_sentence": False})
    with pytest.raises(
        ConfigError,
        match=r"objective\.next_sentence=True has no effect: it is read only when objective\.kind is masked",
    ):
        configs.resolve(configs.override(configs.default(), {"objective.next_sentence": True}))


# Through the real step

SEPARATOR = ByteTokenizer().separator_id
PAIRS = SMALL | BERT | {"model.num_layers": 1, "data.batch_size": 16, "model.init.std": 0.1}


@functools.cache
def run_of(*changes):
    """(config, objective, program) of a small run over pairs of bytes."""
    config = configs.resolve(configs.override(configs.default(), PAIRS | dict(changes)))
    objective = make_objective(config, ByteTokenizer())
    return config, objective, make_program(config, make_model(config), objective, make_mesh(config, jax.devices()[:1]))


def pairs(config, step, count=16):
    """Returns rows whose segments use the same half of the alphabet if the second follows the
    first, else different halves.
    """
    generator = np.random.default_rng(step)
    tokens, segments = np.full((count, 16), -1, np.int32), np.zeros((count, 16), np.int32)
    following = generator.integers(0, 2, count).astype(np.int32)
    for row, random in enumerate(following):
        first, second = generator.integers(2, 7, 2)
        letters = [
            generator.integers(100 + 20 * side, 120 + 20 * side, size) for side, size in ((0, first), (random, second))
        ]
        content = np.concatenate([[256], letters[0], [SEPARATOR], letters[1], [SEPARATOR]])
        tokens[row, : len(content)] = content
        segments[row, first + 2 : len(content)] = 1
    return make_corruption(config, ByteTokenizer()).training_batch(
        {"tokens": tokens, "segments": segments, "next": following}, np.arange(count), np.full(count, step), 0
    )


def ragged(config):
    """Returns pairs with decreasing numbers of scored tokens, and padding rows, so that parts of
    the batch have different weights.
    """
    batch = pairs(config, 0)
    batch["next"] = np.where(np.arange(16) % 5 == 1, -1, batch["next"])
    batch["targets"] = np.where(np.arange(16)[:, None] % 3 == 1, -1, batch["targets"])
    return batch


@pytest.mark.promise(reason="whole steps are compiled")
@pytest.mark.parametrize("parts", [2, pytest.param(8, marks=pytest.mark.slow(reason="more parts of the same size"))])
def test_accumulation_equals_the_full_batch_in_both_means(parts):
    def one_step(**changes):
        # With a large epsilon Adam's first update is proportional to the gradient.
        config, _, program = run_of(("optimizer.epsilon", 1.0), *changes.items())
        state, metrics = program.train_step(
            program.initial_state(0), program.put_batch(ragged(config)), program.constants(0)
        )
        return jax.device_get((state["params"], metrics))

    whole, metrics = one_step()
    params, in_parts = one_step(**{"training.accumulation_steps": parts})
    for name in ("loss", "next_loss", "next_accuracy", "gradient_norm", "tokens"):
        np.testing.assert_allclose(in_parts[name], metrics[name], rtol=1e-5)
    for one, other in zip(jax.tree.leaves(params), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-8)


def test_gradient_is_that_of_the_sum_of_two_means():
    config, objective, program = run_of(("optimizer.epsilon", 1.0))
    batch = ragged(config)
    state = program.initial_state(0)
    graph = split(make_model(config))[0]

    def both(params):
        losses, (sums, _) = objective.sums(graph, params, {}, batch, program.constants(0), ForwardMode(training=True))
        return losses["loss"] / sums["weight"] + losses["next"] / sums["pairs"]

    gradient = jax.jit(jax.grad(both))(state["params"])
    norm = np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(gradient)))
    _, metrics = program.train_step(state, program.put_batch(batch), program.constants(0))
    np.testing.assert_allclose(metrics["gradient_norm"], norm, rtol=1e-5)


def test_planted_signal_is_learned_and_each_real_pair_evaluated_once():
    config, _, program = run_of(("optimizer.epsilon", 1e-8))
    state, constants = program.initial_state(0), program.constants(0)
    for step in range(60):
        state, metrics = program.train_step(state, program.put_batch(pairs(config, step)), constants)
        if step == 0:
            assert 0.5 < float(metrics["next_loss"]) < 1
    held_out = [pairs(config, 1000), pairs(config, 1001)]
    # The last rows only pad the batch and must not count.
    held_out[1]["next"][10:] = -1
    scores = evaluate(program, state["params"], state["stats"], iter(held_out), constants)
    assert set(scores) == {"loss", "perplexity", "bits_per_byte", "next_loss", "next_accuracy"}
    assert scores["next_accuracy"] > 0.9
    assert scores["next_loss"] < 0.3
    right = scores["next_accuracy"] * 26
    assert abs(right - round(right)) < 1e-4
    close(scores["perplexity"], np.exp(scores["loss"]))
