"""Loss terms added by layers, against the same loss computed from the layers' outputs, for every
way of running layers and splitting batches.
"""

import functools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import partial_eval

from tests.decoding.making import stepwise_and_full_scores
from tests.objectives.losses.penalised import TERM, WEIGHT, PenalisedFeedForward, penalised
from tests.objectives.making import FewTokens
from tests.support.building import (
    ENCODER_DECODER,
    call,
    programs_inside,
    quick_compilation,
    random_values,
    scanned_and_rematerialised,
    tiny,
)
from zoo.config import LOSS_TERMS, declared_loss_terms, is_traced, program_key, used_loss_terms
from zoo.config.fields import BY_PATH, FIELDS, Field
from zoo.lab.metrics import written_metrics
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten
from zoo.objectives import make_objective
from zoo.objectives.layer_terms import LayerTerms
from zoo.objectives.objective import ForwardMode, sum_of_means
from zoo.training.evaluation.held_out import evaluate
from zoo.training.executor import make_executor
from zoo.training.mesh import make_mesh
from zoo.training.population.batch_streams import StackedBatches
from zoo.training.step import make_program

EINSUM = {"model.attention.implementation": "einsum"}
TOKENS = np.random.default_rng(3).integers(0, 13, (4, 9), np.int32)
# Name -> (fields, weight of each layer, encoder layers first).
MODELS = {
    "all alike": ({"model.num_layers": 3, WEIGHT: 0.3}, (0.3, 0.3, 0.3)),
    "kinds with weights of their own": ({
        "model.num_layers": 3, "model.layers.pattern": ("near", "far"), "model.layers.kinds.near.attention.window": 2,
        "model.layers.kinds.far.ffn.output_penalty": 0.5, WEIGHT: 0.2}, (0.2, 0.5, 0.2)),
    "only one kind": ({
        "model.num_layers": 3, "model.layers.pattern": ("near", "far"), "model.layers.kinds.near.attention.window": 2,
        "model.layers.kinds.far.ffn.output_penalty": 0.5}, (0, 0.5, 0)),
    "all but one kind": ({
        "model.num_layers": 3, "model.layers.pattern": ("near", "far"), "model.layers.kinds.near.attention.window": 2,
        "model.layers.kinds.far.ffn.output_penalty": 0.0, WEIGHT: 0.2}, (0.2, 0, 0.2)),
    "two sides": (ENCODER_DECODER | {
        "model.num_layers": 2, "model.encoder.num_layers": 1, "model.decoder.ffn.output_penalty": 0.7, WEIGHT: 0.2},
        (0.2, 0.7, 0.7)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def layers_with_a_term():
    with penalised():
        yield


def made(fields):
    """(config, model, objective)"""
    config = tiny(EINSUM | fields)
    return config, make_model(config), make_objective(config, FewTokens())


def loss_of(fields, more=lambda outputs: 0.0):
    """Returns a function from values to (training loss of a batch plus `more` of the feed-forwards'
    outputs, sums).
    """
    _, model, objective = made(fields)
    graph, constants = split(model)[0], {name: jnp.asarray(table) for name, table in objective.constants.items()}
    batch = {"tokens": jnp.asarray(TOKENS)}

    def loss(values):
        PenalisedFeedForward.outputs = ()
        losses, (sums, _) = objective.sums(graph, values, {}, batch, constants, ForwardMode(training=True))
        total = sum_of_means(losses, objective.all_normalizers(batch)) + more(PenalisedFeedForward.outputs)
        PenalisedFeedForward.outputs = ()
        return total, sums

    return loss, random_values(model, 1)


def without_weights(fields):
    return {path: value for path, value in fields.items() if path != WEIGHT} | {
        path: 0.0 for path in fields if path.endswith("output_penalty") and path != WEIGHT
    }


@pytest.mark.parametrize(
    ("name", "scan", "remat"),
    scanned_and_rematerialised(MODELS, ["kinds with weights of their own"], ["only one kind", "two sides"]),
)
def test_loss_with_terms_equals_the_loss_computed_by_hand(name, scan, remat):
    fields, weights = MODELS[name]

    def terms(outputs):
        return [jnp.cosh(y).mean() for y in outputs]

    def penalty(outputs):
        assert len(outputs) == len(weights)
        return sum(weight * term for weight, term in zip(weights, terms(outputs), strict=True))

    plain, values = loss_of(without_weights(fields), penalty)
    loss, _ = loss_of(fields | {"model.scan_layers": scan, "model.remat": remat})
    (expected, plain_sums), expected_gradient = call(jax.value_and_grad(plain, has_aux=True), values)
    (actual, sums), gradient = call(jax.value_and_grad(loss, has_aux=True), values)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    for one, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected_gradient), strict=True):
        # The gradient of a key bias is 0 up to rounding.
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * abs(other).max() + 2e-7)
    cross_entropy = plain_sums["loss"] / plain_sums["weight"]
    np.testing.assert_allclose(sums["loss"] / sums["weight"], cross_entropy, rtol=1e-6)
    assert expected > cross_entropy + 0.1
    counted = np.mean([weight for weight in weights if weight])
    if len({weight for weight in weights if weight}) == 1:
        np.testing.assert_allclose(sums[TERM] / sums["rows"], (expected - cross_entropy) / counted, rtol=1e-4)
    assert TERM not in plain_sums


