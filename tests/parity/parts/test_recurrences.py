"""Mixers with a state against layers of transformers: Qwen3-Next's Gated DeltaNet, Mamba-2, MiniMax's
lightning attention and the convolution of LFM2, and both forms of the gated delta rule against theirs.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from transformers.models.lfm2 import modeling_lfm2 as lfm2
from transformers.models.mamba2 import modeling_mamba2 as mamba2
from transformers.models.minimax import modeling_minimax as minimax
from transformers.models.qwen3_next import modeling_qwen3_next as qwen3_next

from tests.parity.harness import relative_difference
from tests.parity.layers import largest, layer_differences
from tests.parity.references import fill, use_norms_of_groups
from tests.support.building import call, counting, tiny
from tests.support.comparisons import note
from zoo.interop.families.decoders.lfm2 import convolution_rules
from zoo.interop.families.decoders.mamba2 import mixer_rules
from zoo.interop.families.decoders.qwen3_next import gated_delta_rules
from zoo.interop.weights.mapping import IgnoredTensors, Rule, fused_linear, linear
from zoo.layers.attention import make_attention
from zoo.layers.attention.gated_linear_recurrence import unit_length
from zoo.layers.attention.linear_recurrence import Tokens, by_chunks, token_by_token

pytestmark = pytest.mark.parity
# Rows of several chunks, the last of them short.
B, T, D, H, G, K, V = 2, 22, 32, 4, 2, 8, 6
SMALL = {"model.attention.chunk_tokens": 8, "data.sequence_length": T}


def settings(changes):
    """Returns the `model` part of zoo's config."""
    return tiny({"model.dim": D, "model.attention.num_heads": H, "model.norm.epsilon": 1e-6, **changes}).model


def gated_delta():
    """Returns zoo's config, the layer of Qwen3-Next and the rules between them."""
    config = qwen3_next.Qwen3NextConfig(
        hidden_size=D, linear_num_value_heads=H, linear_num_key_heads=G, linear_key_head_dim=K, linear_value_head_dim=V,
        linear_conv_kernel_dim=4,
    )  # fmt: skip
    changes = {"model.attention.kind": "gated_delta", "model.attention.key_heads": G, "model.attention.head_dim": K,
               "model.attention.value_dim": V}  # fmt: skip
    ours = settings(changes | SMALL)
    return ours, qwen3_next.Qwen3NextGatedDeltaNet(config, 0), gated_delta_rules(ours, "")


def state_space():
    """Returns the same for Mamba-2."""
    config = mamba2.Mamba2Config(
        hidden_size=D, num_heads=H, head_dim=2 * D // H, state_size=K, n_groups=G, expand=2, conv_kernel=4, chunk_size=8,
        layer_norm_epsilon=1e-6,
    )  # fmt: skip
    changes = {"model.attention.kind": "mamba2", "model.attention.key_heads": G, "model.attention.head_dim": K}
    ours = settings(changes | SMALL)
    layer = mamba2.Mamba2Mixer(config, 0)
    use_norms_of_groups(layer)
    return ours, layer, mixer_rules(ours, "")


def lightning():
    """Returns the same for the second of three layers of lightning attention."""
    config = minimax.MiniMaxConfig(hidden_size=D, num_attention_heads=H, num_hidden_layers=3, block_size=8)
    ours = settings(
        {"model.attention.kind": "lightning", "model.attention.head_dim": K, "model.num_layers": 3, **SMALL}
    )
    config.head_dim = K
    rules = [
        *fused_linear(("query", "key", "value"), "qkv_proj", (H * K,) * 3, bias=False, groups=H),
        Rule("norm.weight", ("scale",)),
        *linear("gate", "output_gate", bias=False),
        *linear("output", "out_proj", bias=False),
        IgnoredTensors(r"(slope_rate|\w+_decay)"),
    ]
    return ours, minimax.MiniMaxLightningAttention(config, 1), rules


def convolution():
    """Returns the same for LFM2."""
    config = lfm2.Lfm2Config(hidden_size=D, conv_L_cache=3, conv_bias=False)
    ours = settings({"model.attention.kind": "gated_convolution"})
    return ours, lfm2.Lfm2ShortConv(config, 0), convolution_rules(ours, "")


LAYERS = {"Qwen3NextGatedDeltaNet": gated_delta, "Mamba2Mixer": state_space, "Lfm2ShortConv": convolution,
          "MiniMaxLightningAttention": lightning}  # fmt: skip


def differences(name):
    """Returns the differences of the output and of the gradients of a layer."""
    config, layer, rules = LAYERS[name]()
    fill(layer.eval())
    context = replace(counting(T), layer_index=1, depth=config.num_layers)

    def run(x):
        # Lightning attention also returns its last state.
        return layer(x, None, None)[0] if name.startswith("MiniMax") else layer(x)

    return layer_differences(make_attention(config), context, layer, run, rules, (B, T, D))


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest(map(differences, LAYERS)), f"transformers {transformers.__version__}"


@pytest.mark.parametrize("name", LAYERS)
def test_layer_matches_transformers(name):
    found = max(differences(name))
    note(found, 1e-5, LAYERS[name]()[0], against=f"{name} of transformers", parts="model.attention")


@pytest.mark.parametrize("form", [token_by_token, by_chunks])
def test_both_forms_of_the_gated_delta_rule_match_transformers(form):
    generator = np.random.default_rng(1)

    def normal(*shape):
        return generator.standard_normal(shape).astype(np.float32)

    q, k, v, g, b = normal(B, T, H, K), normal(B, T, H, K), normal(B, T, H, V), normal(B, T, H), normal(B, T, H)
    start, g, b = normal(B, H, K, V), -np.exp(g), 1 / (1 + np.exp(-b))

    def run(q, k, v, g, b, start):
        first = jnp.zeros((B, T), bool)
        by_head = (jnp.swapaxes(x, 1, 2) for x in (unit_length(q) * K**-0.5, unit_length(k), v, g[..., None], b))
        return form(Tokens(*by_head, first), start, True)

    y, state = call(run, q, k, v, g, b, start)
    theirs = [torch.tensor(x) for x in (q, k, v, g, b)]
    options = {"initial_state": torch.tensor(start), "output_final_state": True, "use_qk_l2norm_in_kernel": True}
    for rule in (qwen3_next.torch_recurrent_gated_delta_rule, qwen3_next.torch_chunk_gated_delta_rule):
        expected, last = rule(*theirs, **options)
        assert relative_difference(np.swapaxes(y, 1, 2), expected.numpy()) < 1e-5
        assert relative_difference(state, last.numpy()) < 1e-5
