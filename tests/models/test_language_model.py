"""Whole models against a forward pass in plain numpy."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import zoo.config
from tests import reference
from tests.building import as_float64, call, close, counting, random_values, tiny, with_values
from zoo.layers.context import Context
from zoo.models.architectures import make_model

GPT = {"model.norm.kind": "layernorm", "model.position.kind": "learned", "model.ffn.kind": "gelu", "model.tie_embeddings": True}
LLAMA = {"model.norm.kind": "rmsnorm", "model.position.kind": "rope", "model.ffn.kind": "swiglu", "model.tie_embeddings": False,
         "model.attention.num_kv_heads": 2, "model.attention.bias": False, "model.ffn.bias": False, "model.norm.epsilon": 1e-6}
ORIGINAL = {"model.norm.placement": "post", "model.position.kind": "sinusoidal", "model.ffn.kind": "relu"}
MODELS = {
    "gpt": GPT,
    "gpt, tanh gelu, 3 layers": GPT | {"model.ffn.gelu_approximation": "tanh", "model.num_layers": 3},
    "llama": LLAMA,
    "llama, interleaved, half of each head": LLAMA | {"model.position.layout": "interleaved", "model.position.fraction": 0.5,
                                                      "model.attention.head_dim": 8},
    "original decoder": ORIGINAL,
    "original decoder, untied, window": ORIGINAL | {"model.tie_embeddings": False, "model.attention.window": 3},
    "alibi, 6 heads, 3 key heads": {"model.position.kind": "alibi", "model.dim": 12, "model.attention.num_heads": 6,
                                    "model.attention.num_kv_heads": 3, "model.ffn.kind": "geglu"},
    "no position, no norm, no residual": {"model.position.kind": "none", "model.norm.kind": "none", "model.residual": False,
                                          "model.ffn.kind": "reglu"},
    "post rmsnorm, rope, multi-query, wide heads, xla": {"model.norm.kind": "rmsnorm", "model.norm.placement": "post",
        "model.position.kind": "rope", "model.position.theta": 100.0, "model.attention.num_kv_heads": 1,
        "model.attention.head_dim": 6, "model.attention.kernel": "xla", "model.ffn.kind": "silu"},
}  # fmt: skip
TOKENS = np.array([[3, 1, 12, 0, 7, 7, 2, 5], [0, 5, 4, 4, 1, 9, 11, 8]])
POSITIONS = np.array([[0, 1, 2, 0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5, 6, 7]])
DOCUMENTS = np.array([[0, 0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]])


def scores(config, values, context, tokens=TOKENS):
    """Logits [B, T, V] of a model that holds `values`."""
    model = with_values(make_model(config), values)
    return call(lambda tokens: model.logits(model(tokens, context)), tokens)


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_the_reference_s(name):
    config = tiny(MODELS[name])
    values = random_values(make_model(config), 1)
    actual = scores(config, values, counting(8))
    assert actual.dtype == np.float32
    close(actual, [reference.logits(config.model, as_float64(values), row, np.arange(8)) for row in TOKENS], 2e-5)


@pytest.mark.parametrize("name", ["gpt", "llama", "original decoder, untied, window", "alibi, 6 heads, 3 key heads"])
def test_logits_of_packed_documents_are_the_reference_s(name):
    config = tiny(MODELS[name])
    values = random_values(make_model(config), 1)
    actual = scores(config, values, Context(jnp.asarray(POSITIONS), jnp.asarray(DOCUMENTS)))
    rows = zip(TOKENS, POSITIONS, DOCUMENTS, strict=True)
    close(actual, [reference.logits(config.model, as_float64(values), *row) for row in rows], 2e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_published_configs_shrink_to_models_that_match_too(name):
    spec = Path(__file__).resolve().parents[2] / "configs" / f"{name}.py"
    config = zoo.config.resolve(zoo.config.load(f"{spec}:smoke,model.dropout=0"))
    values, tokens = random_values(make_model(config), 2), np.random.default_rng(0).integers(0, 257, (1, 16))
    expected = reference.logits(config.model, as_float64(values), tokens[0], np.arange(16))
    close(scores(config, values, counting(16), tokens)[0], expected, 2e-5)


@pytest.mark.parametrize("kind", ["none", "rope", "alibi", "learned", "sinusoidal"])
def test_relative_schemes_do_not_see_where_a_sequence_stands(kind):
    config = tiny({"model.position.kind": kind} | ({"model.position.max_length": 64} if kind == "learned" else {}))
    values = random_values(make_model(config), 3)
    positions = jnp.arange(8) + jnp.array([[0], [0], [50], [50]])
    here, there = np.split(scores(config, values, Context(positions), np.tile(TOKENS, (2, 1))), 2)
    if kind in ("none", "rope", "alibi"):
        close(there, here, 2e-5)
    else:
        assert abs(there - here).max() > 0.1


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "rope", "alibi"])
def test_positions_enter(kind):
    # Without them, the last token of a one-layer model sees the others as a set.
    config = tiny({"model.position.kind": kind, "model.num_layers": 1})
    nope = tiny({"model.position.kind": "none", "model.num_layers": 1})
    values, both = random_values(make_model(config), 4), np.stack([TOKENS[0], TOKENS[0][[1, 0, *range(2, 8)]]])
    last, last_swapped = scores(config, values, counting(8), both)[:, -1]
    assert abs(last - last_swapped).max() > 1e-2
    without = {name: value for name, value in values.items() if name != "position"}
    last, last_swapped = scores(nope, without, counting(8), both)[:, -1]
    close(last, last_swapped)


def test_bfloat16_is_close_to_float32_and_scores_in_float32():
    config, narrow = tiny(LLAMA), tiny(LLAMA | {"model.dtype": "bfloat16"})
    values = random_values(make_model(config), 5)
    model = with_values(make_model(narrow), values)
    hidden = jax.eval_shape(lambda tokens: model(tokens, counting(8)), TOKENS)
    actual = scores(narrow, values, counting(8))
    assert hidden.dtype == jnp.bfloat16
    assert actual.dtype == np.float32
    close(actual, scores(config, values, counting(8)), 0.05)
    assert abs(actual - scores(config, values, counting(8))).max() > 0


def test_a_tied_head_is_the_embedding():
    tied, untied = (make_model(tiny({"model.tie_embeddings": tie})) for tie in (True, False))
    values = random_values(untied, 6)
    hidden = jnp.zeros((1, 1, 16))
    np.testing.assert_array_equal(with_values(untied, values).prediction(hidden).weights, values["head"]["weights"])
    del values["head"]
    np.testing.assert_array_equal(with_values(tied, values).prediction(hidden).weights, values["embedding"])
