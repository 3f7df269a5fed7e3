"""`zoo/layers/decompositions.py`: decomposing one matrix at a time gives the results of a batched
decomposition.
"""

import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zoo.layers.attention.favor import random_features
from zoo.layers.decompositions import LAPACK_THREADS, eigenvectors, qr


def lapack_calls(program):
    """Returns {(LAPACK routine, dimensions of its argument)} of a lowered program."""
    calls = re.findall(r"custom_call @lapack_s(geqrf|orgqr|syevd)\w*\(.*?: \(tensor<([0-9x]*)xf32>", program)
    return {(routine, shape.count("x") + 1) for routine, shape in calls}


@pytest.mark.parametrize(
    ("decompose", "at_once"), [(qr, jnp.linalg.qr), (eigenvectors, lambda x: jnp.linalg.eigh(x)[1])]
)
def test_result_equals_the_batched_decomposition(decompose, at_once):
    matrices = np.random.default_rng(0).normal(size=(2, 3, 4, 4)).astype(np.float32)
    matrices = matrices + matrices.mT
    for found, expected in zip(
        jax.tree.leaves(jax.jit(decompose)(matrices)), jax.tree.leaves(at_once(matrices)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    batched = jax.jit(jax.vmap(decompose)).lower(matrices).as_text()
    assert {dimensions for _, dimensions in lapack_calls(batched)} == {2}


def test_random_features_decompose_one_matrix_at_a_time():
    keys = jax.random.split(jax.random.key(0), 3)
    program = jax.jit(jax.vmap(lambda key: random_features(key, (8, 4)))).lower(keys).as_text()
    assert lapack_calls(program) == {("geqrf", 2), ("orgqr", 2)}


@pytest.mark.parametrize("given", [None, "3"])
def test_lapack_uses_one_thread_unless_set_by_the_environment(given, monkeypatch):
    monkeypatch.delenv(LAPACK_THREADS, raising=False)
    if given:
        monkeypatch.setenv(LAPACK_THREADS, given)
    jax.eval_shape(qr, jnp.eye(2))
    assert os.environ[LAPACK_THREADS] == (given or "1")
