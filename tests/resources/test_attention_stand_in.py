"""The stand-ins for fused attention allocate the arrays that it reads and writes."""

import jax
import jax.numpy as jnp
import pytest

from zoo.layers.attention.kernels import fused, splash
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context
from zoo.resources.attention_stand_in import fused_attention_stand_in, splash_attention_stand_in

B, T, H, K = 2, 512, 8, 8
POSITIONS = jnp.arange(T)[None]
CAUSAL = Context(POSITIONS, in_order=True)
# Bytes in bfloat16 of one mask for all heads, and of one bias for all rows.
MASK, BIAS = 2 * B * T * T, 2 * H * T * T


def temporaries(context, bias, monkeypatch):
    """Returns the bytes of temporary arrays of attention and its backward pass."""

    def loss(q, k, v, bias):
        return fused.cudnn_attention(q, k, v, context, Scoring(0.3, shared=bias)).astype(jnp.float32).sum()

    monkeypatch.setattr(fused, "library_attention", fused_attention_stand_in)
    heads = [jax.ShapeDtypeStruct((B, T, H, K), jnp.bfloat16)] * 3
    bias = jax.ShapeDtypeStruct((1, H, T, T), jnp.float32) if bias else None
    step = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3) if bias else (0, 1, 2)))
    return step.lower(*heads, bias).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize(
    ("context", "bias", "least", "most"),
    [
        (Context(POSITIONS, jnp.zeros((B, T), jnp.int32), in_order=True), False, MASK, 4 * MASK),
        (CAUSAL, True, 0.9 * BIAS, 4 * BIAS),
    ],
    ids=["documents", "bias"],
)
def test_masks_and_biases_count_as_temporary_memory(context, bias, least, most, monkeypatch):
    plain = temporaries(CAUSAL, False, monkeypatch)
    assert plain < MASK
    assert least <= temporaries(context, bias, monkeypatch) - plain <= most


@pytest.mark.parametrize("width", [K // 2, K, 3 * K])
def test_documents_and_padded_rows_take_no_array_of_pairs_on_tpus(width, monkeypatch):
    """A row of 500 tokens is filled up to 512; values may have another width than keys."""
    length = 500
    context = Context(jnp.arange(length)[None], jnp.zeros((B, length), jnp.int32), in_order=True)

    def loss(q, k, v):
        out = splash.splash_attention(q, k, v, context, Scoring(0.3))
        assert out.shape == (B, length, H, width)
        return out.astype(jnp.float32).sum()

    monkeypatch.setattr(splash, "library_attention", splash_attention_stand_in)
    heads = [jax.ShapeDtypeStruct((B, length, H, size), jnp.bfloat16) for size in (K, K, width)]
    step = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
    assert step.lower(*heads).compile().memory_analysis().temp_size_in_bytes < BIAS
