"""A step with the cache says what a pass over all tokens says, after every token, for whatever a decoder can be."""

import itertools

import numpy as np
import pytest

from tests.building import ENCODER_DECODER, close
from tests.decoding.making import both_ways
from zoo.layers.position import POSITIONS

WINDOWS = (0, 3)
KV_HEADS = (4, 2, 1)
LOCAL_GLOBAL = {
    "model.layers.pattern": ("local", "local", "global"), "model.num_layers": 5, "model.position.kind": "rope",
    "model.layers.kinds.local.attention.window": 3, "model.layers.kinds.local.position.theta": 50.0,
    "model.layers.kinds.global.attention.num_kv_heads": 1,
}  # fmt: skip
T5_BIAS = {"model.position.kind": "relative_bias", "model.position.buckets": 8, "model.position.max_distance": 10}

DECODERS = {
    "local and global layers, scanned and recomputed in training": LOCAL_GLOBAL | {"model.scan_layers": True, "model.remat": "full"},
    "layers without positions": {
        "model.layers.pattern": ("turned", "plain"), "model.position.kind": "rope", "model.layers.kinds.turned.attention.window": 5,
        "model.layers.kinds.plain.position.kind": "none"},
    "windows of two widths, one table of biases": T5_BIAS | {
        "model.layers.pattern": ("near", "far"), "model.layers.kinds.near.attention.window": 2,
        "model.layers.kinds.far.attention.window": 6},
    "a table of biases per layer": T5_BIAS | {"model.position.shared": False, "model.attention.window": 4},
    "normed heads": {"model.attention.qk_norm": "head", "model.position.kind": "rope"},
    "normed queries and keys": {"model.attention.qk_norm": "full", "model.position.kind": "rope", "model.norm.placement": "reordered"},
    "capped scores": {"model.attention.softcap": 2.0, "model.head.softcap": 3.0, "model.norm.placement": "sandwich"},
    "sinks": {"model.attention.sinks": True, "model.attention.window": 3, "model.attention.num_kv_heads": 2},
    "side by side, one norm, rates of training": {
        "model.parallel": "shared_norm", "model.position.kind": "rope", "model.position.fraction": 0.5, "model.dropout": 0.5,
        "model.attention.dropout": 0.5},
    "side by side, two norms": {"model.parallel": "own_norms"},
    "running statistics": {"model.norm.kind": "batchnorm", "model.norm.placement": "post", "model.head.transform": True},
    "performer": {"model.attention.kind": "performer", "model.attention.num_kv_heads": 2},
    "performer, rope": {"model.attention.kind": "performer", "model.position.kind": "rope", "model.attention.features": 7},
    "YaRN": {"model.position.kind": "rope", "model.position.scaling.kind": "yarn", "model.position.scaling.factor": 3.0,
             "model.position.scaling.original_length": 8},
    "xla kernel": {"model.attention.kernel": "xla", "model.attention.window": 4},
    "scaled and normed embeddings": {"model.embedding.scale": "sqrt_dim", "model.embedding.norm": True, "model.norm.placement": "deepnorm"},
}  # fmt: skip

ENCODER_DECODERS = {
    "learned": {},
    "T5": T5_BIAS | {"model.norm.kind": "rmsnorm", "model.head.scale": "rsqrt_dim"},
    "umT5": T5_BIAS | {"model.position.shared": False},
    "performer": {"model.attention.kind": "performer"},
    "a window and fewer key heads in the decoder": {
        "model.position.kind": "rope", "model.decoder.attention.window": 3, "model.decoder.attention.num_kv_heads": 2},
    "sides that differ": {"model.position.kind": "sinusoidal", "model.encoder.num_layers": 1, "model.decoder.num_layers": 3,
                          "model.decoder.position.kind": "alibi", "model.encoder.attention.kind": "performer"},
    "an encoder that stretches": {"model.position.kind": "none", "model.encoder.position.kind": "rope",
                                  "model.encoder.position.scaling.kind": "dynamic", "model.encoder.position.scaling.factor": 2.0,
                                  "model.encoder.position.scaling.original_length": 4},
}  # fmt: skip


def scheme(position):
    return {} if position == "learned" else {"model.position.kind": position}


@pytest.mark.parametrize("position", POSITIONS)
def test_every_scheme_with_a_layer_of_each_window_and_number_of_key_heads(position):
    fields, pattern = {}, tuple(f"w{window}g{kv_heads}" for window, kv_heads in itertools.product(WINDOWS, KV_HEADS))
    for name, (window, kv_heads) in zip(pattern, itertools.product(WINDOWS, KV_HEADS), strict=True):
        attention = f"model.layers.kinds.{name}.attention"
        fields |= {f"{attention}.window": window, f"{attention}.num_kv_heads": kv_heads}
    close(*both_ways(scheme(position) | fields | {"model.layers.pattern": pattern, "model.num_layers": len(pattern)}))


@pytest.mark.slow
@pytest.mark.parametrize(("position", "window", "kv_heads"), itertools.product(POSITIONS, WINDOWS, KV_HEADS))
def test_every_scheme_window_and_number_of_key_heads(position, window, kv_heads):
    close(*both_ways(scheme(position) | {"model.attention.window": window, "model.attention.num_kv_heads": kv_heads}))


@pytest.mark.parametrize("name", DECODERS)
def test_what_else_a_decoder_can_be(name):
    close(*both_ways(DECODERS[name]))


@pytest.mark.parametrize("name", ENCODER_DECODERS)
def test_the_decoder_of_an_encoder_decoder(name):
    close(*both_ways(ENCODER_DECODER | ENCODER_DECODERS[name]))


def test_a_ring_that_wraps_many_times():
    close(*both_ways({"model.attention.window": 4, "model.position.kind": "rope"}, steps=41, slots=64))


def test_a_prompt_longer_than_the_window_and_cut_into_bands():
    """Rows of 300 go through the banded product, and leave the last of their keys in the rings."""
    close(*both_ways({"model.attention.window": 5, "model.position.kind": "alibi"}, prompts=(290, 300), steps=8, slots=512))


def test_no_more_slots_than_tokens():
    """The prompts' common width and the steps together are more than the slots: the ring wraps over empty slots only."""
    close(*both_ways({"model.position.kind": "rope"}, prompts=(9, 5), steps=7, slots=16))


def test_bfloat16_keeps_what_training_sees():
    close(*both_ways({"model.dtype": "bfloat16", "model.position.kind": "rope", "model.attention.window": 6}), 3e-2)


@pytest.mark.parametrize("overrides", [{}, {"model.attention.kind": "performer"}, ENCODER_DECODER], ids=str)
def test_reading_everything_again_says_the_same(overrides):
    close(*both_ways(overrides, cached=False))


def test_reading_again_does_what_cannot_be_cached():
    dynamic = {"model.position.kind": "rope", "model.position.scaling.kind": "dynamic", "model.position.scaling.factor": 4.0,
               "model.position.scaling.original_length": 8}  # fmt: skip
    again, _ = both_ways(dynamic, prompts=(9,), steps=3, cached=False)
    cached, _ = both_ways(dynamic, prompts=(9,), steps=3, cached=True)
    # By hand: a pass over the text up to each token, whose length gives the base.
    for number in (1, 3):
        close(again[:, number], both_ways(dynamic, prompts=(9 + number,), steps=0, cached=False)[1][:, 0])
    assert np.abs(again - cached)[:, 1:].max() > 1e-3
