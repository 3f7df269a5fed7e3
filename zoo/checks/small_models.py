"""Modules with random values everywhere, so that a comparison notices any bias, scale or table that a
computation leaves out, and programs that compile fast.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from flax import nnx

from zoo.models.functional import Params, Stats, split


def random_values(module: nnx.Module, seed: int = 0) -> Params:
    """Returns the nested dict of an abstract module's parameters, all random, at scales that keep
    activations near 1.
    """
    generator = np.random.default_rng(seed)

    def value(path, leaf):
        name = path[-1].key
        drawn = generator.standard_normal(leaf.shape)
        if name == "scale":
            drawn = 1 + 0.3 * drawn
        elif name == "kernel":
            drawn = drawn * leaf.shape[-2] ** -0.5
        return jax.device_put(drawn.astype(leaf.dtype))

    return jax.tree_util.tree_map_with_path(value, split(module)[1])


def random_statistics(module: nnx.Module, seed: int = 0) -> Stats:
    """Returns the nested dict of an abstract module's statistics, all random, variances positive."""
    generator = np.random.default_rng(seed)

    def value(path, leaf):
        drawn = generator.standard_normal(leaf.shape)
        return jax.device_put((0.5 + drawn**2 if path[-1].key == "variance" else drawn).astype(leaf.dtype))

    return jax.tree_util.tree_map_with_path(value, split(module)[2])


def with_values(module: nnx.Module, values: Params, stats: Stats | None = None) -> nnx.Module:
    """Returns a copy of an abstract module that holds `values`, and `stats` where it has
    statistics.
    """
    return nnx.merge(split(module)[0], values, stats or {})


def together(values: Mapping[str, Any], stats: Mapping[str, Any]) -> dict[str, Any]:
    """Returns parameters and statistics as one nested dict of float64 arrays, for a reference."""
    merged = dict(values)
    for name, value in stats.items():
        merged[name] = together(values.get(name, {}), value) if isinstance(value, dict) else value
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), merged)


@functools.cache
def quick_compilation() -> dict[str, Any]:
    """Returns compiler options for fast compilation of slower programs, without options that this
    version of XLA does not know.
    """
    known: dict[str, Any] = {}
    wanted = {
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
        "xla_cpu_use_fusion_emitters": False,
    }
    for name, value in wanted.items():
        try:
            jax.jit(lambda x: x + 1, compiler_options={name: value})(np.float32(0))
        except jax.errors.JaxRuntimeError:
            continue
        known[name] = value
    return known


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function as one compiled program that returns numpy arrays, which is faster than
    compiling each operation.
    """
    program = jax.jit(function, compiler_options=quick_compilation())
    return lambda *arguments: jax.tree.map(np.asarray, program(*arguments))
