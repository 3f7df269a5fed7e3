"""Values and keys of different widths in the kernels, the cache and whole models."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.decoding import making
from tests.support.building import ENCODER_DECODER, call, close, counting, tiny
from zoo.config.kinds import ATTENTION_KINDS
from zoo.errors import ConfigError
from zoo.layers.attention import make_attention
from zoo.layers.attention.favor import performer_attention, random_features
from zoo.layers.attention.kernels import banded
from zoo.layers.attention.kernels.kernel_choice import RowSize, choose_kernel
from zoo.layers.attention.kernels.products import KERNELS, cached_attention
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.attention.key_values import KeyValues
from zoo.layers.attention.performer_attention import PerformerAttention
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.platform import Platform
from zoo.models.functional import split

B, T, H, G, K = 2, 13, 4, 2, 6
SCALE, WINDOW = 0.3, 3

# A model of its own is compiled for each.
ANOTHER = pytest.mark.promise(reason="values of another width in another model")


def heads(V, dtype=np.float32):
    generator = np.random.default_rng(V)
    return [generator.standard_normal((B, T, n, size)).astype(dtype) for n, size in ((H, K), (G, K), (G, V))]


def plain(q, k, v):
    """Attention by the full matrix of token pairs, in the type of its arguments."""
    k, v = (jnp.repeat(x, H // G, axis=2) for x in (k, v))
    places = np.arange(T)
    seen = (places <= places[:, None]) & (places > places[:, None] - WINDOW)
    scores = jnp.where(seen, SCALE * jnp.einsum("bthk,bshk->bhts", q, k), -jnp.inf)
    return jnp.einsum("bhts,bshv->bthv", jax.nn.softmax(scores), v)


def kernels():
    """Implementations by name, with a window."""
    context, scoring = counting(T), Scoring(SCALE, WINDOW)

    def from_cache(q, k, v):
        kept = KeyValues.of(k, v)
        return cached_attention(q, kept.keys, kept.values, context, scoring)

    found = {name: lambda *x, name=name: KERNELS[name](*x, context, scoring) for name in ("einsum", "rows")}
    for name in ("einsum", "rows"):
        found[f"{name}, banded"] = lambda *x, name=name: banded.banded_attention(KERNELS[name], 2, *x, context, scoring)
    return found | {"cached": from_cache}


@pytest.mark.parametrize("V", [3, 10])
def test_kernels_agree_for_values_of_other_widths(V):
    inputs = heads(V)
    weights = np.random.default_rng(1).standard_normal((B, T, H, V)).astype(np.float32)

    def with_gradients(attend, *x, weights=weights):
        out, pull = jax.vjp(attend, *x)
        return out, *pull(weights.astype(out.dtype))

    with jax.enable_x64(True):
        wide = [np.float64(x) for x in inputs]
        expected = call(lambda *x: with_gradients(plain, *x, weights=np.float64(weights)), *wide)
    seen = reference.visible(np.arange(T), window=WINDOW, causal=True)
    for b in range(B):
        close(expected[0][b], reference.attention(*(x[b] for x in wide), seen, SCALE), 1e-12)
    found = call(lambda *x: {name: with_gradients(attend, *x) for name, attend in kernels().items()}, *inputs)
    assert len(found) == 5
    for arrays in found.values():
        for one, other in zip(arrays, expected, strict=True):
            close(one, other)


@pytest.mark.parametrize("causal", [True, False])
def test_favor_treats_value_columns_independently(causal):
    """Weights do not depend on the values, so each column of values equals a separate call."""
    q, k, v = heads(2 * K)
    w = random_features(jax.random.key(0), (11, K))

    def attend(q, k, *values):
        return [performer_attention(q, k, v, w, counting(T, causal), SCALE) for v in values]

    whole, narrow, first, second = call(attend, q, k, v, v[..., :3], v[..., :K], v[..., K:])
    close(whole, np.concatenate([first, second], axis=-1))
    close(narrow, first[..., :3])


def test_kernel_without_support_is_refused_by_name():
    gpu = Platform("gpu", 1, (9, 0))
    for kernel in ("xla", "cudnn"):
        with pytest.raises(ConfigError, match=f"implementation={kernel} does not support wider values; use einsum"):
            choose_kernel(kernel, gpu, "bfloat16", 64, {"value_width": "wider values"}, RowSize(512))
        assert choose_kernel(kernel, gpu, "bfloat16", 64, {"value_width": ""}, RowSize(512)).kernel == kernel


class WideValues(SoftmaxAttention):
    """Values half as wide again as keys."""

    value_dim = 6


class NarrowValues(SoftmaxAttention):
    value_dim = 3


class NarrowPerformer(PerformerAttention):
    value_dim = 3


@pytest.fixture
def other_widths(monkeypatch):
    """Replaces the kinds of the table by kinds with other widths."""
    making._model.cache_clear()
    table = ATTENTION_KINDS.by_name
    yield lambda kind, mixer: monkeypatch.setitem(table, kind, replace(table[kind], code=mixer))
    making._model.cache_clear()


@pytest.mark.parametrize(
    ("kind", "mixer", "overrides"),
    [
        pytest.param("softmax", WideValues, {"model.attention.num_kv_heads": 2, "model.position.kind": "rope", "model.attention.window": 5}, marks=ANOTHER),
        ("softmax", NarrowValues, {"model.scan_layers": True, "model.num_layers": 2, "model.attention.qk_norm": "full"}),
        pytest.param("softmax", NarrowValues, ENCODER_DECODER | {"model.attention.cross_kv_heads": 1}, marks=ANOTHER),
        pytest.param("performer", NarrowPerformer, {"model.attention.kind": "performer", "model.position.kind": "rope"}, marks=ANOTHER),
        pytest.param("performer", NarrowPerformer, ENCODER_DECODER | {"model.attention.kind": "performer"}, marks=ANOTHER),
        pytest.param("softmax", WideValues, {"model.attention.num_heads": 1, "model.scan_layers": True}, marks=ANOTHER),
    ],
)  # fmt: skip
@pytest.mark.promise(reason="a model is decoded step by step; tests/decoding does so for every kind of layer")
def test_cached_decoding_equals_a_pass_over_all_tokens(kind, mixer, overrides, other_widths):
    other_widths(kind, mixer)
    close(*making.stepwise_and_full_scores(overrides, steps=8))


def test_projections_have_the_width_of_the_values():
    config = tiny({"model.attention.num_kv_heads": 2}).model
    shapes = jax.tree.map(jnp.shape, split(NarrowValues(config))[1])
    assert shapes["key"]["kernel"] == (16, 2 * 4)
    assert shapes["value"] == {"kernel": (16, 2 * 3), "bias": (6,)}
    assert shapes["output"]["kernel"] == (4 * 3, 16)
    assert make_attention(config).value_dim == 4
