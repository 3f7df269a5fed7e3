"""Fused attention against the reference: cuDNN's where there is a GPU (`pytest -m gpu`), and
everywhere what would be asked of cuDNN, asked of XLA by the same function of jax, so that these
tests run on every machine.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zoo.layers.attention.kernel_choice import Platform
from zoo.layers.attention.kernels import KERNELS
from zoo.layers.attention.scoring import Scoring
from zoo.layers.context import Context, Memory

LENGTH, HEADS, WIDTH = 128, 8, 64


@pytest.fixture(params=[pytest.param("cudnn", marks=pytest.mark.gpu), "xla"])
def asked(request, monkeypatch):
    """The arguments of the calls of jax's function; XLA may take the place of cuDNN in them."""
    if request.param == "cudnn" and jax.default_backend() != "gpu":
        pytest.skip("no GPU")
    calls, original = [], jax.nn.dot_product_attention

    def attend(*heads, implementation, **options):
        calls.append({**options, "implementation": implementation})
        return original(*heads, implementation=request.param, **options)

    monkeypatch.setattr(jax.nn, "dot_product_attention", attend)
    return calls


def run(kernel, context, scoring, *heads):
    """The output of a kernel, and its gradients for the same cotangent."""
    *heads, cotangent = heads
    output, pull = jax.vjp(lambda *x: KERNELS[kernel](*x, context, scoring), *heads)
    return output, *pull(cotangent.astype(output.dtype))


def widest():
    """The widest heads that a test can have here."""
    capability = Platform.here().capability
    return 256 if capability is None or capability[0] == 9 else 128


# Causal rows in order, rows that end in padding that no token sees, and full rows seen as a whole.
CONTEXTS = {
    "causal": Context(jnp.arange(LENGTH)[None], in_order=True),
    "full": Context(jnp.arange(LENGTH)[None], causal=False, in_order=True, no_padding=True),
    "full, shifted": Context(jnp.arange(LENGTH)[None] + 7, causal=False, no_padding=True),
}


@pytest.mark.parametrize(
    ("rows", "window"), [("causal", 0), ("causal", 15), ("causal", LENGTH), ("full", 0), ("full, shifted", 0)]
)  # fmt: skip
@pytest.mark.parametrize("kv_heads", [8, 2, 1])
def test_output_and_gradients_are_the_reference_s(asked, kv_heads, rows, window):
    is_the_reference_s(asked, CONTEXTS[rows], Scoring(0.2, window), kv_heads, WIDTH)


@pytest.mark.parametrize("rows", ["causal", "full"])
@pytest.mark.parametrize("width", [136, 256])
def test_wide_heads_are_the_reference_s(asked, rows, width):
    if width > widest():
        pytest.skip("no such heads on this GPU")
    is_the_reference_s(asked, CONTEXTS[rows], Scoring(0.1), 2, width)


def is_the_reference_s(asked, context, scoring, kv_heads, width):
    keys = jax.random.split(jax.random.key(0), 4)
    q, cotangent = (jax.random.normal(key, (2, LENGTH, HEADS, width), jnp.bfloat16) for key in keys[:2])
    k, v = (jax.random.normal(key, (2, LENGTH, kv_heads, width), jnp.bfloat16) for key in keys[2:])
    heads = q, k, v, cotangent
    wide = run("einsum", context, scoring, *(x.astype(jnp.float32) for x in heads))
    for fused, exact in zip(run("cudnn", context, scoring, *heads), wide, strict=True):
        fused, exact = np.asarray(fused, np.float32), np.asarray(exact)
        assert np.linalg.norm(fused - exact) < 1e-2 * np.linalg.norm(exact)
    # A mask or a bias would be an array of T x T, and a window without a causal mask is refused.
    (call,) = asked
    assert call["implementation"] == "cudnn"
    assert call["mask"] is call["bias"] is None
    assert call["is_causal"] == context.causal


def test_rows_that_may_have_padding_keep_their_mask(asked):
    positions = jnp.where(jnp.arange(LENGTH) < 100, jnp.arange(LENGTH), -1)[None]
    full = CONTEXTS["full"]
    padded = [
        Context(positions, causal=False, in_order=True),
        replace(full, memory=Memory(jnp.ones((1, LENGTH, 4)), positions)).for_cross_attention(),
        replace(full, documents=jnp.ones((1, LENGTH), jnp.int32)),
        replace(full, key_positions=positions),
    ]
    x = jnp.ones((1, LENGTH, HEADS, WIDTH), jnp.bfloat16)
    for context, window in [*((context, 0) for context in padded), (full, 15)]:
        KERNELS["cudnn"](x, x, x, context, Scoring(0.125, window))
        assert asked.pop()["mask"] is not None
