"""Distillation losses against the reference's scores and hidden states of student and teacher for
each row alone.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.objectives.making import FewTokens, Made, surprisal
from tests.objectives.test_masked import corrupted
from tests.support.building import as_float64, compiled, programs_inside, random_values, tiny
from zoo import config as configs
from zoo.files import write_json
from zoo.models.architectures import make_model
from zoo.models.functional import initialise_statistics
from zoo.objectives.objective import ForwardMode

CAUSAL = {"model.num_layers": 1}
MASKED = CAUSAL | {
    "model.architecture": "encoder",
    "objective.kind": "masked",
    "model.vocab_size": 14,
    "objective.select_fraction": 0.4,
}
# A teacher that is deeper and has another position scheme, dropout and another head.
ITS = {
    "model.num_layers": 2,
    "model.position.kind": "rope",
    "model.head.transform": True,
    "model.head.bias": True,
    "model.dropout": 0.5,
}
WEIGHTS = {
    "objective.distillation.kl": 0.7,
    "objective.distillation.temperature": 3.0,
    "objective.distillation.cosine": 0.4,
    "objective.distillation.hard": 0.5,
}
ROWS = np.array(
    [[9, 1, 2, 3, 9, 5, 6, 0, 4], [4, 5, 8, 1, 2, 3, 4, 5, 1], [2, 9, 9, 3, 7, -1, -1, -1, -1], [-1] * 9], np.int32
)


class Pair(Made):
    """A student and its teacher with random values."""

    def __init__(self, folder, own, its=None, **weights):
        fields = {**own, "objective.distillation.teacher": str(folder), **(weights or WEIGHTS)}
        write_json(folder / "config.json", configs.to_plain(tiny(own | ITS | (its or {}))))
        super().__init__(fields)
        teacher = self.objective.teacher
        self.its_values = random_values(teacher, 5)
        self.constants["teacher"] = {"params": self.its_values, "stats": initialise_statistics(teacher, 5)}

    def both(self, tokens):
        """Returns the reference's (hidden states, scores) of student and teacher for one row
        without padding.
        """
        found, rows = [], reference.counting(1, len(tokens))
        for config, values in (
            (self.config.model, self.exact),
            (self.objective.teacher_config.model, as_float64(self.its_values)),
        ):
            hidden = reference.hidden_states(config, values, tokens[None], rows)
            found.append((hidden[0], reference.head(config, values, hidden, rows)[0]))
        return found


def softmax(scores):
    exponents = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponents / exponents.sum(axis=-1, keepdims=True)


def expected(pair, rows):
    """(cross-entropy, KL at the temperature 3, cosine distance, predicted tokens, read tokens),
    summed over the rows.

    Args:
        rows: (tokens that are read, where a token is predicted, which) of each row, without
            padding.
    """
    sums = np.zeros(5)
    for tokens, places, targets in rows:
        (h, scores), (its_h, its_scores) = pair.both(tokens)
        p, q = softmax(its_scores[places] / 3), softmax(scores[places] / 3)
        cosines = (h * its_h).sum(axis=-1) / np.linalg.norm(h, axis=-1) / np.linalg.norm(its_h, axis=-1)
        sums += (
            surprisal(scores[places], targets).sum(),
            (p * np.log(p / q)).sum(),
            (1 - cosines).sum(),
            len(targets),
            len(tokens),
        )
    return sums


def check(pair, batch, sums):
    entropy, divergence, distance, predicted, seen = sums
    losses, reported = pair.terms(batch, training=False)
    np.testing.assert_allclose(losses["loss"], 0.5 * entropy + 0.7 * 9 * divergence, rtol=1e-5)
    np.testing.assert_allclose(losses["cosine"], 0.4 * distance, rtol=1e-5)
    for name, value in (
        ("loss", entropy),
        ("kl", 9 * divergence),
        ("cosine", distance),
        ("weight", predicted),
        ("seen", seen),
    ):
        np.testing.assert_allclose(reported[name], value, rtol=1e-5)
    weights = pair.objective.normalizers({name: jnp.asarray(value) for name, value in batch.items()})
    assert {name: int(value) for name, value in weights.items()} == {"loss": predicted, "cosine": seen}


def test_masked_student_loss_equals_that_of_each_row_alone(tmp_path):
    pair, batch = Pair(tmp_path, MASKED), corrupted()
    rows = []
    for tokens, places, targets in zip(
        *(batch[name] for name in ("tokens", "masked_positions", "targets")), strict=True
    ):
        if (tokens >= 0).any():
            rows.append((tokens[tokens >= 0], places[targets >= 0], targets[targets >= 0]))
    check(pair, batch, expected(pair, rows))
    # The teacher is configured with dropout, but it must not use it while the student trains.
    full = corrupted(ROWS[:2, :8])
    np.testing.assert_allclose(
        pair.terms(full, jax.random.key(0), training=True)[1]["kl"], pair.terms(full)[1]["kl"], rtol=1e-5
    )


def test_divergence_over_all_tokens_that_are_read(tmp_path):
    weights = WEIGHTS | {"objective.distillation.kl_tokens": "all"}
    pair, batch = Pair(tmp_path, MASKED | {"objective.chunk_tokens": 5}, **weights), corrupted()
    divergence = distance = entropy = predicted = seen = 0
    for tokens, places, targets in zip(
        *(batch[name] for name in ("tokens", "masked_positions", "targets")), strict=True
    ):
        if (read := tokens[tokens >= 0]).size:
            chosen, wanted = places[targets >= 0], targets[targets >= 0]
            of_all = expected(pair, [(read, np.arange(len(read)), read)])
            entropy += expected(pair, [(read, chosen, wanted)])[0]
            predicted, seen = predicted + len(wanted), seen + len(read)
            divergence, distance = divergence + of_all[1], distance + of_all[2]
    assert predicted < seen
    losses, reported = pair.terms(batch, training=False)
    for name, value in (("loss", 0.5 * entropy), ("kl", 0.7 * 9 * divergence), ("cosine", 0.4 * distance)):
        np.testing.assert_allclose(losses[name], value, rtol=1e-5)
    for name, value in (("loss", entropy), ("kl", 9 * divergence), ("weight", predicted), ("seen", seen)):
        np.testing.assert_allclose(reported[name], value, rtol=1e-5)
    counts = pair.objective.normalizers({name: jnp.asarray(value) for name, value in batch.items()})
    assert {name: int(value) for name, value in counts.items()} == {"loss": predicted, "kl": seen, "cosine": seen}
    assert pair.objective.means["kl"] == ("kl", "seen")
    alone = Pair(tmp_path, MASKED, **{"objective.distillation.kl_tokens": "all"})
    losses, reported = alone.terms(batch)
    assert set(losses) == {"loss", "kl"}
    assert int(reported["seen"]) == seen


def test_causal_student_loss_equals_that_of_each_row_alone(tmp_path):
    pair = Pair(tmp_path, CAUSAL | {"objective.chunk_tokens": 5})
    rows = [(row[:8], np.arange(8), row[1:]) for row in ROWS[:2]] + [(ROWS[2][:5], np.arange(4), ROWS[2][1:5])]
    check(pair, {"tokens": ROWS}, expected(pair, rows))


EXPERTS = {
    "model.ffn.kind": "moe",
    "model.ffn.hidden_dim": 8,
    "model.ffn.experts.kind": "swiglu",
    "model.ffn.experts.number": 4,
    "model.ffn.experts.balance_weight": 0.1,
    "model.ffn.experts.bias_rate": 0.2,
}


def test_a_student_with_experts_learns_from_a_teacher_with_experts(tmp_path):
    pair, batch = Pair(tmp_path, CAUSAL | EXPERTS, {"model.head.transform": False}), {"tokens": ROWS[:2]}
    check(pair, batch, expected(pair, [(row[:8], np.arange(8), row[1:]) for row in ROWS[:2]]))
    # In training the student's own experts are balanced and counted, and those of its teacher are not.
    objective, graph = pair.objective, pair.graph
    mode = ForwardMode(training=True)
    losses, (sums, stats) = compiled(
        lambda values, constants: objective.sums(graph, values, pair.stats, batch, constants, mode)
    )(pair.values, pair.constants)
    assert set(losses) == {"loss", "cosine", "expert_balance"}
    np.testing.assert_allclose(sums["kl"], pair.terms(batch)[1]["kl"], rtol=1e-5)
    (sent,) = (leaf for path, leaf in jax.tree_util.tree_leaves_with_path(stats) if "sent" in str(path))
    assert sent.sum() == 2 * 2 * 8


@pytest.mark.parametrize(
    "own",
    [CAUSAL, pytest.param(MASKED, marks=pytest.mark.promise(reason="another objective"))],
    ids=["causal", "masked"],
)
def test_zero_kl_weight_gives_the_plain_loss_bit_for_bit(tmp_path, own):
    batch = corrupted(ROWS[:2, :8]) if own is MASKED else {"tokens": ROWS}
    weights = {"objective.distillation.kl": 0.0, "objective.distillation.cosine": 1.0}
    pair, alone = Pair(tmp_path, own, **weights), Made(own)
    for training in (False, True):
        losses, sums = pair.terms(batch, training=training)
        plain, plain_sums = alone.terms(batch, training=training)
        assert losses["loss"] == plain["loss"]
        assert set(losses) == {"loss", "cosine"}
        assert {name: float(sums[name]) for name in plain_sums} == {
            name: float(value) for name, value in plain_sums.items()
        }
        assert "kl" not in sums
    half = Pair(tmp_path, own, **weights | {"objective.distillation.hard": 0.5})
    assert half.terms(batch)[0]["loss"] == 0.5 * alone.terms(batch)[0]["loss"]


def products(pair, batch):
    """Returns the shapes of all matrix products of the program."""

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == "dot_general":
                yield equation.outvars[0].aval.shape
            for sub in programs_inside(equation):
                yield from walk(sub)

    program = jax.make_jaxpr(
        lambda values: pair.objective.sums(pair.graph, values, pair.stats, batch, pair.constants)[0]
    )(pair.values)
    return list(walk(program.jaxpr))


def test_term_of_weight_0_is_not_computed(tmp_path):
    batch = {"tokens": jnp.asarray(ROWS)}
    both = Pair(tmp_path, CAUSAL)
    no_cosine = Pair(tmp_path, CAUSAL, **{"objective.distillation.kl": 1.0})
    no_kl = Pair(tmp_path, CAUSAL, **{"objective.distillation.kl": 0.0, "objective.distillation.cosine": 1.0})
    scored = [
        sum(FewTokens.vocab_size in shape for shape in products(pair, batch)) for pair in (both, no_cosine, no_kl)
    ]
    assert scored == [2, 2, 1]
    assert set(no_cosine.terms(batch)[0]) == {"loss"}
    assert set(no_cosine.objective.means) == {"loss", "kl"}
    assert set(no_kl.objective.means) == {"loss", "cosine_distance"}


def test_only_the_student_gets_gradients(tmp_path):
    pair, batch = Pair(tmp_path, CAUSAL | {"model.num_layers": 1}), {"tokens": jnp.asarray(ROWS)}

    def loss(values, its):
        constants = pair.constants | {"teacher": {"params": its, "stats": {}}}
        return sum(pair.objective.sums(pair.graph, values, pair.stats, batch, constants)[0].values())

    own, its = compiled(jax.grad(loss, (0, 1)))(pair.values, pair.its_values)
    assert all(np.any(leaf) for leaf in jax.tree.leaves(own))
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(its))


def test_the_teacher_uses_its_running_statistics_and_drops_nothing_while_the_student_trains(tmp_path):
    pair = Pair(tmp_path, CAUSAL | {"model.dropout": 0.0}, {"model.norm.kind": "batchnorm"})
    in_training = pair.terms(ROWS, jax.random.key(0), training=True)[1]
    evaluated = pair.terms(ROWS, training=False)[1]
    for name in ("kl", "cosine"):
        np.testing.assert_allclose(in_training[name], evaluated[name], rtol=1e-5)


def test_hidden_state_of_zeros_has_a_finite_gradient():
    from zoo.objectives.distillation import cosine_distance

    zero, other = jnp.zeros((1, 1, 4)), jnp.ones((1, 1, 4))
    assert cosine_distance(zero, other)[0, 0] == 1
    assert np.isfinite(jax.grad(lambda x: cosine_distance(x, other).sum())(zero)).all()


def test_rows_too_long_for_the_teacher_are_not_evaluated(tmp_path):
    its = {"model.position.kind": "learned", "model.position.max_length": 10}
    pair = Pair(tmp_path, CAUSAL | {"model.position.kind": "rope"}, its)
    assert pair.why_too_long(10) is None
    assert pair.why_too_long(11) == "the teacher's learned positions end at 10"


def test_teacher_is_a_separate_model_with_its_own_config(tmp_path):
    pair = Pair(tmp_path, CAUSAL)
    assert type(pair.objective.teacher) is type(make_model(pair.config))
    assert pair.objective.teacher_config.model.num_layers == 2
    assert pair.objective.teacher_config.objective.distillation.teacher == ""
