"""Mixtures of experts against their equations, and what a token's output depends on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.support.building import (
    ENCODER,
    as_float64,
    call,
    call_and_statistics,
    programs_inside,
    random_values,
    tiny,
    with_values,
)
from tests.support.comparisons import compared
from zoo.config.scopes import expert_config
from zoo.errors import ConfigError
from zoo.layers.context import Context, DropoutKey
from zoo.layers.feedforward import activation, make_feed_forward
from zoo.layers.grouped_product import grouped_product
from zoo.layers.platform import Platform
from zoo.layers.routing import assignments, balance_loss, route, router_z_loss, sequence_balance_loss

EXPERTS = "model.ffn.experts."
MOE = {"model.ffn.kind": "moe", "model.ffn.hidden_dim": 12}
DEEPSEEK = {"scores": "sigmoid", "groups": 4, "chosen_groups": 2, "scale": 2.5, "shared_dim": 20, "bias_rate": 0.001}
CASES = {
    "mixtral": {},
    "olmoe": {"per_token": 3, "renormalise": False},
    "one expert per token": {"number": 4, "per_token": 1, "renormalise": False, "kind": "relu"},
    "gated shared expert": {"shared_dim": 20, "shared_gate": True, "kind": "gelu"},
    "deepseek v2": {"groups": 4, "chosen_groups": 2, "group_score": "max", "renormalise": False, "shared_dim": 20},
    "deepseek v3": DEEPSEEK,
    "gpt-oss": {"kind": "swiglu_clamped", "router_bias": True},
    "all experts": {"number": 4, "per_token": 4, "kind": "xielu"},
    "clamped, with biases": {"kind": "swiglu_clamped"},
}


def mixture(**experts):
    """Returns the `model` part of a config with so many fields of its experts changed."""
    return tiny(MOE | {EXPERTS + name: value for name, value in experts.items()}).model


def made(config, seed=1):
    """Returns (a mixture with random values, its values, its biases of the choice)."""
    module, number = make_feed_forward(config), config.ffn.experts.number
    values = random_values(module, seed)
    if not config.ffn.experts.bias_rate:
        return with_values(module, values), values, np.zeros(number, np.float32)
    # Of both signs, and large enough to change many choices.
    bias = np.random.default_rng(seed).normal(0, 0.2, number).astype(np.float32)
    stats = {"choice_bias": jnp.asarray(bias), "sent": jnp.zeros(number)}
    return with_values(module, values, stats), values, bias


def routed(logits, bias, experts):
    """Returns what `route` gives, compiled as one program."""
    return call(lambda logits, bias: route(logits, bias, experts), logits, bias)


def tokens(rows=3, length=9, seed=2):
    return np.random.default_rng(seed).standard_normal((rows, length, 16)).astype(np.float32)


@pytest.mark.parametrize("case", CASES)
def test_layer_matches_its_equation_over_all_experts(case):
    config = mixture(**CASES[case])
    layer, values, bias = made(config)
    x = tokens()
    params = as_float64(values) | {"choice_bias": np.float64(bias)}
    expected = reference.mixture_of_experts(config, params, np.float64(x))
    compared(call(layer, x), expected, 3e-6, config=config, parts="model.ffn")


def test_the_bias_of_the_choice_changes_no_gate():
    experts = mixture(**DEEPSEEK).ffn.experts
    logits = jnp.asarray(np.random.default_rng(5).standard_normal((2, 40, 8)), jnp.float32)
    bias = jnp.asarray([-0.3, 0.1, -0.2, 0.0, 0.4, -0.6, 0.2, 0.05])
    scores = 1 / (1 + np.exp(-np.float64(logits)))
    chosen, gates, _ = routed(logits, bias, experts)
    own = np.take_along_axis(scores, np.asarray(chosen), -1)
    np.testing.assert_allclose(gates, 2.5 * own / own.sum(-1, keepdims=True), rtol=1e-6)
    without = routed(logits, None, experts)
    assert (np.sort(chosen, -1) != np.sort(without.chosen, -1)).any()


def test_experts_of_losing_groups_are_never_chosen():
    experts = mixture(**DEEPSEEK | {"per_token": 4}).ffn.experts
    logits = jnp.asarray(np.random.default_rng(6).standard_normal((2, 40, 8)), jnp.float32)
    # With all scores below 0, experts of losing groups would win with a score of 0.
    chosen = np.asarray(routed(logits, jnp.full(8, -2.0), experts).chosen).reshape(-1, 4)
    weights, _ = reference.chosen_experts(experts, np.float64(logits).reshape(-1, 8), -2.0)
    np.testing.assert_array_equal(np.sort(chosen, -1), np.nonzero(weights)[1].reshape(-1, 4))


def test_weights_sum_to_one_only_where_they_are_renormalised():
    logits = jnp.asarray(np.random.default_rng(7).standard_normal((1, 30, 8)), jnp.float32)
    for scores in ("softmax", "sigmoid"):
        summed = [
            np.asarray(routed(logits, None, mixture(scores=scores, renormalise=one).ffn.experts).gates.sum(-1))
            for one in (True, False)
        ]
        np.testing.assert_allclose(summed[0], 1, rtol=1e-6)
        assert abs(summed[1] - 1).min() > 1e-3


@pytest.mark.parametrize("capacity", [0.0, 0.6])
def test_a_row_does_not_depend_on_the_other_rows(capacity):
    layer, _, _ = made(mixture(capacity_factor=capacity))
    x, other = tokens(), tokens(seed=3)
    context = Context(jnp.zeros((1, x.shape[1]), jnp.int32), training=True)
    one = call(lambda x: layer(x, context), x)
    both = call(lambda x: layer(x, context), np.concatenate([x[:1], other[1:]]))
    np.testing.assert_array_equal(one[0], both[0])
    assert abs(one[1:] - both[1:]).max() > 0.1
    # Nor do tokens depend on later ones, with a capacity too.
    later = call(lambda x: layer(x, context), np.concatenate([x[:, :5], other[:, 5:]], axis=1))
    np.testing.assert_allclose(later[:, :5], one[:, :5], atol=1e-6)


def test_experts_drop_what_exceeds_their_capacity_in_training_alone():
    config = mixture(capacity_factor=0.75, number=4)
    layer, values, _ = made(config)
    x = tokens(2, 16)

    def trained(x):
        record = {}
        out = layer(x, Context(jnp.zeros((1, 16), jnp.int32), training=True, record=record))
        return out, record["experts"]["dropped"]["total"]

    (got, total), whole = call(trained, x), call(layer, x)
    # ceil(0.75 * 2 * 16 / 4) = 6 tokens per expert and row.
    weights, _ = reference.chosen_experts(
        config.ffn.experts, np.float64(x).reshape(-1, 16) @ np.float64(values["router"]["kernel"]), 0
    )
    sent = (weights > 0).reshape(2, 16, 4)
    dropped = sent & (np.cumsum(sent, 1) > 6)
    assert dropped.sum() > 4
    assert float(total) == dropped.sum()
    kept = ~dropped.any(-1)
    np.testing.assert_allclose(got[kept], whole[kept], atol=1e-5)
    assert abs(got - whole)[~kept].max() > 0.01


def test_balancing_losses_are_those_of_the_papers():
    config = mixture(scores="sigmoid").ffn.experts
    logits = jnp.asarray(np.random.default_rng(8).standard_normal((2, 12, 8)), jnp.float32)
    there = np.ones((2, 12), bool)
    there[1, 7:] = False
    routing = routed(logits, None, config)
    sent = assignments(routing, jnp.asarray(there))
    shares = 1 / (1 + np.exp(-np.float64(logits)))
    shares /= shares.sum(-1, keepdims=True)

    def switch(rows):
        chosen, share = np.asarray(sent)[rows][there[rows]], shares[rows][there[rows]]
        return 8 * (chosen.sum(0) / chosen.sum() * share.mean(0)).sum()

    np.testing.assert_allclose(balance_loss(routing.shares, sent, there), switch([0, 1]), rtol=1e-5)
    np.testing.assert_allclose(
        sequence_balance_loss(routing.shares, sent, there), (switch([0]) + switch([1])) / 2, rtol=1e-5
    )
    z = np.log(np.exp(np.float64(logits)).sum(-1))[there] ** 2
    np.testing.assert_allclose(router_z_loss(logits, there), z.mean(), rtol=1e-5)
    uniform = jnp.full((1, 8, 8), 1 / 8), jnp.full((1, 8, 8), 2 / 8), jnp.ones((1, 8), bool)
    assert float(balance_loss(*uniform)) == pytest.approx(1)


def test_padding_is_in_no_count():
    config, record, losses = mixture(**DEEPSEEK), {}, {}
    _, values, bias = made(config)
    positions = jnp.asarray([[0, 1, 2, -1, -1, -1, -1, -1], list(range(8))])

    def counts(layer, x):
        layer(x, Context(positions, training=True, record=record, losses=losses))
        return record["experts"]["sent"].sum()

    stats = {"choice_bias": jnp.asarray(bias), "sent": jnp.zeros(8)}
    recorded, stats = call_and_statistics(make_feed_forward(config), values, stats, counts, tokens(2, 8))
    assert float(stats["sent"].sum()) == float(recorded) == 2 * (3 + 8)
    assert {name for _, name in losses} == {"expert_balance", "sequence_balance", "router_z"}


def test_jitter_and_noise_act_in_training_alone_and_by_row():
    config = mixture(jitter=0.3, noise=0.5)
    layer, _, _ = made(config)
    x = tokens(2, 8)

    def logits(rows, training=True):
        key = DropoutKey(jax.random.key(0), {}, jnp.asarray(rows))
        context = Context(jnp.zeros((1, 8), jnp.int32), training=training, dropout_key=key)
        return call(lambda x: layer.logits(x, context), x[np.asarray(rows)])

    np.testing.assert_array_equal(logits([0, 1], False), logits([0, 1], False))
    assert 0.1 < abs(logits([0, 1]) - logits([0, 1], False)).mean() < 2
    # A row has the same numbers in whichever part of a batch it is.
    np.testing.assert_allclose(logits([1])[0], logits([0, 1])[1], rtol=1e-6)


def test_without_jitter_and_noise_training_is_as_evaluation():
    layer, _, _ = made(mixture())
    key = DropoutKey(jax.random.key(0), {}, jnp.arange(2))

    def output(x, training):
        return layer(x, Context(jnp.zeros((1, 8), jnp.int32), training=training, dropout_key=key))

    x = tokens(2, 8)
    np.testing.assert_array_equal(call(lambda x: output(x, True), x), call(lambda x: output(x, False), x))


def test_a_router_scores_activations_of_half_precision_in_float32():
    layer, values, _ = made(tiny(MOE | {"model.dtype": "bfloat16"}).model)
    x = jnp.asarray(tokens(2, 8), jnp.bfloat16)
    logits = call(lambda x: layer.logits(x, Context(jnp.zeros((1, 8), jnp.int32))), x)
    assert logits.dtype == jnp.float32
    expected = np.asarray(x, np.float64) @ np.float64(values["router"]["kernel"])
    # bfloat16 has three digits.
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def test_blocks_of_rows_equal_a_product_by_group_with_its_gradients():
    generator = np.random.default_rng(0)
    sizes = jnp.asarray([0, 37, 1, 80, 0, 10])
    x, w, c = (jnp.asarray(generator.standard_normal(s), jnp.float32) for s in ((128, 5), (6, 5, 7), (128, 7)))
    group = np.repeat(np.arange(6), np.asarray(sizes))

    def by_group(x, w):
        return jnp.einsum("nd,ndf->nf", x, w[group])

    for platform in ("cpu", "tpu"):

        def ours(x, w, platform=platform):
            return grouped_product(x, w, sizes, Platform(platform))

        np.testing.assert_allclose(call(ours, x, w), call(by_group, x, w), atol=1e-5)
        gradients = [call(jax.grad(lambda x, w, f=f: (f(x, w) * c).sum(), (0, 1)), x, w) for f in (ours, by_group)]
        for one, other in zip(*gradients, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.parametrize(
    ("platform", "rows", "by_blocks"),
    [(Platform("cpu"), 2**10, True), (Platform("tpu"), 2**18, False), (Platform("gpu", 1, (9, 0)), 2**18, True),
     (Platform("gpu", 1, (9, 0)), 2**10, False), (Platform("gpu"), 2**18, False)],
)  # fmt: skip
def test_products_are_made_by_blocks_where_the_compiler_would_multiply_all_rows_with_all_matrices(
    platform, rows, by_blocks
):
    """A GPU without a compute capability is AMD's."""
    shapes = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((rows, 256), (64, 256, 512))]
    sizes = jax.ShapeDtypeStruct((64,), jnp.int32)
    program = str(jax.make_jaxpr(lambda x, w, sizes: grouped_product(x, w, sizes, platform))(*shapes, sizes))
    assert ("ragged_dot" in program, "while" in program) == (not by_blocks, by_blocks)


