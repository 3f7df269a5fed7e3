"""ELMo against its equations: both directions, skip connections, empty slots, carried states, and
which tokens each state depends on.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.reference import elmo as reference
from tests.support.building import TINY_ELMO, as_float64, call, close, compiled, random_values, tiny, with_values
from tests.support.comparisons import compared
from zoo.config import load, resolve
from zoo.layers.context import DropoutKey
from zoo.models.elmo import Carry, ELMo
from zoo.models.functional import split

B, T, C = 3, 6, 8
# A full row, a row with padding at its end, and a row with empty slots anywhere.
FILLED = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [0, 1, 0, 1, 1, 0]], bool)


def whole_config(**more):
    return tiny(TINY_ELMO | {"model.elmo.cell_clip": 0.5, "model.elmo.projection_clip": 0.3} | more)


def config(**more):
    return whole_config(**more).model


def characters(seed=1):
    return np.random.default_rng(seed).integers(1, 262, (B, T, C))


def carries(settings, seed=2):
    generator, shape = np.random.default_rng(seed), (2, settings.num_layers, B)
    return Carry(
        generator.standard_normal((*shape, settings.dim)).astype(np.float32),
        generator.standard_normal((*shape, settings.elmo.cell_dim)).astype(np.float32),
    )


def run(settings, values, method, *arguments, **more):
    """Compiles and calls one of a model's methods."""
    return call(lambda values: getattr(with_values(ELMo(settings), values), method)(*arguments, **more), values)


@pytest.mark.parametrize(("residual", "layers", "started"), [
    (True, 3, True), *(pytest.param(*case, marks=pytest.mark.promise(reason="other depths")) for case in ((False, 2, False), (True, 1, False))),
])  # fmt: skip
def test_model_matches_its_equations(residual, layers, started):
    whole = whole_config(**{"model.residual": residual, "model.num_layers": layers})
    settings = whole.model
    values, read = random_values(ELMo(settings)), characters()
    carry = carries(settings) if started else None
    before = carry or Carry(np.zeros((2, layers, B, 16)), np.zeros((2, layers, B, 24)))
    out, after = run(settings, values, "read", read, FILLED, carry)
    params = as_float64(values)
    for row in range(B):
        expected, state, memory = reference.elmo(
            settings, params, read[row], FILLED[row], before.state[:, :, row], before.memory[:, :, row]
        )
        assert 0 < np.isclose(abs(state), 0.3).mean() < 1
        assert 0 < np.isclose(abs(memory), 0.5).mean() < 1
        compared(out[:, row].reshape(expected.shape), expected, config=whole)
        close(after.state[:, :, row], state)
        close(after.memory[:, :, row], memory)
    np.testing.assert_array_equal(run(settings, values, "representations", read, FILLED, carry), out)
    top = run(settings, values, "__call__", read, FILLED, carry=carry)
    np.testing.assert_array_equal(np.concatenate(top, axis=-1), out[-1])


def test_padding_gives_zeros_and_influences_nothing():
    settings = config()
    values, read = random_values(ELMo(settings)), characters()
    out = run(settings, values, "representations", read, FILLED)
    assert not out[:, ~FILLED].any()
    others = np.where(FILLED[..., None], read, characters(9))
    np.testing.assert_array_equal(run(settings, values, "representations", others, FILLED), out)
    close(run(settings, values, "representations", read[1:2, :4], FILLED[1:2, :4])[:, 0], out[:, 1, :4], 1e-6)


def test_each_direction_depends_only_on_its_side():
    settings = config(**{"model.elmo.cell_clip": 0.0, "model.elmo.projection_clip": 0.0})
    values, read = random_values(ELMo(settings)), characters()
    program = compiled(lambda read: jnp.stack(with_values(ELMo(settings), values)(read, FILLED), axis=2))
    out, seen = program(read), np.zeros((2, T, T), bool)
    for s in range(T):
        changed = read.copy()
        changed[:, s] = characters(8)[:, s]
        seen[:, :, s] = (program(changed)[0] != out[0]).any(axis=-1).T
    np.testing.assert_array_equal(seen, [np.tri(T, dtype=bool), np.tri(T, dtype=bool).T])


