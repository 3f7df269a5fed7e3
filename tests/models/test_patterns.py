"""Layers of several kinds give equal outputs, gradients and statistics, scanned or unrolled, with
or without recomputation.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import call, programs_inside, random_statistics, random_values, tiny, with_values
from tests.support.visibility import normal
from zoo.layers.context import Context, DropoutKey
from zoo.models.architectures import make_model
from zoo.models.functional import split, statistics_of

TOKENS = np.array([[3, 1, 12, 0, 7, 7], [0, 5, 4, 4, 1, 9]])
POSITIONS = np.array([[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, -1, -1]])
# Kinds of different shapes, so that layers of different kinds cannot be confused.
KINDS = {
    "model.position.kind": "rope", "model.layers.kinds.narrow.attention.num_kv_heads": 1, "model.layers.kinds.narrow.attention.window": 2,
    "model.layers.kinds.gated.ffn.kind": "swiglu", "model.layers.kinds.gated.position.kind": "none",
}  # fmt: skip
BATCHNORM = {"model.norm.kind": "batchnorm", "model.norm.momentum": 0.5}
PERFORMER = {"model.layers.kinds.gated.attention.kind": "performer"}
DROPPING = {"model.dropout": 0.2, "model.attention.dropout": 0.3}
# Name -> fields: whole periods and a rest, a kind that comes twice, less than a period, and layers
# that are all alike.
STACKS = {
    "two periods and a rest": KINDS | BATCHNORM | {"model.layers.pattern": ("narrow", "gated"), "model.num_layers": 5},
    "a kind twice": KINDS | BATCHNORM | PERFORMER | {"model.layers.pattern": ("narrow", "gated", "narrow"), "model.num_layers": 3},
    "dropping": KINDS | DROPPING | {"model.layers.pattern": ("gated", "narrow"), "model.num_layers": 3},
    "less than a period": {name: value for name, value in KINDS.items() if "gated" not in name} | BATCHNORM | {
        "model.layers.pattern": ("narrow", "plain"), "model.layers.kinds.plain.residual": True, "model.num_layers": 1},
    "one kind, then another": KINDS | BATCHNORM | {"model.layers.pattern": ("gated",) + ("narrow",) * 3, "model.num_layers": 4},
    "all alike": BATCHNORM | {"model.num_layers": 3},
}  # fmt: skip


def program(name, scan, remat):
    """Returns (function from values and statistics to loss and new statistics, values, statistics)."""
    config = tiny(
        STACKS[name] | {"model.attention.implementation": "einsum", "model.scan_layers": scan, "model.remat": remat}
    )
    model = make_model(config)
    key = DropoutKey(jax.random.key(5)) if name == "dropping" else None
    context = Context(jnp.asarray(POSITIONS), in_order=True, dropout_key=key, training=True)

    def loss(values, stats):
        held = with_values(model, values, stats)
        out = jnp.where(POSITIONS[..., None] >= 0, held(TOKENS, context), 0)
        return (out * normal(*out.shape)).sum(), (out, statistics_of(held))

    return loss, random_values(model, 1), random_statistics(model, 2)


@functools.cache
def results(name, scan, remat):
    """((loss, (outputs, statistics)), gradient)."""
    loss, values, stats = program(name, scan, remat)
    return call(jax.value_and_grad(loss, has_aux=True), values, stats)


@pytest.mark.parametrize(("name", "scan", "remat"), [
    ("two periods and a rest", True, "none"),
    *(pytest.param(*case, marks=pytest.mark.promise(reason="other stacks, scanned and rematerialised")) for case in (
        ("two periods and a rest", False, "dots"), ("less than a period", True, "none"), ("dropping", True, "products"), ("a kind twice", True, "full"),
        ("one kind, then another", True, "full"), ("all alike", True, "dots"))),
    *(pytest.param(*case, marks=pytest.mark.slow(reason="each stack and each way is compared above")) for case in (
        *((name, True, "none") for name in ("dropping", "a kind twice", "all alike")), ("two periods and a rest", True, "full"), ("dropping", False, "dots"),
        ("two periods and a rest", False, "full"), ("two periods and a rest", True, "dots"), ("dropping", True, "full"),
        ("a kind twice", False, "dots"))),
])  # fmt: skip
def test_scan_and_remat_do_not_change_a_pattern(name, scan, remat):
    (loss, (out, stats)), gradient = results(name, scan, remat)
    (expected_loss, (expected, expected_stats)), expected_gradient = results(name, False, "none")
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    np.testing.assert_allclose(out, expected, rtol=0, atol=2e-6 * abs(expected).max())
    for one, other in ((gradient, expected_gradient), (stats, expected_stats)):
        assert jax.tree.structure(one) == jax.tree.structure(other)
        # Some gradients are 0 up to rounding: those of a bias before batch normalisation and of a
        # key bias without positions.
        largest = max((abs(leaf).max() for leaf in jax.tree.leaves(other)), default=0)
        for leaf, wanted in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(leaf, wanted, rtol=0, atol=1e-5 * max(abs(wanted).max(), 0.1 * largest))


@pytest.mark.parametrize(
    "name",
    [
        "two periods and a rest",
        pytest.param("all alike", marks=pytest.mark.promise(reason="another stack is compiled")),
    ],
)
def test_each_layer_keeps_its_own_statistics(name):
    # The comparison above would also pass if all layers kept the same statistics, or none.
    _, _, before = program(name, False, "none")
    after = results(name, True, "none")[0][1][1]
    for mean, old in zip(jax.tree.leaves(after["stack"]), jax.tree.leaves(before["stack"]), strict=True):
        moved = mean - 0.5 * old
        assert (abs(mean - old).max(axis=1) > 1e-2).all()
        assert all(abs(one - other).max() > 1e-3 for i, one in enumerate(moved) for other in moved[:i])


def test_pattern_equals_a_uniform_stack_of_its_layers():
    # A uniform stack with the layers of both kinds in order of depth computes what the pattern
    # computes.
    kinds = {
        "model.layers.pattern": ("a", "b"),
        "model.layers.kinds.a.residual": True,
        "model.layers.kinds.b.residual": True,
    }
    patterned, uniform = (
        make_model(tiny({"model.num_layers": 5} | fields)) for fields in (kinds | {"model.scan_layers": True}, {})
    )
    values = random_values(patterned, 1)
    a, b = values["stack"]["layers"]["a"], values["stack"]["layers"]["b"]
    order = [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2)]
    merged = jax.tree.map(
        lambda one, other: jnp.stack([{"a": one, "b": other}[kind][number] for kind, number in order]), a, b
    )
    assert jax.tree.leaves(split(patterned)[1]["stack"]["layers"]["b"])[0].shape[0] == 2
    context = Context(jnp.asarray(POSITIONS), in_order=True)
    one, other = call(
        lambda values, merged: (
            with_values(patterned, values)(TOKENS, context),
            with_values(uniform, values | {"stack": {"layers": merged}})(TOKENS, context),
        ),
        values,
        merged,
    )
    filled = POSITIONS >= 0
    np.testing.assert_allclose(one[filled], other[filled], rtol=0, atol=2e-6 * abs(other).max())


@pytest.mark.parametrize(
    ("name", "loops", "remats"),
    [
        ("two periods and a rest", 2, 3),
        ("less than a period", 1, 1),
        ("a kind twice", 3, 3),
        ("one kind, then another", 2, 2),
    ],
)
def test_whole_periods_and_neighbours_of_one_kind_are_scanned(name, loops, remats):
    counts = {"scan": 0, "remat2": 0}

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name in counts:
                counts[equation.primitive.name] += 1
            for inside in programs_inside(equation):
                walk(inside)

    loss, values, stats = program(name, True, "full")
    walk(jax.make_jaxpr(loss)(values, stats).jaxpr)
    assert counts == {"scan": loops, "remat2": remats}