def test_no_array_of_tokens_times_experts_times_width():
    layer, values, _ = made(mixture(number=16))
    x = tokens(2, 64)
    programs, sizes = [jax.make_jaxpr(jax.grad(lambda x: with_values(layer, values)(x).sum()))(x).jaxpr], []
    while programs:
        for equation in programs.pop().eqns:
            programs += programs_inside(equation)
            sizes += [np.prod(variable.aval.shape) for variable in equation.outvars if hasattr(variable.aval, "shape")]
    # Assignments times the hidden width, and far from tokens times experts times width.
    assert len(sizes) > 200
    assert max(sizes) < 2 * 64 * 16 * 12


def test_experts_choose_their_tokens_in_an_encoder():
    config = tiny(MOE | ENCODER | {EXPERTS + "choice": "experts", EXPERTS + "renormalise": False,
                                   EXPERTS + "number": 4, "model.ffn.bias": True}).model  # fmt: skip
    layer, values, _ = made(config)
    x = tokens(2, 8)
    expert, values = expert_config(config), as_float64(values)
    logits = np.float64(x) @ values["router"]["kernel"]
    scores = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = np.zeros(x.shape)
    for row in range(2):
        for e in range(4):
            own = {name: {part: v[e] for part, v in leaf.items()} for name, leaf in values["experts"].items()}
            best = np.argsort(-scores[row, :, e])[:4]
            expected[row, best] += scores[row, best, e, None] * reference.feed_forward(
                expert, own, np.float64(x[row, best])
            )
    compared(call(layer, x), expected, 3e-6, config=config, parts="model.ffn")


