"""Softmax+1 against PyTorch's attention with an additional key and value of zeros."""

import jax.numpy as jnp
import pytest

pytest.importorskip("torch")

import torch

from tests.parity.layers import largest, layer_differences
from tests.parity.references import fill
from tests.support.building import tiny
from tests.support.comparisons import note
from zoo.interop.weights.mapping import TRANSPOSED, Rule, fused, linear
from zoo.layers.attention import make_attention
from zoo.layers.context import Context

pytestmark = pytest.mark.parity
B, T, D, H = 2, 16, 32, 4
PARTS = ("query", "key", "value")
RULES = [
    Rule("in_proj_weight", tuple(f"{name}/kernel" for name in PARTS), fused((D, D, D)).then(TRANSPOSED)),
    Rule("in_proj_bias", tuple(f"{name}/bias" for name in PARTS), fused((D, D, D))),
    *linear("output", "out_proj"),
]


def settings():
    """Returns the `model` part of zoo's config."""
    return tiny(
        {
            "model.dim": D,
            "model.attention.num_heads": H,
            "model.attention.kind": "softmax_plus_one",
            "model.position.kind": "none",
            "data.sequence_length": T,
        }
    ).model


def differences():
    """Returns the differences of the output and of the gradients."""
    layer = torch.nn.MultiheadAttention(D, H, add_zero_attn=True, batch_first=True).eval()
    fill(layer)
    mask = torch.triu(torch.full((T, T), -torch.inf), 1)
    context = Context(jnp.arange(T)[None], in_order=True)
    return layer_differences(
        make_attention(settings()), context, layer, lambda x: layer(x, x, x, attn_mask=mask, need_weights=False)[0], RULES,
        (B, T, D),
    )  # fmt: skip


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest([differences()]), f"torch {torch.__version__.split('+')[0]}"


def test_softmax_plus_one_equals_an_additional_zero_key():
    library = "MultiheadAttention(add_zero_attn=True) of torch.nn"
    note(max(differences()), 1e-5, settings(), against=library, parts=("model.attention", "model.position"))
