"""Decoding step by step with a cache gives the scores of one pass over all tokens, for every kind of
decoder.
"""

import itertools

import numpy as np
import pytest

from tests.decoding.combinations import COMBINATIONS, DECODERS, ENCODER_DECODERS, KV_HEADS, WINDOWS, combined, scheme
from tests.decoding.making import stepwise_and_full_scores
from tests.support.building import ENCODER_DECODER, close, slow_but
from zoo.config.kinds import POSITION_KINDS


@pytest.mark.parametrize(
    "position", slow_but(("rope", "relative_bias", "shaw"), POSITION_KINDS.by_name, pytest.mark.promise)
)
def test_cache_of_every_position_scheme(position):
    # A kind of layers for each combination of windows and numbers of key heads.
    every = list(itertools.product(WINDOWS, KV_HEADS))
    fields, pattern = {}, tuple(f"w{window}g{kv_heads}" for window, kv_heads in every)
    for name, (window, kv_heads) in zip(pattern, every, strict=True):
        attention = f"model.layers.kinds.{name}.attention"
        fields |= {f"{attention}.window": window, f"{attention}.num_kv_heads": kv_heads}
    close(
        *stepwise_and_full_scores(
            scheme(position) | fields | {"model.layers.pattern": pattern, "model.num_layers": len(pattern)}
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize(("position", "window", "kv_heads"), COMBINATIONS)
def test_cache_of_every_position_scheme_window_and_number_of_key_heads(position, window, kv_heads):
    close(*stepwise_and_full_scores(combined(position, window, kv_heads)))


@pytest.mark.parametrize("name", slow_but((
    "local and global layers, scanned and recomputed in training", "running statistics", "performer, rope", "shared queries",
    "gated heads without their own values", "latent", "forget gates, scanned", "canon layers, scanned", "layers of shared weights",
), DECODERS, pytest.mark.promise))  # fmt: skip
def test_cache_of_other_decoders(name):
    close(*stepwise_and_full_scores(DECODERS[name]))


@pytest.mark.parametrize("name", slow_but(("encoder and decoder differ",), ENCODER_DECODERS, pytest.mark.promise))
def test_cache_of_encoder_decoders(name):
    close(*stepwise_and_full_scores(ENCODER_DECODERS[name]))


def test_the_ring_buffer_wraps_many_times():
    close(*stepwise_and_full_scores({"model.attention.window": 4, "model.position.kind": "rope"}, steps=41, slots=64))


def test_prompts_much_longer_than_the_window():
    """Rows this long use the banded product, and leave only their last keys in the ring buffers."""
    close(
        *stepwise_and_full_scores(
            {"model.attention.window": 5, "model.position.kind": "alibi"}, prompts=(290, 300), steps=8, slots=512
        )
    )


def test_prompt_and_steps_exceed_the_cache_slots():
    """The padded width of the prompts plus the steps exceeds the number of slots, so the ring wraps,
    but only over empty slots.
    """
    close(*stepwise_and_full_scores({"model.position.kind": "rope"}, prompts=(9, 5), steps=7, slots=16))


def test_cache_in_bfloat16():
    close(
        *stepwise_and_full_scores(
            {"model.dtype": "bfloat16", "model.position.kind": "rope", "model.attention.window": 6}
        ),
        3e-2,
    )


@pytest.mark.parametrize(
    "overrides",
    [{}, pytest.param({"model.attention.kind": "performer"}, marks=pytest.mark.promise), ENCODER_DECODER],
    ids=str,
)
def test_decoding_without_a_cache(overrides):
    close(*stepwise_and_full_scores(overrides, cached=False))


@pytest.mark.promise
def test_dynamic_rope_scaling_without_a_cache():
    dynamic = {"model.position.kind": "rope", "model.position.scaling.kind": "dynamic", "model.position.scaling.factor": 4.0,
               "model.position.scaling.original_length": 8}  # fmt: skip
    uncached, _ = stepwise_and_full_scores(dynamic, prompts=(9,), steps=3, cached=False)
    cached, _ = stepwise_and_full_scores(dynamic, prompts=(9,), steps=3, cached=True)
    # The reference is a pass over the text up to each token, whose length sets the base of RoPE.
    for number in (1, 3):
        close(
            uncached[:, number],
            stepwise_and_full_scores(dynamic, prompts=(9 + number,), steps=0, cached=False)[1][:, 0],
        )
    assert np.abs(uncached - cached)[:, 1:].max() > 1e-3
