"""Splash attention, in Pallas' interpreter, against the kernel that holds all scores."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import by_default
from zoo.layers.attention.kernels import splash
from zoo.layers.attention.kernels.kernel_choice import places_are_positions
from zoo.layers.attention.kernels.products import KERNELS
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.attention.kernels.splash import block_size
from zoo.layers.context import Context

B, T, S, H, K = 2, 200, 70, 4, 8
COUNTING = np.arange(T)[None]
# The first row ends in padding; it is shorter than the prefix below.
PADDED = np.where(np.array([[150], [T]]) > COUNTING, COUNTING, -1)
DOCUMENTS = np.repeat([[0, 1, 1, 1], [5, 5, 5, 7]], T // 4, axis=1)
RESTARTING = np.stack([np.concatenate([np.arange(n), np.arange(T - n)]) for n in (50, 150)])
MEMORY = np.where(np.arange(S) < np.array([[30], [S]]), np.arange(S), -1)
SINKS = np.linspace(-2, 3, H, dtype=np.float32)

# (rows, scoring, heads of keys, width of values)
CASES = {
    "causal": ({}, {}, 2, K),
    "causal, padding": ({"positions": PADDED}, {}, H, K),
    "causal, one head of keys": ({}, {}, 1, K),
    "causal, soft-cap": ({}, {"softcap": 1.5}, 2, K),
    "causal, sinks": ({}, {"sinks": SINKS}, 2, K),
    "causal, wider values": ({}, {}, 2, 3 * K),
    "window": ({}, {"window": 140}, 2, K),
    "documents": ({"positions": RESTARTING, "documents": DOCUMENTS}, {}, 2, K),
    "documents, window, soft-cap, sinks, wider values": (
        {"positions": RESTARTING, "documents": DOCUMENTS},
        {"window": 37, "softcap": 1.5, "sinks": SINKS},
        2,
        K + 3,
    ),
    "prefix, padding": ({"positions": PADDED, "prefix": 160}, {}, 2, K),
    "full": ({"causal": False, "no_padding": True}, {}, 2, K),
    "full, padding": ({"causal": False, "positions": PADDED}, {}, 2, K),
    "full, tokens in any order": ({"causal": False, "positions": PADDED[:, ::-1], "in_order": False}, {}, 2, K),
    "full, documents": ({"causal": False, "positions": RESTARTING, "documents": DOCUMENTS}, {}, 2, K),
    "centred window, padding": ({"causal": False, "positions": PADDED}, {"window": 31}, 2, K),
    "centred window, global tokens, padding, soft-cap, sinks": (
        {"causal": False, "positions": PADDED},
        {"window": 31, "global_tokens": 3, "softcap": 1.5, "sinks": SINKS},
        2,
        K,
    ),
    "another sequence": ({"causal": False, "in_order": False, "key_positions": MEMORY}, {}, 2, K),
}
OFTEN = [
    "causal",
    "documents, window, soft-cap, sinks, wider values",
    "prefix, padding",
    "centred window, global tokens, padding, soft-cap, sinks",
    "another sequence",
]


def rows(positions=COUNTING, causal=True, in_order=True, **more):
    more = {name: jnp.asarray(x) if isinstance(x, np.ndarray) else x for name, x in more.items()}
    return Context(jnp.asarray(positions), causal=causal, in_order=in_order, **more)


def arrays(kv_heads, width, keys):
    generator = np.random.default_rng(7)
    shapes = (B, T, H, K), (B, keys, kv_heads, K), (B, keys, kv_heads, width), (B, T, H, width)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


SOMETIMES = ["causal, one head of keys", "full", "full, tokens in any order", "full, documents"]


@pytest.mark.parametrize(
    "name",
    by_default(
        OFTEN,
        list(CASES),
        pytest.mark.promise(reason="masks of other shapes"),
        [name for name in CASES if name not in (*OFTEN, *SOMETIMES)],
        "the others combine these features",
    ),
)
def test_outputs_and_gradients_are_those_of_einsum(name, monkeypatch):
    # Rows of two blocks.
    monkeypatch.setattr(splash, "LARGEST_BLOCK", 128)
    structure, options, kv_heads, width = CASES[name]
    context = rows(**structure)
    q, k, v, weights = arrays(kv_heads, width, S if "key_positions" in structure else T)
    sinks = options.get("sinks")
    # What padding reads is nobody's business.
    filled = (context.positions >= 0)[..., None, None]

    def gradients(kernel):
        def loss(q, k, v, sinks):
            scoring = Scoring(0.3, **options | {"sinks": sinks})
            out = jnp.where(filled, KERNELS[kernel](q, k, v, context, scoring), 0)
            return (out * weights).sum(), out

        return jax.jit(jax.value_and_grad(loss, (0, 1, 2) if sinks is None else (0, 1, 2, 3), has_aux=True))

    (_, out), found = gradients("splash")(q, k, v, sinks)
    (_, expected), exact = gradients("einsum")(q, k, v, sinks)
    for one, other in zip((out, *found), (expected, *exact), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=0)


def test_sinks_have_a_float32_gradient_in_bfloat16():
    q, k, v, weights = (jnp.asarray(x, jnp.bfloat16) for x in arrays(2, K, T))

    def loss(sinks, kernel):
        out = KERNELS[kernel](q, k, v, rows(), Scoring(0.3, sinks=sinks))
        return (out * weights).sum(dtype=jnp.float32)

    found, exact = (jax.grad(loss)(SINKS, kernel) for kernel in ("splash", "einsum"))
    # The leaf that an optimizer gets, which jax does not check.
    assert found.dtype == exact.dtype == jnp.float32
    np.testing.assert_allclose(found, exact, atol=0.02 * np.abs(exact).max())


def test_rows_whose_mask_does_not_follow_from_places_are_refused():
    inputs = arrays(2, K, T)[:3]
    for context, window in (
        (rows(in_order=False), 0),
        (rows(causal=False, in_order=False), 3),
        (rows(key_positions=COUNTING), 0),
        (rows(positions=RESTARTING, documents=DOCUMENTS, prefix=3), 0),
    ):
        assert not places_are_positions(context, window)
        with pytest.raises(ValueError, match="order of their positions"):
            KERNELS["splash"](*inputs, context, Scoring(0.3, window))
    assert places_are_positions(rows(causal=False, in_order=False), 0)
    assert places_are_positions(replace(rows(), prefix=3), 0)


@pytest.mark.parametrize(
    ("length", "window", "size"),
    [(1, 0, 128), (128, 0, 128), (129, 0, 256), (300, 0, 384), (512, 0, 512), (1024, 0, 512), (2176, 0, 384),
     (16384, 0, 512), (1000, 0, 512), (4096, 100, 128), (4096, 256, 256), (4096, 257, 384), (200, 4000, 256)],
)  # fmt: skip
def test_blocks_add_little_to_a_row_and_are_no_larger_than_a_window(length, window, size):
    assert block_size(length, window) == size


def test_members_of_a_population_are_computed_at_once():
    """Rows, with documents of their own or not, get a further dimension by `jax.vmap`."""
    inputs = [np.stack([x, -x]) for x in arrays(2, K, T)[:3]]
    structure = [np.stack([x, x[::-1]]) for x in (RESTARTING, DOCUMENTS)]

    def attend(kernel):
        def run(q, k, v, positions, documents):
            return KERNELS[kernel](q, k, v, rows(positions, documents=documents), Scoring(0.3))

        def total(*x):
            return (jax.vmap(run)(*x, *structure) ** 2).sum()

        return jax.jit(jax.grad(total, (0, 1, 2)))(*inputs)

    for one, other in zip(attend("splash"), attend("einsum"), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=0)


@pytest.mark.promise(reason="programs for several devices are compiled")
def test_gradients_on_a_mesh_are_those_of_one_device():
    """Rows are divided over the data axis, or groups of them by `jax.vmap`, and heads over the tensor
    axis if it divides those of keys.
    """
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, Path(__file__).with_name("splash_on_a_mesh.py")]
    completed = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert completed.returncode == 0, completed.stderr[-3000:]
    found = json.loads(completed.stdout.splitlines()[-1])
    assert found.keys() == {"heads divided", "heads whole", "groups"}
    assert max(found.values()) < 1e-5