def operations(fields):
    """Counts the primitives of a training step, without dead code."""
    loss, values = loss_of(fields)
    traced = jax.make_jaxpr(jax.value_and_grad(lambda values: loss(values)[0]))(values).jaxpr
    found = set()

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            found.add(equation.primitive.name)
            for inside in programs_inside(equation):
                walk(inside)

    walk(partial_eval.dce_jaxpr(traced, [True] * len(traced.outvars))[0])
    return found


@pytest.mark.parametrize("scan", [False, True])
def test_term_of_weight_0_is_not_computed(scan):
    fields = {"model.scan_layers": scan, "model.remat": "full"}
    assert "cosh" in operations(fields | {WEIGHT: 0.1})
    assert "cosh" not in operations(fields)


def test_parts_are_weighted_by_their_rows():
    terms = LayerTerms(tiny({WEIGHT: 0.5}))
    parts = [terms.score({("model", TERM): jnp.float32(value)}, jnp.float32(rows), lambda path: 0.5, True)
             for value, rows in ((2.0, 3), (10.0, 1), (99.0, 0))]  # fmt: skip
    normalizers = terms.normalizers(jnp.float32(4))
    assert sum(float(sum_of_means(losses, normalizers)) for losses, _ in parts) == 0.5 * (2 * 3 + 10) / 4
    assert sum(float(sums[TERM]) for _, sums in parts) / sum(float(sums["rows"]) for _, sums in parts) == 4


def test_rows_of_padding_do_not_count():
    _, _, objective = made({WEIGHT: 0.5})
    tokens = jnp.asarray(TOKENS).at[2].set(-1)
    assert int(objective.num_rows({"tokens": tokens})) == 3


BASE = {
    WEIGHT: 0.4,
    "model.scan_layers": True,
    "data.batch_size": 4,
    "optimizer.epsilon": 1.0,
    "optimizer.learning_rate": 0.1,
}


