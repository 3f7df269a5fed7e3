"""Two layers of attention, the second with the keys and values of the first, against Gemma 3n."""

from dataclasses import replace

import jax.numpy as jnp
import pytest
from flax import nnx

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from transformers.models.gemma3n import modeling_gemma3n as gemma3n

from tests.parity.layers import largest, layer_differences
from tests.parity.references import fill
from tests.support.building import tiny
from tests.support.comparisons import note
from zoo.config import layer_kind
from zoo.interop.weights.mapping import Rule, linear
from zoo.layers.attention import make_attention
from zoo.layers.context import Context

pytestmark = pytest.mark.parity
B, T, D, H, G, K = 2, 16, 32, 4, 2, 12
EPSILON = 1e-6
RULES = [
    *(
        rule
        for layer, names in (("own", ("query", "key", "value", "output")), ("reader", ("query", "output")))
        for name in names
        for rule in linear(f"{layer}/{name}", f"{layer}.{name[0]}_proj", bias=False)
    ),
    *(
        Rule(f"{layer}.{name[0]}_norm.weight", (f"{layer}/{name}_norm/scale",))
        for layer, name in (("own", "query"), ("own", "key"), ("reader", "query"))
    ),
]


class Pair(nnx.Module):
    """reader(x + own(x)) of zoo's layers."""

    def __init__(self, model):
        self.own, self.reader = (make_attention(layer_kind(model, name)) for name in ("own", "reader"))

    def __call__(self, x, context):
        taken = []
        x = x + self.own(x, replace(context, key_values=taken))
        return self.reader(x, replace(context, key_values=taken[0]))


class Reference(torch.nn.Module):
    """The same of two layers of Gemma 3n, the first and the third, or the second and the fourth."""

    def __init__(self, window):
        super().__init__()
        kinds = ["sliding_attention", "full_attention"] * 2
        config = gemma3n.Gemma3nTextConfig(
            hidden_size=D, num_attention_heads=H, num_key_value_heads=G, head_dim=K, num_hidden_layers=4,
            num_kv_shared_layers=2, layer_types=kinds, sliding_window=window or 1, rms_norm_eps=EPSILON,
            rope_theta=100.0, intermediate_size=8, activation_sparsity_pattern=[0.0] * 4,
        )  # fmt: skip
        config._attn_implementation = "eager"
        first = 0 if window else 1
        self.own, self.reader = (gemma3n.Gemma3nTextAttention(config, index) for index in (first, first + 2))
        # Layers that share keys have these and do not use them.
        for name in ("k_proj", "v_proj", "k_norm", "v_norm"):
            delattr(self.reader, name)
        self.angles = gemma3n.Gemma3nTextRotaryEmbedding(config)
        distance = torch.arange(T)[:, None] - torch.arange(T)
        seen = (distance >= 0) & (distance < (window or T))
        self.register_buffer("mask", torch.where(seen, 0.0, -torch.inf)[None, None], persistent=False)

    def forward(self, x):
        cache, places = transformers.DynamicCache(), torch.arange(T)
        given = self.angles(x, places[None]), self.mask, cache, places
        x = x + self.own(x, *given)[0]
        return self.reader(x, *given)[0]


def settings(window):
    """Returns the `model` part of zoo's config."""
    return tiny(
        {
            "model.dim": D,
            "model.attention.num_heads": H,
            "model.attention.num_kv_heads": G,
            "model.attention.head_dim": K,
            "model.attention.bias": False,
            "model.attention.scale": 1.0,
            "model.attention.qk_norm": "head",
            "model.attention.value_norm": True,
            "model.attention.window": window,
            "model.layers.pattern": ("own", "reader"),
            "model.layers.kinds.own.residual": True,
            "model.layers.kinds.reader.attention.keys_from": "own",
            "model.norm.kind": "rmsnorm",
            "model.norm.epsilon": EPSILON,
            "model.position.kind": "rope",
            "model.position.theta": 100.0,
            "data.sequence_length": T,
        }
    ).model


def differences(window):
    """Returns the differences of the output and of the gradients."""
    theirs = Reference(window).eval()
    fill(theirs)
    context = Context(jnp.arange(T)[None], in_order=True)
    return layer_differences(Pair(settings(window)), context, theirs, theirs, RULES, (B, T, D))


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest(map(differences, (0, 5))), f"transformers {transformers.__version__}"


@pytest.mark.parametrize("window", [0, 5])
def test_keys_and_values_of_an_earlier_layer_match_gemma_3n(window):
    found = max(differences(window))
    note(
        found,
        1e-5,
        settings(window),
        against="Gemma3nTextAttention of transformers",
        parts=("model.attention", "model.layers", "model.position"),
    )
