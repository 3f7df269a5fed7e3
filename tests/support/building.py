"""Tiny configs, and calls of modules with random values; `zoo.checks.small_models` makes these."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import zoo.config
from zoo.checks.small_models import compiled, quick_compilation, random_statistics, random_values, together, with_values  # noqa: F401
from zoo.layers.context import Context
from zoo.models.functional import statistics_of

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


def by_default(kept, cases, otherwise, slow=(), why_slow=""):
    """Returns the cases of a test as parameters: those in `kept` are run by default, those in `slow`
    by `make test-all` for a reason of their own, and the others carry the marker `otherwise`, whose
    reason says why.
    """
    assert otherwise.kwargs["reason"]
    assert set(kept) | set(slow) <= set(cases)
    assert not set(kept) & set(slow)
    assert bool(slow) == bool(why_slow)
    in_order = [(case, case if isinstance(case, tuple) else (case,)) for case in cases]
    marks = {case: pytest.mark.slow(reason=why_slow) for case in slow} | {case: () for case in kept}
    return [pytest.param(*values, marks=marks.get(case, otherwise)) for case, values in in_order]


def scanned_and_rematerialised(names, default, promised):
    """Returns cases (name, scan, remat) as parameters: each stack scanned and rematerialised, and the
    first in other ways. The stacks in `default` are run by default, those in `promised` and the first
    unrolled guard a promise, the rest is slow.
    """
    first = next(iter(names))
    others = ((False, "none"), (False, "dots"), (True, "none"))
    promise = pytest.mark.promise(reason="other stacks, scanned and rematerialised")
    slow = pytest.mark.slow(reason="tests/models compares scanned, rematerialised and unrolled layers of every kind")
    marks = {name: () if name in default else promise if name in promised else slow for name in names}
    return [
        *(pytest.param(name, True, "full", marks=marks[name]) for name in names),
        *(pytest.param(first, *way, marks=promise if way == (False, "none") else slow) for way in others),
    ]


def tiny(overrides=None):
    """Returns a resolved config of D 16, 2 layers, 4 heads, 13 token ids and 8 tokens per row, with
    `overrides`.
    """
    return zoo.config.resolve(zoo.config.override(zoo.config.default(), TINY | (overrides or {})))


def call_and_statistics(module, values, stats, use, *arguments):
    """Compiles and calls `use(copy of the module, *arguments)`; returns its result and the
    statistics after the call.
    """

    def run(values, stats, *arguments):
        copy = with_values(module, values, stats)
        return use(copy, *arguments), statistics_of(copy)

    return call(run, values, stats, *arguments)


def as_float64(values):
    """Returns the nested dict as float64 numpy arrays."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), values)


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
