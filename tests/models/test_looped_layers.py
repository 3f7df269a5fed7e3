"""A loop over layers equals layers with weights of their own that are equal, the gradient of a looped
weight is the sum of theirs, and as many turns run as are drawn or as evaluation asks for.
"""

import collections
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.support.building import (
    by_default,
    call,
    close,
    random_statistics,
    random_values,
    tiny,
    together,
    with_values,
)
from tests.support.comparisons import compared
from tests.support.visibility import normal
from zoo.config import evaluated_layers, stored_layers
from zoo.layers.context import Context, DropoutKey
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, statistics_of
from zoo.models.loop_draws import draw_loops, largest_loops
from zoo.nested import flatten, unflatten

TOKENS = np.array([[3, 1, 12, 0, 7, 7], [0, 5, 4, 4, 1, 9]])
EQUAL_WEIGHTS = "distinct layers with equal weights"
CYCLE = "model.layers.sharing"
LOOP = {CYCLE: "cycle", "model.position.kind": "rope"}
# Name -> fields of a loop, with three turns where nothing else is said.
LOOPS = {
    # Masks of dropout and a norm that depend on the layer.
    "prelude and coda": LOOP | {"model.layers.distinct": 4, "model.layers.prelude": 1, "model.layers.coda": 1,
        "model.num_layers": 8, "model.norm.placement": "pre_scaled", "model.dropout": 0.2},
    "two layers": LOOP | {"model.layers.distinct": 2, "model.num_layers": 6},
    # The first layer runs by itself, and is looped over.
    "first values": LOOP | {"model.layers.distinct": 2, "model.num_layers": 6, "model.attention.kind": "value_residual",
        "model.attention.value_mix_learned": True},
    "first values, after a prelude": LOOP | {"model.layers.distinct": 3, "model.layers.prelude": 2, "model.num_layers": 5,
        "model.attention.kind": "value_residual"},
    # Values that are not parameters.
    "features": LOOP | {"model.layers.distinct": 2, "model.layers.coda": 1, "model.num_layers": 4, "model.attention.kind": "performer"},
    # Terms of the loss, counts that all layers add to, and biases.
    "experts": LOOP | {"model.layers.distinct": 2, "model.layers.coda": 1, "model.num_layers": 4, "model.ffn.kind": "moe",
        "model.ffn.experts.bias_rate": 0.1, "model.ffn.experts.balance_weight": 0.1},
    # Constants that depend on the number of layers.
    "decays by depth": LOOP | {"model.layers.distinct": 2, "model.num_layers": 6, "model.attention.kind": "lightning",
        "model.position.kind": "none"},
}  # fmt: skip
OTHER = pytest.mark.promise(reason="other loops, scanned and rematerialised")


def program(fields, training=True):
    """Returns (function from values, statistics and a number of turns to loss, outputs, statistics and
    terms of the loss; the model).
    """
    config = tiny(fields)
    model = make_model(config)
    key = DropoutKey(jax.random.key(5)) if training else None

    def loss(values, stats, turns):
        held, losses = with_values(model, values, stats), {}
        drawn = turns if config.model.layers.loop_draws != "none" else None
        context = Context(
            jnp.arange(6)[None], in_order=True, dropout_key=key, training=training, loops=drawn, losses=losses
        )
        out = held(TOKENS, context)
        return (out * normal(*out.shape)).sum() + sum(losses.values()), (out, statistics_of(held), losses)

    return loss, model


def places(fields, turns):
    """Returns the places of the stored layers in the order of their use, by hand."""
    before, after = fields.get("model.layers.prelude", 0), fields.get("model.layers.coda", 0)
    stored = list(range(fields["model.layers.distinct"]))
    return [*stored[:before], *stored[before : len(stored) - after] * turns, *stored[len(stored) - after :]]


def plain(fields, turns):
    """Returns the fields of as many layers with weights of their own as so many turns apply."""
    kept = {path: value for path, value in fields.items() if not path.startswith("model.layers.")}
    return kept | {"model.num_layers": len(places(fields, turns)), "model.scan_layers": True}


