"""A layer-dependent factor equals weights scaled by hand, scanned or not, with and without
recomputation.
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
    random_values,
    scanned_and_rematerialised,
    tiny,
    with_values,
)
from zoo.layers.feedforward import FeedForward
from zoo.models.architectures import make_model

TOKENS = np.array([[3, 1, 12, 0, 7, 7], [0, 5, 4, 4, 1, 9]])
KINDS = {"model.layers.pattern": ("near", "far"), "model.layers.kinds.near.attention.window": 2,
         "model.layers.kinds.far.attention.window": 0}  # fmt: skip
# Name -> (fields, {path of the stack: indices of the layers and the depth}).
MODELS = {
    "all alike": ({"model.num_layers": 3}, {"stack/layers": ((0, 1, 2), 3)}),
    "kinds and a rest": (
        KINDS | {"model.num_layers": 3},
        {"stack/layers/near": ((0, 2), 3), "stack/layers/far": ((1,), 3)},
    ),
    "two sides": (
        ENCODER_DECODER | {"model.num_layers": 2, "model.decoder.num_layers": 3},
        {"encoder/stack/layers": ((0, 1), 2), "decoder/stack/layers": ((0, 1, 2), 3)},
    ),
}


def factor(index, depth):
    """A factor that grows with the layer (Ye et al. 2025, Differential Transformer, section 2.1)
    and with the depth.
    """
    return (0.8 - 0.6 * jnp.exp(-0.3 * index)) * depth


class DeepeningFeedForward(FeedForward):
    """Scales its output by the factor."""

    def __call__(self, x, context=None):
        return super().__call__(x, context) * factor(context.layer_index, context.depth)


def scaled_by_hand(values, stacks):
    """The values with the factors in the last matrix and bias of the feed-forward layers."""
    values = jax.tree.map(lambda leaf: leaf, values)
    for path, (indices, depth) in stacks.items():
        layers = values
        for name in path.split("/"):
            layers = layers[name]
        factors = np.array([factor(index, depth) for index in indices], np.float32)
        for name, leaf in layers["ffn"]["down"].items():
            layers["ffn"]["down"][name] = leaf * factors.reshape(-1, *[1] * (leaf.ndim - 1))
    return values


def hidden(model, values):
    def run(values):
        held = with_values(model, values)
        if model.config.architecture == "encoder_decoder":
            return held(TOKENS[:, ::-1], TOKENS, counting(6, causal=False), counting(6))
        return held(TOKENS, counting(6))

    return call(run, values)


@pytest.mark.parametrize(
    ("name", "scan", "remat"), scanned_and_rematerialised(MODELS, ["kinds and a rest", "two sides"], [])
)
def test_layers_know_their_index_and_the_depth(name, scan, remat, monkeypatch):
    fields, stacks = MODELS[name]
    fields = fields | {"model.attention.implementation": "einsum"}
    plain = make_model(tiny(fields))
    values = random_values(plain, 1)
    monkeypatch.setattr("zoo.layers.block.make_feed_forward", DeepeningFeedForward)
    deepening = make_model(tiny(fields | {"model.scan_layers": scan, "model.remat": remat}))
    close(hidden(deepening, values), hidden(plain, scaled_by_hand(values, stacks)))


@pytest.mark.parametrize(
    "name",
    by_default(["all alike"], ["all alike", "two sides"], pytest.mark.promise(reason="another model is decoded")),
)
@pytest.mark.promise(reason="a model is decoded step by step; tests/decoding does so for every kind of layer")
def test_layers_know_their_index_in_cached_decoding(name, monkeypatch):
    monkeypatch.setattr("zoo.layers.block.make_feed_forward", DeepeningFeedForward)
    # Models are cached by their fields, so this width is unique to this test.
    close(*stepwise_and_full_scores(MODELS[name][0] | {"model.ffn.hidden_dim": 21}, prompts=(3, 1), steps=2, slots=16))


def test_index_is_a_python_number_in_unrolled_layers():
    context = counting(4).layer(2)
    assert context.layer_index == 2
    assert counting(4).layer_index is None
    assert counting(4).depth is None