def test_reading_in_two_parts_carries_the_state():
    settings = config()
    values, read = random_values(ELMo(settings)), characters()
    filled = np.ones((B, T), bool)
    whole = run(settings, values, "representations", read, filled)
    first, carry = run(settings, values, "read", read[:, :4], filled[:, :4])
    second, _ = run(settings, values, "read", read[:, 4:], filled[:, 4:], carry)
    D = settings.dim
    close(np.concatenate([first, second], axis=2)[..., :D], whole[..., :D])
    # The backward direction reads the first part without having seen the second.
    assert abs(np.concatenate([first, second], axis=2)[1:, :, :4, D:] - whole[1:, :, :4, D:]).max() > 1e-3
    empty = with_values(ELMo(settings), values).empty_carry(B)
    np.testing.assert_array_equal(run(settings, values, "representations", read, filled, empty), whole)


def test_dropout_applies_to_layer_inputs_and_the_output():
    rate = 0.25
    settings = config(**{"model.dropout": rate, "model.dim": 32})
    values, read = random_values(ELMo(settings)), characters()
    for side in ("forward", "backward"):
        layers = values[side]["layers"]
        # Layer 2 outputs 0, so the result is the skip connection, with dropout at the input and
        # again at the output.
        layers["projection"]["kernel"] = layers["projection"]["kernel"].at[1].set(0)

    program = compiled(lambda values, key: jnp.stack(with_values(ELMo(settings), values)(read, FILLED, key)))

    def top(values, key):
        return program(values, key and DropoutKey(jax.random.key(key)))[:, FILLED]

    dropped = top(values, 1)
    np.testing.assert_array_equal(top(values, 1), dropped)
    kept = top(values, None)
    assert ((dropped != 0) != (top(values, 2) != 0)).any()
    assert ((dropped[0] != 0) != (dropped[1] != 0)).any()
    zeros = 1 - (1 - rate) ** 2
    assert (dropped == 0).mean() == pytest.approx(zeros, abs=0.05)
    # Each direction has its own masks: if only the output masks differed, 0.30 would be zero in
    # both.
    assert (dropped == 0).all(axis=0).mean() == pytest.approx(zeros**2, abs=0.05)
    # Layer 1 reads token vectors after dropout, so elements that are not dropped differ too.
    assert not np.allclose(dropped[dropped != 0], kept[dropped != 0] / (1 - rate) ** 2)
    for side in ("forward", "backward"):
        layers = values[side]["layers"]
        layers["input"]["kernel"] = layers["input"]["kernel"].at[0].set(0)
    dropped, kept = top(values, 1), top(values, None)
    close(dropped[dropped != 0], kept[dropped != 0] / (1 - rate) ** 2)


def test_both_directions_share_one_softmax():
    settings = config()
    values = random_values(ELMo(settings))
    hidden = np.random.default_rng(4).standard_normal((B, T, settings.dim)).astype(np.float32)
    expected = hidden @ np.float64(values["head"]["weights"]).T + np.float64(values["head"]["bias"])
    close(run(settings, values, "logits", hidden), expected)
    prediction = with_values(ELMo(settings), values).prediction(hidden)
    assert prediction.softcap == 0
    assert prediction.weights.shape == (13, 16)
    np.testing.assert_array_equal(prediction.bias, values["head"]["bias"])


def test_bfloat16_is_close_to_float32():
    settings = config(**{"model.dtype": "bfloat16"})
    values, read = random_values(ELMo(settings)), characters()
    out, carry = run(settings, values, "read", read, FILLED)
    assert [out.dtype.name, carry.state.dtype.name, carry.memory.dtype.name] == ["bfloat16", "bfloat16", "float32"]
    exact = run(config(), values, "representations", read, FILLED)
    close(out, exact, 0.05)


def count(tree):
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def test_published_size_has_the_published_parameter_count():
    # AllenNLP's page: 93.6 million, without the softmax.
    params = split(ELMo(resolve(load("configs/elmo.py:original")).model))[1]
    assert count({name: part for name, part in params.items() if name != "head"}) == 93_600_848
    assert count(params["head"]) == 793_471 * 513
    assert count(params["forward"]) == count(params["backward"]) == 2 * (2 * 512 * 16384 + 16384 + 4096 * 512)


@pytest.mark.parametrize("size", ["tiny", "smoke"])
def test_small_sizes_keep_the_architecture(size):
    settings = resolve(load(f"configs/elmo.py:{size}")).model
    assert count(split(ELMo(settings))[1]) < 400_000
    assert (settings.residual, settings.dropout, settings.elmo.highways, settings.elmo.cell_dim) == (
        True,
        0.1,
        2,
        2 * settings.dim,
    )
