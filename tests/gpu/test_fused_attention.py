"""Fused attention against the reference: cuDNN's where there is a GPU (`pytest -m gpu`), and
everywhere XLA's, by the same function of jax, so that these tests run on every machine.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zoo.layers.attention.kernels import KERNELS, choose_implementation
from zoo.layers.attention.scoring import Scoring
from zoo.layers.context import Context

LENGTH, HEADS, WIDTH = 128, 8, 64


@pytest.fixture(params=[pytest.param("cudnn", marks=pytest.mark.gpu), "xla"])
def kernel(request):
    if request.param == "cudnn" and jax.default_backend() != "gpu":
        pytest.skip("no GPU")
    return request.param


def run(kernel, context, scoring, *heads):
    """The output of a kernel, and its gradients for the same cotangent."""
    *heads, cotangent = heads
    output, pull = jax.vjp(lambda *x: KERNELS[kernel](*x, context, scoring), *heads)
    return output, *pull(cotangent.astype(output.dtype))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [0, 15])
@pytest.mark.parametrize("kv_heads", [8, 2, 1])
def test_output_and_gradients_are_the_reference_s(kernel, kv_heads, window, causal):
    keys = jax.random.split(jax.random.key(0), 4)
    q, cotangent = (jax.random.normal(key, (2, LENGTH, HEADS, WIDTH), jnp.bfloat16) for key in keys[:2])
    k, v = (jax.random.normal(key, (2, LENGTH, kv_heads, WIDTH), jnp.bfloat16) for key in keys[2:])
    context = Context(jnp.arange(LENGTH)[None], causal=causal, in_order=True)
    if kernel == "cudnn" and not causal:
        pytest.skip("cuDNN is used for decoders only")
    scoring, heads = Scoring(0.125, window), (q, k, v, cotangent)
    wide = run("einsum", context, scoring, *(x.astype(jnp.float32) for x in heads))
    for fused, exact in zip(run(kernel, context, scoring, *heads), wide, strict=True):
        fused, exact = np.asarray(fused, np.float32), np.asarray(exact)
        assert np.linalg.norm(fused - exact) < 1e-2 * np.linalg.norm(exact)


def test_it_is_the_default_where_it_can_do_the_work():
    common = {"platform": "gpu", "devices": 1, "head_dim": WIDTH}
    assert choose_implementation("auto", dtype="bfloat16", asked={"documents": False}, **common) == "cudnn"
    assert choose_implementation("auto", dtype="float32", asked={"documents": False}, **common) == "einsum"
    assert choose_implementation("auto", dtype="bfloat16", asked={"documents": True}, **common) == "einsum"
