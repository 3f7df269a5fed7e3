"""nGPT as a whole against its paper: a forward pass in plain float64 numpy, written from the equations
of Loshchilov et al. 2024 alone, and its gradients by finite differences.
"""

import jax
import numpy as np
import pytest

from tests.support.building import as_float64, call, counting, tiny, with_values
from tests.support.comparisons import compared
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, parameter_traits
from zoo.nested import flatten, unflatten
from zoo.training.optimization.constraint import on_unit_spheres

D, H, K, LAYERS, V = 16, 4, 4, 2, 13
FIELDS = {
    "model.norm.kind": "unit",
    "model.norm.scale": False,
    "model.norm.placement": "interpolated",
    "model.position.kind": "rope",
    "model.attention.qk_norm": "unit",
    "model.attention.bias": False,
    "model.ffn.kind": "swiglu",
    "model.ffn.bias": False,
    "model.ffn.hidden_scale": True,
    "model.head.logit_scale": True,
    "model.tie_embeddings": False,
    "model.init.std": D**-0.5,
    "optimizer.constraint": "unit_norm",
}
TOKENS = np.array([[3, 1, 12, 0, 7, 7, 2, 5], [0, 5, 4, 4, 1, 9, 11, 8]])


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


def rope(x):
    """Su et al. 2021, with the first half of a head as the real parts; x is [T, K]."""
    angles = np.outer(np.arange(len(x)), 10_000.0 ** (-np.arange(K // 2) * 2 / K))
    turned = (x[:, : K // 2] + 1j * x[:, K // 2 :]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=1)


def attention(p, h):
    """Section 2.3, for one row h [T, D]."""
    s_qk = p["s_qk"].reshape(H, K)
    heads = []
    for i in range(H):
        of_head = slice(i * K, (i + 1) * K)
        q, k, v = (h @ p[name][:, of_head] for name in ("query", "key", "value"))
        q, k = unit(rope(q)) * s_qk[i], unit(rope(k)) * s_qk[i]
        scores = np.where(np.tri(len(h), dtype=bool), np.sqrt(K) * q @ k.T, -np.inf)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        heads.append(weights / weights.sum(1, keepdims=True) @ v)
    return np.concatenate(heads, axis=1) @ p["output"]


def mlp(p, h):
    """Section 2.4."""
    u, v = h @ p["up"] * p["s_u"], h @ p["gate"] * p["s_v"] * np.sqrt(D)
    return (u * v / (1 + np.exp(-v))) @ p["down"]


def logits(params, tokens):
    """Sections 2.1 and 2.2, from parameters by path; with the stored values of section 2.5."""
    root, layers = np.sqrt(D), []
    for n in range(LAYERS):
        own = {
            path.removeprefix("stack/layers/"): value[n]
            for path, value in params.items()
            if path.startswith("stack/layers/")
        }
        part = {path.split("/")[-2]: value for path, value in own.items() if path.endswith("kernel")}
        part |= {"s_qk": root * own["attention/dimension_scale/stored"]}
        part |= {"s_u": own["ffn/up_scale"], "s_v": own["ffn/gate_scale"]}
        steps = [0.05 * root * np.abs(own[f"{name}_step"]) for name in ("attention", "ffn")]
        layers.append((part, *steps))
    rows = []
    for row in tokens:
        h = params["embedding"][row]
        for part, alpha_A, alpha_M in layers:
            h = unit(h + alpha_A * (unit(attention(part, h)) - h))
            h = unit(h + alpha_M * (unit(mlp(part, h)) - h))
        rows.append(h @ params["head/weights"].T * (root * params["head/logit_scale"]))
    return np.stack(rows)


def loss(z, tokens):
    """Mean cross-entropy of the next token."""
    z = z[:, :-1]
    chosen = np.take_along_axis(z, tokens[:, 1:, None], -1)[..., 0]
    return (np.log(np.exp(z).sum(-1)) - chosen).mean()


@pytest.fixture(scope="module")
def made():
    """The config, the model, and values whose learned factors differ from the initial ones."""
    config = tiny(FIELDS)
    model, draw = make_model(config), np.random.default_rng(0)
    begun = call(lambda seed: on_unit_spheres(initialise(model, seed), parameter_traits(model)), 0)
    values = flatten(jax.tree.map(np.asarray, begun), "/")
    for path, value in values.items():
        if value.ndim - path.startswith("stack/") == 1:
            values[path] = np.float32(value * (1 + 0.4 * draw.standard_normal(value.shape)))
    return config, model, unflatten(values, "/")


def ours(model, values):
    held, context = with_values(model, values), counting(8)
    return held.logits(held(TOKENS, context, None), context)


def test_logits_are_those_of_the_paper(made):
    config, model, values = made
    expected = logits(flatten(as_float64(values), "/"), TOKENS)
    compared(call(lambda values: ours(model, values), values), expected, 2e-6, config=config, variants=("ngpt",))
    assert np.std(expected) > 0.1


def test_gradients_are_those_of_the_paper(made):
    _, model, values = made

    def mean_loss(values):
        z = ours(model, values)[:, :-1]
        return -jax.nn.log_softmax(z)[np.arange(2)[:, None], np.arange(7), TOKENS[:, 1:]].mean()

    gradients = flatten(call(jax.grad(mean_loss), values), "/")
    wide, draw, step = flatten(as_float64(values), "/"), np.random.default_rng(1), 1e-5
    largest = max(np.linalg.norm(gradient) for gradient in gradients.values())
    for path, gradient in gradients.items():
        assert np.linalg.norm(gradient) > 1e-3 * largest, path
        for _ in range(3):
            direction = draw.standard_normal(gradient.shape)
            ends = (loss(logits(wide | {path: wide[path] + s * direction}, TOKENS), TOKENS) for s in (step, -step))
            slope = (next(ends) - next(ends)) / (2 * step)
            size = np.linalg.norm(gradient) * np.linalg.norm(direction)
            assert abs((gradient * direction).sum() - slope) < 2e-5 * size, path


def test_learned_factors_begin_at_the_values_of_the_paper():
    model = make_model(tiny(FIELDS))
    values = flatten(jax.tree.map(np.asarray, call(lambda seed: initialise(model, seed), 0)), "/")
    layers = {path.removeprefix("stack/layers/"): value for path, value in values.items()}
    for path in ("attention_step", "ffn_step", "attention/dimension_scale/stored", "head/logit_scale"):
        np.testing.assert_allclose(layers[path], D**-0.5, rtol=1e-6)
    for path in ("ffn/up_scale", "ffn/gate_scale"):
        np.testing.assert_array_equal(layers[path], 1)
    # Section 2.6: nothing else is learned but matrices.
    others = {path for path, value in values.items() if value.ndim - path.startswith("stack/") == 1}
    assert len(others) == 6
