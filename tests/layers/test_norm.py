"""Norms against their papers' equations for every flag; the tokens and running averages of batch
normalisation.
"""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.support.building import (
    as_float64,
    call,
    call_and_statistics,
    close,
    random_statistics,
    random_values,
    tiny,
    together,
    with_values,
)
from tests.support.comparisons import compared
from zoo.config.kinds import NORM_KINDS
from zoo.errors import ConfigError
from zoo.layers.context import Context
from zoo.layers.norm import layer_norm, make_norm, rms_norm
from zoo.layers.placement import make_block
from zoo.models.functional import initialise

D = 16
NORM = ("model.norm.kind", "model.norm.scale", "model.norm.bias", "model.norm.unit_offset", "model.norm.epsilon")
OFFSET = ("rmsnorm", "gated_rmsnorm")
SHIFTED = ("layernorm", "centering", "dyt", "derf", "batchnorm")
# Two rows with empty slots, whose content must not matter.
POSITIONS = np.array([[0, 1, 2, -1, -1], [-1, 0, 1, 2, 3]])


@pytest.fixture
def x():
    return 3 * np.random.default_rng(1).standard_normal((2, 5, D)) + 1.5


def make(kind, **fields):
    config = tiny({"model.norm.kind": kind, **{f"model.norm.{name}": value for name, value in fields.items()}}).model
    module = make_norm(config)
    values, stats = random_values(module, 2), random_statistics(module, 3)
    return with_values(module, values, stats), config, values, stats


def context(training=False, positions=POSITIONS):
    return Context(jnp.asarray(positions), training=training)


def in_training(x, kind, values=None, positions=POSITIONS, **fields):
    """Returns (output, statistics after, config, values, statistics before) of a norm in training."""
    _, config, drawn, stats = make(kind, **fields)
    values = drawn if values is None else values
    out = call_and_statistics(
        make_norm(config), values, stats, lambda norm, x: norm(x, context(True, positions)), np.float32(x)
    )
    return *out, config, values, stats


def grid():
    for kind, scale, epsilon in itertools.product(
        ("layernorm", "rmsnorm", "unit", "gated_rmsnorm", "scalenorm", "centering", "dyt", "derf", "batchnorm"),
        (True, False),
        (1e-6, 0.3),
    ):
        for bias in (True, False) if kind in SHIFTED else (None,):
            for offset in (True, False) if kind in OFFSET and scale else (None,):
                given = {"scale": scale, "epsilon": epsilon, "bias": bias, "unit_offset": offset}
                if kind in ("unit", "centering", "dyt", "derf"):
                    given["epsilon"] = None
                yield kind, tuple((name, value) for name, value in given.items() if value is not None)


def named(value):
    """Names a case by its fields, so that another kind does not rename those after it."""
    return value if isinstance(value, str) else ", ".join(f"{name} {one}" for name, one in value)


@pytest.mark.parametrize(("kind", "fields"), list(dict.fromkeys(grid())), ids=named)
def test_norm_matches_its_equation(x, kind, fields):
    norm, config, values, stats = make(kind, **dict(fields))
    given = dict(fields)
    more = {"dyt": {"alpha"}, "derf": {"alpha", "shift"}, "gated_rmsnorm": {"down", "up"}}.get(kind, set())
    assert set(values) == {name for name in ("scale", "bias") if given.get(name)} | more
    assert set(stats) == ({"mean", "variance"} if kind == "batchnorm" else set())
    expected = reference.norm(config, together(values, stats), np.float64(np.float32(x)), reference.Rows(POSITIONS))
    compared(call(lambda x: norm(x, context()), np.float32(x)), expected, config=config, parts=NORM)


@pytest.mark.parametrize("kind", ["layernorm", "centering", "batchnorm"])
def test_norm_without_scale_and_bias_uses_1_and_0(x, kind):
    # A norm without scale and bias equals one with scale 1 and bias 0; it still subtracts the mean.
    neutral = {"scale": jnp.ones(D), "bias": jnp.zeros(D)}
    bare = in_training(x, kind, {}, scale=False, bias=False)[0]
    full = in_training(x, kind, neutral)[0]
    close(bare, full, 1e-7)
    means = bare[POSITIONS >= 0].mean(0) if kind == "batchnorm" else bare.mean(-1)
    assert abs(means).max() < 1e-5
    assert abs(x.mean(-1)).max() > 0.5


def test_unit_offset_stores_the_scale_minus_one(x):
    plain, *_ = make("rmsnorm")
    offset, *_ = make("rmsnorm", unit_offset=True)
    offset.scale.set_value(plain.scale[...] - 1)
    one, other = call(lambda x: [norm(x) for norm in (plain, offset)], np.float32(x))
    close(one, other, 1e-6)


def test_gates_of_a_norm_have_two_matrices_and_are_a_half_where_one_is_0(x):
    gated, config, values, _ = make("gated_rmsnorm", gate_rank=3, unit_offset=False)
    assert {name: values[name]["kernel"].shape for name in ("down", "up")} == {"down": (D, 3), "up": (3, D)}
    gated.up.kernel.set_value(jnp.zeros((3, D)))
    normed = call(lambda x: rms_norm(x, values["scale"], config.norm.epsilon), np.float32(x))
    close(call(gated, np.float32(x)), normed / 2, 1e-7)


def test_parametrizations_without_a_rule_for_gates_are_refused():
    with pytest.raises(ConfigError, match=r"model.parametrization=mup has no rule for the matrices of the gates"):
        tiny({"model.norm.kind": "gated_rmsnorm", "model.parametrization": "mup", "model.base_dim": 8})


