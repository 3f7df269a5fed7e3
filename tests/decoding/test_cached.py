"""Decoding step by step with a cache gives the scores of one pass over all tokens, for every kind of
decoder.
"""

import itertools

import numpy as np
import pytest

from tests.decoding.combinations import (
    COMBINATIONS,
    DECODERS,
    ENCODER_DECODERS,
    KV_HEADS,
    LAYERS,
    OF_OTHER_KINDS,
    OF_SOFTMAX,
    SCHEMES,
    WINDOWS,
    as_layers,
    combined,
    scheme,
)
from tests.decoding.making import stepwise_and_full_scores
from tests.support.building import ENCODER_DECODER, by_default, close
from zoo.config.kinds import POSITION_KINDS

OTHER = pytest.mark.promise(reason="another model is decoded")


def check_layers(decoders, **settings):
    """Asserts that a model with a layer of each decoder gives the same scores step by step; else
    names the layers that do not.
    """
    try:
        close(*stepwise_and_full_scores(as_layers(decoders), **settings))
    except AssertionError as error:
        wrong = []
        for name, fields in decoders.items():
            try:
                close(*stepwise_and_full_scores(fields, **settings))
            except AssertionError:
                wrong.append(name)
        raise AssertionError(f"layers that differ when decoded alone: {wrong}") from error


def test_cache_of_every_position_scheme():
    # So many steps that ring buffers of three slots wrap around many times.
    check_layers(SCHEMES, steps=41, slots=64)


# What they add to the embedding, or nothing, meets no window and no head.
OF_NO_LAYER = [name for name in ("learned", "sinusoidal", "none") if name in POSITION_KINDS.by_name]


@pytest.mark.parametrize(
    "position",
    by_default(
        [],
        POSITION_KINDS.by_name,
        pytest.mark.promise(reason="every scheme with every window and number of key heads"),
        OF_NO_LAYER,
        "schemes that belong to layers show every window and number of key heads",
    ),
)
def test_cache_of_every_position_scheme_with_all_windows_and_key_heads(position):
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


@pytest.mark.slow(reason="the same layers, each in a model of its own")
@pytest.mark.parametrize(("position", "window", "kv_heads"), COMBINATIONS)
def test_cache_of_every_position_scheme_window_and_number_of_key_heads(position, window, kv_heads):
    close(*stepwise_and_full_scores(combined(position, window, kv_heads)))


def test_cache_of_every_kind_of_attention():
    check_layers({name: DECODERS[name] for name in OF_OTHER_KINDS})


@OTHER
def test_cache_of_layers_with_softmax_attention():
    check_layers({name: DECODERS[name] for name in OF_SOFTMAX})


@pytest.mark.parametrize(
    "name",
    by_default(
        ["running statistics", "RWKV-7"],
        [name for name in DECODERS if name not in LAYERS],
        OTHER,
        ["windows of two widths, one table of biases", "a table of biases per layer"],
        "biases are cached with every window above",
    ),
)
def test_cache_of_other_decoders(name):
    close(*stepwise_and_full_scores(DECODERS[name]))


@pytest.mark.parametrize("name", by_default(["encoder and decoder differ"], ENCODER_DECODERS, OTHER))
def test_cache_of_encoder_decoders(name):
    close(*stepwise_and_full_scores(ENCODER_DECODERS[name]))


def test_prompts_much_longer_than_the_window():
    """Rows this long use the banded product, and leave only their last keys in the ring buffers."""
    close(
        *stepwise_and_full_scores(
            {"model.attention.window": 5, "model.position.kind": "alibi", "model.attention.implementation": "rows"},
            prompts=(290, 300),
            steps=8,
            slots=512,
        )
    )


def test_prompt_and_steps_exceed_the_cache_slots():
    """The padded width of the prompts plus the steps exceeds the number of slots, so the ring wraps,
    but only over empty slots.
    """
    rows = {"model.position.kind": "rope", "model.attention.implementation": "rows"}
    close(*stepwise_and_full_scores(rows, prompts=(9, 5), steps=7, slots=16))


def test_cache_in_bfloat16():
    close(
        *stepwise_and_full_scores(
            {"model.dtype": "bfloat16", "model.position.kind": "rope", "model.attention.window": 6}
        ),
        3e-2,
    )


@pytest.mark.parametrize(
    "overrides",
    [{}, *(pytest.param(fields, marks=OTHER) for fields in ({"model.attention.kind": "performer"}, ENCODER_DECODER))],
    ids=str,
)
def test_decoding_without_a_cache(overrides):
    close(*stepwise_and_full_scores(overrides, cached=False))


@OTHER
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
