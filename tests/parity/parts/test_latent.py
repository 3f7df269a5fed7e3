"""Multi-head latent attention against the layer of DeepSeek-V3, with queries of both kinds."""

import jax.numpy as jnp
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek_v3

from tests.parity.layers import largest, layer_differences
from tests.parity.references import fill
from tests.support.building import tiny
from tests.support.comparisons import note
from zoo.interop.weights.mapping import TRANSPOSED, Rule, fused, fused_linear, linear
from zoo.layers.attention import make_attention
from zoo.layers.context import Context

pytestmark = pytest.mark.parity
B, T, D, H, K, R, LATENT = 2, 16, 32, 4, 10, 6, 12


def rules(query_latent):
    """Returns the rules of the layer, with biases where queries have a latent vector too."""
    queries = [*linear("query", "q_proj", bias=False)]
    if query_latent:
        queries = [
            *linear("query_latent", "q_a_proj"),
            Rule("q_a_layernorm.weight", ("query_latent_norm/scale",)),
            *linear("query", "q_b_proj", bias=False),
        ]
    return [
        *queries,
        *fused_linear(("latent", "rotary_key"), "kv_a_proj_with_mqa", (LATENT, R), bias=query_latent > 0),
        Rule("kv_a_layernorm.weight", ("latent_norm/scale",)),
        Rule("kv_b_proj.weight", ("key/kernel", "value/kernel"), fused((H * K, H * K), groups=H).then(TRANSPOSED)),
        *linear("output", "o_proj", bias=query_latent > 0),
    ]


def settings(query_latent):
    """Returns the `model` part of zoo's config."""
    return tiny(
        {
            "model.dim": D,
            "model.norm.epsilon": 1e-6,
            "model.attention.kind": "latent",
            "model.attention.num_heads": H,
            "model.attention.head_dim": K,
            "model.attention.latent_dim": LATENT,
            "model.attention.rotary_dim": R,
            "model.attention.query_latent_dim": query_latent,
            "model.attention.bias": query_latent > 0,
            "model.position.kind": "rope",
            "model.position.layout": "interleaved",
            "model.position.theta": 100.0,
            "data.sequence_length": T,
        }
    ).model


def differences(query_latent):
    """Returns the differences of the output and of the gradients."""
    config = deepseek_v3.DeepseekV3Config(
        hidden_size=D,
        num_attention_heads=H,
        num_key_value_heads=H,
        qk_nope_head_dim=K,
        qk_rope_head_dim=R,
        v_head_dim=K,
        kv_lora_rank=LATENT,
        q_lora_rank=query_latent or None,
        attention_bias=query_latent > 0,
        rope_theta=100.0,
        num_hidden_layers=1,
    )
    config._attn_implementation = "eager"
    layer = deepseek_v3.DeepseekV3Attention(config, 0).eval()
    fill(layer)
    cos_and_sin = deepseek_v3.DeepseekV3RotaryEmbedding(config)(torch.zeros(B, T, D), torch.arange(T)[None])
    mask = torch.triu(torch.full((T, T), -torch.inf), 1)[None, None]
    context = Context(jnp.arange(T)[None], in_order=True)
    return layer_differences(
        make_attention(settings(query_latent)),
        context,
        layer,
        lambda x: layer(x, cos_and_sin, mask)[0],
        rules(query_latent),
        (B, T, D),
    )


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest(map(differences, (0, 9))), f"transformers {transformers.__version__}"


@pytest.mark.parametrize("query_latent", [0, 9])
def test_latent_attention_matches_deepseek_v3(query_latent):
    found = max(differences(query_latent))
    note(
        found,
        1e-5,
        settings(query_latent),
        against="DeepseekV3Attention of transformers",
        parts=("model.attention", "model.position"),
    )