def test_tokens_that_no_expert_takes_are_counted():
    fields = {"choice": "experts", "renormalise": False, "number": 4, "per_token": 1}
    layer, values, _ = made(tiny(MOE | ENCODER | {EXPERTS + name: value for name, value in fields.items()}).model)
    x, length = tokens(2, 14), 9
    positions = np.where(np.arange(14) < length, np.arange(14), -1)[None]

    def recorded(x):
        record = {}
        layer(x, Context(jnp.asarray(positions), record=record))
        return record["experts"]

    found = call(recorded, x)
    logits = np.float64(x[:, :length]) @ as_float64(values)["router"]["kernel"]
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    # Of nine tokens each of four experts takes three.
    taken = np.argsort(-shares, axis=1)[:, :3]
    left = sum(length - len(set(row.flatten())) for row in taken)
    assert 0 < left < 2 * length
    assert {name: float(value) for name, value in found["unchosen"].items()} == {"total": left, "count": 2 * length}
    np.testing.assert_array_equal(found["sent"], [6, 6, 6, 6])
    assert found["entropy"]["total"] == pytest.approx(-(shares * np.log(shares)).sum(), rel=1e-5)


@pytest.mark.parametrize("which", ["experts choose", "a capacity"])
def test_padding_takes_no_place_of_a_token(which):
    chosen = {"choice": "experts", "renormalise": False} if which == "experts choose" else {"capacity_factor": 0.75}
    fields = {EXPERTS + name: value for name, value in chosen.items()}
    layer, _, _ = made(tiny(MOE | (ENCODER if "choice" in chosen else {}) | fields).model)
    x = tokens(2, 14)
    training = which == "a capacity"
    padded = np.where(np.arange(14) < 5, np.arange(14), -1)[None]
    short = call(lambda x: layer(x, Context(jnp.arange(5)[None], training=training)), x[:, :5])
    long = call(lambda x: layer(x, Context(jnp.asarray(padded), training=training)), x)
    np.testing.assert_allclose(long[:, :5], short, atol=2e-6)
    assert abs(short).max() > 0.1


