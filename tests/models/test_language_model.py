"""Whole models against the forward pass of the numpy reference."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import zoo.config
from tests import reference
from tests.support.building import (
    ENCODER,
    as_float64,
    by_default,
    call,
    close,
    compiled,
    counting,
    random_statistics,
    random_values,
    tiny,
    together,
    with_values,
)
from tests.support.comparisons import compared
from zoo.config import to_plain
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.models.functional import statistics_of

GPT = {
    "model.norm.kind": "layernorm",
    "model.position.kind": "learned",
    "model.ffn.kind": "gelu",
    "model.tie_embeddings": True,
}
LLAMA = {
    "model.norm.kind": "rmsnorm",
    "model.position.kind": "rope",
    "model.ffn.kind": "swiglu",
    "model.tie_embeddings": False,
    "model.attention.num_kv_heads": 2,
    "model.attention.bias": False,
    "model.ffn.bias": False,
    "model.norm.epsilon": 1e-6,
}
NGPT = LLAMA | {"model.norm.kind": "unit", "model.norm.scale": False, "model.norm.placement": "interpolated",
                "model.attention.qk_norm": "unit", "model.ffn.hidden_scale": True, "model.head.logit_scale": True}  # fmt: skip
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
        "model.attention.head_dim": 6, "model.attention.implementation": "xla", "model.ffn.kind": "silu"},
    "sandwich, capped": {"model.norm.placement": "sandwich", "model.norm.kind": "rmsnorm", "model.norm.unit_offset": True,
        "model.position.kind": "rope", "model.attention.softcap": 5.0, "model.head.softcap": 3.0, "model.embedding.scale": "sqrt_dim",
        "model.ffn.kind": "geglu", "model.ffn.gelu_approximation": "tanh", "model.attention.scale": 0.3},
    "reordered, full query norms": {"model.norm.placement": "reordered", "model.norm.kind": "rmsnorm", "model.attention.qk_norm": "full",
        "model.position.kind": "rope", "model.position.scaling.kind": "yarn", "model.position.scaling.factor": 4.0,
        "model.position.scaling.original_length": 16, "model.attention.head_dim": 8, "model.tie_embeddings": False},
    "deepnorm, centering": {"model.norm.placement": "deepnorm", "model.norm.kind": "centering", "model.num_layers": 3,
        "model.init.std": 0.01, "model.position.offset": 3, "model.head.bias": True},
    "x0 shortcut, dyt, xielu": {"model.norm.placement": "x0_shortcut", "model.norm.kind": "dyt", "model.embedding.norm": True,
        "model.num_layers": 3, "model.scan_layers": True, "model.ffn.kind": "xielu"},
    "two streams": {"model.norm.placement": "resi_dual", "model.num_layers": 3, "model.scan_layers": True, "model.residual_multiplier": 0.5},
    "ngpt": {name: value for name, value in NGPT.items() if name != "model.norm.epsilon"},
    "ngpt's factors elsewhere": {"model.ffn.hidden_scale": True, "model.ffn.kind": "relu_squared", "model.head.logit_scale": True,
        "model.head.bias": True, "model.head.softcap": 3.0, "model.norm.placement": "interpolated", "model.norm.step_start": 0.3,
        "model.num_layers": 3, "model.scan_layers": True},
    "gated norms": {"model.norm.kind": "gated_rmsnorm", "model.norm.gate_rank": 3, "model.embedding.norm": True},
    "lightning attention, by depth": {
        "model.attention.kind": "lightning", "model.position.kind": "none", "model.num_layers": 3, "model.scan_layers": True},
    "RWKV-7, by depth": {
        "model.attention.kind": "rwkv7", "model.position.kind": "none", "model.num_layers": 3, "model.scan_layers": True},
    "placements by kind of layers": {
        "model.norm.kind": "rmsnorm", "model.num_layers": 5, "model.scan_layers": True, "model.layers.pattern": ("in", "out", "weighed", "both", "early"),
        "model.layers.kinds.in.residual": True, "model.layers.kinds.out.norm.placement": "reordered",
        "model.layers.kinds.weighed.norm.placement": "layerscale", "model.layers.kinds.weighed.norm.layerscale_start": 0.7,
        "model.layers.kinds.both.norm.placement": "sandwich", "model.layers.kinds.early.norm.placement": "x0_shortcut"},
    "attention alone": {"model.ffn.kind": "none", "model.ffn.hidden_dim": "auto", "model.norm.placement": "sandwich", "model.num_layers": 3, "model.scan_layers": True},
    "attention alone in some layers": {
        "model.num_layers": 3, "model.layers.pattern": ("alone", "both"), "model.layers.kinds.alone.ffn.kind": "none",
        "model.layers.kinds.both.residual": True},
    "scaled by depth": {"model.norm.placement": "pre_scaled", "model.num_layers": 3, "model.scan_layers": True, "model.ffn.kind": "swiglu_clamped"},
    "value residual, grouped": {"model.attention.kind": "value_residual", "model.attention.value_mix": 0.3, "model.num_layers": 3,
        "model.attention.num_kv_heads": 2, "model.scan_layers": True},
    "value residual, learned": {"model.attention.kind": "value_residual", "model.attention.value_mix_learned": True,
        "model.num_layers": 2, "model.attention.window": 3},
    "differential, scanned": {"model.attention.kind": "differential", "model.attention.num_kv_heads": 2, "model.num_layers": 3,
        "model.scan_layers": True, "model.position.kind": "rope", "model.norm.kind": "rmsnorm"},
    "latent, scanned": {"model.attention.kind": "latent", "model.attention.rotary_dim": 4, "model.num_layers": 3, "model.scan_layers": True,
        "model.position.kind": "rope", "model.norm.kind": "rmsnorm", "model.norm.unit_offset": True},
    "value embedding in turn": {"model.layers.pattern": "own,plain", "model.num_layers": 4, "model.scan_layers": True,
        "model.layers.kinds.own.attention.kind": "value_embedding", "model.layers.kinds.own.attention.num_kv_heads": 2,
        "model.layers.kinds.own.attention.value_gate_channels": 3, "model.layers.kinds.plain.attention.num_kv_heads": 4},
    "keys and values of the layer before, scanned": {"model.layers.pattern": "own,reader", "model.num_layers": 5, "model.scan_layers": True,
        "model.layers.kinds.own.residual": True, "model.layers.kinds.reader.attention.keys_from": "own", "model.position.kind": "rope",
        "model.attention.num_kv_heads": 2, "model.attention.qk_norm": "head"},
    "last layers with keys and values of two earlier ones": {
        "model.layers.pattern": "local,global,local_reader,global_reader", "model.num_layers": 6, "model.position.kind": "rope",
        "model.attention.num_kv_heads": 1, "model.layers.kinds.local.attention.window": 3, "model.layers.kinds.global.position.theta": 50.0,
        "model.layers.kinds.local_reader.attention.window": 3, "model.layers.kinds.local_reader.attention.keys_from": "local",
        "model.layers.kinds.global_reader.attention.keys_from": "global", "model.layers.kinds.global_reader.position.theta": 50.0},
    "heads of two kinds, normed": {"model.attention.kind": "parallel_heads", "model.position.kind": "rope", "model.attention.num_kv_heads": 2,
        "model.attention.state_heads": 2, "model.attention.state_dim": 3, "model.attention.window": 3, "model.num_layers": 2,
        "model.scan_layers": True},
    "heads of two kinds, added": {"model.attention.kind": "parallel_heads", "model.attention.state_kind": "gated_delta",
        "model.attention.mixing": "sum", "model.attention.value_dim": 3, "model.position.kind": "rope", "model.attention.qk_norm": "head"},
    "value embedding, no gate": {"model.attention.kind": "value_embedding", "model.attention.value_gate_channels": 0},
    "dense, then experts, scanned": {"model.layers.pattern": "dense,sparse", "model.num_layers": 4, "model.scan_layers": True,
        "model.ffn.kind": "moe", "model.ffn.experts.shared_dim": 5, "model.ffn.experts.scores": "sigmoid", "model.ffn.experts.bias_rate": 0.1,
        "model.layers.kinds.dense.ffn.kind": "swiglu", "model.layers.kinds.sparse.ffn.experts.groups": 4,
        "model.layers.kinds.sparse.ffn.experts.chosen_groups": 2},
    "parallel, shared norm": {"model.parallel": "shared_norm", "model.position.kind": "rope", "model.position.layout": "interleaved",
        "model.position.fraction": 0.5, "model.tie_embeddings": False, "model.head.bias": True},
    "parallel, own norms": {"model.parallel": "own_norms", "model.norm.bias": False, "model.position.kind": "rope",
        "model.position.scaling.kind": "dynamic", "model.position.scaling.factor": 2.0, "model.position.scaling.original_length": 4},
    "shared bias, scaled tied head": {"model.position.kind": "relative_bias", "model.position.buckets": 8, "model.attention.scale": 1.0,
        "model.position.max_distance": 6, "model.head.scale": "rsqrt_dim", "model.norm.kind": "rmsnorm", "model.ffn.kind": "reglu"},
    "a bias per layer, no scale": {"model.position.kind": "relative_bias", "model.position.shared": False, "model.position.buckets": 4,
        "model.position.max_distance": 5, "model.norm.scale": False},
    "shaw, sinks": {"model.position.kind": "shaw", "model.position.clip": 2, "model.attention.sinks": True, "model.norm.placement": "post"},
    "normed embedding": {"model.embedding.norm": True, "model.position.kind": "alibi", "model.dim": 12, "model.attention.num_heads": 6},
    "sinusoids in halves from 2 on": {"model.position.kind": "sinusoidal", "model.position.layout": "half", "model.position.offset": 2,
        "model.embedding.scale": "sqrt_dim", "model.embedding.norm": True, "model.norm.placement": "post"},
    "bert": ENCODER | {"model.norm.placement": "post", "model.embedding.norm": True, "model.embedding.segments": 2,
        "model.head.transform": True, "model.head.bias": True, "model.vocab_size": 14},
    "bert, head without biases": ENCODER | {"model.head.transform": True, "model.head.transform_bias": False, "model.ffn.kind": "silu"},
    "bert, swiglu head, no norm": ENCODER | {"model.norm.kind": "none", "model.head.transform": True, "model.ffn.kind": "swiglu",
        "model.position.kind": "none"},
    "encoder, buckets on both sides": ENCODER | {"model.position.kind": "relative_bias", "model.position.buckets": 8,
        "model.position.max_distance": 6},
    "encoder, global tokens": ENCODER | {"model.attention.window": 3, "model.attention.global_tokens": 1,
        "model.attention.global_projections": True, "model.position.offset": 2},
    "encoder, shared bias, global tokens": ENCODER | {"model.attention.window": 1, "model.attention.global_tokens": 2,
        "model.position.kind": "relative_bias", "model.position.buckets": 8, "model.position.max_distance": 6},
    "encoder, llama3, window": ENCODER | {"model.attention.window": 5, "model.position.kind": "rope", "model.attention.head_dim": 8,
        "model.position.scaling.kind": "llama3", "model.position.scaling.factor": 8.0, "model.position.scaling.original_length": 32},
    "albert": ENCODER | {"model.norm.placement": "post", "model.embedding.norm": True, "model.embedding.segments": 2,
        "model.embedding.dim": 6, "model.layers.distinct": 2, "model.num_layers": 4, "model.head.transform": True, "model.head.bias": True,
        "model.ffn.gelu_approximation": "tanh", "model.vocab_size": 14},
    "a loop of two layers, reinjected": {"model.layers.distinct": 4, "model.layers.sharing": "cycle", "model.num_layers": 8,
        "model.layers.prelude": 1, "model.layers.coda": 1, "model.layers.reinjection": True, "model.position.kind": "rope"},
    "a loop of one layer, reinjected, scanned": {"model.layers.distinct": 1, "model.layers.sharing": "cycle", "model.num_layers": 3,
        "model.layers.reinjection": True, "model.norm.placement": "post", "model.scan_layers": True},
    "narrow scaled embedding, sinusoids, untied": {"model.embedding.dim": 6, "model.embedding.scale": "sqrt_dim", "model.layers.distinct": 1,
        "model.position.kind": "sinusoidal", "model.tie_embeddings": False, "model.head.scale": "rsqrt_dim", "model.num_layers": 3},
    "narrow embedding, untied head of its width": {"model.embedding.dim": 6, "model.position.kind": "rope", "model.tie_embeddings": False,
        "model.head.transform": True, "model.head.scale": "rsqrt_dim"},
    "one head": {"model.attention.num_heads": 1},
    "multipliers, clipped, parallel, heads with LayerNorm": {"model.embedding.multiplier": 3.0, "model.residual_multiplier": 0.4,
        "model.head.multiplier": 0.3, "model.attention.clip": 0.02, "model.attention.qk_norm": "head_layernorm",
        "model.attention.num_kv_heads": 2, "model.parallel": "shared_norm", "model.norm.unit_offset": True},
    "narrow tokens, post-norm, ALiBi as large as scores": {"model.embedding.dim": 6, "model.embedding.projection": "tokens",
        "model.norm.placement": "post", "model.position.kind": "alibi", "model.position.scaled": True, "model.embedding.norm": True},
    "batchnorm": {"model.norm.kind": "batchnorm"},
    "encoder, batchnorm, everywhere": ENCODER | {"model.norm.kind": "batchnorm", "model.norm.placement": "sandwich",
        "model.embedding.norm": True, "model.head.transform": True},
    "local and global": {"model.layers.pattern": "local,local,global", "model.num_layers": 5, "model.position.kind": "rope",
        "model.position.theta": 50.0, "model.layers.kinds.local.attention.window": 2, "model.layers.kinds.global.position.theta": 500.0,
        "model.layers.kinds.global.attention.num_kv_heads": 2, "model.layers.kinds.global.ffn.kind": "swiglu"},
    "rope, one kind without positions": {"model.layers.pattern": "turned,plain", "model.num_layers": 2, "model.position.kind": "rope",
        "model.layers.kinds.turned.residual": True, "model.layers.kinds.plain.position.kind": "none"},
    "one kind without positions": {"model.layers.pattern": "plain,none,plain", "model.num_layers": 4, "model.position.kind": "shaw",
        "model.layers.kinds.plain.position.relative_values": False, "model.layers.kinds.none.position.kind": "none",
        "model.layers.kinds.none.residual": False},
}  # fmt: skip
TOKENS = np.array([[3, 1, 12, 0, 7, 7, 2, 5], [0, 5, 4, 4, 1, 9, 11, 8]])
SEGMENTS = np.array([[0, 0, 0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 0, 0]])
COUNTING = np.tile(np.arange(8), (2, 1))
POSITIONS = np.array([[0, 1, 2, 0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5, 6, 7]])
DOCUMENTS = np.array([[0, 0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]])
PADDED = np.array([[0, 1, 2, 3, 4, 5, -1, -1], [-1, -1, -1, 0, 1, 2, 3, 4]])


# Models that get two layers; the others have one, unless they set the number.
DEEP = ("gpt", "llama", "a bias per layer, no scale", "shared bias, scaled tied head", "bert", "batchnorm")
PROGRAMS = {}


def configured(name, **more):
    """The config of one of `MODELS`."""
    return tiny(({} if name in DEEP else {"model.num_layers": 1}) | MODELS[name] | more)


def scores(config, values, context, tokens=TOKENS, stats=None, segments=None):
    """Logits [B, T, V] of a model that holds `values`, and the statistics after the call; calls with
    other numbers share a program.
    """
    model, static = make_model(config), Context(None, None, context.causal, context.in_order, training=context.training)

    def use(values, stats, tokens, positions, documents, segments):
        held = with_values(model, values, stats)
        given = replace(static, positions=positions, documents=documents)
        return held.logits(held(tokens, given, segments), given), statistics_of(held)

    key = str(to_plain(config.model)), static
    if key not in PROGRAMS:
        PROGRAMS[key] = compiled(use)
    return PROGRAMS[key](values, stats or {}, tokens, context.positions, context.documents, segments)


def logits(*arguments, **more):
    return scores(*arguments, **more)[0]


def drawn(config, seed):
    model = make_model(config)
    return random_values(model, seed), random_statistics(model, seed)


# One of each family, and of each part that tests/layers does not compare: embeddings, heads, stacks.
FEW = ["gpt", "llama", "ngpt", "original decoder", "shared bias, scaled tied head", "bert", "albert", "narrow embedding, untied head of its width",
       "a loop of two layers, reinjected",
       "deepnorm, centering", "batchnorm", "value residual, grouped", "local and global",
       "keys and values of the layer before, scanned", "heads of two kinds, normed", "heads of two kinds, added"]  # fmt: skip
OTHER = pytest.mark.promise(reason="other combinations of layers, which tests/layers compares one by one")


@pytest.mark.parametrize("name", by_default(FEW, MODELS, OTHER))
def test_logits_match_the_reference(name):
    config = configured(name)
    values, stats = drawn(config, 1)
    causal = config.model.architecture == "decoder"
    segments = SEGMENTS if config.model.embedding.segments else None
    actual, after = scores(config, values, counting(8, causal), stats=stats, segments=segments)
    assert actual.dtype == np.float32
    expected = reference.batch_logits(config.model, together(values, stats), TOKENS, reference.Rows(COUNTING), segments)
    compared(actual, expected, 2e-5, config=config)
    assert jax.tree.all(jax.tree.map(np.array_equal, after, stats))


STRUCTURED = [
    "gpt", "llama", "original decoder, untied, window", "alibi, 6 heads, 3 key heads", "shared bias, scaled tied head", "shaw, sinks",
    "bert", "encoder, llama3, window", "encoder, buckets on both sides", "local and global",
]  # fmt: skip


@pytest.mark.parametrize("name", by_default(STRUCTURED[:4], STRUCTURED, OTHER))
def test_logits_of_packed_and_padded_rows_match_the_reference(name):
    config = configured(name)
    values, _ = drawn(config, 1)
    # Packed and padded rows share a program.
    for positions, documents in ((POSITIONS, DOCUMENTS), (PADDED, np.zeros_like(PADDED))):
        context = Context(jnp.asarray(positions), jnp.asarray(documents), config.model.architecture == "decoder")
        actual, expected = (
            logits(config, values, context),
            reference.batch_logits(config.model, as_float64(values), TOKENS, reference.Rows(positions, documents)),
        )
        assert np.isfinite(actual).all()
        compared(actual[positions >= 0], expected[positions >= 0], 2e-5, config=config)


@pytest.mark.parametrize("name", ["gpt", "encoder, global tokens", "encoder, shared bias, global tokens"])
def test_logits_of_padded_rows_without_documents_match_the_reference(name):
    config = configured(name)
    values, _ = drawn(config, 2)
    actual = logits(config, values, Context(jnp.asarray(PADDED), causal=config.model.architecture == "decoder"))
    expected = reference.batch_logits(config.model, as_float64(values), TOKENS, reference.Rows(PADDED))
    assert np.isfinite(actual).all()
    compared(actual[PADDED >= 0], expected[PADDED >= 0], 2e-5, config=config)


@pytest.mark.parametrize("name", ["batchnorm", "encoder, batchnorm, everywhere"])
def test_batch_norm_models_in_training_match_the_reference(name):
    config = configured(name, **{"model.norm.momentum": 0.5})
    values, stats = drawn(config, 3)
    causal = config.model.architecture == "decoder"
    positions = PADDED if not causal else COUNTING
    context = Context(jnp.asarray(positions), causal=causal, training=True)
    actual, after = scores(config, values, context, stats=stats)
    rows = reference.Rows(positions, training=True)
    expected = reference.batch_logits(config.model, as_float64(values), TOKENS, rows)
    compared(actual[positions >= 0], expected[positions >= 0], 1e-4, config=config)
    assert 2 * len(rows.moments) == sum(len(leaf) if leaf.ndim == 2 else 1 for leaf in jax.tree.leaves(stats))
    # The first norm of the first layer, and the last of the model.
    first = rows.moments[1 if config.model.embedding.norm else 0]
    for index, name in enumerate(("mean", "variance")):
        before = np.float64(stats["stack"]["layers"]["attention_norm"][name][0])
        close(after["stack"]["layers"]["attention_norm"][name][0], 0.5 * before + 0.5 * first[index])
        last, place = (
            (after["head"]["norm"], stats["head"]["norm"]) if not causal else (after["final_norm"], stats["final_norm"])
        )
        close(last[name], 0.5 * np.float64(place[name]) + 0.5 * rows.moments[-1][index], 1e-4)


def test_missing_segments_mean_the_first_segment():
    config = tiny(MODELS["bert"])
    values, _ = drawn(config, 1)
    zeros, none, mixed = (
        logits(config, values, counting(8, False), segments=given) for given in (np.zeros_like(TOKENS), None, SEGMENTS)
    )
    np.testing.assert_array_equal(zeros, none)
    assert abs(mixed - none).max() > 0.1


def test_pooler_reads_the_first_token():
    config = tiny(MODELS["bert"] | {"model.head.pooler": True, "model.head.next_sentence": True})
    model = make_model(config)
    values, hidden = random_values(model, 1), np.random.default_rng(2).standard_normal((2, 8, 16))
    held, wide = with_values(model, values), as_float64(values)
    pooled, follows = call(lambda h: (held.pooled(h), held.next_sentence_logits(h)), np.float32(hidden))
    expected = np.tanh(reference.linear(wide["pooler"], hidden[:, 0]))
    parts = ("model.head.pooler", "model.head.next_sentence")
    compared(pooled, expected, config=config, parts=parts[:1])
    compared(follows, reference.linear(wide["next_sentence"], expected), config=config, parts=parts)
    assert follows.shape == (2, 2)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_shrunk_published_configs_match_the_reference(name):
    spec = Path(__file__).resolve().parents[2] / "configs" / f"{name}.py"
    config = zoo.config.resolve(zoo.config.load(f"{spec}:smoke,model.dropout=0"))
    values, tokens = random_values(make_model(config), 2), np.random.default_rng(0).integers(0, 257, (1, 16))
    expected = reference.logits(config.model, as_float64(values), tokens[0], np.arange(16))
    close(logits(config, values, counting(16), tokens)[0], expected, 2e-5)


@pytest.mark.parametrize("kind", ["none", "rope", "alibi", "relative_bias", "shaw", "learned", "sinusoidal"])
def test_relative_schemes_are_invariant_to_shifts(kind):
    one_layer = {"model.position.kind": kind, "model.num_layers": 1}
    config = tiny(one_layer | ({"model.position.max_length": 64} if kind == "learned" else {}))
    values = random_values(make_model(config), 3)
    positions = jnp.arange(8) + jnp.array([[0], [0], [50], [50]])
    here, there = np.split(logits(config, values, Context(positions), np.tile(TOKENS, (2, 1))), 2)
    if kind not in ("learned", "sinusoidal"):
        close(there, here, 2e-5)
    else:
        assert abs(there - here).max() > 0.1


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "rope", "alibi", "relative_bias", "shaw"])
def test_outputs_depend_on_token_order_only_through_positions(kind):
    # Without positions, the last token of a one-layer model sees the others as a set.
    config = tiny({"model.position.kind": kind, "model.num_layers": 1})
    nope = tiny({"model.position.kind": "none", "model.num_layers": 1})
    values, both = random_values(make_model(config), 4), np.stack([TOKENS[0], TOKENS[0][[1, 0, *range(2, 8)]]])
    last, last_swapped = logits(config, values, counting(8), both)[:, -1]
    assert abs(last - last_swapped).max() > 1e-2
    without = {name: value for name, value in values.items() if name != "position"}
    if kind == "shaw":
        del without["stack"]["layers"]["attention"]["position"]
    last, last_swapped = logits(nope, without, counting(8), both)[:, -1]
    close(last, last_swapped)


def test_bfloat16_is_close_to_float32_and_logits_are_float32():
    config, narrow = (tiny(LLAMA | {"model.num_layers": 1, "model.dtype": dtype}) for dtype in ("float32", "bfloat16"))
    values = random_values(make_model(config), 5)
    model = with_values(make_model(narrow), values)
    hidden = jax.eval_shape(lambda tokens: model(tokens, counting(8)), TOKENS)
    actual = logits(narrow, values, counting(8))
    assert hidden.dtype == jnp.bfloat16
    assert actual.dtype == np.float32
    close(actual, logits(config, values, counting(8)), 0.05)
    assert abs(actual - logits(config, values, counting(8))).max() > 0


def test_tied_head_is_the_embedding():
    tied, untied = (make_model(tiny({"model.tie_embeddings": tie})) for tie in (True, False))
    values, hidden = random_values(untied, 6), jnp.ones((1, 2, 16))

    def prediction(model, values):
        return with_values(model, values).prediction(hidden)

    hidden = jnp.zeros((1, 1, 16))
    np.testing.assert_array_equal(with_values(untied, values).prediction(hidden).weights, values["head"]["weights"])
    del values["head"]
    np.testing.assert_array_equal(with_values(tied, values).prediction(hidden).weights, values["embedding"])
