"""Cosine attention against that of Swin V2. Its position bias is set to a constant, which does not
change a softmax.
"""

import jax.numpy as jnp
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from transformers.models.swinv2 import modeling_swinv2 as swinv2

from tests.parity.layers import largest, layer_differences
from tests.parity.references import fill
from tests.support.building import tiny
from tests.support.comparisons import note
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Transform, linear
from zoo.layers.attention import make_attention
from zoo.layers.context import Context

pytestmark = pytest.mark.parity
# A window of 4 x 4 patches is a row of 16 tokens that all see each other.
B, T, D, H = 2, 16, 32, 4
RULES = [
    *(rule for name in ("query", "key", "value") for rule in linear(name, f"inside.{name}")),
    *linear("output", "output"),
    IgnoredTensors(r"inside\.continuous_position_bias_mlp\..*"),
    Rule(
        "inside.logit_scale",
        ("query_norm/log_factor",),
        Transform(lambda x: (x.reshape(H),), lambda parts: parts[0].reshape(H, 1, 1)),
    ),
]


def settings():
    """Returns the `model` part of zoo's config."""
    return tiny(
        {
            "model.architecture": "encoder",
            "objective.kind": "masked",
            "model.dim": D,
            "model.attention.num_heads": H,
            "model.attention.qk_norm": "cosine",
            "model.position.kind": "none",
            "data.sequence_length": T,
        }
    ).model


def differences():
    """Returns the differences of the output and of the gradients."""
    layer = swinv2.Swinv2SelfAttention(swinv2.Swinv2Config(attention_probs_dropout_prob=0.0), D, H, 4)
    # Swin's keys have no bias, but zoo's do.
    layer.key = torch.nn.Linear(D, D)
    whole = torch.nn.ModuleDict({"inside": layer, "output": torch.nn.Linear(D, D)}).eval()
    fill(whole)
    with torch.no_grad():
        for parameter in layer.continuous_position_bias_mlp.parameters():
            parameter.zero_()
        # The last factor exceeds the maximum.
        layer.logit_scale.copy_(torch.tensor([0.5, 2.0, 4.0, 5.0])[:, None, None])
    context = Context(jnp.arange(T)[None], causal=False, in_order=True, no_padding=True)
    return layer_differences(
        make_attention(settings()), context, whole, lambda x: whole["output"](layer(x)[0]), RULES, (B, T, D)
    )


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest([differences()]), f"transformers {transformers.__version__}"


def test_cosine_attention_matches_swin_v2():
    note(
        max(differences()),
        5e-5,
        settings(),
        against="Swinv2SelfAttention of transformers",
        parts=("model.attention", "model.position"),
    )
