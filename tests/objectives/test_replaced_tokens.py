"""Replaced-token detection: both losses against the reference's scores of each row alone, the
sampled replacements, and the generator in training, checkpoints and fine-tuning.
"""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import zoo
from tests import reference
from tests.objectives.making import OPENS, OTHER, FewTokens, Made, surprisal
from tests.support.building import compiled, tiny
from tests.support.comparisons import compared
from tests.support.small_runs import OBJECTIVES, lines, small
from tests.support.untrained import untrained
from zoo import config as configs
from zoo.cli import evaluate as command
from zoo.config import finetuned, generator_config
from zoo.data.pipeline.evaluation_fingerprint import evaluation_fingerprint
from zoo.data.rows.corruption import make_corruption
from zoo.data.rows.masking import Masking
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.interop.checkpoint_source import find_checkpoint
from zoo.interop.exporting import export_run
from zoo.interop.importing import import_run
from zoo.lab.metrics import written_metrics
from zoo.layers.context import Context, DropoutKey
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.discriminator import ReplacementGenerator
from zoo.models.head import LogitFactors
from zoo.nested import flatten
from zoo.objectives import make_objective
from zoo.objectives.objective import EVALUATION, ForwardMode, sum_of_means
from zoo.objectives.replaced_tokens import draw_tokens, replace_tokens, row_hashes
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run

ELECTRA = {
    "model.architecture": "encoder",
    "objective.kind": "replaced_tokens",
    "model.vocab_size": 14,
    "model.num_layers": 2,
    "model.generator.num_layers": 1,
    "model.generator.width_fraction": 0.5,
    "objective.select_fraction": 0.4,
}
BERT = {
    "model.embedding.norm": True,
    "model.embedding.segments": 2,
    "model.norm.placement": "post",
    "model.head.transform": True,
    "model.head.bias": True,
}
MASKING = Masking(0.4, 1.0, 0.0, FewTokens.vocab_size, (OPENS,), FewTokens.vocab_size)
ROWS = np.array([[9, 1, 2, 3, 9, 5, 6, 0], [4, 5, 8, 1, 2, 3, 4, 5], [2, 9, 9, 3, 7, -1, -1, -1], [-1] * 8], np.int32)


def corrupted(rows=ROWS):
    return MASKING.evaluation_batch({"tokens": rows}, np.arange(len(rows)))


def generator_logits(made, tokens):
    """The reference's scores of the generator for one row of tokens without padding, [T, V]."""
    model, rows = made.config.model, reference.counting(1, len(tokens), causal=False)
    first = reference.overlaid(model, {"num_layers": 0, "norm": {"placement": "post"}})
    x = reference.tower(first, made.exact, reference.embed(model, made.exact, tokens)[None], rows)
    own, values = reference.overlaid(generator_config(model)), made.exact["generator"]
    if own.position.kind == "learned":
        own.position.kind = "none"
    own.embedding.norm = False
    x = reference.linear(values["project"], x) if "project" in values else x
    hidden = reference.tower(own, values, x, rows)
    if not model.head.transform and "project" in values:
        hidden = reference.linear(values["head"]["dense"], hidden)
    return reference.head(model, {**values, "embedding": made.exact["embedding"]}, hidden)[0]


def verdicts(made, tokens):
    """The reference's logits of "replaced" for one row of tokens without padding, [T]."""
    own = made.exact["discriminator"]
    hidden = reference.linear(own["dense"], made.hidden_alone(tokens))
    return reference.linear(own["output"], reference.activation("gelu", hidden))[:, 0]


def draws(made, batch):
    """Returns the replacements [B, N] that an evaluation samples."""

    def drawn(model, *arrays):
        rows = dict(zip(batch, arrays, strict=True))
        prediction = made.objective.generator_prediction(model, rows, EVALUATION)
        return made.objective.draw(prediction, rows, {})

    return made.apply(drawn, *batch.values())


def expected(made, batch, drawn):
    """Returns the sums of an evaluation from each row alone without padding."""
    found = dict.fromkeys(("loss", "weight", "right", "replaced", "replaced_right"), 0.0)
    found |= {"generator_loss": 0.0, "chosen": 0.0, "generator_right": 0.0}
    for row, tokens in enumerate(batch["tokens"]):
        filled, chosen = tokens >= 0, batch["targets"][row] >= 0
        if not filled.any():
            continue
        places, targets = (batch[name][row][chosen] for name in ("masked_positions", "targets"))
        found["generator_loss"] += surprisal(generator_logits(made, tokens[filled])[places], targets).sum()
        shown, labels = tokens.copy(), np.zeros(len(tokens), bool)
        shown[places], labels[places] = drawn[row][chosen], drawn[row][chosen] != targets
        scores, labels = verdicts(made, shown[filled]), labels[filled]
        probabilities = 1 / (1 + np.exp(-scores))
        found["loss"] -= np.log(np.where(labels, probabilities, 1 - probabilities)).sum()
        right = (scores > 0) == labels
        counts = {"weight": filled, "right": right, "replaced": labels, "replaced_right": right & labels}
        counts |= {"chosen": chosen, "generator_right": drawn[row][chosen] == targets}
        for name, counted in counts.items():
            found[name] += counted.sum()
    return found


