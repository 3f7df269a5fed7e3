"""FAVOR+ against performer-pytorch's FastAttention in float64, with the same random features.
`test_systems` compares whole models.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("performer_pytorch")

import torch
from performer_pytorch import FastAttention, PerformerLM
from performer_pytorch import performer_pytorch as library

from tests.parity.references_performer import make_causal
from tests.parity.systems.performers import PERFORMERS
from tests.support.building import call, counting
from tests.support.comparisons import compared
from zoo.layers.attention import favor
from zoo.layers.attention.favor import performer_attention
from zoo.layers.context import Context

pytestmark = pytest.mark.parity
B, H, K, T = 2, 3, 16, 80


def fast_attention(causal=False):
    torch.manual_seed(3)
    attention = FastAttention(K, causal=causal).double()
    assert attention.projection_matrix.shape == (44, K)
    return attention


def inputs(keys=T, size=1.0):
    generator = np.random.default_rng(4)
    return [(size * generator.standard_normal((B, length, H, K))).astype(np.float32) for length in (T, keys, keys)]


def assert_equal_to_library(attention, arguments, context, tolerance=1e-5):
    """Asserts that outputs and gradients of zoo and the library agree."""
    weights = np.random.default_rng(5).standard_normal((B, T, H, K)).astype(np.float32)
    w = attention.projection_matrix.numpy().astype(np.float32)
    attention.projection_matrix.copy_(torch.tensor(w))

    def functional(*x):
        out = performer_attention(*x, w, context, K**-0.5)
        return (out * weights).sum(), out

    (_, out), gradients = call(jax.value_and_grad(functional, (0, 1, 2), has_aux=True), *arguments)
    theirs = [torch.tensor(x.transpose(0, 2, 1, 3).astype(np.float64), requires_grad=True) for x in arguments]
    their_out = attention(*theirs)
    (their_out * torch.tensor(weights.transpose(0, 2, 1, 3))).sum().backward()
    about = {"variants": ("performer",), "against": "FastAttention of performer-pytorch"}
    compared(out, their_out.detach().numpy().transpose(0, 2, 1, 3), tolerance, **about)
    for ours, x in zip(gradients, theirs, strict=True):
        compared(ours, x.grad.numpy().transpose(0, 2, 1, 3), tolerance, **about)


@pytest.mark.parametrize("size", [0.3, 1.0, 2.0])
def test_bidirectional_attention(size):
    # The exponentials of large vectors lose more digits.
    tolerance = 2e-5 if size > 1 else 1e-5
    assert_equal_to_library(fast_attention(), inputs(size=size), counting(T, causal=False), tolerance)


def test_bidirectional_attention_in_chunks(monkeypatch):
    monkeypatch.setattr(favor, "CHUNK", 32)
    assert_equal_to_library(fast_attention(), inputs(), counting(T, causal=False))


def test_cross_attention():
    assert_equal_to_library(
        fast_attention(),
        inputs(keys=70),
        Context(jnp.arange(T)[None], causal=False, key_positions=jnp.arange(70)[None]),
    )


@pytest.mark.parametrize("size", [0.3, 1.0, 2.0])
def test_causal_attention(size):
    attention = fast_attention(causal=True)
    make_causal(attention)
    assert_equal_to_library(attention, inputs(size=size), counting(T))


def without_epsilon_in_normalizer(attention):
    """Sets the constant that the library's causal form adds to its normalizer to 0."""
    attention.causal_linear_fn = partial(library.causal_linear_attention_noncuda, eps=0.0)
    return attention


def test_causal_attention_with_the_largest_key_first():
    # Then the library's maximum over the whole row equals the maximum up to each token.
    q, k, v = inputs()
    w = fast_attention().projection_matrix.numpy()
    longest_feature = w[np.linalg.norm(w, axis=1).argmax()]
    k[:, 0] = 1.01 * np.einsum("bshk,jk->bhsj", k, w).max() / (longest_feature @ longest_feature) * longest_feature
    projected = np.einsum("bshk,jk->bhsj", k, w).max(-1)
    assert (projected[..., 0] == projected.max(-1)).all()
    assert_equal_to_library(without_epsilon_in_normalizer(fast_attention(causal=True)), (q, k, v), counting(T))


def test_causal_attention_without_epsilon(monkeypatch):
    # Then the maxima cancel, so that the library's maximum over later tokens does not matter.
    monkeypatch.setattr(favor, "EPSILON", 0.0)
    monkeypatch.setattr(library, "softmax_kernel", partial(library.softmax_kernel, eps=0.0))
    assert_equal_to_library(without_epsilon_in_normalizer(fast_attention(causal=True)), inputs(), counting(T))


def test_parameter_counts_match_performer_pytorch():
    sizes = {
        "num_tokens": 257,
        "max_seq_len": 1024,
        "dim": 768,
        "heads": 12,
        "causal": True,
        "qkv_bias": True,
        "attn_out_bias": True,
    }
    counts = {published.source: published.count for system in PERFORMERS for published in system.published}
    for source, rope in (("enwik8", False), ("enwik8-rope", True)):
        # All twelve layers have the same number of parameters.
        one, two = (
            sum(
                parameter.numel()
                for parameter in PerformerLM(**sizes, depth=depth, rotary_position_emb=rope).parameters()
            )
            for depth in (1, 2)
        )
        assert one + 11 * (two - one) == counts[f"configs/performer.py:{source}"]
