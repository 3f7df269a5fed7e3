"""In bfloat16, gradients of tables and biases are still summed over the tokens in float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import counting, random_values, tiny, with_values
from zoo.layers.parameter import Linear, normal
from zoo.layers.position import make_embedded_position
from zoo.models.architectures import make_model
from zoo.models.language_model import embed

B, T, D = 16, 128, 16
TOKENS = np.random.default_rng(0).integers(0, 4, (B, T)).astype(np.int32)
# Not centred, so that sums grow: in bfloat16 a sum of equal numbers stops growing at some point.
COTANGENT = np.random.default_rng(1).standard_normal((B, T, D)).astype(np.float32) + 0.5


def gradient(use, values, dtype):
    """Gradient with respect to `values` of sum(use(values) * COTANGENT), computed in `dtype`."""
    _, pullback = jax.vjp(lambda values: use(values, dtype), values)
    return jax.jit(pullback)(jnp.asarray(COTANGENT, jnp.bfloat16).astype(dtype))[0]


def look_up(values, dtype):
    return embed(values, jnp.asarray(TOKENS), tiny({"model.dtype": dtype}).model)


def segments(values, dtype):
    config = {"model.architecture": "encoder", "objective.kind": "masked", "model.embedding.segments": 2}
    model = make_model(tiny(config | {"model.dtype": dtype, "model.position.kind": "none", "model.num_layers": 1}))
    # Only the part before the first layer.
    model.stack = model.final_norm = lambda x, *rest: x
    model.segments = type(model.segments)(values)
    return model.run(jnp.zeros((B, T, D), dtype), counting(T), jnp.asarray(TOKENS % 2))


def positions(values, dtype):
    layer = make_embedded_position(tiny({"model.position.max_length": T}).model)
    return with_values(layer, {"table": values}).embed(jnp.zeros((B, T, D), dtype), jnp.arange(T)[None])


def bias(values, dtype):
    layer = Linear(D, D, ("embed", "mlp"), True, normal(0.02))
    x = jnp.asarray(np.random.default_rng(2).standard_normal((B, T, D)), dtype)
    return with_values(layer, random_values(layer) | {"bias": values})(x)


ROWS = {look_up: 13, segments: 2, positions: T}


@pytest.mark.parametrize("use", [look_up, segments, positions, bias], ids=lambda use: use.__name__)
def test_gradients_are_summed_in_float32(use):
    shape = (ROWS[use], D) if use in ROWS else (D,)
    values = jnp.asarray(np.random.default_rng(4).standard_normal(shape), jnp.float32)
    narrow, wide = (np.float64(gradient(use, values, dtype)) for dtype in ("bfloat16", "float32"))
    assert np.linalg.norm(narrow - wide) < 1e-4 * np.linalg.norm(wide)