@pytest.mark.parametrize("overrides", [
    {}, *(pytest.param(changes, marks=OTHER) for changes in (
        BERT | {"objective.chunk_tokens": 2}, {"model.position.kind": "rope", "model.generator.width_fraction": 1.0},
        {"model.head.softcap": 3.0, "model.position.kind": "relative_bias"})),
], ids=["plain", "bert's head, chunked", "rope, as wide", "bias by head"])  # fmt: skip
def test_both_losses_equal_those_of_each_row_alone(overrides):
    made, batch = Made(ELECTRA | overrides), corrupted()
    drawn = draws(made, batch)
    losses, sums = made.terms(batch)
    exact = expected(made, batch, drawn)
    assert exact["replaced"] > 0
    for name, value in exact.items():
        compared(sums[name], value, 2e-5, config=made.config, parts=("objective", "model.generator"))
    assert (losses["loss"], losses["generator"]) == (sums["loss"], sums["generator_loss"])
    assert sums["weight"] == sums["tokens"] == 8 + 8 + 5
    weights = {name: float(weight) for name, weight in made.objective.normalizers(batch).items()}
    assert weights == {"loss": 21, "generator": 6}
    assert "bytes" not in sums


def test_training_weights_both_means_and_smooths_the_generator_s():
    made = Made(ELECTRA | {"objective.discriminator_weight": 7.0, "objective.z_loss": 0.1})
    batch = corrupted(ROWS[:2])
    (losses, sums), (_, plain) = made.terms(batch, training=True), made.terms(batch)
    np.testing.assert_allclose(losses["loss"], 7 * plain["loss"], rtol=1e-5)
    np.testing.assert_allclose(sums["loss"], plain["loss"], rtol=1e-5)
    np.testing.assert_allclose(sums["generator_loss"], plain["generator_loss"], rtol=1e-5)
    assert losses["generator"] > sums["generator_loss"] + 0.01
    weights = made.objective.normalizers(batch)
    total = losses["loss"] / 16 + losses["generator"] / 5
    np.testing.assert_allclose(sum_of_means(losses, weights), total, rtol=1e-6)


def test_each_network_gets_only_the_gradient_of_its_own_loss():
    made, batch = Made(ELECTRA), {name: jnp.asarray(array) for name, array in corrupted(ROWS[:2]).items()}

    def losses(values):
        return made.objective.sums(made.graph, values, {}, batch, made.constants, ForwardMode(training=True))[0]

    def gradients(values):
        found, pull_back = jax.vjp(losses, values)
        return [pull_back({name: jnp.float32(name == term) for name in found})[0] for term in ("loss", "generator")]

    def largest(tree):
        return max(np.abs(leaf).max() for leaf in jax.tree.leaves(tree))

    of_model, of_generator = compiled(gradients)(made.values)
    # No gradient flows through the sampling: only shared parameters get both gradients.
    assert largest(of_model["generator"]) == 0 < largest(of_generator["generator"])
    shared = {"embedding", "position"}
    for name in set(made.values) - shared - {"generator"}:
        assert largest(of_generator[name]) == 0 < largest(of_model[name])
    assert all(largest(tree[name]) > 0 for tree in (of_model, of_generator) for name in shared)


def test_dropout_of_the_generator_has_its_own_key(monkeypatch):
    made, seen = Made(ELECTRA), []
    monkeypatch.setattr(ReplacementGenerator, "__call__", lambda self, x, context: seen.append(context) or x)
    context = Context(jnp.zeros((4, 8), jnp.int32), dropout_key=DropoutKey(jax.random.key(3)))
    nnx.merge(made.graph, made.values, made.stats).generator_states(jnp.zeros((4, 8), jnp.int32), context)
    ones = jnp.ones((4, 8, 16))
    masks = [np.asarray(one.dropout(ones, 0.5, "ffn")) > 0 for one in (context, *seen)]
    # Independent masks agree at half of the elements; 0.1 is 4.5 standard deviations.
    assert abs((masks[0] == masks[1]).mean() - 0.5) < 0.1


