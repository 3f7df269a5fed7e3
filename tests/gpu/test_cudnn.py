"""The fused kernel on a GPU against the reference; run with `pytest -m gpu` where there is one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zoo.layers.attention.kernels import KERNELS, choose_implementation
from zoo.layers.attention.scoring import Scoring
from zoo.layers.context import Context

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def needs_gpu():
    if jax.default_backend() != "gpu":
        pytest.skip("no GPU")


@pytest.mark.parametrize("window", [0, 16])
@pytest.mark.parametrize("kv_heads", [8, 2, 1])
def test_output_and_gradients_are_the_reference_s(window, kv_heads):
    keys = jax.random.split(jax.random.key(0), 4)
    q, cotangent = (jax.random.normal(key, (2, 128, 8, 64), jnp.bfloat16) for key in keys[:2])
    k, v = (jax.random.normal(key, (2, 128, kv_heads, 64), jnp.bfloat16) for key in keys[2:])
    context = Context(jnp.arange(128)[None], in_order=True)

    def run(kernel, *heads):
        output, pull = jax.vjp(lambda *x: KERNELS[kernel](*x, context, Scoring(0.125, window)), *heads)
        return output, *pull(cotangent.astype(output.dtype))

    wide = run("einsum", *(x.astype(jnp.float32) for x in (q, k, v)))
    for fused, exact in zip(run("cudnn", q, k, v), wide, strict=True):
        fused, exact = np.asarray(fused, np.float32), np.asarray(exact)
        assert np.linalg.norm(fused - exact) < 1e-2 * np.linalg.norm(exact)


def test_it_is_the_default_where_it_can_do_the_work():
    common = {"platform": "gpu", "devices": 1, "head_dim": 64}
    assert choose_implementation("auto", dtype="bfloat16", asked={"documents": False}, **common) == "cudnn"
    assert choose_implementation("auto", dtype="float32", asked={"documents": False}, **common) == "einsum"
    assert choose_implementation("auto", dtype="bfloat16", asked={"documents": True}, **common) == "einsum"