@functools.cache
def distinct_results(name, turns, training):
    """Returns the results of distinct layers, with gradients summed over the uses of each weight, and
    statistics likewise: counts are summed, and of all else there is the last.
    """
    fields = LOOPS[name]
    order, stored = places(fields, turns), fields["model.layers.distinct"]
    _, looped = program(fields)
    loss, _ = program(plain(fields, turns), training)
    values, stats = random_values(looped, 1), random_statistics(looped, 2)

    def repeated(tree):
        flat = flatten(tree, "/")
        return unflatten(
            {path: leaf[np.array(order)] if "/layers/" in f"/{path}" else leaf for path, leaf in flat.items()}, "/"
        )

    (_, (out, after, losses)), gradient = call(
        jax.value_and_grad(loss, has_aux=True), repeated(values), repeated(stats), jnp.int32(0)
    )

    def summed(leaf):
        leaf = np.asarray(leaf)
        return np.stack([leaf[np.array(order) == place].sum(0) for place in range(stored)])

    def last(leaf):
        return np.stack([leaf[np.flatnonzero(np.array(order) == place)[-1]] for place in range(stored)])

    flat = {path: summed(leaf) if "/layers/" in f"/{path}" else leaf for path, leaf in flatten(gradient, "/").items()}
    before = flatten(stats, "/")
    statistics = {}
    for path, leaf in flatten(after, "/").items():
        if "/layers/" not in f"/{path}":
            statistics[path] = leaf
        elif path.endswith("/sent"):
            statistics[path] = summed(np.asarray(leaf) - before[path][np.array(order)]) + before[path]
        else:
            statistics[path] = last(leaf)
    return out, statistics, losses, flat


WAYS = {
    "fixed": lambda fields, turns: {"model.num_layers": len(places(fields, turns))},
    "drawn": lambda fields, turns: {"model.layers.loop_draws": "uniform"},
    "evaluated": lambda fields, turns: {"model.layers.eval_loops": turns},
}
CASES = [
    ("prelude and coda", 4, "drawn", False, "none"),
    ("prelude and coda", 4, "drawn", True, "full"),
    ("prelude and coda", 1, "drawn", True, "none"),
    ("prelude and coda", 5, "evaluated", True, "none"),
    ("first values", 2, "drawn", False, "none"),
    ("first values", 1, "drawn", True, "none"),
    ("first values, after a prelude", 2, "drawn", True, "none"),
    ("features", 2, "fixed", True, "none"),
    ("experts", 2, "drawn", False, "none"),
    ("experts", 3, "fixed", False, "none"),
    ("decays by depth", 5, "evaluated", False, "none"),
    ("decays by depth", 2, "drawn", False, "none"),
    ("two layers", 3, "fixed", True, "dots"),
]
DEFAULT = [CASES[1], CASES[4]]
REPEATED = [CASES[2], CASES[5], CASES[9], CASES[11]]


@pytest.mark.parametrize(
    ("name", "turns", "way", "scan", "remat"),
    by_default(DEFAULT, CASES, OTHER, REPEATED, "the same loop is compared with another number of turns"),
)
def test_a_loop_equals_distinct_layers_with_equal_weights(name, turns, way, scan, remat):
    fields = LOOPS[name] | WAYS[way](LOOPS[name], turns) | {"model.scan_layers": scan, "model.remat": remat}
    training = way != "evaluated"
    loss, model = program(fields, training)
    values, stats = random_values(model, 1), random_statistics(model, 2)
    (_, (out, after, losses)), gradient = call(jax.value_and_grad(loss, has_aux=True), values, stats, jnp.int32(turns))
    expected, statistics, terms, summed = distinct_results(name, turns, training)
    about = {"config": tiny(fields), "parts": "model.layers", "against": EQUAL_WEIGHTS}
    compared(out, expected, 2e-6, **about)
    found = flatten(after, "/")
    assert found.keys() == statistics.keys()
    for path, leaf in found.items():
        close(leaf, statistics[path], 1e-6)
    assert losses.keys() == terms.keys()
    for place, value in losses.items():
        np.testing.assert_allclose(value, terms[place], rtol=1e-6)
    found = flatten(gradient, "/")
    assert found.keys() == summed.keys()
    for path, one in found.items():
        compared(one, summed[path], 1e-5, **about)


REINJECTED = LOOPS["prelude and coda"] | {"model.layers.reinjection": True, "model.dropout": 0.0}


def test_the_gradient_through_reinjection_is_that_of_the_equation():
    """Along a random direction, against differences of the float64 reference."""
    fields = {"model.num_layers": 6, "model.layers.loop_draws": "poisson"}
    loss, model = program(REINJECTED | fields)
    values = random_values(model, 1)
    direction = random_values(model, 7)
    gradient = call(jax.grad(lambda values: loss(values, {}, jnp.int32(3))[0]), values)
    slope = sum(jax.tree.leaves(jax.tree.map(lambda g, d: float((np.float64(g) * d).sum()), gradient, direction)))
    rows, config = reference.counting(2, 6), tiny(REINJECTED).model

    def of_reference(step):
        moved = jax.tree.map(lambda v, d: np.float64(v) + step * np.float64(d), values, direction)
        moved = together(moved, {})
        x = reference.tower(config, moved, reference.embed(config, moved, TOKENS), rows)
        return (x * normal(*x.shape)).sum()

    compared(
        slope,
        (of_reference(1e-5) - of_reference(-1e-5)) / 2e-5,
        1e-4,
        config=tiny(REINJECTED | fields),
        parts="model.layers",
    )


