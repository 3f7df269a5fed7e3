"""Layers of attention against their equation, as a loop over heads and queries."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.layers.attention.attention_inputs import COUNTING, DOCUMENTS, MEMORY, PACKED, PADDED, B, H, T, normal
from tests.support.building import (
    ENCODER,
    as_float64,
    by_default,
    call,
    close,
    counting,
    random_values,
    tiny,
    with_values,
)
from tests.support.comparisons import compared
from zoo.layers.attention import make_attention
from zoo.layers.context import Context, DropoutKey, Memory

FULL = {"model.attention.qk_norm": "full", "model.norm.kind": "rmsnorm", "model.norm.unit_offset": True}
# A layer by itself does not know its depth, from which lambda_0 is computed otherwise.
DIFFERENTIAL = {"model.attention.kind": "differential", "model.attention.lambda_init": 0.3}
LATENT = {"model.attention.kind": "latent", "model.attention.latent_dim": 9}
LAYERS = {
    "plain": {},
    "grouped, window, no bias": {"model.attention.window": 3, "model.attention.num_kv_heads": 2, "model.attention.bias": False},
    "no bias of the output": {"model.attention.output_bias": False, "model.attention.num_kv_heads": 2},
    "multi-query, xla": {"model.attention.scale": 0.7, "model.attention.head_dim": 10, "model.attention.num_kv_heads": 1,
                         "model.attention.implementation": "xla"},
    "rows": {"model.attention.window": 2, "model.attention.num_kv_heads": 2, "model.attention.implementation": "rows"},
    "shared queries": {"model.attention.num_query_heads": 2, "model.attention.num_kv_heads": 1, "model.attention.qk_norm": "head"},
    "one query, full norms": FULL | {"model.attention.num_query_heads": 1},
    "dilated windows": {"model.attention.window": 2, "model.attention.dilations": (1, 3), "model.attention.sinks": True},
    "encoder, dilated windows, global tokens": ENCODER | {
        "model.attention.window": 3, "model.attention.dilations": (1, 1, 2, 2), "model.attention.global_tokens": 1,
        "model.attention.num_query_heads": 2, "model.attention.global_projections": True},
    "head norms": {"model.attention.qk_norm": "head", "model.attention.num_kv_heads": 2, "model.norm.epsilon": 1e-2},
    "head norms without scales": {"model.attention.qk_norm": "head", "model.attention.qk_norm_scale": False, "model.norm.epsilon": 1e-2},
    "layer norms of heads without scales": {"model.attention.qk_norm": "head_layernorm", "model.attention.qk_norm_scale": False},
    "full norms, unit offset": FULL | {"model.attention.num_kv_heads": 2},
    "cap and sinks": {"model.attention.softcap": 1.5, "model.attention.sinks": True},
    "encoder": ENCODER,
    "encoder, window, cap, sinks": ENCODER | {"model.attention.window": 3, "model.attention.softcap": 0.5, "model.attention.sinks": True},
    "encoder, global tokens": ENCODER | {"model.attention.window": 3, "model.attention.global_tokens": 2},
    "encoder, global projections": ENCODER | {"model.attention.window": 1, "model.attention.global_tokens": 1,
        "model.attention.global_projections": True, "model.attention.qk_norm": "head", "model.attention.num_kv_heads": 2},
    "gate of elements": {"model.attention.gate": "elementwise", "model.attention.num_kv_heads": 2},
    "gate of heads, from what was read": {"model.attention.gate": "head", "model.attention.gate_input": "attended"},
    "gate of elements, from what was read": {"model.attention.gate": "elementwise", "model.attention.gate_input": "attended"},
    "output norm, gate of heads": {"model.attention.output_norm": True, "model.attention.gate": "head", "model.attention.num_kv_heads": 2},
    "norm of values": {"model.attention.value_norm": True, "model.attention.num_kv_heads": 2, "model.attention.clip": 0.5,
        "model.norm.epsilon": 0.1},
    "encoder, norm of values, global projections": ENCODER | {"model.attention.value_norm": True, "model.attention.window": 3,
        "model.attention.global_tokens": 1, "model.attention.global_projections": True},
    "differential, norm of values": DIFFERENTIAL | {"model.attention.value_norm": True, "model.attention.num_kv_heads": 2},
    "exclusive, gate of heads": {"model.attention.exclusive": True, "model.attention.gate": "head", "model.attention.num_kv_heads": 2},
    "cosine": {"model.attention.qk_norm": "cosine", "model.attention.num_query_heads": 2},
    "unit heads": {"model.attention.qk_norm": "unit", "model.attention.num_kv_heads": 2, "model.position.kind": "rope"},
    "encoder, unit heads, global projections": ENCODER | {"model.attention.qk_norm": "unit", "model.attention.window": 3,
        "model.attention.global_tokens": 1, "model.attention.global_projections": True, "model.attention.num_query_heads": 2},
    "ssmax, dilated windows": {"model.attention.ssmax": 0.4, "model.attention.window": 2, "model.attention.dilations": (1, 3)},
    "encoder, ssmax, global projections": ENCODER | {"model.attention.ssmax": 0.4, "model.attention.window": 3,
        "model.attention.global_tokens": 1, "model.attention.global_projections": True},
    "softmax plus one": {"model.attention.kind": "softmax_plus_one", "model.attention.window": 3},
    "sigmoid, rows": {"model.attention.kind": "sigmoid", "model.attention.num_kv_heads": 2},
    "differential, grouped, window": DIFFERENTIAL | {"model.attention.num_kv_heads": 2, "model.attention.window": 4},
    "differential, rows, sinks, gate": DIFFERENTIAL | {"model.attention.implementation": "rows", "model.attention.sinks": True,
        "model.attention.gate": "elementwise"},
    "encoder, differential, global projections": ENCODER | DIFFERENTIAL | {"model.attention.window": 3,
        "model.attention.global_tokens": 1, "model.attention.global_projections": True},
    "latent, window, sinks, gate": LATENT | {"model.attention.norm_epsilon": 0.3, "model.attention.window": 4, "model.attention.sinks": True,
        "model.attention.gate": "elementwise"},
    "latent, rows, latent queries, no bias": LATENT | {"model.attention.query_latent_dim": 7, "model.attention.bias": False, "model.attention.rotary_dim": 6,
        "model.attention.implementation": "rows", "model.attention.ssmax": 0.4},
    "encoder, latent, global tokens": ENCODER | LATENT | {"model.attention.window": 3, "model.attention.global_tokens": 1,
        "model.attention.exclusive": True},
    "talking heads, grouped, window": {"model.attention.kind": "talking_heads", "model.attention.num_kv_heads": 2,
        "model.attention.window": 4, "model.attention.softcap": 1.5},
    "talking heads, rows, sinks": {"model.attention.kind": "talking_heads", "model.attention.implementation": "rows",
        "model.attention.sinks": True},
    "forgetting": {"model.attention.kind": "forgetting", "model.attention.num_kv_heads": 2, "model.attention.window": 4},
}  # fmt: skip
SCHEMES = {
    "none": {"model.position.kind": "none"},
    "rope": {"model.position.kind": "rope"},
    "p-rope": {"model.position.kind": "rope", "model.position.kept_frequencies": 0.5},
    "alibi": {"model.position.kind": "alibi"},
    "relative_bias": {
        "model.position.kind": "relative_bias",
        "model.position.shared": False,
        "model.position.buckets": 8,
        "model.position.max_distance": 9,
    },
    "shaw": {"model.position.kind": "shaw", "model.position.clip": 2},
    "shaw, keys only": {
        "model.position.kind": "shaw",
        "model.position.clip": 3,
        "model.position.relative_values": False,
    },
}
# Every scheme with the plain layers, every layer with schemes of either sort, and a choice of the
# rest.
EVERY = ("plain", "encoder", "grouped, window, no bias")
PAIRS = [
    *itertools.product(EVERY, SCHEMES),
    *itertools.product([name for name in LAYERS if name not in EVERY], ("rope", "relative_bias")),
    ("rows", "alibi"),
    ("forgetting", "alibi"),
    ("rows", "shaw, keys only"),
    ("cap and sinks", "shaw"),
    ("head norms", "none"),
    ("multi-query, xla", "none"),
    ("encoder, window, cap, sinks", "shaw"),
    ("encoder, global tokens", "alibi"),
    ("encoder, global projections", "none"),
]


# Every scheme, every layer of a decoder, and global tokens.
FEW = [
    *itertools.product(("plain",), SCHEMES),
    *((name, "rope") for name in LAYERS if name != "plain" and not name.startswith("encoder, ")),
    ("grouped, window, no bias", "shaw"),
    ("encoder, global tokens", "rope"),
    ("encoder, global projections", "rope"),
    ("encoder", "relative_bias"),
    ("forgetting", "alibi"),
    ("encoder, window, cap, sinks", "shaw"),
]


@pytest.mark.parametrize(
    ("name", "scheme"), by_default(FEW, PAIRS, pytest.mark.promise(reason="other pairs of a layer and a scheme"))
)
def test_a_layer_is_the_equation(name, scheme):
    config = tiny(LAYERS[name] | SCHEMES[scheme]).model
    module, values = make_attention(config), random_values(make_attention(config), 6)
    matrices = ("query", "key", "value", "output", "global_query", "global_key", "global_value")
    if config.attention.kind == "latent":  # Keys and values are products with a latent vector.
        matrices = ("query", "output", "latent", "rotary_key")
    biased = {name: config.attention.bias and (name != "output" or config.attention.output_bias) for name in matrices}
    assert all(("bias" in part) == biased[name] for name, part in values.items() if name in matrices)
    x, causal = np.random.default_rng(7).standard_normal((B, T, 16)), config.architecture == "decoder"
    attention = with_values(module, values)
    positions, documents = (PADDED, None) if "global" in name or len(scheme) % 2 else (PACKED, DOCUMENTS)
    given = Context(
        jnp.asarray(positions),
        None if documents is None else jnp.asarray(documents),
        causal,
        in_order=documents is not None,
    )
    outputs = call(lambda x: [attention(x, context) for context in (counting(T, causal), given)], np.float32(x))
    rows = [reference.Rows(COUNTING, None, causal), reference.Rows(positions, documents, causal)]
    for actual, given in zip(outputs, rows, strict=True):
        expected = reference.attention_layer(config, as_float64(values), x, given)
        filled = given.positions >= 0
        compared(actual[filled], expected[filled], 2e-5, config=config, parts=("model.attention", "model.position"))


@pytest.mark.parametrize("queries", [2, 1])
def test_heads_with_one_query_are_heads_whose_query_matrices_are_equal(queries):
    """Plain attention, with each matrix of the queries as often as heads share it."""
    fields = {"model.position.kind": "rope", "model.attention.num_kv_heads": 2, "model.attention.qk_norm": "head"}
    sharing, plain = (
        make_attention(tiny(fields | more).model) for more in ({"model.attention.num_query_heads": queries}, {})
    )
    values = random_values(sharing, 6)
    width = values["query"]["kernel"].shape[1] // queries

    def repeated(x):
        return jnp.repeat(x.reshape(-1, queries, width), H // queries, axis=1).reshape(*x.shape[:-1], H * width)

    x = normal(B, T, 16)
    one, other = call(
        lambda x: [
            with_values(sharing, values)(x, counting(T)),
            with_values(plain, values | {"query": {name: repeated(value) for name, value in values["query"].items()}})(
                x, counting(T)
            ),
        ],
        x,
    )
    close(one, other, 1e-6)


@pytest.mark.parametrize("fields", [{}, DIFFERENTIAL, {"model.position.kind": "rope"}, {"model.attention.qk_norm": "head", "model.attention.sinks": True,
                                    "model.attention.num_kv_heads": 2, "model.attention.implementation": "einsum"}], ids=str)  # fmt: skip
def test_cross_attention_reads_all_of_the_memory_and_no_positions(fields):
    config = tiny(fields).model
    module, values = make_attention(config, cross=True), random_values(make_attention(config, cross=True), 6)
    assert "position" not in values
    x, hidden = normal(B, T, 16, seed=1), normal(B, 5, 16, seed=2)
    layer = with_values(module, values)

    def attend(x, hidden):
        memory = Memory(hidden, jnp.asarray(MEMORY))
        # Documents and the order of the decoder's own tokens say nothing about another sequence.
        contexts = (
            counting(T, memory=memory),
            Context(jnp.asarray(PACKED), jnp.asarray(DOCUMENTS), in_order=True, memory=memory),
        )
        return [layer(x, context) for context in contexts]

    rows = reference.Rows(COUNTING, memory=np.float64(hidden), memory_positions=MEMORY)
    expected = reference.attention_layer(config, as_float64(values), np.float64(x), rows, cross=True)
    for actual in call(attend, x, hidden):
        close(actual, expected)


def test_a_bias_that_layers_share_is_added():
    config = tiny({"model.position.kind": "relative_bias"}).model
    module, values, shared = make_attention(config), random_values(make_attention(config), 6), normal(1, H, T, T)
    assert "position" not in values
    x, attention = normal(B, T, 16), with_values(module, values)
    plain, added = call(lambda x: [attention(x, counting(T)), attention(x, counting(T), shared)], x)
    assert abs(plain - added).max() > 0.1
    none = with_values(make_attention(tiny({"model.position.kind": "none"}).model), values)
    close(plain, call(lambda x: none(x, counting(T)), x), 1e-6)


def test_the_default_scale_is_one_over_the_root_of_the_head_dimension():
    assert tiny({"model.attention.head_dim": 9}).model.attention.scale == pytest.approx(1 / 3)
    assert tiny().model.attention.scale == pytest.approx(1 / 2)


def test_a_layer_drops_only_with_a_key():
    config = tiny({"model.attention.dropout": 0.5}).model
    attention = with_values(make_attention(config), random_values(make_attention(config), 6))
    plain = with_values(make_attention(tiny().model), random_values(make_attention(config), 6))
    x = np.float32(np.random.default_rng(7).standard_normal((B, T, 16)))
    with_key = Context(jnp.arange(T)[None], in_order=True, dropout_key=DropoutKey(jax.random.key(3)))
    dropped, kept = (call(lambda x, context=context: attention(x, context), x) for context in (with_key, counting(T)))
    expected = call(lambda x: plain(x, with_key), x)
    np.testing.assert_array_equal(kept, expected)
    assert abs(dropped - expected).max() > 0.1


@pytest.mark.parametrize("rows", [None, jnp.arange(2)])
def test_cross_attention_has_dropout_masks_of_its_own(rows):
    """Also where source and target have the same length, so that the shapes of the masks agree."""
    memory = Memory(jnp.zeros((2, T, 16)), jnp.arange(T)[None])
    context = Context(jnp.arange(T)[None], memory=memory, dropout_key=DropoutKey(jax.random.key(0), rows=rows))
    one, other = (
        each.dropout(jnp.ones((2, 1, 1, T, T)), 0.5, "attention/probabilities") > 0
        for each in (context, context.for_cross_attention())
    )
    assert 0.2 < (one != other).mean() < 0.8
    assert replace(context, dropout_key=None).for_cross_attention().dropout_key is None