@functools.cache
def program_of(*changes):
    config, model, objective = made(BASE | dict(changes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "jit", functools.partial(jax.jit, compiler_options=quick_compilation()))
        return make_program(config, model, objective, make_mesh(config, jax.devices()[:1]))


def state_of(program):
    # Values for which the term is as large as the cross-entropy.
    return program.initial_state(0) | {"params": random_values(program.model, 1)}


def constants_of(program, weight):
    return program.constants(0, made(BASE | {WEIGHT: weight})[0])


@functools.cache
def one_step(*changes, weight=0.4):
    """Returns (parameters, metrics) after one step; the program does not depend on the weight."""
    program = program_of(*changes)
    constants = constants_of(program, weight)
    state, metrics = program.train_step(state_of(program), program.put_batch({"tokens": TOKENS}), constants)
    return jax.device_get(state["params"]), jax.device_get(metrics)


def same_step(actual, expected):
    for name in ("loss", TERM, "gradient_norm"):
        np.testing.assert_allclose(actual[1][name], expected[1][name], rtol=1e-5, err_msg=name)
    for one, other in zip(jax.tree.leaves(actual[0]), jax.tree.leaves(expected[0]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.promise(reason="whole steps are compiled")
@pytest.mark.parametrize("parts", [2, 4])
def test_accumulation_equals_the_full_batch(parts):
    same_step(one_step(("training.accumulation_steps", parts)), one_step())


@pytest.mark.promise(reason="whole steps are compiled")
def test_dynamics_include_the_terms():
    program = program_of()
    step = program.dynamics_step
    rows = step.fetch(step(state_of(program), program.put_batch({"tokens": TOKENS}), program.constants(0)))
    squares = sum(value**2 for value in rows["gradient_norm"].values())
    assert squares**0.5 == pytest.approx(float(one_step()[1]["gradient_norm"]), rel=1e-5)
    assert set(rows["residual_rms"]) == {"embedding", "layer 0", "layer 1"}


def scores(*changes):
    program = program_of(*changes)
    batches = [{"tokens": TOKENS}, {"tokens": np.where(np.arange(4)[:, None] < 2, TOKENS[::-1], -1)}]
    state = state_of(program)
    return evaluate(program, state["params"], state["stats"], iter(batches), program.constants(0))


def test_evaluation_reports_terms_separately_from_the_loss_and_also_without_a_weight():
    plain, found = scores((WEIGHT, 0.0)), scores()
    assert found == pytest.approx(plain, rel=1e-6)
    # Two layers, each above 1.
    assert found[TERM] > 2
    perplexity = np.exp(found["loss"])
    assert found["perplexity"] == pytest.approx(perplexity)


@pytest.mark.promise(reason="whole steps are compiled")
@pytest.mark.parametrize("executor", ["map", "vmap"])
def test_population_members_have_their_own_term_weights(executor):
    program, weights = program_of(), (0.4, 1.5)
    together = make_executor(program, [constants_of(program, weight) for weight in weights], executor)
    states = together.combine([state_of(program) for _ in weights])
    batches = StackedBatches({"tokens": TOKENS[None]}, (0, 0))
    states, metrics = together.step(states, batches, [True, True])
    for index, weight in enumerate(weights):
        params = jax.device_get(together.state_of(states, index)["params"])
        same_step((params, together.fetch_metrics(metrics)[index]), one_step(weight=weight))
    assert one_step(weight=1.5)[1]["gradient_norm"] != one_step()[1]["gradient_norm"]


SCRIPT = """
import jax
from tests.objectives.losses.penalised import penalised
with penalised():
    from tests.objectives.losses import test_layer_terms as tests
    from tests.support.building import random_values
    config, model, objective = tests.made({tests.WEIGHT: 0.4, "data.batch_size": 8, "mesh.fsdp": 2 if len(jax.devices()) > 1 else 1})
    tokens = tests.np.concatenate([tests.TOKENS, tests.TOKENS[:, ::-1]])
    program = tests.make_program(config, model, objective, tests.make_mesh(config))
    state = jax.device_put(program.initial_state(0) | {"params": random_values(model, 1)},
                           jax.tree.map(lambda leaf: leaf.sharding, program.abstract_state))
    metrics = program.train_step(state, program.put_batch({"tokens": tokens}), program.constants(0))[1]
    print(len(jax.devices()), *(float(metrics[name]) for name in ("loss", tests.TERM, "gradient_norm")))
"""


@pytest.mark.promise(reason="processes of one and of eight devices")
def test_several_devices_give_the_step_of_one_device():
    root, found = Path(__file__).parents[3], {}
    for devices in (1, 8):
        environment = os.environ | {
            "JAX_NUM_CPU_DEVICES": str(devices),
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": str(root),
        }
        done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr[-2000:]
        count, *found[devices] = map(float, done.stdout.split())
        assert count == devices
    np.testing.assert_allclose(found[8], found[1], rtol=2e-5)


def test_generation_ignores_the_terms():
    with_cache, whole = stepwise_and_full_scores({WEIGHT: 0.4}, steps=2)
    np.testing.assert_allclose(with_cache, whole, atol=1e-5)


TASK = {"model.architecture": "encoder", "objective.kind": "classification", "model.head.classes": 3,
        "data.source": "csv:x", "training.eval_batches": "auto", WEIGHT: 0.4}  # fmt: skip


def test_frozen_body_has_no_terms():
    assert used_loss_terms(flatten(tiny(TASK))) == (TERM,)
    assert used_loss_terms(flatten(tiny(TASK | {"training.trained_layers": 1}))) == (TERM,)
    assert used_loss_terms(flatten(tiny(TASK | {"training.trained_layers": 0}))) == ()


@pytest.mark.promise(reason="a task is trained")
def test_frozen_layers_get_no_gradient_from_terms():
    program = program_of(*(TASK | {"training.trained_layers": 1, "model.num_layers": 3}).items())
    batch = {"tokens": TOKENS[:, :8], "labels": np.array([0, 2, 1, -1], np.int32)}
    before = jax.device_get(program.initial_state(0)["params"])
    after, metrics = program.train_step(program.initial_state(0), program.put_batch(batch), program.constants(0))
    assert metrics[TERM] > 3
    one, other = (
        tree["stack"]["layers"]["ffn"]["down"]["kernel"] for tree in (before, jax.device_get(after["params"]))
    )
    assert [bool((a != b).any()) for a, b in zip(one, other, strict=True)] == [False, False, True]


def test_undeclared_or_non_scalar_terms_are_refused():
    context = Context(jnp.arange(4)[None])
    with pytest.raises(ValueError, match=r"LOSS_TERMS declares no weight for the term 'surprise'; it has \["):
        context.add_loss("surprise", jnp.float32(1))
    with pytest.raises(ValueError, match=r"the term 'output_cosh' must be a scalar, not of shape \(3,\)"):
        context.add_loss(TERM, jnp.zeros(3))


def test_term_weights_are_program_arguments_in_every_scope():
    inside = "model.decoder.ffn.output_penalty"
    one, other, none = (flatten(tiny(ENCODER_DECODER | {inside: weight})) for weight in (0.1, 0.2, 0.0))
    assert is_traced(WEIGHT)
    assert is_traced(inside)
    assert program_key(one) == program_key(other) != program_key(none)
    assert used_loss_terms(one) == (TERM,)
    assert used_loss_terms(none) == ()
    assert f"eval/{TERM}" in written_metrics(one)
    assert f"eval/{TERM}" in written_metrics(none)
    assert f"eval/{TERM}" not in written_metrics(flatten(tiny(TASK | {"training.trained_layers": 0})))


def test_terms_of_kinds_that_are_not_in_use_are_not_declared(monkeypatch):
    field = Field("model.ffn.of_gated", 0.0, float, "x", minimum=0, when=("model.ffn.kind", ("swiglu",)))
    monkeypatch.setitem(LOSS_TERMS, "gated", "model.ffn.of_gated")
    FIELDS.add(field)
    try:
        one, other = (flatten(tiny({"model.ffn.kind": kind})) for kind in ("swiglu", "gelu"))
        sides = flatten(tiny(ENCODER_DECODER | {"model.decoder.ffn.kind": "swiglu"}))
        assert [declared_loss_terms(flat) for flat in (one, other, sides)] == [
            (TERM, "gated"),
            (TERM,),
            (TERM, "gated"),
        ]
        assert used_loss_terms(one) == ()
    finally:
        FIELDS.remove("model.ffn.of_gated")


def test_every_term_has_a_config_field():
    for name, path in LOSS_TERMS.items():
        assert path.startswith("model."), name
        assert (BY_PATH[path].kind, BY_PATH[path].minimum) == (float, 0), name
