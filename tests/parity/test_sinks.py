"""Attention sinks against gpt-oss's attention. The rest of that model is a mixture of experts, which this library does not have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss

from tests.building import call, close, tiny
from tests.parity.references import fill
from zoo.interop.mapping import Rule, flatten, linear, to_zoo
from zoo.layers.attention import Attention
from zoo.layers.context import Context
from zoo.models.functional import split

pytestmark = pytest.mark.parity
B, T, D, H, G, K = 2, 16, 32, 4, 2, 12
RULES = [*(rule for name in ("query", "key", "value", "output") for rule in linear(name, f"{name[0]}_proj")), Rule("sinks", ("sinks",))]


def reference(window):
    """The attention layer, its cosines and sines, and its mask."""
    config = gpt_oss.GptOssConfig(
        hidden_size=D, num_attention_heads=H, num_key_value_heads=G, head_dim=K, num_hidden_layers=2, sliding_window=window or 1,
        layer_types=["sliding_attention" if window else "full_attention"] * 2, rope_scaling={"rope_type": "default"}, rope_theta=100.0)
    config._attn_implementation = "eager"
    layer = gpt_oss.GptOssAttention(config, 0).eval()
    fill(layer)
    x = torch.zeros(B, T, D)
    make = gpt_oss.create_sliding_window_causal_mask if window else gpt_oss.create_causal_mask
    mask = make(config=config, input_embeds=x, attention_mask=None, cache_position=torch.arange(T), past_key_values=None)
    return layer, gpt_oss.GptOssRotaryEmbedding(config)(x, torch.arange(T)[None]), mask


@pytest.mark.parametrize("window", [0, 5])
@pytest.mark.parametrize("kernel", ["einsum", "rows"])
def test_attention_with_sinks_is_gpt_oss_s(kernel, window):
    layer, turned, mask = reference(window)
    config = tiny({"model.dim": D, "model.attention.num_heads": H, "model.attention.num_kv_heads": G, "model.attention.head_dim": K,
                   "model.attention.sinks": True, "model.attention.window": window, "model.attention.kernel": kernel,
                   "model.position.kind": "rope", "model.position.theta": 100.0, "data.sequence_length": T}).model
    generator = np.random.default_rng(5)
    x, weights = (generator.standard_normal((B, T, D)).astype(np.float32) for _ in range(2))
    graph, abstract, _ = split(Attention(config))
    values = to_zoo(RULES, {name: tensor.detach().numpy() for name, tensor in layer.state_dict().items()}, abstract)

    def functional(values, x):
        out = nnx.merge(graph, values, {})(x, Context(jnp.arange(T)[None], in_order=True))
        return (out * weights).sum(), out

    (_, out), (gradients, d_x) = call(jax.value_and_grad(functional, (0, 1), has_aux=True), values, x)
    theirs_x = torch.tensor(x, requires_grad=True)
    theirs, _ = layer(theirs_x, turned, mask)
    (theirs * torch.tensor(weights)).sum().backward()
    close(out, theirs.detach().numpy())
    close(d_x, theirs_x.grad.numpy())
    expected = flatten(to_zoo(RULES, {name: parameter.grad.numpy() for name, parameter in layer.named_parameters()}, abstract))
    for path, gradient in flatten(gradients).items():
        if path != "key/bias":
            close(gradient, expected[path])
