"""Tiny configs, and modules with random values everywhere, so that a test notices any bias, scale
or table that a computation leaves out.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import zoo.config
from zoo.layers.context import Context
from zoo.models.functional import split, statistics_of

TINY = {
    "model.dim": 16,
    "model.num_layers": 2,
    "model.vocab_size": 13,
    "model.attention.num_heads": 4,
    "model.ffn.hidden_dim": 24,
    "data.sequence_length": 8,
    "data.batch_size": 2,
    "data.tokenizer.kind": "characters",
}

# Changes to TINY for the other architectures with attention.
ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}
ENCODER_DECODER = {"model.architecture": "encoder_decoder", "objective.kind": "prefix"}

# Changes to TINY for an ELMo: 8 characters per token, cells of 24, no feed-forward.
TINY_ELMO = {
    "model.architecture": "elmo",
    "objective.kind": "bidirectional",
    "model.ffn.hidden_dim": "auto",
    "model.elmo.characters": 8,
    "model.elmo.character_dim": 5,
    "model.elmo.filters": (1, 4, 3, 6, 2, 5),
    "model.elmo.cell_dim": 24,
}


def by_default(kept, cases, otherwise):
    """Returns the cases of a test as parameters: those in `kept` are run by default, the others carry
    the marker `otherwise`, whose reason says why.
    """
    assert otherwise.kwargs["reason"]
    assert set(kept) <= set(cases)
    in_order = [(case, case if isinstance(case, tuple) else (case,)) for case in cases]
    return [pytest.param(*values, marks=() if case in kept else otherwise) for case, values in in_order]


def scanned_and_rematerialised(names):
    """Returns cases (name, scan, remat): each stack scanned and rematerialised, and the first in other
    ways.
    """
    first = next(iter(names))
    others = ((False, "none"), (False, "dots"), (True, "none"))
    return [*((name, True, "full") for name in names), *((first, *way) for way in others)]


def tiny(overrides=None):
    """Returns a resolved config of D 16, 2 layers, 4 heads, 13 token ids and 8 tokens per row, with
    `overrides`.
    """
    return zoo.config.resolve(zoo.config.override(zoo.config.default(), TINY | (overrides or {})))


def random_values(module, seed=0):
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


def random_statistics(module, seed=0):
    """Returns the nested dict of an abstract module's statistics, all random, variances positive."""
    generator = np.random.default_rng(seed)

    def value(path, leaf):
        drawn = generator.standard_normal(leaf.shape)
        return jax.device_put((0.5 + drawn**2 if path[-1].key == "variance" else drawn).astype(leaf.dtype))

    return jax.tree_util.tree_map_with_path(value, split(module)[2])


def with_values(module, values, stats=None):
    """Returns a copy of an abstract module that holds `values`, and `stats` where it has
    statistics.
    """
    return nnx.merge(split(module)[0], values, stats or {})


def call_and_statistics(module, values, stats, use, *arguments):
    """Compiles and calls `use(copy of the module, *arguments)`; returns its result and the
    statistics after the call.
    """

    def run(values, stats, *arguments):
        copy = with_values(module, values, stats)
        return use(copy, *arguments), statistics_of(copy)

    return call(run, values, stats, *arguments)


def together(values, stats):
    """Returns parameters and statistics as one nested dict of float64 arrays, the form that
    `tests.reference` takes.
    """
    merged = dict(values)
    for name, value in stats.items():
        merged[name] = together(values.get(name, {}), value) if isinstance(value, dict) else value
    return as_float64(merged)


def as_float64(values):
    """Returns the nested dict as float64 numpy arrays."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), values)


@functools.cache
def quick_compilation():
    """Returns compiler options for fast compilation of slower programs, without options that this
    version of XLA does not know.
    """
    known, wanted = {}, {
        "xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True, "xla_cpu_use_fusion_emitters": False,
    }  # fmt: skip
    for name, value in wanted.items():
        try:
            jax.jit(lambda x: x + 1, compiler_options={name: value})(np.float32(0))
        except jax.errors.JaxRuntimeError:
            continue
        known[name] = value
    return known


def compiled(function):
    """Returns the function as one compiled program that returns numpy arrays, which is faster than
    compiling each operation.
    """
    program = jax.jit(function, compiler_options=quick_compilation())
    return lambda *arguments: jax.tree.map(np.asarray, program(*arguments))


def call(function, *arguments):
    """Compiles and calls a function."""
    return compiled(function)(*arguments)


def counting(length, causal=True, **more):
    """Returns the context of rows that hold one sequence each."""
    return Context(jnp.arange(length)[None], causal=causal, in_order=True, **more)


def close(actual, expected, tolerance=1e-5):
    """Asserts equality to `tolerance`, relative to the largest expected magnitude."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape
    scale = np.abs(expected).max(initial=1e-30)
    assert np.isfinite(scale), "the expected values are not finite, and NaN equals NaN"
    np.testing.assert_allclose(actual / scale, expected / scale, rtol=0, atol=tolerance)


def programs_inside(equation):
    """Returns the inner programs (jaxprs) of an equation: the body of a loop, a branch, a call."""
    for value in jax.tree.leaves(equation.params, is_leaf=lambda node: hasattr(node, "eqns")):
        if hasattr(value, "eqns"):
            yield getattr(value, "jaxpr", value)
