"""Layers that read the embedding and an output of the first layer, against the same layers with a
Python list, scanned or not.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.decoding.making import stepwise_and_full_scores
from tests.support.building import (
    ENCODER_DECODER,
    by_default,
    call,
    close,
    counting,
    programs_inside,
    random_values,
    scanned_and_rematerialised,
    tiny,
    with_values,
)
from zoo.layers.feedforward import FeedForward
from zoo.models.architectures import make_model

TOKENS = np.array([[3, 1, 12, 0, 7, 7], [0, 5, 4, 4, 1, 9]])
SOURCE = np.array([[8, 1, 1, 2], [11, 3, 6, 10]])
# Models are cached by their fields, so this width is unique to this test.
WIDTH = {"model.ffn.hidden_dim": 22, "model.position.kind": "rope", "model.attention.implementation": "einsum"}
MODELS = {
    "all alike": {"model.num_layers": 3},
    "kinds and a rest": {
        "model.num_layers": 4, "model.layers.pattern": ("near", "far"), "model.layers.kinds.near.attention.window": 2,
        "model.layers.kinds.far.attention.num_kv_heads": 1},
    "a kind twice": {
        "model.num_layers": 5, "model.layers.pattern": ("near", "far", "far"), "model.layers.kinds.near.attention.window": 2,
        "model.layers.kinds.far.attention.num_kv_heads": 1},
    "one layer": {"model.num_layers": 1},
    "two sides": ENCODER_DECODER | {"model.num_layers": 2, "model.decoder.num_layers": 3},
}  # fmt: skip


class ReadingFeedForward(FeedForward):
    """y + y_first / 2 + tanh(embedding) / (3 + index), y_first the output of the first layer."""

    publishes = ("output",)

    def __call__(self, x, context=None):
        y = super().__call__(x, context)
        context.publish("output", y)
        return y + context.published["output"] / 2 + jnp.tanh(context.embedding) / (3 + context.layer_index)


class PlainFeedForward(FeedForward):
    """Computes the same with unrolled layers; a stack's embedding is identified by its length."""

    first, embeddings = None, {}

    def __call__(self, x, context=None):
        y = super().__call__(x, context)
        if context.layer_index == 0:
            PlainFeedForward.first = y
        return y + PlainFeedForward.first / 2 + jnp.tanh(self.embeddings[x.shape[1]]) / (3 + context.layer_index)


def loss_of(fields, layer, monkeypatch):
    """Returns a function from values to a number that depends on all hidden states."""
    monkeypatch.setattr("zoo.layers.block.make_feed_forward", layer)
    model = make_model(tiny(WIDTH | fields))

    def loss(values):
        PlainFeedForward.embeddings = {
            tokens.shape[1]: values["embedding"][tokens].astype(jnp.float32) for tokens in (SOURCE, TOKENS)
        }
        held, arguments = with_values(model, values), (TOKENS, counting(6))
        if model.config.architecture == "encoder_decoder":
            arguments = (SOURCE, TOKENS, counting(4, causal=False), counting(6))
        return jnp.sin(held(*arguments)).mean()

    return loss, random_values(model, 1)


@pytest.mark.parametrize(
    ("name", "scan", "remat"), scanned_and_rematerialised(MODELS, ["all alike"], ["kinds and a rest", "two sides"])
)
def test_all_layers_read_the_first_layer_and_the_embedding(name, scan, remat, monkeypatch):
    plain, values = loss_of(MODELS[name], PlainFeedForward, monkeypatch)
    expected, expected_gradient = call(jax.value_and_grad(plain), values)
    reading, _ = loss_of(
        MODELS[name] | {"model.scan_layers": scan, "model.remat": remat}, ReadingFeedForward, monkeypatch
    )
    actual, gradient = call(jax.value_and_grad(reading), values)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-7)
    largest = max(abs(leaf).max() for leaf in jax.tree.leaves(expected_gradient))
    for one, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected_gradient), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize(("name", "loops"), [("all alike", [2]), ("kinds and a rest", [1, 1, 1]), ("one layer", [])])
def test_layers_after_the_first_are_scanned(name, loops, monkeypatch):
    loss, values = loss_of(MODELS[name] | {"model.scan_layers": True}, ReadingFeedForward, monkeypatch)

    def lengths(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == "scan":
                yield equation.params["length"]
            for inside in programs_inside(equation):
                yield from lengths(inside)

    assert list(lengths(jax.make_jaxpr(loss)(values).jaxpr)) == loops


@pytest.mark.parametrize(
    "name",
    by_default(["all alike"], ["all alike", "two sides"], pytest.mark.promise(reason="another model is decoded")),
)
@pytest.mark.promise(reason="a model is decoded step by step; tests/decoding does so for every kind of layer")
def test_cached_decoding_reads_values_of_the_current_token(name, monkeypatch):
    monkeypatch.setattr("zoo.layers.block.make_feed_forward", ReadingFeedForward)
    close(*stepwise_and_full_scores(WIDTH | MODELS[name], prompts=(3, 1), steps=2, slots=16))


def test_undeclared_published_name_is_refused(monkeypatch):
    undeclared = type("Undeclared", (ReadingFeedForward,), {"publishes": ()})
    loss, values = loss_of({}, undeclared, monkeypatch)
    with pytest.raises(ValueError, match="'output' is published by a module without a class attribute `publishes`"):
        jax.eval_shape(loss, values)


class LatePublisher(ReadingFeedForward):
    def __call__(self, x, context=None):
        if context.layer_index > 0:
            context.publish("late", x)
        return super().__call__(x, context)


def test_publishing_from_a_later_layer_is_refused(monkeypatch):
    loss, values = loss_of({}, LatePublisher, monkeypatch)
    with pytest.raises(ValueError, match=r"the first layer does not publish 'late'; it publishes \['output'\]"):
        jax.eval_shape(loss, values)
