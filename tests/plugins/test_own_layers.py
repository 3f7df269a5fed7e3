"""Norms, position schemes and feed-forward layers that a user registers, each with its own kind."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.decoding import making
from tests.support.added_kinds import registered_kinds
from tests.support.building import call, close, counting, random_values, tiny, with_values
from zoo import config as configs
from zoo import plugin
from zoo.config.presets import shrink
from zoo.errors import ConfigError
from zoo.lab.measures import why_unavailable
from zoo.layers.feedforward import make_feed_forward
from zoo.layers.norm import make_norm
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.nested import flatten
from zoo.plugin import Field, Kind

D, F, L = 16, 24, 2


class DynamicTanh(plugin.Norm):
    """y = tanh(a x) * scale + bias, with one learned number a (Zhu et al. 2025)."""

    def __init__(self, config):
        super().__init__(config)
        self.slope = plugin.parameter((), (), lambda key, shape: jnp.full(shape, 0.5), "scalar")

    def __call__(self, x, context=None):
        y = jnp.tanh(self.slope[...] * x)
        y = y if self.scale is None else y * self.effective_scale
        return y if self.bias is None else y + self.effective_bias


class SquaredGate(plugin.GatedFeedForward):
    """y = (max(0, x W_gate)^2 * x W_up) W_down."""

    def nonlinearity(self, x):
        return jnp.square(jax.nn.relu(x))


class Squares(plugin.FeedForward):
    """y = (x W_up)^2 W_down."""

    def hidden(self, x, context):
        return jnp.square(self.projected("up", x, context))


class BareSquares(plugin.FeedForward):
    """The same without `projected`."""

    def hidden(self, x, context):
        return jnp.square(self.up(x))


class Table(plugin.Position):
    """x_t + tanh(P[t]): a bounded learned vector for each of `position.rows` positions."""

    def __init__(self, config):
        self.max_length = config.position.rows
        self.table = plugin.parameter((self.max_length, config.dim), (None, "embed"), plugin.normal(1.0), "embedding")

    def embed(self, x, positions):
        return x + jnp.tanh(self.table[...])[jnp.maximum(positions, 0)]


class Parity(plugin.Position):
    """score_h(t, s) + b_h if t - s is even: a bias of the scores without further traits."""

    def __init__(self, config):
        self.even = plugin.parameter((config.attention.num_heads,), ("heads",), plugin.normal(1.0), "scalar")

    def score_bias(self, q, q_positions, k_positions):
        even = (q_positions[:, None, :, None] - k_positions[:, None, None, :]) % 2 == 0
        return jnp.where(even, self.even[...][:, None, None], 0)


class Mean(plugin.Position):
    """output_t + v * sum_s p(t, s) |t - s|: a bias of the attended values."""

    def __init__(self, config):
        self.weight = plugin.parameter((config.attention.head_dim,), (None,), plugin.normal(1.0), "scalar")

    def value_bias(self, probabilities, q_positions, k_positions):
        distance = jnp.abs(q_positions[:, None, :, None] - k_positions[:, None, None, :])
        return (probabilities * distance).sum(axis=-1).swapaxes(1, 2)[..., None] * self.weight[...]


class SwappedHalves(plugin.Position):
    """Queries and keys at odd positions have their halves swapped."""

    def rotate(self, q, k, q_positions, k_positions):
        return self._swapped(q, q_positions), self._swapped(k, k_positions)

    def _swapped(self, x, positions):
        return jnp.where((positions % 2 == 1)[..., None, None], jnp.roll(x, x.shape[-1] // 2, axis=-1), x)


class Doubled(plugin.SoftmaxAttention):
    """y = 2 concat_h(attended) W_o."""

    def merge(self, attended, x, context):
        return 2 * super().merge(attended, x, context)


def _table_problems(flat, architecture):
    del architecture
    if flat["model.position.rows"] < flat["data.sequence_length"]:
        yield "model.position.rows is shorter than data.sequence_length"


POSITION, FFN = "model.position.kind", "model.ffn.kind"
ROWS = Field("model.position.rows", 32, int, "rows of the table", minimum=1)
ADDED = (
    (Kind("model.norm.kind", "own_tanh", "tanh(a x)", frozenset({"normalises", "bias"})), DynamicTanh),
    (Kind(FFN, "squared_gate", "y", frozenset({"gated", "sparse"})), SquaredGate),
    (Kind(FFN, "squares", "y"), Squares),
    (Kind(FFN, "bare_squares", "y"), BareSquares),
    (Kind(POSITION, "table", "y", frozenset({"embedded"}), (ROWS,), _table_problems), Table),
    (Kind(POSITION, "parity", "y", frozenset({"score_bias"})), Parity),
    (Kind(POSITION, "mean", "y", frozenset({"value_bias"})), Mean),
    (Kind(POSITION, "swapped", "y"), SwappedHalves),
    (Kind("model.attention.kind", "doubled", "y", plugin.traits("model.attention.kind", "softmax")), Doubled),
)


@pytest.fixture(autouse=True, scope="module")
def register_kinds():
    """Registers all kinds for the tests of this module."""
    with registered_kinds(*ADDED):
        yield
    making._model.cache_clear()
    making._generator.cache_clear()


@pytest.mark.parametrize("parameters", [(), ("scale",), ("bias",), ("bias", "scale")])
def test_norm_matches_its_equation_with_and_without_scale_and_bias(parameters):
    switches = {f"model.norm.{name}": name in parameters for name in ("scale", "bias")}
    norm = make_norm(tiny({"model.norm.kind": "own_tanh"} | switches).model)
    values, x = random_values(norm, 2), np.random.default_rng(1).standard_normal((2, 5, D)).astype(np.float32)
    assert set(values) == {"slope", *parameters}
    expected = np.tanh(np.float64(values["slope"]) * x) * values.get("scale", 1) + values.get("bias", 0)
    close(call(with_values(norm, values), x), expected)


def test_traits_of_a_norm_decide_which_fields_it_reads():
    with pytest.raises(ConfigError, match=r"norm.epsilon=0.1 has no effect: it is read only when model.norm.kind is"):
        tiny({"model.norm.kind": "own_tanh", "model.norm.epsilon": 0.1})
    tiny({"model.norm.kind": "own_tanh", "model.norm.placement": "post"})
    norms = 2 * L + 1
    total = cost.summary(tiny({"model.norm.kind": "own_tanh"})).parameters["total"]
    assert total == cost.summary(tiny()).parameters["total"] + norms


def test_gated_feed_forward_matches_its_equation():
    layer = make_feed_forward(tiny({FFN: "squared_gate"}).model)
    values, x = random_values(layer, 1), np.random.default_rng(2).standard_normal((2, 5, D)).astype(np.float32)
    parts = {name: np.float64(x) @ np.float64(values[name]["kernel"]) + values[name]["bias"] for name in ("gate", "up")}
    hidden = np.maximum(parts["gate"], 0) ** 2 * parts["up"]
    close(call(with_values(layer, values), x), hidden @ np.float64(values["down"]["kernel"]) + values["down"]["bias"])


def test_convolution_inside_the_feed_forward_applies_or_is_rejected():
    canon = {"model.convolution.kind": "canon", "model.convolution.places": "D"}
    x = np.random.default_rng(2).standard_normal((2, 5, D)).astype(np.float32)

    def run(kind, changes):
        layer = make_feed_forward(tiny({FFN: kind} | changes).model)
        return call(lambda x: with_values(layer, random_values(layer, 1))(x, counting(5)), x)

    plain, convolved = run("squares", {}), run("squares", canon)
    assert abs(plain - convolved).max() > 0.01
    np.testing.assert_array_equal(run("bare_squares", {}), plain)
    with pytest.raises(ConfigError, match=r'bare_squares, which would be left out; compute self.projected\("up", x'):
        run("bare_squares", canon)


def test_gated_feed_forward_cost_has_three_matrices():
    plain, swiglu, own = (cost.summary(tiny({FFN: kind})) for kind in ("gelu", "swiglu", "squared_gate"))
    assert own == swiglu
    assert own.blocks["blocks/ffn"] == plain.blocks["blocks/ffn"] + L * (D * F + F)
    assert own.flops_per_token == pytest.approx(plain.flops_per_token + 6 * L * D * F)
    matched = cost.summary(tiny({FFN: "squared_gate", "model.ffn.match_parameters": True, "model.ffn.bias": False}))
    assert matched.blocks["blocks/ffn"] == L * 2 * D * F


def test_active_units_of_a_sparse_layer_are_recorded():
    config = tiny({FFN: "squared_gate"}).model
    layer, record = make_feed_forward(config), {}
    values, x = random_values(layer, 1), np.random.default_rng(2).standard_normal((1, 3, D)).astype(np.float32)

    def run(x):
        record.clear()
        with_values(layer, values)(x, counting(3, record=record))
        return record["fired"]

    gates = np.float64(x) @ np.float64(values["gate"]["kernel"]) + values["gate"]["bias"]
    np.testing.assert_array_equal(call(run, x), (gates > 0).any(axis=(0, 1)))


@functools.cache
def both_scores(kind, implementation):
    changes = {POSITION: kind, "model.attention.implementation": implementation, "model.num_layers": 2}
    return making.stepwise_and_full_scores(changes, steps=6)


@pytest.mark.parametrize(
    ("kind", "implementation"),
    [("table", "rows"), ("parity", "rows"), ("parity", "einsum"), ("mean", "einsum"), ("swapped", "rows")],
)
def test_position_schemes_in_training_and_decoding(kind, implementation):
    scores = both_scores(kind, implementation)
    close(*scores)
    assert abs(scores[1] - both_scores("none", implementation)[1]).max() > 0.01


def test_unsupported_position_schemes_are_rejected():
    for kind in ("parity", "mean"):
        with pytest.raises(ConfigError, match=f"kind=performer cannot be combined with model.position.kind={kind}"):
            tiny({POSITION: kind, "model.attention.kind": "performer"})
    # The fused kernel supports biases of scores, but not of values.
    fused = {"model.attention.implementation": "cudnn", "model.dtype": "bfloat16", "model.attention.head_dim": 8}
    with pytest.raises(ConfigError, match=r"cudnn does not support model\.position\.kind=mean; use einsum"):
        tiny({POSITION: "mean"} | fused)
    tiny({POSITION: "parity"} | fused)
    with pytest.raises(ConfigError, match=r"rows does not support model.position.kind=mean; use einsum"):
        tiny({POSITION: "mean", "model.attention.implementation": "rows"})
    make_model(tiny({POSITION: "swapped", "model.attention.kind": "performer"}))
    with pytest.raises(ConfigError, match=r"position.kind=table is added to the embedding, before any layer"):
        tiny({"model.layers.pattern": ("a",), f"model.layers.kinds.a.{POSITION.partition('.')[2]}": "table"})


def test_a_table_of_positions_limits_the_length():
    decoder = making.generator({POSITION: "table", "model.position.rows": 9})
    np.testing.assert_array_equal(decoder.generate([[1, 2, 3]], 7).lengths, [7])
    with pytest.raises(ConfigError, match="learned positions end at 9: after a prompt of 3 tokens at most 7 new"):
        decoder.generate([[1, 2, 3]], 8)
    with pytest.raises(ConfigError, match=r"rows is shorter than data\.sequence_length"):
        tiny({POSITION: "table", "model.position.rows": 7})


def test_attention_subclass_keeps_windows_cost_and_measures():
    changes = {"model.attention.kind": "doubled"}
    close(*making.stepwise_and_full_scores(changes | {"model.attention.window": 3}, steps=6))
    assert cost.summary(tiny(changes)) == cost.summary(tiny())
    metric, performer = "measured/head_divergence", tiny({"model.attention.kind": "performer"})
    assert (
        "it needs model.attention.kind=softmax or forgetting or differential or latent or value_residual or value_embedding or "
        "parallel_heads or doubled" in why_unavailable(metric, flatten(performer))
    )
    assert not why_unavailable(metric, flatten(tiny(changes)))


@pytest.mark.parametrize("kinds", [{FFN: "squared_gate", "model.norm.kind": "own_tanh"}, {POSITION: "table"},
                                   {POSITION: "parity", "model.attention.kind": "doubled"}])  # fmt: skip
def test_configs_with_plugin_kinds_can_be_shrunk(kinds):
    config = configs.override(configs.default(), kinds)
    assert flatten(configs.resolve(shrink(config, "smoke")))[next(iter(kinds))] == next(iter(kinds.values()))
