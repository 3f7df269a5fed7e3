"""The elementwise output gate against the full-attention layer of Qwen3-Next."""

import jax.numpy as jnp
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

from tests.parity.layers import largest, layer_differences
from tests.parity.references import fill
from tests.support.building import tiny
from tests.support.comparisons import note
from zoo.interop.families.decoders.qwen3_next import gated_attention_rules
from zoo.layers.attention import make_attention
from zoo.layers.context import Context

pytestmark = pytest.mark.parity
B, T, D, H, G, K = 2, 16, 32, 4, 2, 12
EPSILON = 1e-6


def settings():
    """Returns the `model` part of zoo's config."""
    return tiny(
        {
            "model.dim": D,
            "model.attention.num_heads": H,
            "model.attention.num_kv_heads": G,
            "model.attention.head_dim": K,
            "model.attention.bias": False,
            "model.attention.gate": "elementwise",
            "model.attention.qk_norm": "head",
            "model.norm.kind": "rmsnorm",
            "model.norm.unit_offset": True,
            "model.norm.epsilon": EPSILON,
            "model.position.kind": "rope",
            "model.position.theta": 100.0,
            "model.position.fraction": 0.5,
            "data.sequence_length": T,
        }
    ).model


def differences():
    """Returns the differences of the output and of the gradients."""
    config = qwen3_next.Qwen3NextConfig(
        hidden_size=D,
        num_attention_heads=H,
        num_key_value_heads=G,
        head_dim=K,
        rope_theta=100.0,
        num_hidden_layers=1,
        rms_norm_eps=EPSILON,
        partial_rotary_factor=0.5,
        layer_types=["full_attention"],
    )
    config._attn_implementation = "eager"
    layer = qwen3_next.Qwen3NextAttention(config, 0).eval()
    fill(layer)
    cos_and_sin = qwen3_next.Qwen3NextRotaryEmbedding(config)(torch.zeros(B, T, D), torch.arange(T)[None])
    mask = torch.triu(torch.full((T, T), -torch.inf), 1)[None, None]
    context = Context(jnp.arange(T)[None], in_order=True)
    rules = gated_attention_rules(settings(), "")
    return layer_differences(
        make_attention(settings()), context, layer, lambda x: layer(x, cos_and_sin, mask)[0], rules, (B, T, D)
    )


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest([differences()]), f"transformers {transformers.__version__}"


def test_elementwise_output_gate_matches_qwen3_next():
    library = "Qwen3NextAttention of transformers"
    note(max(differences()), 1e-5, settings(), against=library, parts=("model.attention", "model.position"))