def test_a_balance_that_the_choice_makes_is_said_to_be_1():
    fields = {"choice": "experts", "renormalise": False}
    layer, _, _ = made(tiny(MOE | ENCODER | {EXPERTS + name: value for name, value in fields.items()}).model)

    def terms(x):
        losses = {}
        layer(x, Context(jnp.arange(8)[None], losses=losses))
        return {name: value for (_, name), value in losses.items()}

    found = call(terms, tokens(2, 8))
    assert {name: float(found[name]) for name in ("expert_balance", "sequence_balance")} == {
        "expert_balance": 1,
        "sequence_balance": 1,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"choice": "experts"}, "depends on the scores of later tokens of the row, which a causal model must not read"),
        ({"kind": "moe"}, "an expert is no mixture of experts"),
        ({"per_token": 9}, "a layer has only 8 experts"),
        ({"groups": 3}, "does not divide"),
        ({"groups": 4, "chosen_groups": 1, "per_token": 3}, "2 experts are in so many groups"),
        ({"shared_gate": True}, "needs a shared expert"),
        ({"per_token": 1}, "the router has no gradient of the loss"),
        ({"per_token": 8, "balance_weight": 0.1}, "balance_weight=0.1 has no effect: each token is sent to all"),
        ({"capacity_factor": 4.0}, "capacity_factor=4.0 has no effect: an expert may take all tokens of a row"),
    ],
)
def test_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        mixture(**changes)


