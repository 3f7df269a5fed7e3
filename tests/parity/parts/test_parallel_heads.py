"""A layer with attention and Mamba-2 side by side, and its feed-forward layer, against Falcon-H1."""

import jax.numpy as jnp
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from transformers.models.falcon_h1 import modeling_falcon_h1 as falcon_h1

from tests.parity.layers import largest, layer_differences
from tests.parity.references import fill
from tests.support.building import tiny
from tests.support.comparisons import note
from zoo.config.scopes import state_part
from zoo.interop.families.decoders.mamba2 import mixer_rules
from zoo.interop.weights.mapping import linear, norm, within
from zoo.layers.context import Context
from zoo.layers.placement import make_block

pytestmark = pytest.mark.parity
# Rows of several chunks, the last of them short. The parts differ in all their sizes.
B, T, D, F, H, G, N, K, V = 2, 22, 32, 24, 4, 2, 6, 5, 7
EPSILON = 1e-6


def settings():
    """Returns the `model` part of zoo's config."""
    return tiny(
        {
            "model.dim": D,
            "model.norm.kind": "rmsnorm",
            "model.norm.epsilon": EPSILON,
            "model.ffn.kind": "swiglu",
            "model.ffn.hidden_dim": F,
            "model.ffn.bias": False,
            "model.attention.kind": "parallel_heads",
            "model.attention.mixing": "sum",
            "model.attention.num_heads": H,
            "model.attention.num_kv_heads": G,
            "model.attention.bias": False,
            "model.attention.state_heads": N,
            "model.attention.state_dim": K,
            "model.attention.value_dim": V,
            "model.attention.chunk_tokens": 8,
            "model.position.kind": "rope",
            "model.position.theta": 100.0,
            "data.sequence_length": T,
        }
    ).model


def differences():
    """Returns the differences of the output and of the gradients."""
    ours = settings()
    config = falcon_h1.FalconH1Config(
        hidden_size=D, intermediate_size=F, num_hidden_layers=1, num_attention_heads=H, num_key_value_heads=G,
        rms_norm_eps=EPSILON, mamba_d_ssm=N * V, mamba_n_heads=N, mamba_d_head=V, mamba_d_state=K, mamba_chunk_size=8,
        mamba_rms_norm=True, mamba_norm_before_gate=False, rope_theta=100.0,
    )  # fmt: skip
    config._attn_implementation = "eager"
    layer = falcon_h1.FalconH1DecoderLayer(config, 0).eval()
    # The model computes these factors, which are 1 here, and gives them to its layers.
    layer.mamba.mup_vector = falcon_h1.compute_mup_vector(config)
    fill(layer)
    angles = falcon_h1.FalconH1RotaryEmbedding(config)(torch.zeros(B, T, D), torch.arange(T)[None])
    mask = torch.triu(torch.full((T, T), -torch.inf), 1)[None, None]
    rules = [
        *norm("attention_norm", "input_layernorm", ours),
        *norm("ffn_norm", "pre_ff_layernorm", ours),
        *within("attention/state", mixer_rules(state_part(ours), "mamba.")),
        *(
            rule
            for name in ("query", "key", "value", "output")
            for rule in linear(f"attention/softmax/{name}", f"self_attn.{name[0]}_proj", bias=False)
        ),
        *(
            rule
            for name in ("gate", "up", "down")
            for rule in linear(f"ffn/{name}", f"feed_forward.{name}_proj", bias=False)
        ),
    ]
    context = Context(jnp.arange(T)[None], in_order=True)
    return layer_differences(
        make_block(ours),
        context,
        layer,
        lambda x: layer(x, attention_mask=mask, position_embeddings=angles)[0],
        rules,
        (B, T, D),
    )


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest([differences()]), f"transformers {transformers.__version__}"


def test_parallel_heads_match_falcon_h1():
    library = "FalconH1DecoderLayer of transformers"
    note(
        max(differences()), 1e-5, settings(), against=library, parts=("model.attention", "model.position", "model.ffn")
    )
