"""Short convolutions against a loop over tokens, and easy mistakes in them."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.support.building import ENCODER, ENCODER_DECODER, as_float64, call, random_values, tiny, with_values
from tests.support.comparisons import compared
from zoo.errors import ConfigError
from zoo.layers.context import Context
from zoo.layers.placement import make_block
from zoo.models import cost

pytestmark = pytest.mark.usefixtures("einsum_kernel")

T = 8
PACKED = np.array([[0, 1, 2, 0, 1, 2, 0, 1], [0, 1, 2, 3, 4, 5, 6, 0]])
DOCUMENTS = np.array([[0, 0, 0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0, 0, 1]])
PADDED = np.array([[-1, -1, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, -1, -1, -1]])
KIND = "model.convolution.kind"
BLOCKS = {
    "canon": {KIND: "canon", "model.attention.num_kv_heads": 2},
    "canon before the sublayers": {KIND: "canon", "model.convolution.places": "AC", "model.parallel": "own_norms"},
    "canon inside a gated layer": {KIND: "canon", "model.convolution.places": "BD", "model.ffn.kind": "swiglu"},
    "primer": {KIND: "primer", "model.attention.qk_norm": "head", "model.norm.placement": "post"},
    "keys and values shifted": {
        KIND: "kv_shift",
        "model.attention.kind": "forgetting",
        "model.attention.num_kv_heads": 2,
        "model.attention.qk_norm": "head",
        "model.attention.output_norm": True,
        "model.attention.gate": "elementwise",
    },
    "token shift": {KIND: "token_shift", "model.attention.kind": "forgetting"},
}


@pytest.mark.parametrize("name", BLOCKS)
def test_block_matches_its_equation_in_packed_and_padded_rows(name):
    config = tiny(BLOCKS[name]).model
    abstract, values = make_block(config), random_values(make_block(config), 1)
    x = np.random.default_rng(2).standard_normal((2, T, 16))
    given = ((PACKED, DOCUMENTS), (PADDED, None))

    def run(x):
        block = with_values(abstract, values)
        contexts = [
            Context(
                jnp.asarray(places),
                None if documents is None else jnp.asarray(documents),
                in_order=documents is not None,
            )
            for places, documents in given
        ]
        return [block(x, context) for context in contexts]

    for actual, (places, documents) in zip(call(run, np.float32(x)), given, strict=True):
        expected = reference.block(config, as_float64(values), x, reference.Rows(places, documents))
        compared(actual[places >= 0], expected[places >= 0], config=config, parts="model.convolution")


def test_rows_that_start_at_a_later_position_have_no_earlier_tokens():
    abstract = make_block(tiny({KIND: "token_shift", "model.position.kind": "none"}).model)
    values, x = random_values(abstract, 1), np.float32(np.random.default_rng(3).standard_normal((1, T, 16)))
    first, later = call(
        lambda x: [
            with_values(abstract, values)(x, Context(jnp.arange(n, n + T)[None], in_order=True)) for n in (0, 9)
        ],
        x,
    )
    np.testing.assert_array_equal(first, later)


def test_parameters_and_operations_are_counted():
    plain, canon, shifted = (cost.summary(tiny({KIND: kind})) for kind in ("none", "canon", "token_shift"))
    hidden = cost.summary(tiny({KIND: "canon", "model.convolution.places": "D", "model.ffn.hidden_dim": 24}))
    assert hidden.parameters["total"] - plain.parameters["total"] == 2 * 4 * 24
    # Two layers of four taps for D = 16 channels at A, C, and each of queries, keys and values.
    assert canon.parameters["total"] - plain.parameters["total"] == 2 * 4 * 16 * 5
    assert canon.blocks["blocks/ffn_convolution"] == 2 * 4 * 16
    assert canon.flops_per_token - plain.flops_per_token == pytest.approx(3 * 2 * (2 * 4 * 16 * 5))
    assert (shifted.parameters, shifted.flops_per_token) == (plain.parameters, plain.flops_per_token)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (ENCODER | {KIND: "canon"}, "kind=canon reads a row from left to right"),
        (ENCODER_DECODER | {KIND: "token_shift"}, "set it under model.decoder"),
        ({KIND: "canon", "model.convolution.places": "CA"}, "places='CA' must be some of the letters A"),
        ({KIND: "token_shift", "model.convolution.width": 3}, "width=3 has no effect"),
    ],
    ids=str,
)
def test_unsupported_combinations_are_refused_by_name(changes, line):
    with pytest.raises(ConfigError, match=line):
        tiny(changes)