@pytest.mark.parametrize("fields", [{"capacity_factor": 0.5}, {"choice": "experts", "renormalise": False}])
def test_experts_that_take_some_tokens_of_a_row_are_refused_beside_isolated_documents(fields):
    changes = MOE | {EXPERTS + name: value for name, value in fields.items()} | {"data.isolate_documents": True}
    with pytest.raises(ConfigError, match="one document would change what is left for another"):
        tiny(changes | (ENCODER if "choice" in fields else {}))


def test_a_head_applies_the_activation_of_the_experts():
    changes = MOE | ENCODER | {EXPERTS + "kind": "gelu", "model.head.transform": True}
    config = tiny(changes).model
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    np.testing.assert_array_equal(activation(config, x), activation(tiny({"model.ffn.kind": "gelu"}).model, x))
    tiny(MOE | ENCODER | {EXPERTS + "kind": "gelu", "objective.kind": "replaced_tokens"})
    with pytest.raises(ConfigError, match=r"activation of model\.ffn\.experts\.kind, which for xielu is not one of"):
        tiny(changes | {EXPERTS + "kind": "xielu"})


def test_fields_of_the_kind_of_the_experts_are_read():
    mixture(kind="swiglu_clamped")
    tiny(MOE | {EXPERTS + "kind": "swiglu_clamped", "model.ffn.clamp": 3.0})
    with pytest.raises(ConfigError, match=r"model\.ffn\.clamp"):
        tiny(MOE | {"model.ffn.clamp": 3.0})


def test_a_convolution_inside_of_experts_is_refused():
    with pytest.raises(ConfigError, match="choose places without D"):
        tiny(MOE | {"model.convolution.kind": "canon", "model.convolution.places": "BD"})


@pytest.mark.promise(reason="programs for several devices are compiled")
def test_experts_on_their_own_devices_are_those_of_one_device():
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    command = [sys.executable, Path(__file__).with_name("experts_on_a_mesh.py")]
    completed = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert completed.returncode == 0, completed.stderr[-3000:]
    found = json.loads(completed.stdout.splitlines()[-1])
    assert max(each for case in found.values() for each in case["differences"].values()) < 2e-6
    width, counts = 4 * 16, 4 * 8

    def exchanges(devices, assignments):
        """Two forward and two backward, a quarter more rows than equal loads need; counts."""
        return (devices - 1) / devices * (4 * devices * -(-assignments * 5 // 4 // devices) * width + counts)

    # 8 rows of 16 tokens, two experts for each token.
    assert found["all axes"]["sent"] == exchanges(2, 8 * 16 * 2 / 4)
    assert found["experts alone"]["sent"] == exchanges(8, 8 * 16 * 2 / 8)
    # Each of 8 experts takes 2 * 16 / 8 tokens of the row of a device; the look-up has a gradient.
    assert found["experts choose"]["sent"] == 3 / 4 * 4 * 8 * 4 * width
