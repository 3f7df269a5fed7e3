"""Outputs and gradients of layers and blocks against PyTorch's, with the same weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import (
    as_float64,
    call,
    close,
    compiled,
    counting,
    random_statistics,
    random_values,
    tiny,
    with_values,
)
from tests.support.comparisons import compared
from zoo.layers.attention.kernels.products import KERNELS
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context
from zoo.layers.norm import layer_norm, make_norm, rms_norm
from zoo.layers.placement import make_block
from zoo.models.functional import statistics_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

B, T, D, H = 2, 7, 16, 4
BLOCK = ("model.norm", "model.ffn", "model.residual", "model.parallel", "model.attention.kind")
NORM = ("model.norm.kind", "model.norm.epsilon")
CPU_KERNELS = [name for name in KERNELS if name not in ("cudnn", "splash")]


def tensor(array):
    return torch.tensor(np.asarray(array, np.float64), requires_grad=True)


def encoder_layer(config, values):
    """Returns PyTorch's block in float64 with zoo's weights."""
    layer = torch.nn.TransformerEncoderLayer(
        D, H, config.ffn.hidden_dim, dropout=0.0, activation=config.ffn.kind, layer_norm_eps=config.norm.epsilon,
        batch_first=True, norm_first=config.norm.placement == "pre", dtype=torch.float64,
    )  # fmt: skip
    layer.load_state_dict({name: torch.tensor(value) for name, value in to_torch(as_float64(values)).items()})
    return layer


def to_torch(values):
    """Renames zoo's parameters as in PyTorch: matrices are transposed, and query, key and value are
    concatenated.
    """
    projections = [values["attention"][name] for name in ("query", "key", "value")]
    named = {
        "self_attn.in_proj_weight": np.concatenate([part["kernel"].T for part in projections]),
        "self_attn.in_proj_bias": np.concatenate([part["bias"] for part in projections]),
        "norm1.weight": values["attention_norm"]["scale"],
        "norm1.bias": values["attention_norm"]["bias"],
        "norm2.weight": values["ffn_norm"]["scale"],
        "norm2.bias": values["ffn_norm"]["bias"],
    }
    for name, part in {
        "self_attn.out_proj": values["attention"]["output"],
        "linear1": values["ffn"]["up"],
        "linear2": values["ffn"]["down"],
    }.items():
        named |= {f"{name}.weight": part["kernel"].T, f"{name}.bias": part["bias"]}
    return named


@pytest.mark.parametrize("kernel", ["einsum", "rows"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_blocks_match_torch_encoder_layers(placement, activation, kernel):
    config = tiny(
        {
            "model.norm.placement": placement,
            "model.ffn.kind": activation,
            "model.position.kind": "none",
            "model.attention.implementation": kernel,
        }
    ).model
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
    about = {"config": config, "parts": BLOCK, "against": "TransformerEncoderLayer of torch.nn"}
    compared(out, theirs.detach().numpy(), **about)
    compared(d_x, theirs_x.grad.numpy(), **about)
    expected = {name: parameter.grad.numpy() for name, parameter in layer.named_parameters()}
    ours = to_torch(as_float64(gradients))
    assert set(ours) == set(expected)
    for name in expected:
        compared(ours[name], expected[name], **about)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-2])
def test_norms_match_torch(epsilon):
    generator = np.random.default_rng(3)
    x, weights = (generator.standard_normal((B, T, D)).astype(np.float32) for _ in range(2))
    scale, bias = (generator.standard_normal(D).astype(np.float32) for _ in range(2))
    cases = {
        "layernorm": (
            lambda x, scale, bias: layer_norm(x, scale, bias, epsilon),
            lambda x, scale, bias: torch.nn.functional.layer_norm(x, (D,), scale, bias, epsilon),
        ),
        "rmsnorm": (
            lambda x, scale, bias: rms_norm(x, scale, epsilon) + bias,
            lambda x, scale, bias: torch.nn.functional.rms_norm(x, (D,), scale, epsilon) + bias,
        ),
    }
    for kind, (ours, theirs) in cases.items():
        value = call(ours, x, scale, bias)
        gradients = call(
            jax.grad(lambda *inputs, ours=ours: (ours(*inputs) * weights).sum(), (0, 1, 2)), x, scale, bias
        )
        inputs = [tensor(array) for array in (x, scale, bias)]
        expected = theirs(*inputs)
        (expected * torch.tensor(weights)).sum().backward()
        about = {"config": tiny({"model.norm.kind": kind, "model.norm.epsilon": epsilon}), "parts": NORM}
        about["against"] = f"{kind[:-4]}_norm of torch.nn.functional"
        compared(value, expected.detach().numpy(), **about)
        for one, other in zip(gradients, inputs, strict=True):
            compared(one, other.grad.numpy(), **about)


@pytest.mark.parametrize("kernel", CPU_KERNELS)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_grouped_attention_matches_torch(kernel, kv_heads):
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


@pytest.mark.parametrize(("scale", "momentum"), [(True, 0.9), (False, 0.25)])
def test_batch_norm_matches_torch_on_filled_slots(scale, momentum):
    config = tiny(
        {
            "model.norm.kind": "batchnorm",
            "model.norm.scale": scale,
            "model.norm.bias": scale,
            "model.norm.momentum": momentum,
            "model.norm.epsilon": 1e-3,
        }
    ).model
    module, generator = make_norm(config), np.random.default_rng(5)
    values, start = random_values(module, 6), random_statistics(module, 7)
    positions = np.array([[0, 1, 2, 3, -1, -1, -1], [-1, -1, 0, 1, 2, 3, 4]])
    filled = positions >= 0
    steps, weights = (
        generator.standard_normal((3, B, T, D)).astype(np.float32),
        generator.standard_normal((B, T, D)).astype(np.float32),
    )

    def apply_norm(norm, x, training):
        return norm(x, Context(positions, training=training))

    def loss(values, x, stats):
        held = with_values(module, values, stats)
        out = apply_norm(held, x, True)
        return (jnp.where(filled[..., None], out, 0) * weights).sum(), (out, statistics_of(held))

    theirs = torch.nn.BatchNorm1d(D, config.norm.epsilon, momentum=1 - momentum, affine=scale, dtype=torch.float64)
    state = {"running_mean": start["mean"], "running_var": start["variance"], "num_batches_tracked": 0}
    state |= {"weight": values["scale"], "bias": values["bias"]} if scale else {}
    theirs.load_state_dict({name: torch.tensor(np.asarray(value)) for name, value in state.items()})
    stats, step = start, compiled(jax.value_and_grad(loss, (0, 1), has_aux=True))
    for x in steps:
        (_, (out, stats)), (gradients, d_x) = step(values, x, stats)
        inputs = tensor(x[filled])
        theirs.zero_grad()
        expected = theirs(inputs)
        (expected * torch.tensor(weights[filled])).sum().backward()
        about = {"config": config, "parts": "model.norm", "against": "BatchNorm1d of torch.nn"}
        compared(out[filled], expected.detach().numpy(), **about)
        compared(d_x[filled], inputs.grad.numpy(), **about)
        assert not d_x[~filled].any()
        for name, parameter in theirs.named_parameters():
            close(gradients["scale" if name == "weight" else name], parameter.grad.numpy())
        close(stats["mean"], theirs.running_mean.numpy())
        close(stats["variance"], theirs.running_var.numpy())
    theirs.eval()
    evaluated = call(
        lambda values, stats, x: apply_norm(with_values(module, values, stats), x, False), values, stats, steps[0]
    )
    close(evaluated[filled], theirs(torch.tensor(np.float64(steps[0][filled]))).detach().numpy())
