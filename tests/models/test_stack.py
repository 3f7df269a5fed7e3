"""Scanning and recomputation must not change results, with or without dropout; dropout must be
independent in each layer.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import (
    by_default,
    call,
    compiled,
    counting,
    programs_inside,
    random_values,
    tiny,
    with_values,
)
from zoo.layers.context import Context, DropoutKey
from zoo.models.architectures import make_model
from zoo.models.functional import split

TOKENS = np.array([[3, 1, 12, 0, 7, 7], [0, 5, 4, 4, 1, 9]])
DROPPING = {"model.dropout": 0.2, "model.attention.dropout": 0.3}


def program(scan, remat, dropout, kernel="auto"):
    """Returns a function from a model's values to its squared output, and the values."""
    config = tiny(
        {
            "model.position.kind": "rope",
            "model.scan_layers": scan,
            "model.remat": remat,
            "model.attention.implementation": kernel,
        }
        | (DROPPING if dropout else {})
    )
    model = make_model(config)
    context = Context(jnp.arange(6)[None], dropout_key=DropoutKey(jax.random.key(5)) if dropout else None)

    def loss(values):
        return jnp.square(with_values(model, values)(TOKENS, context) - 1).mean()

    return loss, random_values(model, 1)


@functools.cache
def loss_and_gradient(scan, remat, dropout):
    loss, values = program(scan, remat, dropout)
    return call(jax.value_and_grad(loss), values)


@pytest.mark.parametrize(("scan", "remat", "dropout"), by_default([(True, "dots", True)], [
    (False, "full", False), (False, "dots", False), (True, "none", False), (True, "full", False), (True, "dots", False),
    (True, "none", True), (False, "full", True), (True, "dots", True),
], pytest.mark.promise(reason="other ways to scan and rematerialise")))  # fmt: skip
def test_scan_and_remat_do_not_change_the_result(scan, remat, dropout):
    # Measured: losses differ by at most 1e-7 of themselves, gradients by at most 1.6e-6 of the
    # largest of their array.
    loss, gradient = loss_and_gradient(scan, remat, dropout)
    expected, expected_gradient = loss_and_gradient(False, "none", dropout)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    for one, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected_gradient), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=5e-6 * abs(other).max())


def operations(scan, remat):
    """Counts the primitives in a model's gradient, the body of a loop once."""
    counts: dict[str, int] = {}

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            counts[equation.primitive.name] = counts.get(equation.primitive.name, 0) + 1
            for sub in programs_inside(equation):
                walk(sub)

    loss, values = program(scan, remat, False, "einsum")
    walk(jax.make_jaxpr(jax.grad(loss))(values).jaxpr)
    return counts


def test_scan_and_remat_change_the_program():
    kept, full, dots = (operations(False, remat) for remat in ("none", "full", "dots"))
    assert "scan" not in kept
    assert operations(True, "none")["scan"] == 2
    assert "remat2" not in kept
    assert full["remat2"] >= 2
    assert full["dot_general"] > kept["dot_general"]
    assert dots["dot_general"] == kept["dot_general"]
    assert dots["exp"] > kept["exp"]


@functools.cache
def hidden_program(overrides):
    """Returns a function from the seed of a dropout key, or None, to the output of a random
    one-layer model.
    """
    model = make_model(tiny({"model.position.kind": "none", "model.num_layers": 1} | dict(overrides)))
    with_random = with_values(model, random_values(model, 2))

    def states(key):
        dropout_key = None if key is None else DropoutKey(jax.random.key(key))
        return with_random(TOKENS, Context(jnp.arange(6)[None], dropout_key=dropout_key))

    return compiled(states)


def hidden(overrides, key=None):
    return hidden_program(tuple(overrides.items()))(key)


def test_dropout_needs_a_key():
    np.testing.assert_array_equal(hidden(DROPPING), hidden({}))


@pytest.mark.parametrize("field", ["model.dropout", "model.attention.dropout"])
def test_dropout_depends_on_the_key(field):
    plain, one, other = hidden({}), hidden({field: 0.5}, 1), hidden({field: 0.5}, 2)
    np.testing.assert_array_equal(one, hidden({field: 0.5}, 1))
    assert abs(one - plain).max() > 0.1
    assert abs(one - other).max() > 0.1


def test_dropout_applies_to_the_embedding_and_both_sublayers():
    # Without norms only dropout makes an output exactly zero, and the share of zeros tells how
    # often it was applied.
    zeros = {}
    parallel = {"model.residual": False, "model.parallel": "own_norms", "model.norm.kind": "rmsnorm"}
    for name, overrides in {"residual": {}, "alone": {"model.residual": False}, "parallel": parallel}.items():
        out = hidden({"model.norm.kind": "none", "model.dropout": 0.5, "model.num_layers": 1, **overrides}, 3)
        zeros[name] = (out == 0).mean()
    assert zeros["alone"] == pytest.approx(0.5, abs=0.15)  # the feed-forward's output
    assert zeros["residual"] == pytest.approx(0.125, abs=0.1)  # embedding, attention and feed-forward, all three
    assert zeros["parallel"] == pytest.approx(0.25, abs=0.1)  # attention and feed-forward


@pytest.mark.parametrize("scan", [False, True])
def test_every_layer_of_a_model_has_another_dropout_mask(scan):
    # Both layers add 1 to a stream of zeros: with equal masks an element would be 0 or 4 and never
    # 2.
    plain = {"model.position.kind": "none", "model.norm.kind": "none"}
    model = make_model(tiny(plain | {"model.dropout": 0.5, "model.scan_layers": scan}))
    values = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), split(model)[1])
    values["stack"]["layers"]["ffn"]["down"]["bias"] += 1
    context = Context(jnp.arange(6)[None], dropout_key=DropoutKey(jax.random.key(0)))
    out = call(lambda values: with_values(model, values)(TOKENS, context), values)
    shares = [(out == value).mean() for value in (0, 2, 4)]
    assert sum(shares) == 1
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.15)


def test_dropout_preserves_the_mean():
    context, x = (
        Context(jnp.arange(4)[None], dropout_key=DropoutKey(jax.random.key(0))),
        np.full((400, 400), 2.0, np.float32),
    )
    for rate in (0.1, 0.5, 0.9):
        dropped = call(lambda x, rate=rate: context.dropout(x, rate, "here"), x)
        kept = dropped != 0
        assert kept.mean() == pytest.approx(1 - rate, abs=5 * (rate * (1 - rate)) ** 0.5 / 400)
        np.testing.assert_allclose(dropped[kept], 2 / (1 - rate), rtol=1e-6)
    assert call(lambda x: context.dropout(x, 0.3, "here"), x.astype(jnp.bfloat16)).dtype == jnp.bfloat16


def test_every_site_and_layer_has_another_dropout_key():
    context, x = Context(jnp.arange(4)[None], dropout_key=DropoutKey(jax.random.key(0))), np.ones((30, 30), np.float32)
    places = [context, context.layer(0), context.layer(1)]
    masks = call(
        lambda x: [place.dropout(x, 0.5, path) for place in places for path in ("attention", "ffn", "embedding")], x
    )
    agreement = [(one == other).mean() for i, one in enumerate(masks) for other in masks[:i]]
    assert len(agreement) == 36
    assert all(0.4 < share < 0.6 for share in agreement)


def test_context_without_dropout_key_stays_without_in_every_layer():
    assert counting(4).layer(3).dropout_key is None