def test_blocks_of_the_generator_drop_elements():
    made = Made(ELECTRA | {"model.dropout": 0.5})
    generator = nnx.merge(made.graph, made.values, made.stats).generator
    x = jax.random.normal(jax.random.key(0), (4, 8, made.config.model.dim))

    def states(key):
        context = Context(jnp.broadcast_to(jnp.arange(8), (4, 8)), causal=False, dropout_key=key)
        return np.asarray(generator(x, ReplacementGenerator.own(context)))

    first, again, other = (states(DropoutKey(jax.random.key(seed))) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1 < np.abs(first - states(None)).max()


# Draws


def test_replacements_are_sampled_from_the_softmax():
    scores, count = jnp.array([0.0, 1.0, 2.0, -30.0, 9.0]), 6000
    # One row per draw; the last id only pads the vocabulary.
    prediction = LogitFactors(jnp.ones((count, 1, 1)), scores[:, None], None, 0.0, ids=4)
    places = jnp.zeros((count, 1), jnp.int32)
    drawn = draw_tokens(prediction, jnp.arange(count, dtype=jnp.uint32)[:, None], places, jax.random.key(0), 1000)
    shares = np.bincount(np.asarray(drawn)[:, 0], minlength=5) / count
    wanted = np.exp([0, 1, 2]) / np.exp([0, 1, 2]).sum()
    assert shares[3] == shares[4] == 0
    assert (np.abs(shares[:3] - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / count)).all()


def test_replacement_depends_only_on_its_row_and_place():
    made, batch = Made(ELECTRA), corrupted()
    whole = draws(made, batch)
    for part in ([2, 0], [1]):
        np.testing.assert_array_equal(draws(made, {name: array[part] for name, array in batch.items()}), whole[part])
    longer = np.pad(ROWS, [(0, 0), (0, 3)], constant_values=-1)
    np.testing.assert_array_equal(row_hashes(jnp.asarray(longer)), row_hashes(jnp.asarray(ROWS)))
    assert len(set(np.asarray(row_hashes(jnp.asarray(ROWS))).tolist())) == 4


def test_sampling_key_depends_on_seed_and_step():
    objective = Made(ELECTRA).objective
    data = [
        jax.random.key_data(objective.per_step_constants(jnp.uint32(seed), jnp.int32(step))["replacements"]).tolist()
        for seed, step in ((0, 0), (1, 0), (0, 1), (0, 0))
    ]
    assert data[0] == data[3]
    assert len(set(map(tuple, data))) == 3


def test_sampled_original_token_counts_as_original():
    batch = {
        "tokens": jnp.array([[9, 13, 2, 13, 5]]),
        "masked_positions": jnp.array([[3, 1, 0]]),
        "targets": jnp.array([[4, 6, -1]]),
    }
    tokens, replaced = replace_tokens(batch, jnp.array([[4, 7, 8]]))
    assert tokens.tolist() == [[9, 7, 2, 4, 5]]
    assert replaced.tolist() == [[False, True, False, False, False]]


def test_without_a_generator_replacements_are_uniform():
    made = Made({**ELECTRA, "model.generator.num_layers": 0, "model.generator.width_fraction": 0.25})
    rows = np.tile(np.arange(8, dtype=np.int32) % 9, (400, 1)) + np.eye(1, 8, 7, dtype=np.int32)
    rows[:, 0] = np.arange(400) % 9
    rows[:, 1] = np.arange(400) // 45
    batch = corrupted(rows)
    drawn = made.apply(
        lambda model, *arrays: made.objective.draw(None, dict(zip(batch, arrays, strict=True)), {}), *batch.values()
    )
    assert set(np.unique(drawn)) == set(range(14))
    losses, sums = made.terms(batch)
    assert set(losses) == {"loss"} == set(made.objective.normalizers(batch))
    assert "generator" not in made.values
    assert 0.02 < sums["generator_right"] / sums["chosen"] < 0.13


# The generator as a part of the model


def test_generator_width_is_a_fraction_and_its_cost_is_counted():
    config = tiny(ELECTRA | BERT | {"model.head.pooler": False})
    own = generator_config(config.model)
    assert (own.dim, own.attention.num_heads, own.attention.head_dim, own.ffn.hidden_dim) == (8, 2, 4, 12)
    counted = cost.summary(config)
    D, G, F, V = 16, 8, 12, 14
    block = 4 * (G * G + G) + 2 * G * F + F + G + 4 * G
    assert counted.parameters["generator"] == (D * G + G) + block + (G * D + D + 2 * D + V)
    assert counted.parameters["heads"] == D * D + D + D + 1
    without = tiny({**ELECTRA, "model.generator.num_layers": 0, "model.generator.width_fraction": 0.25})
    plain = tiny(
        {path: value for path, value in ELECTRA.items() if "generator" not in path} | {"objective.kind": "masked"}
    )
    alone, masked = (cost.summary(one) for one in (without, plain))
    assert "generator" not in alone.parameters
    # The head reads all 8 tokens of a row, that of masked tokens 3 of them and scores 14 ids.
    assert alone.flops_per_token - masked.flops_per_token == pytest.approx(6 * (D * D + D - 3 / 8 * D * V))
    # 3 for a step, 2 for a product and a sum; attention multiplies twice.
    products = D * G + 4 * G * G + 2 * G * F + 3 / 8 * (G * D + D * V) + 2 * 8 * G
    assert counted.flops_per_token - alone.flops_per_token == pytest.approx(6 * products)


@pytest.mark.parametrize(("changes", "problem"), [
    ({"model.head.pooler": True}, r"model\.head\.pooler=True has no effect: objective\.kind=replaced_tokens scores tokens"),
    ({"objective.next_sentence": True}, r"objective\.next_sentence=True has no effect: objective\.kind=replaced_tokens"),
    ({"model.ffn.kind": "relu_squared"}, r"replaced_tokens: the head applies the activation of model\.ffn\.kind"),
    ({"model.parametrization": "mup", "model.base_dim": 8}, r"model\.parametrization=mup has no rule for a generator"),
    ({"model.generator.width_fraction": 0.25, "model.attention.dilations": (1, 2), "model.attention.window": 3},
     r"the generator, model\.generator\.width_fraction=0\.25 of the model: model\.attention\.dilations=1,2"),
    ({"model.generator.num_layers": 0, "model.generator.width_fraction": 0.25, "objective.z_loss": 0.1},
     r"objective\.z_loss=0\.1 has no effect without a generator \(model\.generator\.num_layers=0\); leave it at 0\.0"),
    ({"training.start_from": "runs/x", "training.start_layers": (0, 1)}, r"training\.start_layers=0,1: .*two stacks"),
    ({"objective.distillation.teacher": "runs/x"}, r"distillation\.teacher=runs/x has no effect"),
    ({"model.architecture": "decoder"}, r"objective\.kind=replaced_tokens trains model\.architecture=encoder"),
    ({"objective.kind": "masked"}, r"model\.generator\.num_layers=1 has no effect: it is read only when"),
])  # fmt: skip
def test_unsupported_combinations_are_refused_by_name(changes, problem):
    with pytest.raises(ConfigError, match=problem) as refused:
        tiny(ELECTRA | changes)
    # The message must not suggest a setting without effect.
    assert not any("set " in line for line in refused.value.problems if "next_sentence" in line)


def test_evaluations_with_different_generators_are_distinguished():
    one, same, other = (
        evaluation_fingerprint(tiny(ELECTRA | {"model.generator.num_layers": layers})) for layers in (1, 1, 2)
    )
    assert not one.differences(same, per_token=True)
    assert set(one.differences(other, per_token=True)) == {"context"}
    assert one.scored == "every token"


# Through the real step


@functools.cache
def program_of(**changes):
    config = configs.resolve(small(**OBJECTIVES["replaced_tokens"], data__batch_size=16, **changes))
    objective = make_objective(config, ByteTokenizer())
    return config, make_program(config, make_model(config), objective, make_mesh(config, jax.devices()[:1]))


def batch_of(config, step):
    """Rows that count up or down, so that replaced letters can be detected."""
    generator = np.random.default_rng(step)
    first, turn = generator.integers(97, 123, (16, 1)), generator.choice([-1, 1], (16, 1))
    tokens = (97 + (first - 97 + turn * np.arange(16)) % 26).astype(np.int32)
    tokens[generator.random(16) < 0.3, 9:] = -1
    batch = {"tokens": tokens}
    return make_corruption(config, ByteTokenizer()).training_batch(batch, np.arange(16), np.full(16, step), 0)


@pytest.mark.promise(reason="whole steps are compiled")
def test_accumulation_equals_the_full_batch_in_both_means():
    def one_step(**changes):
        # With a large epsilon Adam's first update is proportional to the gradient.
        config, program = program_of(optimizer__epsilon=1.0, **changes)
        return jax.device_get(
            program.train_step(program.initial_state(0), program.put_batch(batch_of(config, 0)), program.constants(0))
        )

    (whole, metrics), (parts, in_parts) = one_step(), one_step(training__accumulation_steps=4)
    for name in ("loss", "accuracy", "generator_loss", "generator_accuracy", "gradient_norm", "tokens"):
        np.testing.assert_allclose(in_parts[name], metrics[name], rtol=1e-5)
    for one, other in zip(jax.tree.leaves(parts["params"]), jax.tree.leaves(whole["params"]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-8)


@pytest.mark.slow(reason="250 steps are trained")
def test_discriminator_learns_to_find_replaced_letters():
    config, program = program_of(model__init__std=0.1, model__position__kind="rope")
    state, constants = program.initial_state(0), program.constants(0)
    for step in range(250):
        state, metrics = program.train_step(state, program.put_batch(batch_of(config, step)), constants)
        if step == 0:
            assert 0.3 < float(metrics["loss"]) < 1.5
            before = float(metrics["generator_loss"])
    assert float(metrics["generator_loss"]) < before - 1
    assert float(metrics["replaced_accuracy"]) > 0.3
    assert float(metrics["loss"]) < 0.3


# Through runs


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("electra") / "run"
    own = {path.replace(".", "__"): value for path, value in BERT.items()} | OBJECTIVES["replaced_tokens"]
    run(small(**own, training__steps=4, training__dynamics_every=4), folder, lambda line: None)
    return folder


@pytest.mark.promise(reason="a run is trained")
def test_run_records_metrics_of_both_networks(pretrained, capsys):
    last = lines(pretrained)[-1]
    written = {name for name in last if name.startswith("eval/")}
    assert written == set(written_metrics(flatten(load_trained(pretrained).config)))
    assert written == {
        f"eval/{name}" for name in ("loss", "accuracy", "replaced_accuracy", "generator_loss", "generator_accuracy")
    }
    found = json.loads((pretrained / "dynamics.jsonl").read_text().splitlines()[-1])
    assert {"layer 0 attention", "generator layer 0 attention", "generator head", "discriminator"} <= set(
        found["gradient_norm"]
    )
    assert set(found["residual_rms"]) == {"embedding", "layer 0"}
    assert command.main([str(pretrained), "--batches", "3"]) == 0
    output = capsys.readouterr().out
    assert "generator loss" in output
    assert f"{last['eval/generator_loss']:.4f}" in output
    assert f"{last['eval/loss']:.4f}" in output


@pytest.mark.promise(reason="a run is trained")
def test_discriminator_cannot_fill_masks(pretrained):
    model = zoo.load(pretrained)
    for call in (lambda: model.fill_mask("a [MASK] c"), lambda: model.logits("abc")):
        with pytest.raises(ConfigError, match=r"objective\.kind=replaced_tokens"):
            call()
    assert model.hidden_states("abc")[""].shape[0] == 2


@pytest.mark.promise(reason="a run is trained")
def test_fine_tuning_starts_from_the_discriminator_body(pretrained, tmp_path):
    (tmp_path / "train.csv").write_text(
        "text,label\n" + "".join(f"{'ab'[i % 2] * 3} {i},{'xy'[i % 2]}\n" for i in range(40))
    )
    config = finetuned(
        f"from={pretrained}",
        {"objective.kind": "classification", "data.source": f"csv:{tmp_path}/train.csv", "data.column": "text",
         "data.label_column": "label", "data.validation_fraction": 0.3},
        {"optimizer.learning_rate": 1e-12, "schedule.warmup_steps": 0, "training.steps": 1, "data.batch_size": 8},
    )  # fmt: skip
    printed = []
    run(config, tmp_path / "tuned", printed.append)
    assert any("fresh values for classifier" in line for line in printed)
    before, after = load_trained(pretrained).params, load_trained(tmp_path / "tuned").params
    assert set(before) - set(after) == {"generator", "discriminator"}
    for name in set(before) & set(after):
        jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=1e-6), before[name], after[name])


def test_export_excludes_the_generator(tmp_path):
    own = {path.replace(".", "__"): value for path, value in BERT.items()} | OBJECTIVES["replaced_tokens"]
    pretrained = untrained(tmp_path / "run", small(**own))
    export_run(pretrained, tmp_path / "out", "ElectraForPreTraining")
    import_run(find_checkpoint(f"hf:{tmp_path / 'out'}"), tmp_path / "back")
    before, after = load_trained(pretrained).params, load_trained(tmp_path / "back").params
    assert set(before) - set(after) == {"generator"}
    jax.tree.map(np.testing.assert_array_equal, {name: before[name] for name in after}, after)
