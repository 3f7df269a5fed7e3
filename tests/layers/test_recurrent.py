"""The projected LSTM against its equations, and its custom gradient against automatic
differentiation.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.reference import elmo as reference
from tests.support.building import TINY_ELMO, as_float64, call, close, random_values, tiny, with_values
from tests.support.comparisons import compared
from zoo.layers.recurrent import ProjectedLSTM
from zoo.models.functional import initialise

T, B, D, M = 7, 3, 16, 24
# Limits that clip some of the values.
CLIPS = [(0.0, 0.0), (0.4, 0.0), (0.0, 0.3), (0.4, 0.3)]
# A full row, a row with padding at its end, and a row with empty slots anywhere.
FILLED = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 0], [1, 0, 1], [1, 0, 1], [1, 0, 0]], bool)


def lstm(cell_clip=0.0, projection_clip=0.0, **more):
    return ProjectedLSTM(
        tiny(
            TINY_ELMO | {"model.elmo.cell_clip": cell_clip, "model.elmo.projection_clip": projection_clip, **more}
        ).model
    )


def inputs(seed=1):
    generator = np.random.default_rng(seed)
    return tuple(generator.standard_normal(shape).astype(np.float32) for shape in ((T, B, D), (B, D), (B, M)))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("clips", CLIPS)
def test_layer_matches_its_equation(clips, reverse):
    module = lstm(*clips)
    values, (x, h, c) = random_values(module), inputs()
    out, (last_h, last_c) = call(lambda *args: with_values(module, values)(*args, reverse=reverse), x, FILLED, (h, c))
    assert not out[~FILLED].any()
    params = as_float64(values)
    for row in range(B):
        step = -1 if reverse else 1
        own = FILLED[:, row]
        y, *state = reference.lstm(
            params, np.float64(x[own, row])[::step], np.float64(h[row]), np.float64(c[row]), *clips
        )
        compared(out[own, row], y[::step], variants=("projected-lstm",))
        close(last_h[row], state[0])
        close(last_c[row], state[1])
        for values_of, limit in ((y, clips[1]), (state[1], clips[0])):
            assert not limit or 0 < np.isclose(abs(values_of), limit).mean() < 1


def plain(values, x, filled, state, clips, reverse):
    """The layer as a Python loop, without the custom gradient."""
    h, c = state
    outputs = [None] * T
    limited = [lambda x, limit=limit: jnp.clip(x, -limit, limit) if limit else x for limit in clips]
    for t in reversed(range(T)) if reverse else range(T):
        z = x[t] @ values["input"]["kernel"] + values["input"]["bias"] + h @ values["recurrent"]["kernel"]
        i, f, g, o = jnp.split(z, 4, axis=-1)
        cell = limited[0](jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g))
        y = limited[1]((jax.nn.sigmoid(o) * jnp.tanh(cell)) @ values["projection"]["kernel"])
        seen = filled[t][:, None]
        outputs[t], h, c = jnp.where(seen, y, 0), jnp.where(seen, y, h), jnp.where(seen, cell, c)
    return jnp.stack(outputs), (h, c)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "clips", [pytest.param(CLIPS[0], marks=pytest.mark.promise(reason="without clipping")), CLIPS[-1]]
)
def test_gradients_equal_those_of_a_plain_loop(clips, reverse):
    module = lstm(*clips)
    values, (x, h, c) = random_values(module), inputs()
    weights, weights_h, weights_c = inputs(2)

    def loss(run):
        def of(values, x, state):
            out, (h, c) = run(values, x, state)
            return (out * weights).sum() + (h * weights_h).sum() + (c * weights_c).sum()

        return of

    ours = loss(lambda values, x, state: with_values(module, values)(x, FILLED, state, reverse=reverse))
    theirs = loss(lambda values, x, state: plain(values, x, FILLED, state, clips, reverse))
    one, other = (call(jax.grad(f, (0, 1, 2)), values, x, (h, c)) for f in (ours, theirs))
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(close, one, other)
    assert all(abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(other))


def test_bfloat16_gradients_and_cells_are_summed_in_float32():
    module = lstm(3.0, 3.0)
    values = jax.tree.map(lambda leaf: leaf * 0.3, random_values(module))
    x = jnp.asarray(np.random.default_rng(3).standard_normal((1, B, D)), jnp.bfloat16)
    x = jnp.broadcast_to(x, (600, B, D))
    state = jnp.zeros((B, D)), jnp.zeros((B, M))

    def run(values, x):
        out, (h, c) = with_values(module, values)(x, jnp.ones((600, B), bool), state)
        return out.sum(dtype=jnp.float32), (out, h, c)

    gradients, types = [], []
    for dtype in (jnp.bfloat16, jnp.float32):
        (_, outputs), gradient = call(jax.value_and_grad(run, has_aux=True), values, x.astype(dtype))
        gradients.append(gradient)
        types.append([output.dtype.name for output in outputs])
    assert types == [["bfloat16", "bfloat16", "float32"], ["float32"] * 3]
    # In bfloat16 a sum of 600 equal terms would stop growing at the 256th.
    for name in ("recurrent", "projection"):
        close(gradients[0][name]["kernel"], gradients[1][name]["kernel"], 0.03)


def test_forget_gate_starts_open():
    bias = call(lambda: initialise(lstm(), 0))["input"]["bias"]
    np.testing.assert_array_equal(bias, np.repeat([0, 1, 0, 0], M))
