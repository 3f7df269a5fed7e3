"""Shaw's relative keys and values against the attention of VITS. No distance here exceeds the window
of VITS.
"""

import jax.numpy as jnp
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from transformers.models.vits.modeling_vits import VitsAttention, VitsConfig

from tests.parity.layers import largest, layer_differences
from tests.parity.references import fill
from tests.support.building import ENCODER, tiny
from tests.support.comparisons import note
from zoo.interop.weights.mapping import Rule, Transform, linear
from zoo.layers.attention import make_attention
from zoo.layers.context import Context

pytestmark = pytest.mark.parity
B, T, D, H = 2, 9, 32, 4
FIRST = Transform(lambda x: (x[0],), lambda parts: parts[0][None])
NAMES = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
RULES = [*(rule for ours, theirs in NAMES.items() for rule in linear(ours, theirs)),
         Rule("emb_rel_k", ("position/keys",), FIRST), Rule("emb_rel_v", ("position/values",), FIRST)]  # fmt: skip
# The largest distance is 8.
CASES = [(8, False), (8, True), (11, False)]


def settings(clip, causal):
    """Returns the `model` part of zoo's config."""
    return tiny(
        ({} if causal else ENCODER)
        | {
            "model.dim": D,
            "model.attention.num_heads": H,
            "model.position.kind": "shaw",
            "model.position.clip": clip,
            "model.position.relative_values": True,
            "data.sequence_length": T,
        }
    ).model


def differences(clip, causal):
    """Returns the differences of the output and of the gradients. VITS is made causal by an explicit
    mask.
    """
    layer = VitsAttention(
        VitsConfig(hidden_size=D, num_attention_heads=H, window_size=clip, attention_dropout=0.0)
    ).eval()
    fill(layer)
    mask = torch.full((T, T), -torch.inf).triu(1).expand(B, 1, T, T) if causal else None
    context = Context(jnp.arange(T)[None], causal=causal, in_order=True)
    return layer_differences(
        make_attention(settings(clip, causal)),
        context,
        layer,
        lambda x: layer(x, attention_mask=mask)[0],
        RULES,
        (B, T, D),
    )


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest(differences(*case) for case in CASES), f"transformers {transformers.__version__}"


@pytest.mark.parametrize(("clip", "causal"), CASES)
def test_relative_keys_and_values_match_vits(clip, causal):
    found = max(differences(clip, causal))
    note(
        found,
        1e-5,
        settings(clip, causal),
        against="VitsAttention of transformers",
        parts=("model.attention", "model.position"),
    )
