"""A step with the cache says what a pass over all tokens says, after every token, for whatever a
decoder can be.
"""

import itertools

import numpy as np
import pytest

from tests.decoding.combinations import COMBINATIONS, DECODERS, ENCODER_DECODERS, KV_HEADS, WINDOWS, combined, scheme
from tests.decoding.making import both_ways
from tests.support.building import ENCODER_DECODER, close, slow_but
from zoo.layers.position import POSITIONS


@pytest.mark.parametrize("position", slow_but(("rope", "relative_bias", "shaw"), POSITIONS, pytest.mark.promise))
def test_every_scheme_with_a_layer_of_each_window(position):
    # A third of the products, another one with the next scheme: two windows with two numbers of key
    # heads.
    some = list(itertools.product(WINDOWS, KV_HEADS))[list(POSITIONS).index(position) % 2 :: 4]
    fields, pattern = {}, tuple(f"w{window}g{kv_heads}" for window, kv_heads in some)
    for name, (window, kv_heads) in zip(pattern, some, strict=True):
        attention = f"model.layers.kinds.{name}.attention"
        fields |= {f"{attention}.window": window, f"{attention}.num_kv_heads": kv_heads}
    close(*both_ways(scheme(position) | fields | {"model.layers.pattern": pattern, "model.num_layers": len(pattern)}))


@pytest.mark.promise
@pytest.mark.parametrize(("position", "window", "kv_heads"), COMBINATIONS)
def test_every_scheme_window_and_number_of_key_heads(position, window, kv_heads):
    close(*both_ways(combined(position, window, kv_heads)))


@pytest.mark.parametrize("name", slow_but((
    "local and global layers, scanned and recomputed in training", "running statistics", "performer, rope", "queries that heads share",
    "gated heads without their own values", "forget gates, scanned", "canon layers, scanned", "layers of shared weights",
), DECODERS, pytest.mark.promise))  # fmt: skip
def test_what_else_a_decoder_can_be(name):
    close(*both_ways(DECODERS[name]))


@pytest.mark.parametrize("name", slow_but(("sides that differ",), ENCODER_DECODERS, pytest.mark.promise))
def test_the_decoder_of_an_encoder_decoder(name):
    close(*both_ways(ENCODER_DECODERS[name]))


def test_a_ring_that_wraps_many_times():
    close(*both_ways({"model.attention.window": 4, "model.position.kind": "rope"}, steps=41, slots=64))


def test_a_prompt_longer_than_the_window_and_cut_into_bands():
    """Rows of 300 go through the banded product, and leave the last of their keys in the rings."""
    close(
        *both_ways(
            {"model.attention.window": 5, "model.position.kind": "alibi"}, prompts=(290, 300), steps=8, slots=512
        )
    )


def test_no_more_slots_than_tokens():
    """The prompts' common width and the steps together are more than the slots: the ring wraps over
    empty slots only.
    """
    close(*both_ways({"model.position.kind": "rope"}, prompts=(9, 5), steps=7, slots=16))


def test_bfloat16_keeps_what_training_sees():
    close(*both_ways({"model.dtype": "bfloat16", "model.position.kind": "rope", "model.attention.window": 6}), 3e-2)


@pytest.mark.parametrize(
    "overrides",
    [{}, pytest.param({"model.attention.kind": "performer"}, marks=pytest.mark.promise), ENCODER_DECODER],
    ids=str,
)
def test_reading_everything_again_says_the_same(overrides):
    close(*both_ways(overrides, cached=False))


@pytest.mark.promise
def test_reading_again_does_what_cannot_be_cached():
    dynamic = {"model.position.kind": "rope", "model.position.scaling.kind": "dynamic", "model.position.scaling.factor": 4.0,
               "model.position.scaling.original_length": 8}  # fmt: skip
    again, _ = both_ways(dynamic, prompts=(9,), steps=3, cached=False)
    cached, _ = both_ways(dynamic, prompts=(9,), steps=3, cached=True)
    # By hand: a pass over the text up to each token, whose length gives the base.
    for number in (1, 3):
        close(again[:, number], both_ways(dynamic, prompts=(9 + number,), steps=0, cached=False)[1][:, 0])
    assert np.abs(again - cached)[:, 1:].max() > 1e-3