@pytest.mark.parametrize("scan", [True, pytest.param(False, marks=OTHER)])
def test_drawn_and_evaluated_turns_of_a_reinjected_loop_are_those_of_a_fixed_one(scan):
    def outputs(fields, training, turns=0):
        loss, model = program(REINJECTED | {"model.scan_layers": scan} | fields, training)
        return call(loss, random_values(model, 1), {}, jnp.int32(turns))[1][0]

    fixed = outputs({"model.num_layers": 2 + 2 * 5}, True)
    close(outputs({"model.layers.loop_draws": "uniform"}, True, 5), fixed, 1e-6)
    close(outputs({"model.layers.loop_draws": "poisson"}, True, 5), fixed, 1e-6)
    close(outputs({"model.layers.eval_loops": 5}, False), fixed, 1e-6)
    # The numbers of training and of evaluation are read by one of them alone.
    as_configured = outputs({}, True)
    np.testing.assert_array_equal(outputs({"model.layers.eval_loops": 5}, True), as_configured)
    np.testing.assert_array_equal(outputs({"model.layers.loop_draws": "uniform"}, False), outputs({}, False))


def test_turns_that_are_not_drawn_are_skipped():
    """They are branches of a loop over the largest number, not computed and thrown away."""
    loss, model = program(LOOPS["two layers"] | {"model.layers.loop_draws": "uniform"})
    values = random_values(model, 1)
    (scan,) = [e for e in jax.make_jaxpr(loss)(values, {}, jnp.int32(2)).eqns if e.primitive.name == "scan"]
    assert scan.params["length"] == 5
    inside = [equation.primitive.name for equation in scan.params["jaxpr"].eqns]
    assert inside.count("cond") == 1
    assert "dot_general" not in inside


@functools.cache
def draws(kind, mean, number=40_000):
    model = tiny(LOOP | {"model.layers.distinct": 1, "model.num_layers": mean, "model.layers.loop_draws": kind}).model
    keys = jax.random.split(jax.random.key(3), number)
    return np.asarray(call(jax.vmap(lambda key: draw_loops(model, key)), keys)), largest_loops(model)


@pytest.mark.parametrize("mean", [2, 8])
def test_uniform_draws_are_uniform_about_the_mean(mean):
    found, largest = draws("uniform", mean)
    counts = collections.Counter(found.tolist())
    assert sorted(counts) == list(range(1, 2 * mean)) == list(range(1, largest + 1))
    share = 1 / (2 * mean - 1)
    error = (share * (1 - share) / len(found)) ** 0.5
    assert all(abs(count / len(found) - share) < 5 * error for count in counts.values())


@pytest.mark.parametrize("mean", [2, 8])
def test_poisson_draws_have_the_distribution_of_the_paper_with_the_mean_that_is_named(mean):
    found, largest = draws("poisson", mean)
    generator = np.random.default_rng(0)
    rates = np.exp(generator.normal(np.log(mean - 1) - 0.125, 0.5, 400_000))
    expected = 1 + generator.poisson(rates)
    assert abs(expected.mean() - mean) < 0.02 * mean
    expected = np.minimum(expected, 3 * mean)
    assert (found.min(), found.max(), largest) == (1, 3 * mean, 3 * mean)
    assert abs(found.mean() - expected.mean()) < 5 * expected.std() / len(found) ** 0.5
    assert 0.995 * mean < expected.mean() < mean
    for number in range(1, 3 * mean + 1):
        share = (expected == number).mean()
        assert abs((found == number).mean() - share) < 5 * (max(share, 1e-4) / len(found)) ** 0.5


def test_initial_values_are_those_of_the_first_distinct_layers():
    fields = LOOPS["prelude and coda"]
    looped, distinct = (
        flatten(call(functools.partial(initialise, make_model(tiny(own)), 3)), "/")
        for own in (fields, plain(fields, 3))
    )
    assert looped.keys() == distinct.keys()
    for path, value in looped.items():
        expected = distinct[path][np.array([0, 1, 2, 7])] if path.startswith("stack/layers/") else distinct[path]
        np.testing.assert_array_equal(value, expected, err_msg=path)
    assert stored_layers(tiny(fields).model) == (0, 1, 2, 7)


def test_a_loop_has_the_parameters_of_its_layers_and_the_operations_of_their_uses():
    fields = LOOPS["prelude and coda"]
    looped = cost.summary(tiny(fields | {"model.layers.loop_draws": "poisson", "model.layers.eval_loops": 5}))
    as_many_parameters, as_many_flops = (cost.summary(tiny(plain(fields, turns))) for turns in (1, 3))
    assert looped.parameters == as_many_parameters.parameters
    assert looped.flops_per_token == pytest.approx(as_many_flops.flops_per_token, rel=1e-12)
    model, deeper = (tiny(own).model for own in (fields | {"model.layers.eval_loops": 5}, plain(fields, 5)))
    assert evaluated_layers(model) == deeper.num_layers == 12
    assert cost.cached_numbers(model, 7) == cost.cached_numbers(deeper, 7)