def test_no_norm_is_the_identity(x):
    norm, _, values, stats = make("none")
    assert values == stats == {}
    assert norm(x) is x


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("factor", [1e-2, 7.0])
def test_norm_is_invariant_to_input_scale(x, kind, factor):
    norm, *_ = make(kind, epsilon=1e-12)
    close(call(norm, np.float32(factor * x)), call(norm, np.float32(x)))


def test_layer_norm_equals_rms_norm_of_the_centred_input(x):
    scale = np.linspace(0.5, 2, D, dtype=np.float32)
    centring, *_ = make("centering", scale=False, bias=False)
    expected = call(lambda x: layer_norm(x, scale, None, 1e-5), np.float32(x))
    close(expected, call(lambda x: rms_norm(x, scale, 1e-5), np.float32(x - x.mean(-1, keepdims=True))))
    close(expected, call(lambda x: rms_norm(centring(x), scale, 1e-5), np.float32(x)))


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm", "centering", "dyt", "derf", "batchnorm"])
def test_bfloat16_input_has_float32_statistics(kind):
    # A sum of squares in bfloat16 would stop growing above 256, where numbers are 2 apart. Only the
    # result may be rounded.
    config = tiny({"model.norm.kind": kind, "model.dim": 4096}).model
    module = make_norm(config)
    narrow = (10 + np.random.default_rng(4).standard_normal((1, 3, 4096))).astype(jnp.bfloat16)

    def both(norm, x):
        return [norm(y, context(True, np.arange(3)[None])) for y in (x, x.astype(jnp.float32))]

    (normed, wide), _ = call_and_statistics(
        module, random_values(module, 3), random_statistics(module, 4), both, narrow
    )
    assert normed.dtype == jnp.bfloat16
    np.testing.assert_array_equal(normed, wide.astype(jnp.bfloat16))


def test_every_kind_can_be_built():
    for kind in NORM_KINDS.by_name:
        assert type(make(kind)[0]) is NORM_KINDS.code_of(kind)


def trained(x, positions=POSITIONS, **fields):
    return in_training(x, "batchnorm", None, positions, **fields)


@pytest.mark.parametrize("fields", [{}, {"scale": False, "momentum": 0.25}, {"bias": False, "epsilon": 0.1}], ids=str)
def test_batch_norm_in_training_is_algorithm_1_over_filled_slots(x, fields):
    normed, after, config, values, before = trained(x, **fields)
    rows = reference.Rows(POSITIONS, training=True)
    expected = reference.norm(config, as_float64(values), np.float64(np.float32(x)), rows)
    compared(normed, expected, config=config, parts=NORM)
    ((mean, variance),) = rows.moments
    keep = config.norm.momentum
    close(after["mean"], keep * as_float64(before)["mean"] + (1 - keep) * mean)
    close(after["variance"], keep * as_float64(before)["variance"] + (1 - keep) * variance)


def test_batch_norm_ignores_padding(x):
    other = x.copy()
    other[POSITIONS < 0] = 1e3
    filled = POSITIONS >= 0
    (one, stats, *_), (two, stats_two, *_) = trained(x), trained(other)
    np.testing.assert_array_equal(one[filled], two[filled])
    for name in stats:
        np.testing.assert_array_equal(stats[name], stats_two[name])


def test_positions_of_one_row_apply_to_all_rows(x):
    shared, stats, *_ = trained(x, np.array([[0, 1, 2, -1, -1]]))
    each, stats_each, *_ = trained(x, np.array([[0, 1, 2, -1, -1]] * 2))
    np.testing.assert_array_equal(shared, each)
    np.testing.assert_array_equal(stats["variance"], stats_each["variance"])


def test_evaluation_uses_running_averages_without_changing_them(x):
    _, config, values, stats = make("batchnorm")

    def evaluate(x):
        return call_and_statistics(make_norm(config), values, stats, lambda norm, x: norm(x, context()), np.float32(x))

    halved = x * np.array([1.0, 0.5])[:, None, None]
    (one, after), (other, _) = evaluate(x), evaluate(halved)
    np.testing.assert_array_equal(one[0], other[0])
    for name in after:
        np.testing.assert_array_equal(after[name], stats[name])
    # In training the output of a token depends on the rest of the batch.
    assert abs(trained(x)[0] - trained(halved)[0])[0].max() > 0.1


def test_running_averages_converge_to_the_data_moments():
    batches = (2 + 3 * np.random.default_rng(5).standard_normal((60, 4, 25, D))).astype(np.float32)
    start = {"mean": jnp.zeros(D), "variance": jnp.ones(D)}
    _, config, values, _ = make("batchnorm", momentum=0.9)

    def steps(norm, batches):
        for batch in batches:
            norm(batch, context(True, np.arange(25)[None]))

    after = call_and_statistics(make_norm(config), values, start, steps, batches)[1]
    np.testing.assert_allclose(after["mean"], 2, atol=0.5)
    np.testing.assert_allclose(after["variance"], 9, atol=2)


def test_batch_without_tokens_keeps_the_running_averages(x):
    normed, after, *_, before = trained(x, np.full((2, 5), -1))
    assert np.isfinite(normed).all()
    for name in after:
        np.testing.assert_array_equal(after[name], before[name])


def test_dynamic_tanh_of_attention_can_have_its_own_initial_alpha():
    dyt = {"model.norm.kind": "dyt", "model.norm.placement": "sandwich", "model.norm.alpha_start": 0.2}
    for changes, attention in (({}, 0.2), ({"model.norm.attention_alpha_start": 0.8}, 0.8)):
        values = initialise(make_block(tiny(dyt | changes).model), 0)
        found = {name: part["alpha"].item() for name, part in values.items() if name.endswith("_norm")}
        assert found == pytest.approx(
            {"attention_norm": attention, "attention_output_norm": attention, "ffn_norm": 0.2, "ffn_output_norm": 0.2}
        )
