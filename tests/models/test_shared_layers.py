"""Layers with shared weights equal distinct layers with equal weights, and the gradient of a shared
weight is the sum of theirs.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import (
    ENCODER_DECODER,
    by_default,
    call,
    compiled,
    random_statistics,
    random_values,
    tiny,
    with_values,
)
from tests.support.comparisons import compared
from tests.support.visibility import normal
from zoo.layers.context import Context, DropoutKey
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, statistics_of
from zoo.nested import flatten, unflatten

TOKENS = np.array([[3, 1, 12, 0, 7, 7], [0, 5, 4, 4, 1, 9]])
DISTINCT = "model.layers.distinct"
EQUAL_WEIGHTS = "distinct layers with equal weights"
# Name -> fields, the number of distinct layers among them.
STACKS = {
    "one": {DISTINCT: 1, "model.dropout": 0.2, "model.attention.dropout": 0.3},
    # A norm that depends on the layer.
    "two": {DISTINCT: 2, "model.norm.placement": "pre_scaled"},
    # Values that are not parameters.
    "features": {DISTINCT: 2, "model.attention.kind": "performer"},
    "first values": {DISTINCT: 2, "model.attention.kind": "value_residual", "model.attention.value_mix_learned": True},
}  # fmt: skip

OTHER = pytest.mark.promise(reason="other stacks, scanned and rematerialised")


def repeated(values, uses):
    """Returns values with weights for every layer, by repeating the stored ones."""
    flat = flatten(values, "/")
    return unflatten(
        {path: np.repeat(leaf, uses, axis=0) if "/layers/" in f"/{path}" else leaf for path, leaf in flat.items()}, "/"
    )


def program(fields):
    """Returns (function from values and statistics to loss, outputs and statistics; the model)."""
    model = make_model(tiny({"model.num_layers": 4, "model.position.kind": "rope"} | fields))
    key = DropoutKey(jax.random.key(5)) if "model.dropout" in fields else None

    def loss(values, stats):
        held = with_values(model, values, stats)
        out = held(TOKENS, Context(jnp.arange(6)[None], in_order=True, dropout_key=key, training=True))
        return (out * normal(*out.shape)).sum(), (out, statistics_of(held))

    return loss, model


@functools.cache
def distinct_results(name):
    """Returns the outputs and statistics of distinct layers, and their gradients summed over the
    uses of each weight.
    """
    fields = STACKS[name]
    uses = 4 // fields[DISTINCT]
    _, shared = program(fields)
    loss, _ = program(fields | {DISTINCT: 0})
    values, stats = random_values(shared, 1), random_statistics(shared, 2)
    (_, (out, _)), gradient = call(
        jax.value_and_grad(loss, has_aux=True), repeated(values, uses), repeated(stats, uses)
    )
    flat = flatten(gradient, "/")
    summed = {
        path: leaf.reshape(-1, uses, *leaf.shape[1:]).sum(1) if "/layers/" in f"/{path}" else leaf
        for path, leaf in flat.items()
    }
    return out, stats, summed


CASES = [
    ("two", True, "none"),
    ("one", True, "full"),
    ("features", True, "none"),
    ("first values", True, "none"),
    ("one", False, "none"),
    ("two", False, "dots"),
]


@pytest.mark.parametrize(
    ("name", "scan", "remat"),
    by_default(
        CASES[:1],
        CASES,
        OTHER,
        CASES[4:],
        "tests/models/test_looped_layers.py unrolls the same stack, with other orders of its layers",
    ),
)
def test_shared_layers_equal_distinct_layers_with_equal_weights(name, scan, remat):
    loss, model = program(STACKS[name] | {"model.scan_layers": scan, "model.remat": remat})
    values, stats = random_values(model, 1), random_statistics(model, 2)
    (_, (out, after)), gradient = call(jax.value_and_grad(loss, has_aux=True), values, stats)
    expected, before, summed = distinct_results(name)
    about = {"config": tiny({"model.num_layers": 4} | STACKS[name]), "parts": DISTINCT, "against": EQUAL_WEIGHTS}
    compared(out, expected, 2e-6, **about)
    jax.tree.map(np.testing.assert_array_equal, after, before)
    found = flatten(gradient, "/")
    assert found.keys() == summed.keys()
    for path, one in found.items():
        compared(one, summed[path], 1e-5, **about)


def test_shared_layers_are_scanned():
    def loops(fields):
        loss, model = program(fields)
        text = str(jax.make_jaxpr(loss)(random_values(model, 1), random_statistics(model, 2)))
        return text.count(" scan[")

    one = {DISTINCT: 2, "model.attention.implementation": "einsum", "model.scan_layers": True}
    assert (loops(one), loops(one | {"model.scan_layers": False})) == (2, 0)


def initial(distinct):
    model = make_model(tiny({"model.num_layers": 4, DISTINCT: distinct}))
    return flatten(compiled(lambda: initialise(model, 3))(), "/")


def test_initial_values_are_those_of_the_first_distinct_layers():
    shared, distinct = initial(2), initial(0)
    assert shared.keys() == distinct.keys()
    for path, value in shared.items():
        expected = distinct[path][::2] if path.startswith("stack/layers/") else distinct[path]
        np.testing.assert_array_equal(value, expected, err_msg=path)


@pytest.mark.parametrize("architecture", [{}, ENCODER_DECODER | {"model.encoder.num_layers": 6}])
def test_parameters_are_counted_once_and_flops_per_layer(architecture):
    shared, distinct = (
        cost.summary(tiny({"model.num_layers": 4} | architecture | {DISTINCT: count})) for count in (1, 0)
    )
    assert shared.flops_per_token == distinct.flops_per_token
    layers = {name: count for name, count in distinct.blocks.items() if "blocks/" in name}
    for name, count in distinct.blocks.items():
        depth = 6 if name.startswith("encoder/") else 4
        assert shared.blocks[name] == (count / depth if name in layers else count)
