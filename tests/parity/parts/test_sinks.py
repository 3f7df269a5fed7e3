"""Attention sinks against the attention of gpt-oss, by every kernel, with and without a window."""

import jax.numpy as jnp
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss

from tests.parity.layers import largest, layer_differences
from tests.parity.references import fill
from tests.support.building import tiny
from tests.support.comparisons import note
from zoo.interop.weights.mapping import Rule, linear
from zoo.layers.attention import make_attention
from zoo.layers.context import Context

pytestmark = pytest.mark.parity
B, T, D, H, G, K = 2, 16, 32, 4, 2, 12
RULES = [
    *(rule for name in ("query", "key", "value", "output") for rule in linear(name, f"{name[0]}_proj")),
    Rule("sinks", ("sinks",)),
]
CASES = [(kernel, window) for kernel in ("einsum", "rows") for window in (0, 5)]


def reference(window):
    """Returns the attention layer, its cosines and sines, and its mask."""
    config = gpt_oss.GptOssConfig(
        hidden_size=D,
        num_attention_heads=H,
        num_key_value_heads=G,
        head_dim=K,
        num_hidden_layers=2,
        sliding_window=window or 1,
        layer_types=["sliding_attention" if window else "full_attention"] * 2,
        rope_scaling={"rope_type": "default"},
        rope_theta=100.0,
    )
    config._attn_implementation = "eager"
    layer = gpt_oss.GptOssAttention(config, 0).eval()
    fill(layer)
    x = torch.zeros(B, T, D)
    make = gpt_oss.create_sliding_window_causal_mask if window else gpt_oss.create_causal_mask
    mask = make(
        config=config, input_embeds=x, attention_mask=None, cache_position=torch.arange(T), past_key_values=None
    )
    return layer, gpt_oss.GptOssRotaryEmbedding(config)(x, torch.arange(T)[None]), mask


def settings(kernel, window):
    """Returns the `model` part of zoo's config."""
    return tiny(
        {
            "model.dim": D,
            "model.attention.num_heads": H,
            "model.attention.num_kv_heads": G,
            "model.attention.head_dim": K,
            "model.attention.sinks": True,
            "model.attention.window": window,
            "model.attention.implementation": kernel,
            "model.position.kind": "rope",
            "model.position.theta": 100.0,
            "data.sequence_length": T,
        }
    ).model


def differences(kernel, window):
    """Returns the differences of the output and of the gradients."""
    layer, cos_and_sin, mask = reference(window)
    context = Context(jnp.arange(T)[None], in_order=True)
    return layer_differences(
        make_attention(settings(kernel, window)),
        context,
        layer,
        lambda x: layer(x, cos_and_sin, mask)[0],
        RULES,
        (B, T, D),
    )


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest(differences(*case) for case in CASES), f"transformers {transformers.__version__}"


@pytest.mark.parametrize(("kernel", "window"), CASES)
def test_attention_sinks_match_gpt_oss(kernel, window):
    found = max(differences(kernel, window))
    note(
        found,
        1e-5,
        settings(kernel, window),
        against="GptOssAttention of transformers",
        parts=("model.attention", "model.position"),
    )
