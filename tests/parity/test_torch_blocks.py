"""Layers and blocks against PyTorch's own, forward and backward, with the same weights."""

import jax
import numpy as np
import pytest

from tests.building import as_float64, call, close, counting, random_values, tiny, with_values
from zoo.layers.block import make_block
from zoo.layers.kernels import KERNELS, Scoring
from zoo.layers.norm import layer_norm, rms_norm

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

B, T, D, H = 2, 7, 16, 4
ON_ANY_DEVICE = [name for name in KERNELS if name != "cudnn"]


def tensor(array):
    return torch.tensor(np.asarray(array, np.float64), requires_grad=True)


def encoder_layer(config, values):
    """PyTorch's block in float64 with our weights."""
    layer = torch.nn.TransformerEncoderLayer(
        D, H, config.ffn.hidden_dim, dropout=0.0, activation=config.ffn.kind, layer_norm_eps=config.norm.epsilon,
        batch_first=True, norm_first=config.norm.placement == "pre", dtype=torch.float64,
    )  # fmt: skip
    layer.load_state_dict({name: torch.tensor(value) for name, value in to_torch(as_float64(values)).items()})
    return layer


def to_torch(values):
    """Our nested dict under PyTorch's names: matrices are transposed, and query, key and value are one."""
    projections = [values["attention"][name] for name in ("query", "key", "value")]
    named = {
        "self_attn.in_proj_weight": np.concatenate([part["kernel"].T for part in projections]),
        "self_attn.in_proj_bias": np.concatenate([part["bias"] for part in projections]),
        "norm1.weight": values["attention_norm"]["scale"],
        "norm1.bias": values["attention_norm"]["bias"],
        "norm2.weight": values["ffn_norm"]["scale"],
        "norm2.bias": values["ffn_norm"]["bias"],
    }
    for name, part in {"self_attn.out_proj": values["attention"]["output"], "linear1": values["ffn"]["up"],
                       "linear2": values["ffn"]["down"]}.items():
        named |= {f"{name}.weight": part["kernel"].T, f"{name}.bias": part["bias"]}
    return named


@pytest.mark.parametrize("kernel", ["einsum", "rows"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_block_is_torch_s_encoder_layer(placement, activation, kernel):
    config = tiny({"model.norm.placement": placement, "model.ffn.kind": activation, "model.position.kind": "none",
                   "model.attention.kernel": kernel}).model
    values, generator = random_values(make_block(config), 1), np.random.default_rng(2)
    x, weights = (generator.standard_normal((B, T, D)).astype(np.float32) for _ in range(2))

    def loss(values, x):
        out = with_values(make_block(config), values)(x, counting(T))
        return (out * weights).sum(), out

    (_, out), (gradients, d_x) = call(jax.value_and_grad(loss, (0, 1), has_aux=True), values, x)

    layer, theirs_x = encoder_layer(config, values), tensor(x)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    theirs = layer(theirs_x, src_mask=mask, is_causal=True)
    (theirs * torch.tensor(weights)).sum().backward()
    close(out, theirs.detach().numpy())
    close(d_x, theirs_x.grad.numpy())
    expected = {name: parameter.grad.numpy() for name, parameter in layer.named_parameters()}
    ours = to_torch(as_float64(gradients))
    assert set(ours) == set(expected)
    for name in expected:
        close(ours[name], expected[name])


@pytest.mark.parametrize("epsilon", [1e-6, 1e-2])
def test_norms_are_torch_s(epsilon):
    generator = np.random.default_rng(3)
    x, weights = (generator.standard_normal((B, T, D)).astype(np.float32) for _ in range(2))
    scale, bias = (generator.standard_normal(D).astype(np.float32) for _ in range(2))
    cases = {
        "layernorm": (lambda x, scale, bias: layer_norm(x, scale, bias, epsilon),
                      lambda x, scale, bias: torch.nn.functional.layer_norm(x, (D,), scale, bias, epsilon)),
        "rmsnorm": (lambda x, scale, bias: rms_norm(x, scale, epsilon) + bias,
                    lambda x, scale, bias: torch.nn.functional.rms_norm(x, (D,), scale, epsilon) + bias),
    }
    for ours, theirs in cases.values():
        value = call(ours, x, scale, bias)
        gradients = call(jax.grad(lambda *inputs, ours=ours: (ours(*inputs) * weights).sum(), (0, 1, 2)), x, scale, bias)
        inputs = [tensor(array) for array in (x, scale, bias)]
        expected = theirs(*inputs)
        (expected * torch.tensor(weights)).sum().backward()
        close(value, expected.detach().numpy())
        for one, other in zip(gradients, inputs, strict=True):
            close(one, other.grad.numpy())


@pytest.mark.parametrize("kernel", ON_ANY_DEVICE)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_grouped_attention_is_torch_s(kernel, kv_heads):
    generator = np.random.default_rng(4)
    q, k, v = (generator.standard_normal((B, T, heads, 6)).astype(np.float32) for heads in (H, kv_heads, kv_heads))
    weights = generator.standard_normal(q.shape).astype(np.float32)

    def loss(q, k, v):
        out = KERNELS[kernel](q, k, v, counting(T), Scoring(0.4))
        return (out * weights).sum(), out

    (_, out), gradients = call(jax.value_and_grad(loss, (0, 1, 2), has_aux=True), q, k, v)
    inputs = [tensor(array) for array in (q, k, v)]
    attend = torch.nn.functional.scaled_dot_product_attention
    expected = attend(*(x.transpose(1, 2) for x in inputs), is_causal=True, scale=0.4, enable_gqa=True).transpose(1, 2)
    (expected * torch.tensor(weights)).sum().backward()
    close(out, expected.detach().numpy())
    for one, other in zip(gradients, inputs, strict=True):
        close(one, other.grad.numpy())
